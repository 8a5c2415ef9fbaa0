//! The client side's connections whose application chooses the destination: by SOCKS5 or HTTP CONNECT, or by connecting
//! to it inside a namespace that redirects its connections here; and those with which SOCKS5 relays datagrams.
//!
//! Not here: the bytes of requests (`request`), and accepting (`forward`).

use std::io;
use std::os::fd::AsFd;
use std::sync::Arc;
use std::time::Duration;

use thiserror::Error;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::timeout;

use super::drain::Ticket;
use super::priority::LivePriorities;
use super::relay::{self, Peer};
use super::request::{Outcome, RequestError, RequestReader, Step, associated};
use super::sessions::{Refused, Sessions};
use super::target::Head;
use super::udp::Association;
use super::watch::DestinationOpen;
use crate::destination::Destination;
use crate::places::{Full, Shares, Source};
use crate::rate_limited::RateLimited;
use crate::sockopt;
use crate::stream::Stream;

/// Time for an application's request to arrive.
const REQUEST: Duration = Duration::from_secs(10);
/// Limit on the applications whose request has not arrived completely.
const MOST_REQUESTS: usize = 256;
/// Limit on the applications whose datagrams are relayed.
const MOST_ASSOCIATIONS: usize = 256;
/// Time for an application that was refused to read the answer and close its connection.
const CLOSING: Duration = Duration::from_secs(2);

/// What these connections share.
#[derive(Debug)]
pub(super) struct Requested {
    sessions: Arc<Sessions>,
    priorities: LivePriorities,
    requests: Shares,
    associations: Shares,
    failures: RateLimited,
}

