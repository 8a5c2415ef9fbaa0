//! Listening sockets that a service manager opened and passed to the program (socket activation). They stay open while the program
//! restarts, so connections that are made in that time wait in them.
//!
//! A socket is used for the address of the settings that it is bound to. Source: sd_listen_fds(3). Not here: how its options
//! are set, which is done as for other sockets.

use std::fmt;
use std::io;
use std::net::SocketAddr;
use std::os::fd::{OwnedFd, RawFd};
use std::sync::{Arc, Mutex, PoisonError};

use socket2::{Protocol, Socket, Type};
use thiserror::Error;

use crate::sockopt::passed_descriptors;

/// A protocol and an address on which a program listens.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Port {
    /// TCP.
    Tcp(SocketAddr),
    /// The kernel's multipath TCP.
    Mptcp(SocketAddr),
    /// UDP, for QUIC.
    Udp(SocketAddr),
}

impl fmt::Display for Port {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Tcp(address) => write!(f, "TCP {address}"),
            Self::Mptcp(address) => write!(f, "MPTCP {address}"),
            Self::Udp(address) => write!(f, "UDP {address}"),
        }
    }
}

/// Why the passed sockets cannot be used. `name` is the socket's `FileDescriptorName=`, by default the name of its unit.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum PassedError {
    /// What the service manager says about the sockets is wrong.
    #[error("the sockets of the service manager (LISTEN_FDS, LISTEN_FDNAMES): {0}")]
    Environment(io::Error),
    /// A descriptor is something else than a socket on which the program could listen.
    #[error(
        "descriptor {number} of the service manager (`{name}`) is {is}; pass sockets that listen on an IP address, in a socket \
         unit: ListenStream=ADDRESS:PORT or ListenDatagram=ADDRESS:PORT, without Accept=yes"
    )]
    NotListening {
        /// Its number.
        number: RawFd,
        /// Its name.
        name: String,
        /// What it is instead.
        is: &'static str,
    },
    /// The settings do not have the socket's address.
    #[error(
        "the service manager passed a socket on {port} (`{name}`), but by its settings the program listens on {wanted}; give the \
         socket unit and the settings the same addresses (MPTCP: SocketProtocol=mptcp), or take the socket out of the unit"
    )]
    Unwanted {
        /// Where it listens.
        port: Port,
        /// Its name.
        name: String,
        /// Where the program listens by its settings.
        wanted: String,
    },
}

/// The sockets that were passed to this program. Clones share them: each socket is taken once. The default has none.
#[derive(Clone, Debug, Default)]
pub struct PassedSockets(Arc<Mutex<Vec<(Port, Socket)>>>);

impl PassedSockets {
    /// Takes over the sockets that the environment tells of. `wanted`: where the program listens by its settings. Call it before
    /// other threads are started. Later calls find no sockets.
    ///
    /// # Errors
    /// [`PassedError`]: among others if a socket is not for one of the addresses `wanted`, because clients would wait in it forever.
    pub fn from_environment(wanted: &[Port]) -> Result<Self, PassedError> {
        Self::of(passed_descriptors().map_err(PassedError::Environment)?, wanted)
    }

    fn of(descriptors: Vec<(RawFd, String, OwnedFd)>, wanted: &[Port]) -> Result<Self, PassedError> {
        let mut sockets = Vec::new();
        for (number, name, descriptor) in descriptors {
            let socket = Socket::from(descriptor);
            let port = match port(&socket) {
                Ok(port) => port,
                Err(is) => return Err(PassedError::NotListening { number, name, is }),
            };
            if !wanted.contains(&port) {
                let wanted: Vec<String> = wanted.iter().map(ToString::to_string).collect();
                return Err(PassedError::Unwanted { port, name, wanted: wanted.join(", ") });
            }
            sockets.push((port, socket));
        }
        Ok(Self(Arc::new(Mutex::new(sockets))))
    }

    /// The socket that listens there, non-blocking.
    ///
    /// # Errors
    /// It cannot be made non-blocking.
    pub fn take(&self, port: Port) -> io::Result<Option<Socket>> {
        let mut sockets = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(index) = sockets.iter().position(|(other, _)| *other == port) else { return Ok(None) };
        let (_, socket) = sockets.swap_remove(index);
        socket.set_nonblocking(true)?;
        tracing::info!("{port}: the service manager passed the socket");
        Ok(Some(socket))
    }
}

