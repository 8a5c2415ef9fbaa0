//! What carries a tiled stream: a Tributary session, one TCP connection, or the kernel's MPTCP.
//!
//! The protocol above is the same. A session is given messages with deadlines; a kernel socket is kept from
//! holding more than a little that it has not sent.

use core::time::Duration;
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::os::fd::AsFd;
use std::str::FromStr;

use bytes::Bytes;
use serde::{Deserialize, Serialize};
use socket2::{Domain, Protocol, Socket, Type};
use thiserror::Error;
use tokio::net::{TcpListener, TcpSocket, TcpStream};
use tributary_net::{Local, PathConfig, Stream, StreamError, sockopt};
use tributary_stream::tiled::{Outlet, Pushed, SOCKET_UNSENT};

/// Time for a connection, a lost SYN included.
const CONNECT: Duration = Duration::from_secs(10);

/// What carries the bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Carrier {
    /// A Tributary session over all paths.
    #[default]
    Session,
    /// One TCP connection on one path; neither secret nor protected.
    Tcp,
    /// The kernel's multipath TCP; neither secret nor protected.
    Mptcp,
}

/// Why there is no connection.
#[derive(Debug, Error)]
pub enum CarrierError {
    /// No carrier has this name.
    #[error("there is no carrier `{0}`; known are session, tcp, mptcp")]
    Unknown(String),
    /// A kernel connection begins on one path.
    #[error(
        "{0} paths; tcp and mptcp begin on one, the kernel's path manager adds the others (ip mptcp endpoint)"
    )]
    Paths(usize),
    /// A system call failed.
    #[error("{doing}: {source}")]
    System {
        /// What was being done.
        doing: String,
        /// The system's reason.
        source: io::Error,
    },
    /// The kernel has no MPTCP.
    #[error("this kernel has no MPTCP ({0}): build it with CONFIG_MPTCP and set net.mptcp.enabled=1")]
    NoMptcp(io::Error),
    /// A congestion control that cannot be had.
    #[error(transparent)]
    Congestion(#[from] sockopt::CongestionError),
    /// The session did not come up.
    #[error(transparent)]
    Connect(#[from] tributary_net::ConnectError),
    /// The session ended.
    #[error(transparent)]
    Closed(#[from] tributary_net::SessionClosed),
    /// The session cannot be listened for.
    #[error(transparent)]
    Listen(#[from] tributary_net::ListenError),
    /// A session, but nobody streams tiles on it.
    #[error("the server opened no stream of tiles within {0} s; is it `tributary stream serve`?")]
    NoTiles(u64),
    /// A session needs a key.
    #[error("a session needs a key; make one with `tributary keygen` and give it to both ends")]
    NoKey,
}

impl FromStr for Carrier {
    type Err = CarrierError;

    fn from_str(name: &str) -> Result<Self, CarrierError> {
        match name {
            "session" => Ok(Self::Session),
            "tcp" => Ok(Self::Tcp),
            "mptcp" => Ok(Self::Mptcp),
            other => Err(CarrierError::Unknown(other.to_owned())),
        }
    }
}

impl Carrier {
    /// Name for people, a session's scheduler included.
    #[must_use]
    pub fn label(self, scheduler: &str) -> String {
        match self {
            Self::Session => scheduler.to_owned(),
            Self::Tcp => "one TCP connection".to_owned(),
            Self::Mptcp => "kernel MPTCP".to_owned(),
        }
    }
}

/// Writes tiles as messages with deadlines.
pub(crate) struct SessionOutlet(pub Stream);

impl Outlet for SessionOutlet {
    async fn push(&mut self, message: Bytes, within: Option<Duration>) -> io::Result<Pushed> {
        match self.0.write_message(message, within).await {
            Ok(()) => Ok(Pushed::Taken),
            Err(StreamError::DeadlinePassed) => Ok(Pushed::Expired),
            Err(error) => Err(error.into()),
        }
    }

    async fn finish(&mut self) {
        // The client that ended the stream does not wait for its end.
        let _ = self.0.finish();
    }
}

fn system(doing: impl Into<String>) -> impl FnOnce(io::Error) -> CarrierError {
    let doing = doing.into();
    move |source| CarrierError::System { doing, source }
}

fn socket(carrier: Carrier, domain: Domain, congestion: Option<&str>) -> Result<Socket, CarrierError> {
    let socket = match carrier {
        Carrier::Mptcp => sockopt::mptcp_socket(domain).map_err(CarrierError::NoMptcp)?,
        Carrier::Session | Carrier::Tcp => {
            Socket::new(domain, Type::STREAM, Some(Protocol::TCP)).map_err(system("socket"))?
        }
    };
    socket.set_nonblocking(true).map_err(system("making a socket non-blocking"))?;
    if let Some(name) = congestion {
        // Before `listen` and before `connect`: a socket switched later stays paced by its first controller.
        sockopt::set_congestion(socket.as_fd(), name)?;
    }
    socket.set_tcp_nodelay(true).map_err(system("TCP_NODELAY"))?;
    Ok(socket)
}

/// Listens with a kernel carrier.
pub(crate) fn listen(
    carrier: Carrier,
    address: SocketAddr,
    congestion: Option<&str>,
) -> Result<TcpListener, CarrierError> {
    let socket = socket(carrier, sockopt::domain(address), congestion)?;
    socket.set_reuse_address(true).map_err(system("SO_REUSEADDR"))?;
    socket.bind(&address.into()).map_err(system(format!("binding to {address}")))?;
    socket.listen(64).map_err(system(format!("listening on {address}")))?;
    TcpListener::from_std(socket.into()).map_err(system("registering a listener"))
}

/// Prepares an accepted connection: little unsent in the kernel.
pub(crate) fn prepare(stream: &TcpStream) -> io::Result<()> {
    stream.set_nodelay(true)?;
    sockopt::set_notsent_lowat(stream.as_fd(), SOCKET_UNSENT)
}

/// Connects with a kernel carrier over one path.
pub(crate) async fn connect(
    carrier: Carrier,
    path: &PathConfig,
    congestion: Option<&str>,
) -> Result<TcpStream, CarrierError> {
    let socket = socket(carrier, sockopt::domain(path.server), congestion)?;
    let any = match path.server {
        SocketAddr::V4(_) => IpAddr::V4(Ipv4Addr::UNSPECIFIED),
        SocketAddr::V6(_) => IpAddr::V6(Ipv6Addr::UNSPECIFIED),
    };
    let local = match &path.local {
        Local::Address(address) => *address,
        Local::Any => any,
        Local::Interface(name) => {
            let bound = sockopt::bind_to_device(socket.as_fd(), name);
            bound.map_err(system(format!("binding to interface {name}")))?;
            any
        }
    };
    let local = SocketAddr::from((local, 0));
    socket.bind(&local.into()).map_err(system(format!("binding to {local}")))?;
    let doing = || format!("connecting over {path}");
    // To tokio an MPTCP socket is a TCP socket.
    let connecting = TcpSocket::from_std_stream(socket.into()).connect(path.server);
    match tokio::time::timeout(CONNECT, connecting).await {
        Ok(result) => result.map_err(system(doing())),
        Err(_) => Err(system(doing())(io::ErrorKind::TimedOut.into())),
    }
}
