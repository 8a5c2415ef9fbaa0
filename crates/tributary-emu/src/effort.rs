//! How much processor time the forwarding thread spends on accuracy, within what the machine can spare.
//!
//! On a virtual machine, setting a timer costs as much as forwarding a packet, and the kernel stops a
//! real-time thread that needs more than 95 % of a core for 50 ms in every second. The thread therefore
//! measures its own load. As the load grows, it first stops polling before deadlines, then lets neighbouring
//! deadlines share one wake-up, and finally gives up its priority.

use crate::sys;
use core::time::Duration;
use tributary_types::Instant;

/// Allowed lateness of wake-ups, step by step. The last is still well within ±0.5 ms.
const SLACK: [Duration; 5] = [
    Duration::ZERO,
    Duration::ZERO,
    Duration::from_micros(30),
    Duration::from_micros(60),
    Duration::from_micros(100),
];
/// Loads (shares of a core): above the first, the next step is taken; below the second, one step is taken back.
const RAISE: f64 = 0.5;
const LOWER: f64 = 0.25;
/// Loads: above the first, a real-time thread would be throttled; below the second, real-time priority is safe again.
const GIVE_UP_PRIORITY: f64 = 0.88;
const TAKE_PRIORITY: f64 = 0.6;

/// The current effort.
#[derive(Debug)]
pub(crate) struct Effort {
    spin: Duration,
    may_be_real_time: bool,
    is_real_time: bool,
    step: usize,
    measured_at: Instant,
    cpu: u64,
}

impl Effort {
    /// The effort of the calling thread; takes real-time priority if requested and permitted.
    pub(crate) fn begin(spin: Duration, real_time: bool) -> Self {
        sys::exact_timers();
        let is_real_time = real_time && sys::set_real_time(true).is_ok();
        let cpu = sys::thread_cpu_nanos();
        Self { spin, may_be_real_time: is_real_time, is_real_time, step: 0, measured_at: Instant::ZERO, cpu }
    }

    /// How long before a deadline to wake up and poll without sleeping.
    pub(crate) fn spin(&self) -> Duration {
        if self.step == 0 { self.spin } else { Duration::ZERO }
    }

    /// How long after a deadline a wake-up may come.
    pub(crate) fn slack(&self) -> Duration {
        SLACK[self.step]
    }

    /// Whether the thread has been allowed real-time priority.
    pub(crate) fn may_be_real_time(&self) -> bool {
        self.may_be_real_time
    }

    /// Time was set back to zero.
    pub(crate) fn rewind(&mut self) {
        self.measured_at = Instant::ZERO;
        self.cpu = sys::thread_cpu_nanos();
    }

    /// Measures the load since the last call and adapts.
    pub(crate) fn adapt(&mut self, now: Instant) {
        let cpu = sys::thread_cpu_nanos();
        let wall = now.saturating_since(self.measured_at).as_nanos() as u64;
        if wall < 10_000_000 {
            return;
        }
        let load = (cpu - self.cpu) as f64 / wall as f64;
        (self.measured_at, self.cpu) = (now, cpu);
        if load > RAISE {
            self.step = (self.step + 1).min(SLACK.len() - 1);
        } else if load < LOWER {
            self.step = self.step.saturating_sub(1);
        }
        if self.may_be_real_time {
            let wanted = if self.is_real_time { load < GIVE_UP_PRIORITY } else { load < TAKE_PRIORITY };
            if wanted != self.is_real_time && sys::set_real_time(wanted).is_ok() {
                self.is_real_time = wanted;
            }
        }
    }
}
