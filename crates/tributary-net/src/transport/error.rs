//! Why a transport cannot be used.

use std::io;
use std::net::SocketAddr;
use std::time::Duration;

use thiserror::Error;

use super::{ConnectionClosed, UnknownName};
use crate::config::PathError;
use crate::error::{ConnectError, ListenError, SessionClosed, explained};
use crate::hello::{HelloError, Refusal};
use crate::identity::PublicKey;
use crate::sockopt::CongestionError;

/// Why a transport cannot be used.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum TransportError {
    /// The transport begins on one path, but several or none were given.
    #[error(
        "`{name}` begins on one path, {paths} were given; name it as {name}:PATH, or leave the others out{}",
        if *name == "mptcp" { " (the kernel's path manager adds them: ip mptcp endpoint)" } else { "" }
    )]
    Paths {
        /// The transport.
        name: &'static str,
        /// Number of given paths.
        paths: usize,
    },
    /// A path is metered, but the transport cannot leave a path unused.
    #[error("`{0}` cannot leave a path unused until it is needed: `metered` is for sessions")]
    Metered(&'static str),
    /// A path has a cap, but the transport does not divide its data.
    #[error("`{0}` cannot limit what a path carries: `cap` is for sessions")]
    Capped(&'static str),
    /// The path in the transport's name is not among the given paths.
    #[error(transparent)]
    Name(#[from] UnknownName),
    /// A path that cannot be read.
    #[error(transparent)]
    Path(#[from] PathError),
    /// No address to listen on.
    #[error("no address to listen on")]
    NoAddress,
    /// A system call failed.
    #[error("{doing}: {source}")]
    System {
        /// The operation.
        doing: String,
        /// The system's reason.
        source: io::Error,
    },
    /// The kernel has no MPTCP.
    #[error("this kernel has no MPTCP ({0}): build it with CONFIG_MPTCP and set net.mptcp.enabled=1")]
    NoMptcp(io::Error),
    /// The kernel schedules MPTCP itself.
    #[error(
        "the kernel schedules MPTCP itself: `{0}` cannot be chosen on real sockets; take mptcp or session"
    )]
    KernelScheduler(String),
    /// The congestion control is not available.
    #[error(transparent)]
    Congestion(#[from] CongestionError),
    /// The session did not come up.
    #[error(transparent)]
    Connect(#[from] ConnectError),
    /// Cannot listen for sessions.
    #[error(transparent)]
    Listen(#[from] ListenError),
    /// The connection has ended.
    #[error(transparent)]
    Closed(#[from] ConnectionClosed),
    /// A server cannot open a stream over kernel sockets.
    #[error(
        "only the client opens streams over tcp and mptcp, where each is a connection; take session or quic"
    )]
    ClientOpens,
    /// No key given.
    #[error("{0} needs keys; make one for each end with `tributary keygen`")]
    NoKey(&'static str),
    /// TLS cannot be set up.
    #[error("TLS: {0}")]
    Tls(String),
    /// The peer does not have the key.
    #[error("the peer does not know the key")]
    WrongKey,
    /// The peer's keys have another form, or it is not the expected server.
    #[error(transparent)]
    Hello(#[from] HelloError),
    /// The server has proved its key but refuses the connection.
    #[error(transparent)]
    Refused(#[from] Refusal),
    /// The server does not have the expected key.
    #[error(
        "the server is not the expected one: it does not have the key {0}; if its operator has replaced the key, give the \
         new one as --server-key"
    )]
    WrongServer(PublicKey),
    /// A QUIC connection failed.
    #[error("QUIC: {0}")]
    Quic(String),
    /// The transport carries no datagrams.
    #[error("{0} carries no flows of datagrams: take session")]
    NoFlows(&'static str),
    /// It took longer than the time limit.
    #[error("no answer within {0:?}")]
    Timeout(Duration),
    /// This program was built without QUIC.
    #[error("this program was built without QUIC: build it with --features quic")]
    NoQuic,
}

impl From<SessionClosed> for TransportError {
    fn from(closed: SessionClosed) -> Self {
        Self::Closed(closed.into())
    }
}

/// A socket cannot have this address.
pub(super) fn bound_to(address: SocketAddr) -> impl FnOnce(io::Error) -> TransportError {
    move |error| system(format!("binding to {address}"))(explained(error))
}

pub(super) fn system(doing: impl Into<String>) -> impl FnOnce(io::Error) -> TransportError {
    let doing = doing.into();
    move |source| TransportError::System { doing, source }
}
