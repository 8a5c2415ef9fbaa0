//! The rules of a trial, checked while it runs: right bytes, liveness, bounded memory and places, and no work without progress.
//!
//! *A path lives* here when its last trouble is [`Rules::recovery`] ago and its links lose nothing by chance; on others TCP's own
//! retransmission timeouts decide. One whose traffic costs money does not count beside one whose does not. Not here: the rule about
//! the best path (`rate`).

use core::fmt;
use core::time::Duration;

use tributary_proto::liveness::{self, Liveness};
use tributary_proto::{Session, SessionStats};
use tributary_types::{Bitrate, Instant};

use super::lines::Line;
use super::node::Node;
use super::script::{End, Span, Trial};

/// What a trial breaks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rule {
    /// Every byte once, in order and unchanged; ends and refusals only as the other end caused them.
    Content,
    /// Everything arrives once all faults are over.
    Delivery,
    /// Every stream that is read makes progress within T while a path lives.
    Liveness,
    /// Memory within the session's limits.
    Memory,
    /// Connections and streams within their limits; nothing is left when all is over.
    Places,
    /// Few events without progress, none at the end.
    Rest,
    /// A session ends only with a reason.
    Closed,
    /// In five seconds no less than over the best path alone.
    BestPath,
    /// No panic.
    Panic,
}

/// A broken rule.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fault {
    /// The rule.
    pub rule: Rule,
    /// When it was seen, in virtual time.
    pub at: Instant,
    /// What was seen.
    pub text: String,
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?} at {}: {}", self.rule, self.at, self.text)
    }
}

/// Events without a byte read, at most: attempts on eight dead paths for half a minute.
const IDLE_EVENTS: u64 = 200_000;
/// TCP connections of one end, per path: its subflow, attempts of the last five seconds (`HANDSHAKE_TIME`) every tenth of a second,
/// and those that linger.
const CONNECTIONS: usize = 64;
/// A path that has recovered is connected and used within two keep-alives and this time and number of round trips: a client with nothing
/// to send closes a connection that is gone when its second ping is due and the first was not answered; then the longest wait
/// between two attempts, a SYN's first timeout, TCP, TLS and hello.
const RECOVERY: (Duration, u32) = (Duration::from_secs(2), 8);

/// The checks of one trial.
#[derive(Debug)]
pub(super) struct Rules {
    paths: Vec<Living>,
    liveness: [Liveness; 2],
    /// Bytes read in all, and the events until then.
    progress: (u64, u64),
    /// When a byte was read last.
    pub last_read: Instant,
    /// The longest wait of a reader as a share of T.
    pub waited: f64,
    /// Most connections of an end.
    pub connections: usize,
}

/// A path as the rules see it.
#[derive(Debug)]
struct Living {
    troubles: Vec<Span>,
    /// Round trip with full queues.
    rtt: Duration,
    /// To the client and to the server.
    rates: [Bitrate; 2],
    lossless: bool,
    /// When its traffic costs money although that of another path does not.
    spared: Vec<Span>,
}

impl Living {
    fn new(trial: &Trial, path: usize) -> Self {
        let spec = &trial.paths[path];
        let queued = |kbps: u64| Duration::from_micros(spec.queue * 8000 / kbps);
        let rtt = Duration::from_millis(spec.rtt_ms) + queued(spec.up_kbps) + queued(spec.down_kbps);
        let rates = [spec.down_kbps, spec.up_kbps].map(|kbps| Bitrate::from_bps(kbps * 1000));
        let (troubles, spared) = (trial.troubles(path), trial.spared(path));
        Self { troubles, rtt, rates, lossless: spec.loss_ppm == 0, spared }
    }

    fn lives(&self, now: Instant) -> bool {
        let recovery = Rules::recovery(self.rtt);
        let within = |spans: &[Span], after| spans.iter().any(|(from, to)| *from <= now && now < *to + after);
        self.lossless && !within(&self.troubles, recovery) && !within(&self.spared, Duration::ZERO)
    }
}

impl Rules {
    pub fn new(trial: &Trial) -> Self {
        Self {
            paths: (0..trial.paths.len()).map(|path| Living::new(trial, path)).collect(),
            liveness: Default::default(),
            progress: (0, 0),
            last_read: Instant::ZERO,
            waited: 0.0,
            connections: 0,
        }
    }

