//! Connects the TCP connection of a path: resolves the server's name and tries its addresses of both families. The
//! other transports and the proxy's targets use the same race of addresses.
//!
//! Source: RFC 8305 (happy eyeballs), sections 4 and 5. Names are resolved anew for every attempt. Not here:
//! the handshake on the connection, and when a path is tried again.

use std::collections::{HashSet, VecDeque};
use std::io;
use std::net::SocketAddr;
use std::os::fd::AsFd;
use std::sync::Arc;
use std::time::Duration;

use socket2::Socket;
use tokio::net::{TcpSocket, TcpStream};

use crate::config::{Common, Local, PathConfig, ServerAddress, Siblings};
use crate::error::explained;
use crate::first::first_of;
use crate::handshake::{HandshakeError, prepared_socket};
use crate::{reach, sockopt};

/// Wait before the next address is tried in parallel (RFC 8305 §8, Connection Attempt Delay).
const NEXT_ADDRESS: Duration = Duration::from_millis(250);
/// Time to resolve an instance's own address: the path's server is at hand, too.
const RESOLVE_OWN: Duration = Duration::from_millis(500);
/// Maximum number of addresses of a name that are tried.
const MOST_ADDRESSES: usize = 8;

impl PathConfig {
    /// The server's addresses that this path's local end can reach, IPv6 and IPv4 alternating, IPv6 first.
    ///
    /// Cancellation: safe, it only asks.
    ///
    /// # Errors
    /// The resolver's, and `AddrNotAvailable` when the name has no address of the local end's family.
    pub async fn resolve(&self) -> io::Result<Vec<SocketAddr>> {
        let found: Vec<_> = match &self.server {
            ServerAddress::Address(address) => vec![*address],
            ServerAddress::Name(name, port) => {
                let found = tokio::net::lookup_host((name.as_str(), *port)).await;
                let explain =
                    |e: io::Error| io::Error::new(e.kind(), format!("cannot resolve `{name}`: {e}"));
                found.map_err(explain)?.collect()
            }
        };
        let fits = |address: &SocketAddr| match &self.local {
            Local::Address(local) => local.is_ipv4() == address.is_ipv4(),
            Local::Interface(_) | Local::Any | Local::Auto => true,
        };
        let addresses = in_turn(found.into_iter().filter(fits));
        if addresses.is_empty() {
            let problem = "the server has no address of the local end's family (IPv4 or IPv6)";
            return Err(io::Error::new(io::ErrorKind::AddrNotAvailable, problem));
        }
        Ok(addresses)
    }
}

/// IPv6 and IPv4 alternating, IPv6 first, each family in the resolver's order.
pub(crate) fn in_turn(addresses: impl Iterator<Item = SocketAddr>) -> Vec<SocketAddr> {
    let mut seen = HashSet::new();
    let (mut six, mut four): (VecDeque<_>, VecDeque<_>) =
        addresses.filter(|address| seen.insert(*address)).partition(SocketAddr::is_ipv6);
    let mut order = Vec::new();
    while order.len() < MOST_ADDRESSES && !(six.is_empty() && four.is_empty()) {
        order.extend(six.pop_front());
        order.extend(four.pop_front());
    }
    order
}

/// Where an attempt's connection leads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Reached {
    /// To the address that the server gave for the instance.
    Own,
    /// To the server of the path. `in_vain`: the instance's own address was tried, too.
    Path { in_vain: bool },
}

impl Reached {
    /// `own`: the instance's own address is known; `is_own`: the connection leads there.
    pub(crate) fn of(own: bool, is_own: bool) -> Self {
        if is_own { Self::Own } else { Self::Path { in_vain: own } }
    }
}

/// The addresses to be tried, in order, and those of them that are the instance's own.
pub(crate) async fn addresses(
    own: Option<&ServerAddress>,
    path: &PathConfig,
) -> Result<(Vec<SocketAddr>, Vec<SocketAddr>), HandshakeError> {
    let failed = |error| HandshakeError::Connect { path: path.to_string(), error };
    let resolve_own = async {
        let path = PathConfig { server: own?.clone(), ..path.clone() };
        tokio::time::timeout(RESOLVE_OWN, path.resolve()).await.ok()?.ok()
    };
    let (first, of_path) = tokio::join!(resolve_own, path.resolve());
    let first = first.unwrap_or_default();
    let of_path = match of_path {
        Err(error) if first.is_empty() => return Err(failed(error)),
        of_path => of_path.unwrap_or_default(),
    };
    let rest = of_path.into_iter().filter(|address| !first.contains(address));
    Ok((first.iter().copied().chain(rest).collect(), first))
}

/// Connects the TCP connection of a path: to the instance's own address if it is known and answers, else to the path's server.
/// `segment` limits the payload of TCP segments in both directions.
pub(crate) async fn dial(
    own: Option<&ServerAddress>,
    path: &PathConfig,
    (common, segment): (&Arc<Common>, Option<u32>),
) -> Result<(TcpStream, Reached), HandshakeError> {
    let (addresses, first) = addresses(own, path).await?;
    let outcome = race(addresses, |address| {
        let (path, common) = (path.clone(), common.clone());
        let reached = Reached::of(own.is_some(), first.contains(&address));
        async move { connect(&path, address, (common.as_ref(), segment)).await.map(|stream| (stream, reached)) }
    });
    outcome.await.unwrap_or(Err(HandshakeError::Timeout))
}

