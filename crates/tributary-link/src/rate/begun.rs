//! A rate process of which the beginning has passed.

use super::RateSpec;
use core::time::Duration;
use std::sync::Arc;
use tributary_types::Bitrate;

impl RateSpec {
    /// The same process without its first `after`. Random processes stay as they are: another seed shows another part of them.
    #[must_use]
    pub fn begun_at(&self, after: Duration) -> Self {
        match self {
            Self::Steps(steps) => Self::Steps(stepped(steps, after)),
            Self::Turns(turns) => Self::Turns(turned(turns, after)),
            Self::Trace(trace) => Self::Trace(Arc::new(trace.begun_at(after))),
            Self::Constant(_) | Self::Markov { .. } | Self::Gaussian { .. } | Self::Blockage { .. } => {
                self.clone()
            }
        }
    }
}

fn stepped(steps: &[(Duration, Bitrate)], after: Duration) -> Vec<(Duration, Bitrate)> {
    let passed = steps.partition_point(|step| step.0 <= after);
    let present = steps[..passed].last().map(|step| (Duration::ZERO, step.1));
    present.into_iter().chain(steps[passed..].iter().map(|step| (step.0 - after, step.1))).collect()
}

/// The same cycle, started at another phase.
fn turned(turns: &[(Duration, Bitrate)], after: Duration) -> Vec<(Duration, Bitrate)> {
    let period: u128 = turns.iter().map(|turn| turn.0.as_nanos()).sum();
    let mut rest = turns.to_vec();
    let Some(skip) = after.as_nanos().checked_rem(period) else { return rest };
    let mut skip = Duration::from_nanos(u64::try_from(skip).unwrap_or(u64::MAX));
    while skip >= rest[0].0 {
        skip -= rest[0].0;
        rest.rotate_left(1);
    }
    if !skip.is_zero() {
        let (length, rate) = rest[0];
        rest[0].0 = length - skip;
        rest.push((skip, rate));
    }
    rest
}