/// Why an application gets no connection.
#[derive(Debug, Error)]
enum Failure {
    #[error("its request did not arrive within {REQUEST:?}")]
    Late,
    #[error("no place for its request: {0}")]
    Crowd(#[from] Full),
    #[error("its request is {0}")]
    Invalid(RequestError),
    #[error(transparent)]
    Session(#[from] Refused),
    #[error("{destination}: {meaning}")]
    Server { destination: Destination, meaning: String, outcome: Outcome },
    #[error("the application left")]
    Left(#[from] io::Error),
    #[error("the proxy is ending")]
    Ending,
}

impl Failure {
    fn outcome(&self) -> Outcome {
        match self {
            Self::Server { outcome, .. } => *outcome,
            _ => Outcome::Failed,
        }
    }
}

impl Requested {
    pub(super) fn new(sessions: Arc<Sessions>, priorities: LivePriorities) -> Self {
        Self {
            sessions,
            priorities,
            requests: Shares::new(MOST_REQUESTS),
            associations: Shares::new(MOST_ASSOCIATIONS),
            failures: RateLimited::default(),
        }
    }

    /// Serves a prepared connection that begins with a request.
    pub(super) async fn serve(self: Arc<Self>, mut tcp: TcpStream, dscp: Option<u8>, mut ticket: Ticket) {
        let mut reader = RequestReader::default();
        let destination = tokio::select! {
            read = self.read(&mut tcp, &mut reader) => match read {
                Ok(Some(destination)) => destination,
                Ok(None) => return self.associate(tcp, &reader, ticket).await,
                Err(failure) => return self.tell(&failure),
            },
            () = ticket.draining() => return,
        };
        let connected = tokio::select! {
            connected = self.connect(&tcp, destination, dscp) => connected,
            () = ticket.draining() => Err(Failure::Ending),
        };
        match connected {
            Ok((mut stream, _shown)) => {
                let answer = reader.answer(Outcome::Connected);
                let rest = reader.into_rest();
                let begun = async {
                    tcp.write_all(&answer).await?;
                    if rest.is_empty() {
                        Ok(())
                    } else {
                        Ok::<_, io::Error>(stream.write_chunk(rest.into()).await?)
                    }
                };
                if begun.await.is_ok() {
                    self.relay(tcp, stream, &mut ticket).await;
                }
            }
            Err(failure) => {
                self.tell(&failure);
                refuse(tcp, &reader.answer(failure.outcome())).await;
            }
        }
    }

    /// Relays datagrams of an application until its connection ends.
    async fn associate(&self, mut tcp: TcpStream, reader: &RequestReader, mut ticket: Ticket) {
        let bound = async {
            let (local, application) = (tcp.local_addr()?.ip(), tcp.peer_addr()?.ip());
            let association = Association::bind(local.to_canonical(), application.to_canonical()).await?;
            Ok((associated(association.address()?), association))
        };
        let place = self.associations.enter(other(&tcp).as_slice()).map_err(Failure::from);
        let (answer, association, _place) = match (place, bound.await) {
            (Ok(place), Ok((answer, association))) => (answer, association, place),
            (Err(failure), _) | (_, Err(failure)) => {
                self.tell(&failure);
                return refuse(tcp, &reader.answer(failure.outcome())).await;
            }
        };
        if tcp.write_all(&answer).await.is_err() {
            return;
        }
        tokio::select! {
            () = association.run(&self.sessions, &self.priorities) => {}
            () = until_closed(&mut tcp) => {}
            () = ticket.draining() => {}
        }
        let _ = sockopt::clear_abort_on_drop(tcp.as_fd());
    }

    /// Serves a prepared connection that was redirected from its destination. A refused one is reset.
    pub(super) async fn serve_redirected(
        self: Arc<Self>,
        tcp: TcpStream,
        (destination, dscp): (Destination, Option<u8>),
        mut ticket: Ticket,
    ) {
        let connected = tokio::select! {
            connected = self.connect(&tcp, destination, dscp) => connected,
            // Not `draining`: the program may have written its data and ended.
            () = ticket.cut() => return,
        };
        match connected {
            Ok((stream, _shown)) => self.relay(tcp, stream, &mut ticket).await,
            Err(failure) => self.tell(&failure),
        }
    }

    /// Reads the request: for a connection to a destination, or for relayed datagrams. An application whose request is invalid has
    /// been told so.
    async fn read(
        &self,
        tcp: &mut TcpStream,
        reader: &mut RequestReader,
    ) -> Result<Option<Destination>, Failure> {
        let _place = self.requests.enter(other(tcp).as_slice())?;
        let steps = async {
            let mut buffer = [0; 1024];
            loop {
                match reader.poll() {
                    Step::Read => match tcp.read(&mut buffer).await? {
                        0 => return Err(Failure::Left(io::ErrorKind::UnexpectedEof.into())),
                        count => reader.handle_bytes(&buffer[..count]),
                    },
                    Step::Send(answer) => tcp.write_all(&answer).await?,
                    Step::Connect(destination) => return Ok(Some(destination)),
                    Step::Associate => return Ok(None),
                    Step::Refuse(answer, error) => {
                        tcp.write_all(&answer).await?;
                        return Err(Failure::Invalid(error));
                    }
                }
            }
        };
        let outcome = timeout(REQUEST, steps).await.unwrap_or(Err(Failure::Late));
        if matches!(outcome, Err(Failure::Invalid(_))) {
            close(tcp).await;
        }
        outcome
    }

    /// A stream that the server has connected to the destination.
    async fn connect(
        &self,
        tcp: &TcpStream,
        destination: Destination,
        dscp: Option<u8>,
    ) -> Result<(Stream, DestinationOpen), Failure> {
        let priority = self.priorities.of(destination.port, None, dscp);
        let shown = self.sessions.watch().open(&destination);
        let mut stream = self.sessions.open(tcp, priority).await?;
        let head = Head::Destination(destination.clone()).encode_with(dscp);
        let answered = async {
            stream.write_chunk(head.into()).await?;
            stream.read_u8().await
        };
        match answered.await {
            Ok(0) => Ok((stream, shown)),
            Ok(_) => Err(server_failure(destination, None)),
            Err(error) => Err(server_failure(destination, relay::code_of(&error))),
        }
    }

    async fn relay(&self, tcp: TcpStream, stream: Stream, ticket: &mut Ticket) {
        if let Err(error) = relay::relay(tcp, stream, Peer::Application, None, ticket).await {
            tracing::debug!(%error, "connection reset");
        }
    }

    fn tell(&self, failure: &Failure) {
        match failure {
            Failure::Session(refused) => self.sessions.tell(refused),
            Failure::Left(error) => tracing::debug!(%error, "an application left before it had a connection"),
            Failure::Ending => {}
            _ => self.failures.tell(|more| tracing::warn!("application refused: {failure}{more}")),
        }
    }
}

fn server_failure(destination: Destination, code: Option<u32>) -> Failure {
    let (outcome, meaning) = match code {
        Some(relay::CODE_NOT_ALLOWED) => (Outcome::NotAllowed, relay::meaning(relay::CODE_NOT_ALLOWED)),
        Some(relay::CODE_NO_NAME) => (Outcome::NoName, relay::meaning(relay::CODE_NO_NAME)),
        Some(relay::CODE_REFUSED) => (Outcome::Refused, relay::meaning(relay::CODE_REFUSED)),
        Some(relay::CODE_UNREACHABLE) => {
            (Outcome::Unreachable, Some("the server cannot reach it; the server's log says why"))
        }
        Some(relay::CODE_UNKNOWN_TARGET) => {
            (Outcome::Failed, Some("the server is of a version without destinations (serve --allow)"))
        }
        Some(code) => (Outcome::Failed, relay::meaning(code)),
        None => (Outcome::Failed, None),
    };
    let meaning = meaning.unwrap_or("the session ended before the server answered").to_owned();
    Failure::Server { destination, meaning, outcome }
}

/// Sends a refusal and closes.
async fn refuse(mut tcp: TcpStream, answer: &[u8]) {
    if tcp.write_all(answer).await.is_ok() {
        close(&mut tcp).await;
    }
}

/// The machine of an application, unless it is this one.
fn other(tcp: &TcpStream) -> Option<Source> {
    tcp.peer_addr().ok().filter(|peer| !peer.ip().to_canonical().is_loopback()).map(Source::of)
}

/// Ends the connection in order. A reset, which unread bytes cause too, would take the answer from the application.
async fn close(tcp: &mut TcpStream) {
    let _ = sockopt::clear_abort_on_drop(tcp.as_fd());
    let _ = tcp.shutdown().await;
    let _ = timeout(CLOSING, until_closed(tcp)).await;
}

/// Waits until the application has closed its connection. What it sends is discarded.
async fn until_closed(tcp: &mut TcpStream) {
    let mut buffer = [0; 1024];
    while tcp.read(&mut buffer).await.is_ok_and(|count| count > 0) {}
}
