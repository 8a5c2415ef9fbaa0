//! Scenarios at the paper's own rates: the shipped ones run at a tenth of them.

use tributary_link::{LinkSpec, QueueSpec, RateSpec, Scenario};
use tributary_types::{Bitrate, DataSize};

/// How much faster the paper's radios are than the shipped scenarios.
pub const FACTOR: u64 = 10;

/// The scenario with rates and queues of every link [`FACTOR`] times as large; times stay. Recorded
/// traces have rates of their own and keep them.
#[must_use]
pub fn at_paper_rates(scenario: &Scenario) -> Scenario {
    let mut scenario = scenario.clone();
    for path in &mut scenario.paths {
        scale(&mut path.down);
        scale(&mut path.up);
    }
    scenario
}

fn scale(link: &mut LinkSpec) {
    let size = |size: &mut DataSize| *size = DataSize::from_bytes(size.as_bytes() * FACTOR);
    match &mut link.queue {
        QueueSpec::Bytes(bytes) => size(bytes),
        QueueSpec::Packets(packets) => *packets *= FACTOR,
        QueueSpec::Time { floor, .. } => size(floor),
        _ => {} // measured in time: follows the rate
    }
    let faster = |rate: &mut Bitrate| *rate = Bitrate::from_bps(rate.as_bps() * FACTOR);
    match &mut link.rate {
        RateSpec::Constant(rate) => faster(rate),
        RateSpec::Steps(spans) | RateSpec::Turns(spans) => {
            spans.iter_mut().for_each(|span| faster(&mut span.1))
        }
        RateSpec::Markov { rates, .. } => rates.iter_mut().for_each(faster),
        RateSpec::Gaussian { mean, deviation, .. } => [mean, deviation].into_iter().for_each(faster),
        RateSpec::Blockage { clear, blocked, .. } => [clear, blocked].into_iter().for_each(faster),
        _ => {}
    }
}
