//! The audit: did the emulated network match the scenario?
//!
//! Two sides are measured. *Egress*: how late each chunk was written compared with the model's due time, and how late
//! timers fired. *Ingress*: how long a turn of the loop took (an upper bound of the time that a packet waited
//! unread), how full read batches were, and drops in the devices' rings.

use crate::histogram::{Histogram, Percentiles};
use crate::log::{LinkLog, direction_of};
use core::time::Duration;
use serde::Serialize;
use std::io;
use tributary_link::{Direction, LinkConfig, LinkStats, Scenario};
use tributary_types::Instant;

/// Largest allowed 99th percentile of the delay error.
const DELAY_LIMIT: Duration = Duration::from_micros(500);
/// A turn or a delivery above this is an overrun.
const OVERRUN: Duration = Duration::from_millis(2);
/// Largest allowed share of overruns.
const OVERRUN_SHARE: f64 = 0.005;
/// Largest allowed error of a busy link's rate.
const RATE_LIMIT: f64 = 0.02;
/// Fewer bytes than this are not enough to check a rate.
const RATE_SAMPLE: u64 = 100_000;

/// Counters of the forwarding thread.
#[derive(Clone, Debug)]
pub(crate) struct Counters {
    delay_error: Histogram,
    timer_late: Histogram,
    turns: Histogram,
    largest_batch: usize,
    full_batches: u64,
    write_errors: u64,
    unplugged: u64,
    pub(crate) malformed: u64,
    pub(crate) real_time: bool,
}

impl Default for Counters {
    fn default() -> Self {
        Self {
            delay_error: Histogram::new(),
            timer_late: Histogram::new(),
            turns: Histogram::new(),
            largest_batch: 0,
            full_batches: 0,
            write_errors: 0,
            unplugged: 0,
            malformed: 0,
            real_time: false,
        }
    }
}

impl Counters {
    pub(crate) fn delivered(&mut self, late: Duration, segments: u64) {
        self.delay_error.record(late, segments);
    }

    pub(crate) fn timer(&mut self, late: Duration) {
        self.timer_late.record(late, 1);
    }

    pub(crate) fn turn(&mut self, time: Duration) {
        self.turns.record(time, 1);
    }

    pub(crate) fn batch(&mut self, read: usize, full: bool) {
        self.largest_batch = self.largest_batch.max(read);
        self.full_batches += u64::from(full);
    }

    pub(crate) fn write_failed(&mut self, error: &io::Error) {
        // EIO: the interface is down, as after `set_link_state`.
        let unplugged = error.raw_os_error() == Some(libc::EIO);
        *(if unplugged { &mut self.unplugged } else { &mut self.write_errors }) += 1;
    }
}

/// The forwarding thread's report.
pub(crate) struct Account {
    pub(crate) counters: Counters,
    pub(crate) elapsed: Instant,
    pub(crate) cpu: Duration,
    pub(crate) links: Vec<LinkStats>,
    /// The links' settings with the changes so far.
    pub(crate) configs: Vec<LinkConfig>,
}

/// One link's part of the audit.
#[derive(Clone, Debug, Serialize)]
pub struct LinkAudit {
    /// Name of the path.
    pub path: String,
    /// Direction of the link.
    pub direction: Direction,
    /// Counters of its packets.
    pub stats: LinkStats,
    /// The link's capacity so far, bytes.
    pub capacity_bytes: u64,
    /// Relative error of its rate while it was busy; `None` if it was not busy long enough.
    pub rate_error: Option<f64>,
}

/// The audit of a run.
#[derive(Clone, Debug, Serialize)]
pub struct Audit {
    /// Scenario time covered, seconds.
    pub seconds: f64,
    /// How late chunks were written, per segment.
    pub delay_error: Percentiles,
    /// How late timers woke the forwarding thread.
    pub timer_lateness: Percentiles,
    /// Duration of the forwarding thread's turns. While the thread works, an unread packet waits at most this
    /// long.
    pub turn: Percentiles,
    /// Share of deliveries, or of turns, that were more than 2 ms late; the larger of the two.
    pub overruns: f64,
    /// Largest number of packets read from one device in one turn.
    pub largest_batch: usize,
    /// Number of turns that filled a batch, so that more packets may have waited in a device.
    pub full_batches: u64,
    /// Packets that the kernel dropped because a device's ring was full.
    pub ring_full: u64,
    /// Packets that the kernel refused.
    pub write_errors: u64,
    /// Packets dropped because their interface was down.
    pub unplugged: u64,
    /// Super-frames with invalid headers.
    pub malformed: u64,
    /// Whether the forwarding thread had real-time priority.
    pub real_time: bool,
    /// Processor time of the forwarding thread as a share of one core.
    pub cpu_share: f64,
    /// Every link.
    pub links: Vec<LinkAudit>,
}

