//! TCP connections at the same time, and a steady stream of datagrams, between two network namespaces of one
//! process.

use super::BenchError;
use core::time::Duration;
use socket2::{Domain, Protocol, Socket, Type};
use std::io::{Read, Write};
use std::net::{Ipv4Addr, SocketAddr, UdpSocket};
use std::os::fd::AsFd;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Instant;
use tributary_lab::kernel::TcpCounters;
use tributary_net::sockopt;

/// Congestion control of every socket.
pub(super) const CONGESTION: &str = "cubic";
/// Time that is not measured: connections start up.
const WARM_UP: Duration = Duration::from_millis(500);
/// Bytes of one write.
const PIECE: usize = 256 << 10;

/// Runs a closure in a namespace; sockets created there stay there.
pub(super) type Inside<'a> = &'a (dyn Fn(&mut (dyn FnMut() + Send)) -> Result<(), BenchError> + Sync);

/// Why a socket could not be created.
type Failure = Box<dyn std::error::Error + Send + Sync>;

/// A connection: the client's address if it is fixed, and the server's.
pub(super) type Route = (Option<Ipv4Addr>, Ipv4Addr);

fn failed(side: &'static str, reason: impl ToString) -> BenchError {
    BenchError::Program { program: format!("the {side} of the tunnel"), reason: reason.to_string() }
}

fn inside<T: Send>(
    within: Inside<'_>,
    side: &'static str,
    make: impl Fn() -> Result<T, Failure> + Sync,
) -> Result<T, BenchError> {
    let mut made = None;
    within(&mut || made = Some(make().map_err(|error| error.to_string())))?;
    made.expect("the namespace ran it").map_err(|reason| failed(side, reason))
}

fn socket(mptcp: bool) -> Result<Socket, Failure> {
    let socket = match mptcp {
        true => sockopt::mptcp_socket(Domain::IPV4)?,
        false => Socket::new(Domain::IPV4, Type::STREAM, Some(Protocol::TCP))?,
    };
    sockopt::set_congestion(socket.as_fd(), CONGESTION).map_err(|error| error.to_string())?;
    Ok(socket)
}

/// An established connection.
#[derive(Debug)]
pub(super) struct Pair {
    /// Kept open, because MPTCP's further subflows join through the listener.
    _listener: Socket,
    sender: Socket,
    receiver: Socket,
}

/// Connects the client to a new listener of the server.
pub(super) fn connect(
    (server, client): (Inside<'_>, Inside<'_>),
    (from, to): Route,
    mptcp: bool,
) -> Result<Pair, BenchError> {
    let listener = inside(server, "server", || {
        let socket = socket(mptcp)?;
        socket.bind(&SocketAddr::from((to, 0)).into())?;
        socket.listen(8)?;
        Ok(socket)
    })?;
    let address = listener.local_addr().map_err(|error| failed("server", error))?;
    let receiver = inside(client, "client", || {
        let socket = socket(mptcp)?;
        if let Some(from) = from {
            socket.bind(&SocketAddr::from((from, 0)).into())?;
        }
        socket.connect_timeout(&address, Duration::from_secs(10))?;
        Ok(socket)
    })?;
    let (sender, _) = listener.accept().map_err(|error| failed("server", error))?;
    sockopt::assert_congestion(sender.as_fd(), CONGESTION).map_err(|error| failed("server", error))?;
    sender.set_write_timeout(Some(Duration::from_secs(5))).map_err(|error| failed("server", error))?;
    receiver.set_read_timeout(Some(Duration::from_secs(5))).map_err(|error| failed("client", error))?;
    Ok(Pair { _listener: listener, sender, receiver })
}

