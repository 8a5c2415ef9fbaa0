//! TCP connections between two network namespaces of this process.

use core::time::Duration;
use socket2::{Domain, Protocol, Socket, Type};
use std::net::{Ipv4Addr, SocketAddr};
use std::os::fd::AsFd;
use tributary_emu::NetworkError;
use tributary_net::sockopt;

/// Time limit for connecting.
const CONNECT: Duration = Duration::from_secs(10);

/// Runs a closure in a namespace; sockets created there stay there.
pub type Inside<'a> = &'a (dyn Fn(&mut (dyn FnMut() + Send)) -> Result<(), NetworkError> + Sync);

/// Why something could not be done in a namespace.
pub type Failure = Box<dyn std::error::Error + Send + Sync>;

/// What `make` gives in a namespace.
///
/// # Errors
/// What was to be done, and the reason.
pub fn within<T: Send>(
    inside: Inside<'_>,
    what: &str,
    make: impl Fn() -> Result<T, Failure> + Sync,
) -> Result<T, String> {
    let mut made = None;
    let entered = inside(&mut || made = Some(make().map_err(|error| format!("{what}: {error}"))));
    entered.map_err(|error| format!("{what}: {error}"))?;
    made.expect("the namespace ran it")
}

/// A connection's ends: the client's address if it is fixed, and the server's.
#[derive(Clone, Copy, Debug)]
pub struct Route {
    /// The client's address.
    pub from: Option<Ipv4Addr>,
    /// The server's address.
    pub to: Ipv4Addr,
}

/// An established connection; the server sends.
#[derive(Debug)]
pub struct Pair {
    /// Kept open, because MPTCP's further subflows join through it.
    _listener: Socket,
    /// The server's end.
    pub sender: Socket,
    /// The client's end.
    pub receiver: Socket,
}

impl Pair {
    /// Connects the client to a new listener of the server.
    ///
    /// # Errors
    /// What was to be done, and the reason.
    pub fn open(
        (server, client): (Inside<'_>, Inside<'_>),
        route: Route,
        mptcp: bool,
        congestion: &str,
    ) -> Result<Self, String> {
        let listener = within(server, "listening", || {
            let socket = socket(mptcp, congestion)?;
            socket.bind(&SocketAddr::from((route.to, 0)).into())?;
            socket.listen(8)?;
            Ok(socket)
        })?;
        let address = listener.local_addr().map_err(|error| error.to_string())?;
        let receiver = within(client, "connecting", || {
            let socket = socket(mptcp, congestion)?;
            if let Some(from) = route.from {
                socket.bind(&SocketAddr::from((from, 0)).into())?;
            }
            socket.connect_timeout(&address, CONNECT)?;
            Ok(socket)
        })?;
        let (sender, _) = listener.accept().map_err(|error| format!("accepting: {error}"))?;
        for socket in [&sender, &receiver] {
            sockopt::assert_congestion(socket.as_fd(), congestion).map_err(|error| error.to_string())?;
        }
        Ok(Self { _listener: listener, sender, receiver })
    }
}

fn socket(mptcp: bool, congestion: &str) -> Result<Socket, Failure> {
    let socket = match mptcp {
        true => sockopt::mptcp_socket(Domain::IPV4)?,
        false => Socket::new(Domain::IPV4, Type::STREAM, Some(Protocol::TCP))?,
    };
    sockopt::set_congestion(socket.as_fd(), congestion).map_err(|error| error.to_string())?;
    Ok(socket)
}
