//! Algorithms of the caller's own, which are in no registry: a scheduler of MPTCP and sessions, a congestion control of TCP (also
//! below MPTCP and sessions), the bitrate rule of a DASH player. The simulator makes a new one for each end, subflow or player. Not here: algorithms by
//! name, and whether an algorithm has failed, which its maker knows.

use core::fmt;
use std::sync::Arc;

use tributary_cc::{CongestionController, Setup};
use tributary_player::abr::Rule;
use tributary_proto::scheduler::Scheduler;

/// Makes the scheduler of one end of a connection, from a seed.
pub type MakeScheduler = dyn Fn(u64) -> Box<dyn Scheduler> + Send + Sync;
/// Makes the congestion controller of one end of a subflow.
pub type MakeController = dyn Fn(Setup) -> Box<dyn CongestionController> + Send + Sync;
/// Makes the rule of a player.
pub type MakeRule = dyn Fn() -> Box<dyn Rule> + Send + Sync;

/// Algorithms that take the place of named ones in the measured connections; background traffic keeps its own.
#[derive(Clone, Default)]
pub struct Own {
    /// Scheduler; of MPTCP and sessions.
    pub scheduler: Option<Arc<MakeScheduler>>,
    /// Congestion control; of TCP, MPTCP and sessions.
    pub congestion: Option<Arc<MakeController>>,
    /// Bitrate rule of [`crate::run::SimRun::run_dash_own`].
    pub rule: Option<Arc<MakeRule>>,
}

impl fmt::Debug for Own {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let set = [self.scheduler.is_some(), self.congestion.is_some(), self.rule.is_some()];
        let names = ["scheduler", "congestion", "rule"].into_iter().zip(set).filter(|(_, set)| *set);
        f.debug_set().entries(names.map(|(name, _)| name)).finish()
    }
}
