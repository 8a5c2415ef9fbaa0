//! Carries bytes between one TCP connection and one stream until both directions have ended.
//!
//! An end of input becomes an end of output; every other outcome becomes a reset on both sides. At first the TCP
//! socket is set to end with a reset. This is changed to an orderly end only when both directions are complete. So an
//! application never takes a truncated connection for a complete one, even if the proxy is killed.

use std::io;
use std::os::fd::AsFd;
use std::time::Duration;

use bytes::{BufMut, BytesMut};
use socket2::{SockRef, TcpKeepalive};
use thiserror::Error;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::net::tcp::{ReadHalf, WriteHalf};
use tributary_proto::GATHER_BELOW;

use super::drain::Ticket;
use super::intake::{self, Intake};
use crate::clients::{Throttle, Way};
use crate::sockopt;
use crate::stream::{Stream, StreamError};

/// Unsent bytes that the kernel accepts for a proxied connection. Without this limit it accepts megabytes for each
/// peer that does not read, and no limit of the proxy counts these bytes.
const KERNEL_UNSENT: u32 = 32 << 10;
/// Bytes held for one direction of one connection.
const BUFFER: usize = intake::MOST;
/// A TCP peer that has disappeared is noticed after two minutes: 60 s without traffic and six probes, 10 s apart.
const KEEP_ALIVE: Duration = Duration::from_secs(60);
const PROBE_INTERVAL: Duration = Duration::from_secs(10);
const PROBES: u32 = 6;
/// Time to deliver data that had arrived before the session ended.
const AFTER_THE_END: Duration = Duration::from_secs(30);

/// Codes of streams that were reset, as `docs/wire-proxy.md` lists them.
pub(super) const CODE_UNREACHABLE: u32 = 1;
pub(super) const CODE_UNKNOWN_TARGET: u32 = 2;
pub(super) const CODE_ENDING: u32 = 3;
const CODE_BROKEN: u32 = 4;
pub(super) const CODE_NO_MEMORY: u32 = 5;
pub(super) const CODE_REFUSED: u32 = 6;
pub(super) const CODE_NOT_ALLOWED: u32 = 7;
pub(super) const CODE_NO_NAME: u32 = 8;

/// The meaning of a code for the user of the other end; `None` if there is nothing to report.
pub(super) fn meaning(code: u32) -> Option<&'static str> {
    match code {
        CODE_UNREACHABLE => Some("the server cannot reach the forward target; its log says why"),
        CODE_UNKNOWN_TARGET => Some(
            "the server has no such target; compare --listen and --udp ADDR=NAME with its --forward and --udp",
        ),
        CODE_NO_MEMORY => Some(
            "the server has no memory or no place left for more connections of this client; its log says which",
        ),
        CODE_ENDING => Some("the other end is shutting down"),
        CODE_REFUSED => Some("the destination refused the connection"),
        CODE_NOT_ALLOWED => {
            Some("the server does not allow this destination; its operator can, with --allow")
        }
        CODE_NO_NAME => Some("the server cannot resolve the name"),
        _ => None,
    }
}

/// The program at the other end of the TCP connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Peer {
    /// An application that connected to the client side.
    Application,
    /// The service that the server side connected to.
    Target,
}

/// Why a connection was reset.
#[derive(Debug, Error)]
pub(super) enum RelayError {
    #[error("reading from the TCP connection: {0}")]
    TcpRead(io::Error),
    #[error("writing to the TCP connection: {0}")]
    TcpWrite(io::Error),
    #[error("{0}")]
    Stream(io::Error),
    #[error("the session ended")]
    SessionEnded,
    #[error("the proxy is ending")]
    Ending,
}

impl RelayError {
    /// The code with which the other end abandoned the stream.
    pub(super) fn code(&self) -> Option<u32> {
        let Self::Stream(error) = self else { return None };
        code_of(error)
    }
}

/// The code with which the other end abandoned the stream that could not be read or written.
pub(super) fn code_of(error: &io::Error) -> Option<u32> {
    match error.get_ref()?.downcast_ref()? {
        StreamError::Abandoned(code) => Some(*code),
        _ => None,
    }
}

/// Which half of a copy failed.
enum Side {
    Read(io::Error),
    Write(io::Error),
}

/// Prepares a TCP connection: small writes are sent at once, a dead peer is noticed, the kernel accepts little data
/// that the peer does not read, and any end except an orderly one is a reset.
pub(super) fn prepare(tcp: &TcpStream) {
    let keep_alive =
        TcpKeepalive::new().with_time(KEEP_ALIVE).with_interval(PROBE_INTERVAL).with_retries(PROBES);
    let outcome = tcp
        .set_nodelay(true)
        .and_then(|()| SockRef::from(tcp).set_tcp_notsent_lowat(KERNEL_UNSENT))
        .and_then(|()| sockopt::set_abort_on_drop(tcp.as_fd()))
        .and_then(|()| SockRef::from(tcp).set_tcp_keepalive(&keep_alive));
    if let Err(error) = outcome {
        tracing::debug!(%error, "socket options of a proxied connection");
    }
}

