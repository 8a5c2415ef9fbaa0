//! Answers the DNS questions of programs inside a namespace: the server resolves.
//!
//! Not here: the messages (`dns`), and the server's side (`serve`).

use std::io;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use tokio::io::AsyncReadExt;
use tokio::net::{TcpStream, UdpSocket};
use tokio::sync::Semaphore;
use tokio::time::timeout;

use super::dns::{Failure, Question, Wanted};
use super::priority::Priority;
use super::relay;
use super::sessions::Sessions;
use super::target::Head;
use crate::destination::HostName;
use crate::rate_limited::RateLimited;

/// Limit on questions that are being answered; others are dropped, and the program asks again.
const MOST_QUESTIONS: usize = 128;
/// Time for an answer. Programs ask again after 5 s.
const ANSWER: Duration = Duration::from_secs(10);
/// Time before the socket is read again after an error.
const AFTER_ERROR: Duration = Duration::from_millis(20);

/// Answers questions until it is dropped.
pub(super) async fn answer_all(socket: UdpSocket, sessions: Arc<Sessions>) {
    let socket = Arc::new(socket);
    let places = Arc::new(Semaphore::new(MOST_QUESTIONS));
    let failures = Arc::new(RateLimited::default());
    let mut buffer = [0; 512];
    loop {
        let Ok((length, from)) = socket.recv_from(&mut buffer).await else {
            tokio::time::sleep(AFTER_ERROR).await;
            continue;
        };
        let question = match Question::read(&buffer[..length]) {
            Ok(question) => question,
            Err(answer) if answer.is_empty() => continue,
            Err(answer) => {
                let _ = socket.send_to(&answer, from).await;
                continue;
            }
        };
        let Ok(place) = places.clone().try_acquire_owned() else { continue };
        let (socket, sessions, failures) = (socket.clone(), sessions.clone(), failures.clone());
        tokio::spawn(async move {
            answer(&socket, from, (&question, &sessions, &failures)).await;
            drop(place);
        });
    }
}

async fn answer(
    socket: &UdpSocket,
    to: SocketAddr,
    (question, sessions, failures): (&Question, &Sessions, &RateLimited),
) {
    let answer = if question.wanted == Wanted::Other {
        question.answer(&[])
    } else {
        match timeout(ANSWER, lookup(&question.name, sessions)).await {
            Ok(Ok(addresses)) => question.answer(&addresses),
            Ok(Err(error)) => {
                let code = relay::code_of(&error);
                let failure = match code {
                    Some(relay::CODE_NO_NAME) => Failure::Name,
                    Some(relay::CODE_NOT_ALLOWED) => Failure::Refused,
                    _ => Failure::Server,
                };
                if failure != Failure::Name {
                    let why = code.and_then(relay::meaning).map_or_else(|| error.to_string(), str::to_owned);
                    failures.tell(|more| tracing::warn!("name refused: {}: {why}{more}", question.name));
                }
                question.fail(failure)
            }
            Err(_) => question.fail(Failure::Server),
        }
    };
    let _ = socket.send_to(&answer, to).await;
}

/// Asks the server for the addresses of a name.
async fn lookup(name: &HostName, sessions: &Sessions) -> io::Result<Vec<IpAddr>> {
    let mut stream =
        sessions.open(None::<&TcpStream>, Priority::default()).await.map_err(io::Error::other)?;
    stream.write_chunk(Head::Lookup(name.clone()).encode().into()).await?;
    // With its answer, which may be on its way already, the server gives the stream up.
    let _ = stream.finish();
    let invalid = || io::Error::from(io::ErrorKind::InvalidData);
    if stream.read_u8().await? != 0 {
        return Err(invalid());
    }
    let mut addresses = Vec::new();
    for _ in 0..stream.read_u8().await? {
        addresses.push(match stream.read_u8().await? {
            4 => IpAddr::from(stream.read_u32().await?.to_be_bytes()),
            16 => IpAddr::from(stream.read_u128().await?.to_be_bytes()),
            _ => return Err(invalid()),
        });
    }
    Ok(addresses)
}