    /// Time after a fault in which a path does not count as living.
    pub fn recovery(rtt: Duration) -> Duration {
        2 * tributary_proto::Config::default().keep_alive + RECOVERY.0 + rtt * RECOVERY.1
    }

    /// Checks everything; `events` of the world so far.
    pub fn check(&mut self, now: Instant, events: u64, nodes: [&Node; 2]) -> Result<(), Fault> {
        let fault = |rule, text| Err(Fault { rule, at: now, text });
        for (node, end) in nodes.iter().zip(End::BOTH) {
            if let Some(text) = &node.lines.broken {
                return fault(Rule::Content, format!("{end:?}: {text}"));
            }
            let (connections, _) = node.transport.connections();
            self.connections = self.connections.max(connections);
            if connections > CONNECTIONS * self.paths.len() {
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
            self.liveness = Default::default();
            return Ok(());
        }
        for reader in End::BOTH {
            let (to, from) = (nodes[reader as usize], nodes[reader.peer() as usize]);
            if let Some(text) = from.lines.all.iter().zip(&to.lines.all).find_map(|(w, r)| wrong(w, r)) {
                return fault(Rule::Content, format!("to the {reader:?}: {text}"));
            }
            self.observe(now, reader, [from, to]).or_else(|text| fault(Rule::Liveness, text))?;
        }
        Ok(())
    }

    /// The liveness rule for what one end reads.
    fn observe(&mut self, now: Instant, reader: End, [from, to]: [&Node; 2]) -> Result<(), String> {
        let liveness = &mut self.liveness[reader as usize];
        for (writes, reads) in from.lines.all.iter().zip(&to.lines.all).filter(|(w, _)| !w.name.is_flow) {
            let more = writes.written > reads.read || writes.blocked || writes.finished;
            let owed = writes.opened && !writes.aborted && !writes.refused && more && reads.reads(now);
            liveness.observe(now, writes.name.id.0.into(), owed, reads.read);
        }
        let living = || self.paths.iter().filter(|path| path.lives(now));
        let rtt = living().map(|path| path.rtt).max();
        let rate = living().map(|path| path.rates[reader as usize]).min();
        let Some((rtt, rate)) = rtt.zip(rate) else {
            liveness.interrupted(now);
            return Ok(());
        };
        let allowed = liveness::allowed(rtt, rate, from.lines.all.len());
        if let Err(longest) = liveness.check(now, Duration::ZERO) {
            self.waited = self.waited.max(longest.waited.as_secs_f64() / allowed.as_secs_f64());
        }
        liveness
            .check(now, allowed)
            .map_err(|overdue| format!("to the {reader:?}: {overdue}; T is {allowed:?}"))
    }
}

/// Whether both ends have the same session: not after one was started again and before the client has connected.
pub(super) fn is_same_session([client, server]: [&Node; 2]) -> bool {
    client.transport.client_run() == server.transport.client_run()
}

/// What a reader may not see of a writer.
fn wrong(writes: &Line, reads: &Line) -> Option<String> {
    use super::lines::Ended;
    let of = writes.name.id;
    let (written, read) = (writes.written, reads.read);
    match reads.ended {
        _ if writes.name.is_flow => None,
        _ if read > written => Some(format!("{of}: {read} bytes were read of {written} that were written")),
        Some(Ended::Whole) if !writes.finished => Some(format!("{of} ended for its reader only")),
        Some(Ended::Whole) if read < written => Some(format!("{of} ended after {read} of {written} bytes")),
        Some(Ended::Reset) if !writes.aborted => Some(format!("{of} was reset by nobody")),
        _ if writes.refused && !reads.stopped => Some(format!("{of} refuses bytes, and its reader reads")),
        _ => None,
    }
}

/// What a session holds against its limits; `None`: within them.
pub(super) fn too_much(trial: &Trial, session: &Session) -> Option<String> {
    let SessionStats { send_held, receive_held_most, .. } = session.stats();
    if receive_held_most > trial.receive_credit {
        return Some(format!(
            "{receive_held_most} received bytes are held; the limit is {}",
            trial.receive_credit
        ));
    }
    (send_held > trial.send_buffer)
        .then(|| format!("{send_held} bytes wait; the limit is {}", trial.send_buffer))
}