/// Sends as much as possible over all connections at once for `seconds`. Returns the goodput of each, Mbit/s.
pub(super) fn saturate(pairs: &[Pair], seconds: f64) -> Vec<f64> {
    let ends = AtomicBool::new(false);
    let received: Vec<AtomicU64> = pairs.iter().map(|_| AtomicU64::new(0)).collect();
    std::thread::scope(|scope| {
        let ends = &ends;
        for (pair, received) in pairs.iter().zip(&received) {
            scope.spawn(move || {
                let (mut out, piece) = (&pair.sender, vec![1; PIECE]);
                while !ends.load(Ordering::Relaxed) && out.write(&piece).is_ok() {}
                let _ = pair.sender.shutdown(std::net::Shutdown::Both);
            });
            scope.spawn(move || {
                let (mut input, mut piece) = (&pair.receiver, vec![0; PIECE]);
                while !ends.load(Ordering::Relaxed)
                    && let Ok(length @ 1..) = input.read(&mut piece)
                {
                    received.fetch_add(length as u64, Ordering::Relaxed);
                }
            });
        }
        let now = || received.iter().map(|bytes| bytes.load(Ordering::Relaxed)).collect::<Vec<_>>();
        std::thread::sleep(WARM_UP);
        let (begin, before) = (Instant::now(), now());
        std::thread::sleep(Duration::from_secs_f64(seconds));
        let (after, time) = (now(), begin.elapsed());
        ends.store(true, Ordering::Relaxed);
        pairs.iter().for_each(|pair| _ = pair.sender.shutdown(std::net::Shutdown::Both));
        let rate = |(after, before): (u64, u64)| (after - before) as f64 * 8e-6 / time.as_secs_f64();
        after.into_iter().zip(before).map(rate).collect()
    })
}

/// TCP time-outs of a host so far.
pub(super) fn timeouts(host: Inside<'_>) -> Result<u64, BenchError> {
    inside(host, "server", || Ok(TcpCounters::here()?.timeouts))
}

/// Result of a steady stream of datagrams.
#[derive(Clone, Debug, Default)]
pub(super) struct Stream {
    pub(super) delivered: f64,
    /// One-way delays in ms, sorted.
    pub(super) delays: Vec<f64>,
}

impl Stream {
    pub(super) fn quantile(&self, share: f64) -> f64 {
        let last = self.delays.len().saturating_sub(1);
        self.delays.get((last as f64 * share) as usize).copied().unwrap_or(f64::NAN)
    }
}

fn bind(address: Ipv4Addr) -> impl Fn() -> Result<UdpSocket, Failure> + Sync {
    move || Ok(UdpSocket::bind((address, 0))?)
}

/// Sends `mbps` of datagrams of 1200 bytes from the server to `to` for `seconds`; both ends use the same
/// clock.
pub(super) fn stream(
    (server, client): (Inside<'_>, Inside<'_>),
    to: Ipv4Addr,
    mbps: f64,
    seconds: f64,
) -> Result<Stream, BenchError> {
    const LENGTH: usize = 1200;
    let receiver = inside(client, "client", bind(to))?;
    let sender = inside(server, "server", bind(Ipv4Addr::UNSPECIFIED))?;
    let address = receiver.local_addr().map_err(|error| failed("client", error))?;
    receiver.set_read_timeout(Some(Duration::from_millis(500))).map_err(|error| failed("client", error))?;
    let gap = Duration::from_secs_f64(LENGTH as f64 * 8e-6 / mbps);
    let count = (seconds / gap.as_secs_f64()) as u32;
    let begin = Instant::now();
    let mut delays = std::thread::scope(|scope| {
        let reading = scope.spawn(|| {
            let (mut delays, mut buffer) = (Vec::with_capacity(count as usize), [0; 2048]);
            // Ends when nothing has arrived for the time limit.
            while let Ok(length) = receiver.recv(&mut buffer) {
                let Some(sent) = buffer[..length].first_chunk::<8>() else { continue };
                let sent = Duration::from_nanos(u64::from_be_bytes(*sent));
                delays.push(begin.elapsed().saturating_sub(sent).as_secs_f64() * 1e3);
            }
            delays
        });
        let mut datagram = [0; LENGTH];
        for number in 0..count {
            let due = gap * number;
            std::thread::sleep(due.saturating_sub(begin.elapsed()));
            datagram[..8].copy_from_slice(&(begin.elapsed().as_nanos() as u64).to_be_bytes());
            // A refused datagram counts as lost.
            let _ = sender.send_to(&datagram, address);
        }
        reading.join().expect("the reader does not panic")
    });
    delays.sort_by(f64::total_cmp);
    Ok(Stream { delivered: delays.len() as f64 / f64::from(count.max(1)), delays })
}
