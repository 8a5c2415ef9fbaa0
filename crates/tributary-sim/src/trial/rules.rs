//! The rules of a trial, checked while it runs in virtual time: bounded memory and places, and no work without progress.
//!
//! Not here: what both ends show of each other, right bytes and liveness (`watch`), and the rule about the best path (`rate`).

use core::time::Duration;

use tributary_types::Instant;

use super::fault::{Fault, Rule};
use super::node::Node;
use super::script::{End, Trial};
use super::watch::{Watch, refusal};

/// After the last fault everything arrives within this time and [`transfer`].
pub const DELIVERY: Duration = Duration::from_secs(30);
/// A session that was closed is over at both ends within this time.
pub const CLOSING: Duration = Duration::from_secs(20);
/// TCP connections are over this long after their session.
pub const LINGERING: Duration = Duration::from_secs(20);

/// Events without a byte read, at most: attempts on eight dead paths for half a minute.
const IDLE_EVENTS: u64 = 200_000;
/// TCP connections of one end, per path: its subflow, attempts of the last five seconds (`HANDSHAKE_TIME`) every tenth of a second,
/// and those that linger.
const CONNECTIONS: usize = 64;

/// The checks of one trial.
#[derive(Debug)]
pub(super) struct Rules {
    paths: usize,
    pub watch: Watch,
    /// Bytes read in all, and the events until then.
    progress: (u64, u64),
    /// When a byte was read last.
    pub last_read: Instant,
    /// Most connections of an end.
    pub connections: usize,
}

impl Rules {
    pub fn new(trial: &Trial) -> Self {
        Self {
            paths: trial.paths.len(),
            watch: Watch::new(trial, Duration::ZERO),
            progress: (0, 0),
            last_read: Instant::ZERO,
            connections: 0,
        }
    }

    /// Checks everything; `events` of the world so far.
    pub fn check(&mut self, now: Instant, events: u64, nodes: [&Node; 2]) -> Result<(), Fault> {
        let fault = |rule, text| Err(Fault { rule, at: now, text });
        for (node, end) in nodes.iter().zip(End::BOTH) {
            if let Some(text) = node.lines.broken() {
                return fault(Rule::Content, format!("{end:?}: {text}"));
            }
            let (connections, _) = node.transport.connections();
            self.connections = self.connections.max(connections);
            if connections > CONNECTIONS * self.paths {
                return fault(Rule::Places, format!("{end:?}: {connections} TCP connections"));
            }
        }
        let read = nodes.iter().flat_map(|node| &node.lines.all).map(|line| line.read).sum();
        if read != self.progress.0 {
            self.progress = (read, events);
            self.last_read = now;
        } else if events > self.progress.1 + IDLE_EVENTS {
            return fault(
                Rule::Rest,
                format!("{} events since byte {read} was read", events - self.progress.1),
            );
        }
        if !is_same_session(nodes) {
            self.watch.interrupt();
            return Ok(());
        }
        let lines = nodes.map(|node| node.lines.states(now));
        for reader in End::BOTH {
            let (from, to) = (&lines[reader.peer() as usize], &lines[reader as usize]);
            self.watch.compare(now, reader, from, to).or_else(|(rule, text)| fault(rule, text))?;
            if let Some(text) = refusal(from, to) {
                return fault(Rule::Content, format!("to the {reader:?}: {text}"));
            }
        }
        Ok(())
    }
}

/// Twice the time that the slowest path needs for so many bytes.
#[must_use]
pub fn transfer(trial: &Trial, bytes: u64) -> Duration {
    let slowest = trial.paths.iter().map(|path| path.up_kbps.min(path.down_kbps)).min().unwrap_or(1);
    Duration::from_millis(2 * bytes * 8 / slowest)
}

/// Whether both ends have the same session: not after one was started again and before the client has connected.
pub(super) fn is_same_session([client, server]: [&Node; 2]) -> bool {
    client.transport.client_run() == server.transport.client_run()
}

/// What a session holds against its limits: bytes written and not sent, and received bytes held at most so far. `None`: within them.
#[must_use]
pub fn too_much(trial: &Trial, send_held: u64, receive_held_most: u64) -> Option<String> {
    if receive_held_most > trial.receive_credit {
        return Some(format!(
            "{receive_held_most} received bytes are held; the limit is {}",
            trial.receive_credit
        ));
    }
    (send_held > trial.send_buffer)
        .then(|| format!("{send_held} bytes wait; the limit is {}", trial.send_buffer))
}