/// Where a socket listens, or what it is instead.
fn port(socket: &Socket) -> Result<Port, &'static str> {
    let kind = socket.r#type().map_err(|_| "not a socket")?;
    let address = socket.local_addr().ok().and_then(|address| address.as_socket());
    let address = address.ok_or("a socket of another family than IPv4 and IPv6")?;
    match (kind, socket.protocol().ok().flatten()) {
        (Type::STREAM, _) if !socket.is_listener().unwrap_or(false) => Err("a connection"),
        (Type::STREAM, Some(Protocol::TCP)) => Ok(Port::Tcp(address)),
        (Type::STREAM, Some(Protocol::MPTCP)) => Ok(Port::Mptcp(address)),
        (Type::DGRAM, Some(Protocol::UDP)) if socket.peer_addr().is_ok() => Err("a connected UDP socket"),
        (Type::DGRAM, Some(Protocol::UDP)) => Ok(Port::Udp(address)),
        _ => Err("a socket of another protocol than TCP, MPTCP and UDP"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::{TcpListener, TcpStream, UdpSocket};
    use std::os::unix::net::UnixListener;

    fn passed(socket: impl Into<OwnedFd>, wanted: &[Port]) -> Result<PassedSockets, PassedError> {
        PassedSockets::of(vec![(3, "tributary-serve.socket".to_owned(), socket.into())], wanted)
    }

    fn refused(socket: impl Into<OwnedFd>, wanted: &[Port]) -> String {
        passed(socket, wanted).unwrap_err().to_string()
    }

    #[test]
    fn a_socket_is_taken_once_and_for_its_protocol_and_address_only() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let sockets = passed(listener, &[Port::Tcp(address)]).unwrap();
        let other = SocketAddr::new(address.ip(), address.port() ^ 1);
        for port in [Port::Udp(address), Port::Mptcp(address), Port::Tcp(other)] {
            assert!(sockets.take(port).unwrap().is_none(), "{port}");
        }
        let socket = sockets.clone().take(Port::Tcp(address)).unwrap().expect("it was passed");
        assert!(socket.nonblocking().unwrap());
        assert!(sockets.take(Port::Tcp(address)).unwrap().is_none());
        let socket = UdpSocket::bind("[::1]:0").unwrap();
        let port = Port::Udp(socket.local_addr().unwrap());
        assert!(passed(socket, &[port]).unwrap().take(port).unwrap().is_some());
    }

    #[test]
    fn what_is_no_listening_socket_is_named_with_the_way_out() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let file = std::fs::File::open("/dev/null").unwrap();
        let unix =
            UnixListener::bind(std::env::temp_dir().join(format!("tributary-passed-{}", std::process::id())))
                .unwrap();
        let path = unix.local_addr().unwrap().as_pathname().unwrap().to_owned();
        let connected = UdpSocket::bind("127.0.0.1:0").unwrap();
        connected.connect(connected.local_addr().unwrap()).unwrap();
        let found = [
            (refused(file, &[]), "not a socket"),
            (refused(unix, &[]), "another family"),
            (refused(TcpStream::connect(address).unwrap(), &[]), "a connection"),
            (refused(connected, &[]), "a connected UDP socket"),
        ];
        std::fs::remove_file(path).unwrap();
        for (error, is) in found {
            let all = ["descriptor 3", "`tributary-serve.socket`", is, "ListenStream=ADDRESS:PORT"];
            assert!(all.iter().all(|part| error.contains(part)), "{error}");
        }
    }

    #[test]
    fn a_socket_without_a_listener_in_the_settings_is_named_with_both_addresses() {
        let socket = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = socket.local_addr().unwrap();
        let wanted: SocketAddr = "0.0.0.0:7000".parse().unwrap();
        let error = refused(socket, &[Port::Tcp(wanted), Port::Udp(wanted)]);
        let expected = format!(
            "passed a socket on TCP {address} (`tributary-serve.socket`), but by its settings the program listens on TCP \
             0.0.0.0:7000, UDP 0.0.0.0:7000; give the socket unit and the settings the same addresses"
        );
        assert!(error.contains(&expected), "{error}");
    }
}
