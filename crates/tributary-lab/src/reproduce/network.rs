//! The networks of cells: scenarios with scaled rates, or with a shifted phase. Not here: the runs.

use core::time::Duration;
use tributary_link::{LinkSpec, QueueSpec, RateSpec, Scenario};
use tributary_types::{Bitrate, DataSize};

/// The scenario with rates and queue sizes of every link multiplied by a ratio, numerator and denominator; times and recorded traces stay
/// as they are.
pub(super) fn scaled(scenario: &Scenario, ratio: (u64, u64)) -> Scenario {
    let mut scenario = scenario.clone();
    for path in &mut scenario.paths {
        scale(&mut path.down, ratio);
        scale(&mut path.up, ratio);
    }
    scenario
}

fn scale(link: &mut LinkSpec, (times, over): (u64, u64)) {
    let size = |size: &mut DataSize| *size = DataSize::from_bytes(size.as_bytes() * times / over);
    match &mut link.queue {
        QueueSpec::Bytes(bytes) => size(bytes),
        QueueSpec::Packets(packets) => *packets = (*packets * times / over).max(1),
        QueueSpec::Time { floor, .. } => size(floor),
        _ => {} // in milliseconds, so it follows the rate
    }
    let faster = |rate: &mut Bitrate| *rate = Bitrate::from_bps(rate.as_bps() * times / over);
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

/// The time into a cycle of rates that a random number stands for, in whole steps.
pub(super) fn phase(turns: &[(Duration, Bitrate)], random: u64, step: Duration) -> Duration {
    let period: Duration = turns.iter().map(|turn| turn.0).sum();
    let steps = (period.as_nanos() / step.as_nanos()).max(1) as u64;
    step * u32::try_from(random % steps).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use tributary_link::Direction;
    use tributary_types::Instant;

    #[test]
    fn rates_and_queues_are_multiplied_and_times_are_not() {
        for name in [
            "los",
            "nlos",
            "mobility",
            "deep-fade",
            "onoff",
            "blackout",
            "dead-wigig",
            "normal",
            "loss-wifi",
            "delay-wifi",
        ] {
            let small = Scenario::builtin(name).unwrap();
            let large = scaled(&small, (10, 1));
            large.check().unwrap();
            assert_eq!(scaled(&large, (1, 10)), small, "{name}");
            for path in 0..small.paths.len() {
                let end = Instant::from_millis(10_000);
                let bytes = |s: &Scenario| s.capacity(path, Direction::Down, Instant::ZERO, end).as_bytes();
                let ratio = bytes(&large) as f64 / bytes(&small).max(1) as f64;
                assert!((ratio - 10.0).abs() < 1e-6, "{name}: {ratio}");
            }
            assert_eq!(large.rtt, small.rtt);
        }
    }

    #[test]
    fn turns_begin_at_any_phase_and_keep_their_order() {
        let ms = Duration::from_millis;
        let turns = [(ms(1500), Bitrate::from_mbps(140)), (ms(1000), Bitrate::from_mbps(3))];
        let at = |turns: &[(Duration, Bitrate)], ms: u64| {
            let period: u128 = turns.iter().map(|turn| turn.0.as_millis()).sum();
            let mut left = u128::from(ms) % period;
            let inside = |turn: &&(Duration, Bitrate)| {
                let inside = left < turn.0.as_millis();
                left = left.saturating_sub(turn.0.as_millis());
                inside
            };
            turns.iter().find(inside).map(|turn| turn.1)
        };
        for (phase, skipped) in [(0, 0), (1, 10), (150, 1500), (249, 2490), (250, 0), (401, 1510)] {
            let RateSpec::Turns(begun) =
                RateSpec::Turns(turns.to_vec()).begun_at(super::phase(&turns, phase, ms(10)))
            else {
                panic!("a cycle stays one");
            };
            for ms in (0..5000).step_by(10) {
                assert_eq!(at(&begun, ms), at(&turns, ms + skipped), "phase {phase}, {ms} ms");
            }
        }
    }
}
