//! The experiment's TCP flows on real sockets: connections between two network namespaces of this process, and a load that
//! bursts.

use core::time::Duration;
use socket2::{Domain, Protocol, Socket, Type};
use std::io::{ErrorKind, Read, Write};
use std::net::{Ipv4Addr, Shutdown, SocketAddr};
use std::os::fd::AsFd;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Instant;
use tributary_emu::NetworkError;
use tributary_net::sockopt;
use tributary_sim::cotag::Load;

/// Interval at which data is written.
const STEP: Duration = Duration::from_millis(2);
/// Interval at which a waiting reader checks whether the run is over.
const LOOK: Duration = Duration::from_millis(100);
/// Time limit for connecting.
const CONNECT: Duration = Duration::from_secs(10);
/// Bytes of one write or read.
const PIECE: usize = 256 << 10;

/// Runs a closure in a namespace; sockets created there stay there.
pub(super) type Inside<'a> = &'a dyn Fn(&mut (dyn FnMut() + Send)) -> Result<(), NetworkError>;

/// Why a connection could not be made.
pub(super) type Failure = Box<dyn std::error::Error + Send + Sync>;

/// A connection's ends: the client's address if it is fixed, and the server's.
#[derive(Clone, Copy, Debug)]
pub(super) struct Route {
    pub(super) from: Option<Ipv4Addr>,
    pub(super) to: Ipv4Addr,
}

/// An established connection.
#[derive(Debug)]
pub(super) struct Flow {
    /// Kept open, because MPTCP's further subflows join through it.
    _listener: Socket,
    sender: Socket,
    receiver: Socket,
}

/// What the flows delivered.
#[derive(Clone, Copy, Debug)]
pub(super) struct Delivered {
    /// Mbit/s during the burst.
    pub(super) mbps: f64,
    /// Time from the beginning of the burst until the load's goal had arrived; at most the load's `longest`.
    pub(super) goal: Duration,
}

pub(super) fn within<T: Send>(
    inside: Inside<'_>,
    what: &str,
    make: impl Fn() -> Result<T, Failure> + Sync,
) -> Result<T, String> {
    let mut made = None;
    let entered = inside(&mut || made = Some(make().map_err(|error| format!("{what}: {error}"))));
    entered.map_err(|error| format!("{what}: {error}"))?;
    made.expect("the namespace ran it")
}

fn socket(mptcp: bool, congestion: &str) -> Result<Socket, Failure> {
    let socket = match mptcp {
        true => sockopt::mptcp_socket(Domain::IPV4)?,
        false => Socket::new(Domain::IPV4, Type::STREAM, Some(Protocol::TCP))?,
    };
    sockopt::set_congestion(socket.as_fd(), congestion).map_err(|error| error.to_string())?;
    Ok(socket)
}

impl Flow {
    /// Connects the client to a new listener of the server.
    pub(super) fn open(
        (server, client): (Inside<'_>, Inside<'_>),
        route: Route,
        mptcp: bool,
        congestion: &str,
    ) -> Result<Self, String> {
        let listener = within(server, "listening", || {
            let socket = socket(mptcp, congestion)?;
            socket.bind(&SocketAddr::from((route.to, 0)).into())?;
            socket.listen(1)?;
            Ok(socket)
        })?;
        let address = listener.local_addr().map_err(|error| error.to_string())?;
        let receiver = within(client, "connecting", || {
            let socket = socket(mptcp, congestion)?;
            if let Some(from) = route.from {
                socket.bind(&SocketAddr::from((from, 0)).into())?;
            }
            socket.connect_timeout(&address, CONNECT)?;
            socket.set_read_timeout(Some(LOOK))?;
            Ok(socket)
        })?;
        let (sender, _) = listener.accept().map_err(|error| format!("accepting: {error}"))?;
        for socket in [&sender, &receiver] {
            sockopt::assert_congestion(socket.as_fd(), congestion).map_err(|error| error.to_string())?;
        }
        sender.set_nonblocking(true).map_err(|error| error.to_string())?;
        Ok(Self { _listener: listener, sender, receiver })
    }
}

/// Bytes that an application has produced after `time`.
fn produced(load: &Load, time: Duration) -> u64 {
    let (calm, burst) = (time.min(load.calm_for), time.saturating_sub(load.calm_for));
    load.calm.size_in(calm).as_bytes() + load.burst.size_in(burst).as_bytes()
}

/// Writes the load into every connection until `ends`. Data that a connection does not accept waits in the
/// application.
fn write(flows: &[Flow], load: &Load, (begin, ends): (Instant, &AtomicBool)) {
    let (mut written, piece) = (vec![0_u64; flows.len()], vec![1; PIECE]);
    while !ends.load(Ordering::Relaxed) {
        let due = produced(load, begin.elapsed());
        for (flow, written) in flows.iter().zip(&mut written) {
            while *written < due {
                let length = usize::try_from(due - *written).map_or(PIECE, |owed| owed.min(PIECE));
                match (&flow.sender).write(&piece[..length]) {
                    Ok(taken) => *written += taken as u64,
                    // The connection is full, or closed; the reader detects the latter, too.
                    Err(_) => break,
                }
            }
        }
        std::thread::sleep(STEP);
    }
    flows.iter().for_each(|flow| _ = flow.sender.shutdown(Shutdown::Both));
}

/// Reads a connection until `ends` or its end.
fn read(flow: &Flow, received: &AtomicU64, ends: &AtomicBool) {
    let mut piece = vec![0; PIECE];
    while !ends.load(Ordering::Relaxed) {
        match (&flow.receiver).read(&mut piece) {
            Ok(0) => return,
            Ok(length) => _ = received.fetch_add(length as u64, Ordering::Relaxed),
            Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => {}
            Err(_) => return,
        }
    }
}

/// Carries the load, and measures the burst for `measured`.
pub(super) fn carry(flows: &[Flow], load: &Load, measured: Duration) -> Delivered {
    let (ends, received, begin) = (AtomicBool::new(false), AtomicU64::new(0), Instant::now());
    let (ends, received) = (&ends, &received);
    std::thread::scope(|scope| {
        scope.spawn(move || write(flows, load, (begin, ends)));
        flows.iter().for_each(|flow| _ = scope.spawn(move || read(flow, received, ends)));
        std::thread::sleep(load.calm_for.saturating_sub(begin.elapsed()));
        let (from, before) = (Instant::now(), received.load(Ordering::Relaxed));
        let (mut mbps, mut goal) = (None, None);
        while mbps.is_none() || goal.is_none() {
            std::thread::sleep(STEP);
            let (time, bytes) = (from.elapsed(), received.load(Ordering::Relaxed) - before);
            if mbps.is_none() && time >= measured {
                mbps = Some(bytes as f64 * 8e-6 / time.as_secs_f64());
            }
            if goal.is_none() && (bytes >= load.goal || time >= load.longest) {
                goal = Some(time.min(load.longest));
            }
        }
        ends.store(true, Ordering::Relaxed);
        Delivered { mbps: mbps.unwrap_or(0.0), goal: goal.unwrap_or(load.longest) }
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use tributary_types::Bitrate;

    #[test]
    fn an_application_produces_its_base_load_and_then_a_burst() {
        let (calm, burst) = (Bitrate::from_mbps(8), Bitrate::from_mbps(80));
        let (calm_for, longest) = (Duration::from_secs(1), Duration::from_secs(8));
        let load = Load { flows: 1, calm, calm_for, burst, goal: 1, longest };
        assert_eq!(produced(&load, Duration::from_millis(500)), 500_000);
        assert_eq!(produced(&load, Duration::from_millis(1500)), 6_000_000);
    }
}