/// Whether a run is valid.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(tag = "verdict", rename_all = "lowercase")]
pub enum Verdict {
    /// The network matched the scenario.
    Valid,
    /// The network did not match the scenario.
    Invalid {
        /// The reasons.
        reasons: Vec<String>,
    },
}

impl Audit {
    pub(crate) fn new(account: &Account, log: &LinkLog, scenario: &Scenario, ring_full: u64) -> Self {
        let Account { counters, configs, .. } = account;
        let late = counters.delay_error.share_above(OVERRUN);
        let long = counters.turns.share_above(OVERRUN);
        let links = account.links.iter().enumerate().map(|(i, stats)| {
            let direction = direction_of(i);
            let (served, could) = log.busy(&configs[i], i);
            LinkAudit {
                path: scenario.paths[i / 2].name.clone(),
                direction,
                stats: *stats,
                capacity_bytes: configs[i].capacity(Instant::ZERO, account.elapsed).as_bytes(),
                rate_error: (could >= RATE_SAMPLE).then(|| served as f64 / could as f64 - 1.0),
            }
        });
        let seconds = account.elapsed.as_secs_f64();
        Self {
            seconds,
            delay_error: counters.delay_error.percentiles(),
            timer_lateness: counters.timer_late.percentiles(),
            turn: counters.turns.percentiles(),
            overruns: late.max(long),
            largest_batch: counters.largest_batch,
            full_batches: counters.full_batches,
            ring_full,
            write_errors: counters.write_errors,
            unplugged: counters.unplugged,
            malformed: counters.malformed,
            real_time: counters.real_time,
            cpu_share: account.cpu.as_secs_f64() / seconds.max(1e-9),
            links: links.collect(),
        }
    }

    /// Whether the run is valid, and the reasons if not.
    #[must_use]
    pub fn verdict(&self) -> Verdict {
        let mut reasons = Vec::new();
        let limit = DELAY_LIMIT.as_micros() as f64;
        if self.delay_error.p99_us > limit {
            let p99 = self.delay_error.p99_us;
            reasons.push(format!("packets were late: 99th percentile {p99:.0} µs, limit {limit:.0} µs"));
        }
        if self.overruns > OVERRUN_SHARE {
            let share = self.overruns * 100.0;
            reasons.push(format!("the emulator overran: {share:.2} % of its work took over {OVERRUN:?}"));
        }
        if self.ring_full > 0 {
            reasons.push(format!("{} packets were dropped in full device rings", self.ring_full));
        }
        if self.write_errors > 0 {
            reasons.push(format!("the kernel refused {} packets", self.write_errors));
        }
        for link in &self.links {
            if let Some(error) = link.rate_error.filter(|error| error.abs() > RATE_LIMIT) {
                let direction = format!("{:?}", link.direction).to_lowercase();
                let percent = error * 100.0;
                reasons.push(format!(
                    "link {} {direction} was {percent:+.1} % off its configured rate",
                    link.path
                ));
            }
        }
        if reasons.is_empty() { Verdict::Valid } else { Verdict::Invalid { reasons } }
    }
}

impl std::fmt::Display for Audit {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let delay = &self.delay_error;
        writeln!(
            f,
            "emulator: {:.1} s, delay error p50 {:.0} µs, p99 {:.0} µs, max {:.0} µs; {:.0} % of a core{}",
            self.seconds,
            delay.p50_us,
            delay.p99_us,
            delay.max_us,
            self.cpu_share * 100.0,
            if self.real_time { "" } else { ", without real-time priority" },
        )?;
        for link in &self.links {
            let s = &link.stats;
            let direction = format!("{:?}", link.direction).to_lowercase();
            writeln!(
                f,
                "  {:<12} {direction:<4} {:>9.2} of {:>9.2} Mbit/s; segments dropped: {} queue full, {} random loss, {} dead path",
                link.path,
                s.delivered.bytes as f64 * 8e-6 / self.seconds.max(1e-9),
                link.capacity_bytes as f64 * 8e-6 / self.seconds.max(1e-9),
                s.overflowed.packets + s.managed.packets,
                s.lost.packets,
                s.dead.packets,
            )?;
        }
        match self.verdict() {
            Verdict::Valid => write!(f, "  valid: the network matched the scenario"),
            Verdict::Invalid { reasons } => write!(f, "  INVALID: {}", reasons.join("; ")),
        }
    }
}
