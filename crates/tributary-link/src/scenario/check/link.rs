//! Checks of links: rates, delays, losses and queues.

use super::{Check, MAX_DELAY, MAX_QUEUE_BYTES, MIN_STEP, refuse};
use crate::{LinkSpec, LossSpec, MAX_RATE, QueueSpec, RateSpec};
use core::time::Duration;
use tributary_types::{Bitrate, DataSize};

pub(super) fn check_link(link: &LinkSpec) -> Check {
    check_rate(&link.rate)?;
    let delays = link.delay.changes.iter().map(|change| change.1);
    if delays.chain([link.delay.base, link.delay.jitter]).any(|delay| delay > MAX_DELAY) {
        return refuse("delay", "must be at most 60 s");
    }
    if !ascending(link.delay.changes.iter().map(|change| change.0)) {
        return refuse("delay.changes", "must be in ascending order of time");
    }
    let probabilities = match &link.loss {
        LossSpec::None => vec![],
        LossSpec::Bernoulli(p) => vec![*p],
        LossSpec::Steps(steps) => {
            check_steps("loss.steps", steps.iter().map(|step| step.0))?;
            steps.iter().map(|step| step.1).collect()
        }
        LossSpec::GilbertElliott { to_bad, to_good, loss_good, loss_bad } => {
            vec![*to_bad, *to_good, *loss_good, *loss_bad]
        }
    };
    if let Some(p) = probabilities.iter().find(|p| !(0.0..=1.0).contains(*p)) {
        return refuse("loss", format!("{p} is not a probability from 0 to 1"));
    }
    match link.queue {
        QueueSpec::Bytes(size) if !(1500..=MAX_QUEUE_BYTES).contains(&size.as_bytes()) => {
            refuse("queue", "must hold at least one packet of 1500 B and at most 1 GiB")
        }
        QueueSpec::Packets(n) if !(1..=1_000_000).contains(&n) => {
            refuse("queue", "must hold from 1 to 1 000 000 packets")
        }
        QueueSpec::Time { time, floor } if time > MAX_DELAY || floor.as_bytes() < 1500 => {
            refuse("queue", "time must be at most 60 s and floor at least 1500 B")
        }
        QueueSpec::Codel { target, interval, limit } => check_codel(target, interval, limit),
        _ => Ok(()),
    }
}

fn check_codel(target: Duration, interval: Duration, limit: DataSize) -> Check {
    if !(1500..=MAX_QUEUE_BYTES).contains(&limit.as_bytes()) {
        return refuse("queue.codel.limit", "must hold at least one packet of 1500 B and at most 1 GiB");
    }
    if interval < Duration::from_millis(1) || interval > MAX_DELAY {
        return refuse("queue.codel.interval", "must be from 1 ms to 60 s");
    }
    if target.is_zero() || target > interval {
        return refuse("queue.codel.target", "must be above zero and at most the interval");
    }
    Ok(())
}

fn ascending(times: impl Iterator<Item = Duration>) -> bool {
    let times: Vec<_> = times.collect();
    times.windows(2).all(|pair| pair[0] < pair[1])
}

/// Start times of steps: the first at zero, ascending.
fn check_steps(field: &str, mut times: impl Iterator<Item = Duration> + Clone) -> Check {
    if !ascending(times.clone()) {
        return refuse(field, "must be in ascending order of time");
    }
    if times.next() != Some(Duration::ZERO) {
        return refuse(field, "the first step must be at 0 s");
    }
    Ok(())
}

fn check_rate(rate: &RateSpec) -> Check {
    let too_often = format!("rates must not change more often than every {MIN_STEP:?}");
    match rate {
        RateSpec::Constant(_) => {}
        RateSpec::Trace(_) => {}
        RateSpec::Steps(steps) => check_steps("rate.steps", steps.iter().map(|step| step.0))?,
        RateSpec::Turns(turns) => {
            if turns.is_empty() || turns.iter().any(|turn| turn.0 < MIN_STEP) {
                return refuse("rate.turns", format!("give at least one turn; {too_often}"));
            }
        }
        RateSpec::Markov { rates, deviations, transitions, every, .. } => {
            check_markov(rates, transitions)?;
            if !(deviations.is_empty() || deviations.len() == rates.len()) {
                let problem = format!("must be {} rates, one for each state", rates.len());
                return refuse("rate.markov.deviations", problem);
            }
            if *every < MIN_STEP {
                return refuse("rate.markov.every", too_often);
            }
        }
        RateSpec::Gaussian { mean, every, .. } => {
            if *mean == Bitrate::ZERO {
                return refuse("rate.gaussian.mean", "must be above zero");
            }
            if *every < MIN_STEP {
                return refuse("rate.gaussian.every", too_often);
            }
        }
        RateSpec::Blockage { clear_mean, shortest, longest, .. } => {
            if *shortest < MIN_STEP || *clear_mean < MIN_STEP {
                return refuse("rate.blockage", too_often);
            }
            if longest < shortest {
                return refuse("rate.blockage.longest", "must not be less than `shortest`");
            }
        }
    }
    match rate.max() {
        Bitrate::ZERO => {
            refuse("rate", "is zero at all times: to take a path away for good, use `dead` instead")
        }
        max if max > MAX_RATE => refuse("rate", format!("{max} is above the highest rate, {MAX_RATE}")),
        _ => Ok(()),
    }
}

fn check_markov(rates: &[Bitrate], transitions: &[Vec<f64>]) -> Check {
    let n = rates.len();
    if !(1..=64).contains(&n) {
        return refuse("rate.markov.rates", format!("there must be 1 to 64 states, not {n}"));
    }
    if transitions.len() != n || transitions.iter().any(|row| row.len() != n) {
        return refuse("rate.markov.transitions", format!("must be {n} rows of {n} probabilities"));
    }
    let sums_to_one = |row: &Vec<f64>| {
        row.iter().all(|p| (0.0..=1.0).contains(p)) && (row.iter().sum::<f64>() - 1.0).abs() < 1e-6
    };
    if !transitions.iter().all(sums_to_one) {
        return refuse("rate.markov.transitions", "each row must be probabilities that sum to 1");
    }
    Ok(())
}