/// Carries both directions of a prepared connection to their ends; server: within the limits of its client.
pub(super) async fn relay(
    mut tcp: TcpStream,
    stream: Stream,
    peer: Peer,
    throttle: Option<&Throttle>,
    ticket: &mut Ticket,
) -> Result<(), RelayError> {
    let session_ended = stream.session_ended();
    let (mut stream_read, mut stream_write) = stream.into_halves();
    let (mut tcp_read, mut tcp_write) = tcp.split();
    let outcome = {
        // `true` if everything was passed on, `false` if the session ended. In that case received data is still
        // delivered.
        let outward = async {
            tokio::select! {
                biased;
                outcome = take(&mut tcp_read, &mut stream_write, throttle) => match outcome {
                    Ok(()) => Ok(true),
                    Err(Side::Read(error)) => Err(RelayError::TcpRead(error)),
                    Err(Side::Write(_)) if session_ended.is_over() => Ok(false),
                    Err(Side::Write(error)) => Err(RelayError::Stream(error)),
                },
                () = session_ended.wait() => Ok(false),
            }
        };
        let inward = async {
            tokio::select! {
                biased;
                outcome = carry(&mut stream_read, &mut tcp_write, throttle) => outcome.map_err(|side| match side {
                    Side::Read(error) => RelayError::Stream(error),
                    Side::Write(error) => RelayError::TcpWrite(error),
                }),
                () = async {
                    session_ended.wait().await;
                    if !session_ended.is_given_up() {
                        tokio::time::sleep(AFTER_THE_END).await;
                    }
                } => Err(RelayError::SessionEnded),
            }
        };
        tokio::select! {
            biased;
            outcome = async { tokio::try_join!(outward, inward) } => outcome,
            () = ticket.cut() => Err(RelayError::Ending),
        }
    };
    let (orderly, outcome) = match outcome {
        Ok((true, ())) => (true, Ok(())),
        // The target has the whole request; its answer cannot be delivered.
        Ok((false, ())) => (peer == Peer::Target, Err(RelayError::SessionEnded)),
        Err(error) => (false, Err(error)),
    };
    if orderly {
        let _ = sockopt::clear_abort_on_drop(tcp.as_fd());
    }
    if peer == Peer::Application && outcome.as_ref().err().and_then(RelayError::code) == Some(CODE_ENDING) {
        session_ended.note_leaving();
    }
    if outcome.is_err() {
        let code = if matches!(outcome, Err(RelayError::Ending)) { CODE_ENDING } else { CODE_BROKEN };
        stream_read.reset(code);
        stream_write.reset(code);
    }
    outcome
}

/// Passes on what the application writes, up to its end. Reads only as much as the session accepts, so that no data
/// waits here in addition to the session's limit. The session copies small pieces and keeps large ones as they are.
async fn take(from: &mut ReadHalf<'_>, to: &mut Stream, throttle: Option<&Throttle>) -> Result<(), Side> {
    let (mut buffer, mut intake) = (BytesMut::new(), Intake::default());
    loop {
        from.readable().await.map_err(Side::Read)?;
        let room = to.writable().await.map_err(|error| Side::Write(error.into()))?;
        let most = intake.piece(from.as_ref(), to).min(room);
        if buffer.capacity() < most.min(GATHER_BELOW) {
            buffer.reserve(BUFFER);
        }
        let most = most.min(buffer.capacity());
        // After a short read the runtime waits for the next event, without a system call that finds the socket empty.
        let read = from.read_buf(&mut (&mut buffer).limit(most)).await.map_err(Side::Read)?;
        if read == 0 {
            return to.shutdown().await.map_err(Side::Write);
        }
        if let Some(throttle) = throttle {
            throttle.wait(Way::ToClient, read).await;
        }
        if read < GATHER_BELOW {
            to.write_all(&buffer).await.map_err(Side::Write)?;
            buffer.clear();
        } else {
            let piece = buffer.split().freeze();
            to.write_chunk(piece).await.map_err(|error| Side::Write(error.into()))?;
        }
        intake.took(read);
    }
}

/// Passes on what the stream delivers, and its end. A piece is copied only if the application does not take it at once:
/// it is part of a larger block, which the session could not use again while the application is slow.
async fn carry(from: &mut Stream, to: &mut WriteHalf<'_>, throttle: Option<&Throttle>) -> Result<(), Side> {
    while let Some(piece) = from.read_most(BUFFER).await.map_err(|error| Side::Read(error.into()))? {
        if let Some(throttle) = throttle {
            throttle.wait(Way::FromClient, piece.len()).await;
        }
        let taken = match to.try_write(&piece) {
            Ok(taken) => taken,
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => 0,
            Err(error) => return Err(Side::Write(error)),
        };
        if taken < piece.len() {
            let rest = piece[taken..].to_vec();
            drop(piece);
            to.write_all(&rest).await.map_err(Side::Write)?;
        }
    }
    to.shutdown().await.map_err(Side::Write)
}

#[cfg(test)]
mod tests {
    use tokio::net::TcpListener;

    use super::*;

    #[tokio::test]
    async fn a_prepared_connection_notices_a_peer_that_is_gone() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let tcp = TcpStream::connect(listener.local_addr().unwrap()).await.unwrap();
        let socket = SockRef::from(&tcp);
        assert!(!socket.keepalive().unwrap(), "not by default");
        prepare(&tcp);
        assert!(socket.keepalive().unwrap());
        assert_eq!(socket.tcp_keepalive_time().unwrap(), KEEP_ALIVE);
        assert_eq!(socket.tcp_keepalive_interval().unwrap(), PROBE_INTERVAL);
        assert_eq!(socket.tcp_keepalive_retries().unwrap(), PROBES);
    }
}
