//! Trials on real sockets: the scripts, application and rules of [`tributary_sim::trial`], between two processes in their own network
//! namespaces, joined by the emulator.
//!
//! The rules are those of the simulator with [`REAL_TIME`] added to every bound on time. Memory is that of the process ([`MEMORY`]). Not
//! here: the rule about rest, which counts the simulator's events, and which seeds are run (`soak`).

mod network;
mod possible;
mod run;

use core::time::Duration;
use serde::Serialize;
use tributary_sim::trial::{CLOSING, DELIVERY, Fault, LINGERING, Rule, Trial};

pub use possible::{Impossible, check, draw};

use crate::audits;
use crate::error::LabError;
use crate::result::AuditNote;
use run::{Run, Stop};

/// Added to every time that a rule allows: both ends are looked at one after the other every 50 ms, three processes and the kernel's
/// timers share the processors with other trials, and acknowledgements are delayed by up to 40 ms.
pub const REAL_TIME: Duration = Duration::from_secs(1);
/// What a process may take beside what it held when it was ready and twice the bytes that its session may hold: buffers of subflows,
/// of reads and of TLS, the records of the allocator, and the program's pages that are loaded when they are first used. In
/// five hundred trials it was 10.4 MB at most (docs/guide/faults.md).
pub const MEMORY: u64 = 16 << 20;

/// Limits of the rules that are not the trial's own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bounds {
    /// Added to the time in which the slowest path carries twice what is left, until everything has arrived.
    pub delivery: Duration,
    /// Time until both ends know that a session is over.
    pub closing: Duration,
    /// Time until nothing is left of it.
    pub lingering: Duration,
    /// Memory of a process beside what its session may hold: [`MEMORY`].
    pub memory: u64,
}

impl Default for Bounds {
    fn default() -> Self {
        Self {
            delivery: DELIVERY + REAL_TIME,
            closing: CLOSING + REAL_TIME,
            lingering: LINGERING + REAL_TIME,
            memory: MEMORY,
        }
    }
}

/// Runs of a trial for which the emulator was too late, at most.
const ATTEMPTS: u32 = 3;

/// Numbers of a trial that broke no rule.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct Outcome {
    /// Bytes and datagrams read at both ends.
    pub read: u64,
    /// Longest wait of a reader as a share of what the liveness rule allows.
    pub waited: f64,
    /// Most TCP connections in the kernel of an end.
    pub connections: usize,
    /// When the last byte was read, or both ends knew that the session was abandoned.
    pub last_read: Duration,
    /// When everything had arrived and both directions of every stream were over, after the last operation.
    pub settled: Duration,
    /// Most resident memory of a process above what it had when it was ready, bytes.
    pub memory: u64,
    /// Processor seconds of both ends.
    pub cpu_seconds: f64,
}

/// What a trial on real sockets gave.
#[derive(Clone, Debug)]
pub enum Tried {
    /// No rule was broken, on an exact network.
    Passed(Outcome, AuditNote),
    /// A rule was broken: on an exact network, or one that does not depend on the network's times.
    Broken(Fault),
    /// The emulator was too late every time; nothing is known.
    Inexact(AuditNote),
}

/// Runs a trial and checks the rules; again while the emulator was too late. [`tributary_emu::isolate`] must have been called.
///
/// # Errors
/// [`LabError`]: the network or the ends cannot be started. [`check`] the trial first.
pub fn run(trial: &Trial) -> Result<Tried, LabError> {
    judged(trial, trial, &Bounds::default())
}

/// Carries out `happens`, and judges it by the rules of `known` and these bounds. The server's application knows only `known`. Where the
/// first has a fault that the second does not know, a rule is broken: so tests see that it can be.
///
/// # Errors
/// As of [`run`].
pub fn judged(known: &Trial, happens: &Trial, bounds: &Bounds) -> Result<Tried, LabError> {
    let once = || {
        let mut run = Run::start(known, happens, bounds)?;
        let outcome = match run.whole() {
            Err(Stop::Fault(fault)) if is_of_time(fault.rule) => Err(fault),
            other => Ok(other?),
        };
        Ok((outcome, run.audit()?))
    };
    match audits::exact(ATTEMPTS, once) {
        Ok((_, audit)) if !audit.valid => Ok(Tried::Inexact(audit)),
        Ok((Ok(outcome), audit)) => Ok(Tried::Passed(outcome, audit)),
        Ok((Err(fault), _)) | Err(Stop::Fault(fault)) => Ok(Tried::Broken(fault)),
        Err(Stop::Lab(error)) => Err(error),
    }
}

/// Whether an emulator that is late may break the rule.
fn is_of_time(rule: Rule) -> bool {
    matches!(rule, Rule::Liveness | Rule::Delivery | Rule::BestPath | Rule::Closed | Rule::Places)
}
