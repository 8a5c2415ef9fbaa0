//! The experiment's TCP flows on real sockets: a load that bursts.

use crate::pairs::{Inside, Pair, Route};
use core::time::Duration;
use std::io::{ErrorKind, Read, Write};
use std::net::Shutdown;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Instant;
use tributary_sim::cotag::Load;

/// Interval at which data is written.
const STEP: Duration = Duration::from_millis(2);
/// Interval at which a waiting reader checks whether the run is over.
const LOOK: Duration = Duration::from_millis(100);
/// Bytes of one write or read.
const PIECE: usize = 256 << 10;

/// What the flows delivered.
#[derive(Clone, Copy, Debug)]
pub(super) struct Delivered {
    /// Mbit/s during the burst.
    pub(super) mbps: f64,
    /// Time from the beginning of the burst until the load's goal had arrived; at most the load's `longest`.
    pub(super) goal: Duration,
}

/// Connects the client to a new listener of the server. The load is written without waiting.
pub(super) fn open(
    ends: (Inside<'_>, Inside<'_>),
    route: Route,
    mptcp: bool,
    congestion: &str,
) -> Result<Pair, String> {
    let flow = Pair::open(ends, route, mptcp, congestion)?;
    let ready = flow.sender.set_nonblocking(true).and_then(|()| flow.receiver.set_read_timeout(Some(LOOK)));
    ready.map(|()| flow).map_err(|error| error.to_string())
}

/// Bytes that an application has produced after `time`.
fn produced(load: &Load, time: Duration) -> u64 {
    let (calm, burst) = (time.min(load.calm_for), time.saturating_sub(load.calm_for));
    load.calm.size_in(calm).as_bytes() + load.burst.size_in(burst).as_bytes()
}

/// Writes the load into every connection until `ends`. Data that a connection does not accept waits in the
/// application.
fn write(flows: &[Pair], load: &Load, (begin, ends): (Instant, &AtomicBool)) {
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
fn read(flow: &Pair, received: &AtomicU64, ends: &AtomicBool) {
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
pub(super) fn carry(flows: &[Pair], load: &Load, measured: Duration) -> Delivered {
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
