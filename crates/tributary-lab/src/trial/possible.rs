//! Which operations real kernels and the emulator can do.

use thiserror::Error;
use tributary_sim::trial::{Act, Trial};

/// An operation that only the simulator can do.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("operation {operation}, {what}; take --world sim, or leave it out")]
pub struct Impossible {
    /// Its number, from 1.
    operation: usize,
    what: &'static str,
}

/// Controllers that every kernel may have; trials with others take the first.
const CONGESTION: [&str; 2] = ["cubic", "reno"];

/// Why the operation cannot be done.
fn why_not(act: &Act) -> Option<&'static str> {
    match act {
        Act::Reorder { .. } => Some("`reorder`: the emulator's links keep the order of packets"),
        Act::Duplicate { .. } => Some("`duplicate`: the emulator's links send no packet twice"),
        Act::Mtu { .. } => Some("`mtu`: the emulator's links carry super-frames of several packets"),
        Act::Reset { guesses: true, .. } => {
            Some("`reset` with `guesses`: nobody on an emulated path writes packets")
        }
        Act::Metered { .. } => Some("`metered`: real sessions are told when they begin what costs money"),
        _ => None,
    }
}

/// Checks that a trial can run on real sockets.
///
/// # Errors
/// [`Impossible`] names the first operation that cannot be done.
pub fn check(trial: &Trial) -> Result<(), Impossible> {
    let impossible = |(number, act)| Some(Impossible { operation: number + 1, what: why_not(act)? });
    let acts = trial.operations.iter().map(|operation| &operation.act);
    acts.enumerate().find_map(impossible).map_or(Ok(()), Err)
}

/// The trial of a seed: the simulator's without the operations that cannot be done, and with a congestion control that every kernel has.
#[must_use]
pub fn draw(seed: u64) -> Trial {
    let mut trial = Trial::draw(seed);
    trial.operations.retain(|operation| why_not(&operation.act).is_none());
    if !CONGESTION.contains(&trial.congestion.as_str()) {
        CONGESTION[0].clone_into(&mut trial.congestion);
    }
    trial
}

#[cfg(test)]
mod tests {
    use super::*;
    use tributary_sim::trial::Operation;

    #[test]
    fn what_is_drawn_can_be_done_and_what_cannot_is_named() {
        let (mut left_out, mut kept) = (0, 0);
        for seed in 0..300 {
            let (all, drawn) = (Trial::draw(seed), draw(seed));
            assert_eq!(check(&drawn), Ok(()), "seed {seed}");
            drawn.check().unwrap();
            kept += drawn.operations.len();
            left_out += all.operations.len() - drawn.operations.len();
            assert_eq!(check(&all).is_err(), all.operations.len() > drawn.operations.len());
        }
        assert!(kept > 5 * left_out && left_out > 50, "{kept} kept, {left_out} left out");
        let duplicate = Act::Duplicate { path: 0, per_mille: 1, for_ms: 1 };
        let trial = Trial { operations: vec![Operation { at_ms: 0, act: duplicate }], ..draw(0) };
        let error = check(&trial).unwrap_err().to_string();
        assert!(error.starts_with("operation 1, `duplicate`: ") && error.contains("--world sim"), "{error}");
    }
}
