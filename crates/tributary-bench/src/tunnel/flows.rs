//! TCP connections at the same time, and a steady stream of datagrams, between two network namespaces of one
//! process.

use super::BenchError;
use core::time::Duration;
use std::io::{Read, Write};
use std::net::{Ipv4Addr, UdpSocket};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Instant;
use tributary_lab::kernel::TcpCounters;
use tributary_lab::pairs::{Inside, Pair, Route, within};

/// Congestion control of every socket.
pub(super) const CONGESTION: &str = "cubic";
/// Time that is not measured: connections start up.
const WARM_UP: Duration = Duration::from_millis(500);
/// Bytes of one write.
const PIECE: usize = 256 << 10;

fn failed(reason: impl ToString) -> BenchError {
    crate::failed("a connection of the tunnel's benchmark", reason)
}

/// Connects the client to a new listener of the server.
pub(super) fn connect(ends: (Inside<'_>, Inside<'_>), route: Route, mptcp: bool) -> Result<Pair, BenchError> {
    let pair = Pair::open(ends, route, mptcp, CONGESTION).map_err(failed)?;
    pair.sender.set_write_timeout(Some(Duration::from_secs(5))).map_err(failed)?;
    pair.receiver.set_read_timeout(Some(Duration::from_secs(5))).map_err(failed)?;
    Ok(pair)
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
    within(host, "reading TCP's counters", || Ok(TcpCounters::here()?.timeouts)).map_err(failed)
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

/// Sends `mbps` of datagrams of 1200 bytes from the server to `to` for `seconds`; both ends use the same
/// clock.
pub(super) fn stream(
    (server, client): (Inside<'_>, Inside<'_>),
    to: Ipv4Addr,
    mbps: f64,
    seconds: f64,
) -> Result<Stream, BenchError> {
    const LENGTH: usize = 1200;
    let bind = |address: Ipv4Addr| move || Ok(UdpSocket::bind((address, 0))?);
    let receiver = within(client, "the receiver", bind(to)).map_err(failed)?;
    let sender = within(server, "the sender", bind(Ipv4Addr::UNSPECIFIED)).map_err(failed)?;
    let address = receiver.local_addr().map_err(failed)?;
    receiver.set_read_timeout(Some(Duration::from_millis(500))).map_err(failed)?;
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
