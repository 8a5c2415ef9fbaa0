//! What both ends of a trial show of each other: every byte once and in order, ends only as the other end caused them, and liveness.
//!
//! *A path lives* here when its last trouble is [`recovery`] ago and its links lose nothing by chance; on others TCP's own
//! retransmission timeouts decide. One whose traffic costs money does not count beside one whose does not. The same for trials in
//! virtual time and on real sockets. Not here: the bytes themselves, which their reader compares (`lines`).

use core::time::Duration;

use tributary_proto::liveness::{self, Liveness};
use tributary_types::{Bitrate, Instant, StreamId};

use super::fault::Rule;
use super::lines::{Ended, LineState};
use super::script::{End, Span, Trial};

/// A path that has recovered is connected and used within two keep-alives and this time and number of round trips: a client with nothing
/// to send closes a connection that is gone when its second ping is due and the first was not answered; then the longest wait
/// between two attempts, a SYN's first timeout, TCP, TLS and hello.
const RECOVERY: (Duration, u32) = (Duration::from_secs(2), 8);

/// Compares both ends of a trial.
#[derive(Debug)]
pub struct Watch {
    paths: Vec<Living>,
    liveness: [Liveness; 2],
    /// Added to T.
    allowance: Duration,
    waited: f64,
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
        let recovery = recovery(self.rtt);
        let within = |spans: &[Span], after| spans.iter().any(|(from, to)| *from <= now && now < *to + after);
        self.lossless && !within(&self.troubles, recovery) && !within(&self.spared, Duration::ZERO)
    }
}

impl Watch {
    /// For a trial; `allowance` is added to the liveness rule's T.
    #[must_use]
    pub fn new(trial: &Trial, allowance: Duration) -> Self {
        let paths = (0..trial.paths.len()).map(|path| Living::new(trial, path)).collect();
        Self { paths, liveness: Default::default(), allowance, waited: 0.0 }
    }

    /// The ends do not have the same session now.
    pub fn interrupt(&mut self) {
        self.liveness = Default::default();
    }

    /// Whether the path of this number, from 0, lives.
    ///
    /// # Panics
    /// If the trial has no such path.
    #[must_use]
    pub fn lives(&self, path: usize, now: Instant) -> bool {
        self.paths[path].lives(now)
    }

    /// The longest wait of a reader so far, as a share of what is allowed.
    #[must_use]
    pub fn waited(&self) -> f64 {
        self.waited
    }

    /// Compares the streams of the writing end with those of the reading one. Where the two were not looked at in the same moment, the
    /// writer must be the later one.
    ///
    /// # Errors
    /// The rule that is broken, and what was seen.
    pub fn compare(
        &mut self,
        now: Instant,
        reader: End,
        from: &[LineState],
        to: &[LineState],
    ) -> Result<(), (Rule, String)> {
        if let Some(text) = from.iter().zip(to).find_map(|(w, r)| wrong(w, r)) {
            return Err((Rule::Content, format!("to the {reader:?}: {text}")));
        }
        let liveness = &mut self.liveness[reader as usize];
        for (writes, reads) in from.iter().zip(to).filter(|(w, _)| !w.is_flow) {
            let more = writes.written > reads.read || writes.blocked || writes.finished;
            let owed = writes.opened && !writes.aborted && !writes.refused && more && reads.reads;
            liveness.observe(now, writes.id.into(), owed, reads.read);
        }
        let living = || self.paths.iter().filter(|path| path.lives(now));
        let rtt = living().map(|path| path.rtt).max();
        let rate = living().map(|path| path.rates[reader as usize]).min();
        let Some((rtt, rate)) = rtt.zip(rate) else {
            liveness.interrupted(now);
            return Ok(());
        };
        let allowed = liveness::allowed(rtt, rate, from.len()) + self.allowance;
        if let Err(longest) = liveness.check(now, Duration::ZERO) {
            self.waited = self.waited.max(longest.waited.as_secs_f64() / allowed.as_secs_f64());
        }
        let overdue = liveness.check(now, allowed);
        overdue.map_err(|overdue| {
            (Rule::Liveness, format!("to the {reader:?}: {overdue}; {allowed:?} are allowed"))
        })
    }
}

/// A stream that refuses bytes although its reader reads. Where the two ends were not looked at in the same moment, the reader must be
/// the later one.
#[must_use]
pub fn refusal(from: &[LineState], to: &[LineState]) -> Option<String> {
    let refused =
        |(writes, reads): &(&LineState, &LineState)| !writes.is_flow && writes.refused && !reads.stopped;
    let (writes, _) = from.iter().zip(to).find(refused)?;
    Some(format!("{} refuses bytes, and its reader reads", StreamId(writes.id)))
}

/// Time after a fault in which a path does not count as living.
pub(super) fn recovery(rtt: Duration) -> Duration {
    2 * tributary_proto::Config::default().keep_alive + RECOVERY.0 + rtt * RECOVERY.1
}

/// What a reader may not see of a writer.
fn wrong(writes: &LineState, reads: &LineState) -> Option<String> {
    let of = StreamId(writes.id);
    let (written, read) = (writes.written, reads.read);
    match reads.ended {
        _ if writes.is_flow => None,
        _ if read > written => Some(format!("{of}: {read} bytes were read of {written} that were written")),
        Some(Ended::Whole) if !writes.finished => Some(format!("{of} ended for its reader only")),
        Some(Ended::Whole) if read < written => Some(format!("{of} ended after {read} of {written} bytes")),
        Some(Ended::Reset) if !writes.aborted => Some(format!("{of} was reset by nobody")),
        _ => None,
    }
}
