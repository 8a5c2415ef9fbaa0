//! The rules by their names, and a rule that is broken. Not here: the checks.

use core::fmt;

use serde::{Deserialize, Serialize};
use tributary_types::Instant;

/// What a trial breaks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
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
    /// When it was seen, after the trial's beginning.
    pub at: Instant,
    /// What was seen.
    pub text: String,
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?} at {}: {}", self.rule, self.at, self.text)
    }
}