/// Connects to the first address that answers. They are tried in order: the next one starts when the previous one has
/// failed, or 250 ms after the previous one was started (RFC 8305 §5). Returns the last error; `None` if there is no
/// address.
pub(crate) async fn race<T, E, F>(
    addresses: Vec<SocketAddr>,
    connect: impl Fn(SocketAddr) -> F,
) -> Option<Result<T, E>>
where
    F: Future<Output = Result<T, E>>,
{
    let mut rest = VecDeque::from(addresses);
    let mut tries = Vec::new();
    let mut last = None;
    loop {
        tries.extend(rest.pop_front().map(|address| Box::pin(connect(address))));
        if tries.is_empty() {
            return last;
        }
        tokio::select! {
            // After a pause of this program both may be ready: then the connection counts, and no other address is tried.
            biased;
            outcome = first_of(&mut tries) => match outcome {
                Ok(connection) => return Some(Ok(connection)),
                Err(error) => last = Some(Err(error)),
            },
            () = tokio::time::sleep(NEXT_ADDRESS), if !rest.is_empty() => {}
        }
    }
}

async fn connect(
    path: &PathConfig,
    server: SocketAddr,
    (common, segment): (&Common, Option<u32>),
) -> Result<TcpStream, HandshakeError> {
    let failed =
        |error: io::Error| HandshakeError::Connect { path: path.to_string(), error: explained(error) };
    let socket = prepared_socket(server, common)?;
    if let Siblings::Mark(mark) = common.siblings {
        // Before the first packet, because rules for the mark choose its route. The session warns if there is no right to.
        let _ = socket.set_mark(mark);
    }
    if let Some(segment) = segment {
        socket.set_tcp_mss(segment).map_err(failed)?;
    }
    bind_local(&socket, &path.local, server).map_err(failed)?;
    let stream = TcpSocket::from_std_stream(socket.into()).connect(server).await.map_err(failed)?;
    if let Some(name) = &common.congestion {
        sockopt::assert_congestion(stream.as_fd(), name)?;
    }
    Ok(stream)
}

/// Binds a socket to the local end of a path to this server.
pub(crate) fn bind_local(socket: &Socket, local: &Local, server: SocketAddr) -> io::Result<()> {
    let address = match local {
        Local::Address(address) => Some(*address),
        Local::Interface(name) => {
            socket.bind_device(Some(name.as_bytes()))?;
            reach::source_address(name, server)
        }
        Local::Any | Local::Auto => None,
    };
    address.map_or(Ok(()), |address| socket.bind(&SocketAddr::new(address, 0).into()))
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;

    use tokio::net::TcpListener;

    use super::*;

    #[test]
    fn address_families_alternate_and_ipv6_is_first() {
        let parse = |texts: &[&str]| texts.iter().map(|t| t.parse().unwrap()).collect::<Vec<SocketAddr>>();
        let found =
            parse(&["1.1.1.1:1", "1.1.1.2:1", "[::1]:1", "1.1.1.3:1", "[::2]:1", "[::1]:1", "1.1.1.1:1"]);
        let wanted = parse(&["[::1]:1", "1.1.1.1:1", "[::2]:1", "1.1.1.2:1", "1.1.1.3:1"]);
        assert_eq!(in_turn(found.into_iter()), wanted);
    }

    #[tokio::test]
    async fn an_address_that_refuses_is_followed_by_the_next() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let live = listener.local_addr().unwrap();
        // Bound and not listening.
        let nobody = std::net::UdpSocket::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
        let stream = race(vec![nobody, live], TcpStream::connect).await.unwrap().unwrap();
        assert_eq!(stream.peer_addr().unwrap(), live);
        let error = race(vec![nobody, nobody], TcpStream::connect).await.unwrap().unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::ConnectionRefused);
        assert!(race(Vec::new(), TcpStream::connect).await.is_none());
    }

    /// In virtual time: the first address never answers, the second after some time, the third at once.
    #[tokio::test(start_paused = true)]
    async fn an_address_that_does_not_answer_costs_250_ms() {
        let [silent, slow, quick] = [1, 2, 3].map(|port| SocketAddr::from(([127, 0, 0, 1], port)));
        let connect = |takes: Duration| {
            move |address| async move {
                match address {
                    _ if address == silent => std::future::pending().await,
                    _ if address == slow => tokio::time::sleep(takes).await,
                    _ => {}
                }
                io::Result::Ok(address)
            }
        };
        for (takes, winner, after) in [(100, slow, 350_u128), (300, quick, 500)] {
            let began = tokio::time::Instant::now();
            let first = race(vec![silent, slow, quick], connect(Duration::from_millis(takes))).await;
            assert_eq!(first.unwrap().unwrap(), winner);
            let took = began.elapsed().as_millis();
            assert!(took.abs_diff(after) <= 2, "{took} ms instead of {after}");
        }
    }

    /// In virtual time: the first address answers at the moment at which the second one would be tried, as after a pause of the program.
    #[tokio::test(start_paused = true)]
    async fn an_address_that_has_answered_is_not_given_up_for_the_next() {
        let [first, second] = [1, 2].map(|port| SocketAddr::from(([127, 0, 0, 1], port)));
        for _ in 0..50 {
            let tried = Mutex::new(Vec::new());
            let connect = |address| {
                tried.lock().unwrap().push(address);
                async move {
                    tokio::time::sleep(NEXT_ADDRESS).await;
                    io::Result::Ok(address)
                }
            };
            assert_eq!(race(vec![first, second], connect).await.unwrap().unwrap(), first);
            assert_eq!(*tried.lock().unwrap(), [first]);
        }
    }

    #[tokio::test]
    async fn only_addresses_of_the_local_ends_family_are_tried() {
        let path: PathConfig = "[::1]=127.0.0.1:1".parse().unwrap();
        let error = path.resolve().await.unwrap_err().to_string();
        assert!(error.contains("family"), "{error}");
    }
}
