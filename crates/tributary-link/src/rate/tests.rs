//! Rate processes compared with their distributions, with fixed seeds and bounds of at least 4 deviations.

use super::*;
use crate::CotagChannel;

fn mbps(n: u64) -> Bitrate {
    Bitrate::from_mbps(n)
}

/// Length and rate of the first `n` spans.
fn spans(spec: &RateSpec, seed: u64, n: usize) -> Vec<(Duration, u64)> {
    let mut process = RateProcess::new(spec.clone(), Rng::new(seed).child("rate"));
    let mut begin = Instant::ZERO;
    let next = |_| {
        let span = process.span();
        let length = span.until.saturating_since(begin);
        begin = span.until;
        process.step();
        (length, span.rate.as_bps())
    };
    (0..n).map(next).collect()
}

fn mean(values: impl Iterator<Item = f64> + Clone) -> f64 {
    let n = values.clone().count();
    values.sum::<f64>() / n as f64
}

fn deviation(values: impl Iterator<Item = f64> + Clone) -> f64 {
    let middle = mean(values.clone());
    mean(values.map(|value| (value - middle).powi(2))).sqrt()
}

#[test]
fn a_markov_chain_is_in_each_state_for_the_stationary_share_of_time() {
    let transitions = vec![
        vec![0.9, 0.1, 0.0, 0.0],
        vec![0.2, 0.5, 0.3, 0.0],
        vec![0.0, 0.4, 0.4, 0.2],
        vec![0.5, 0.0, 0.0, 0.5],
    ];
    let mut share = vec![0.25; 4];
    for _ in 0..10_000 {
        share = (0..4).map(|j| (0..4).map(|i| share[i] * transitions[i][j]).sum()).collect();
    }
    let spec = RateSpec::Markov {
        rates: (1..=4).map(mbps).collect(),
        deviations: vec![],
        noise: 0,
        transitions,
        every: Duration::from_millis(10),
    };
    let walked = spans(&spec, 11, 200_000);
    assert!(walked.iter().all(|span| span.0 == Duration::from_millis(10)));
    for (state, expected) in share.iter().enumerate() {
        let here = walked.iter().filter(|span| span.1 == (state as u64 + 1) * 1_000_000).count();
        let got = here as f64 / 200_000.0;
        assert!((got - expected).abs() < 0.01, "state {state}: {got}, not {expected}");
    }
}

#[test]
fn cotag_links_have_the_papers_correlation_and_rate_of_change() {
    for (p, q) in [(0.1, 0.33), (0.3, 0.5), (0.1, 0.67)] {
        let exact = |mean| (mbps(mean), Bitrate::ZERO);
        let channel = CotagChannel { high: exact(10_000), low: exact(3_000), ..CotagChannel::paper(p, q) };
        assert!(channel.transitions().iter().all(|row| (row.iter().sum::<f64>() - 1.0).abs() < 1e-12));
        let n = 200_000;
        let [one, two] = [1, 2].map(|link| spans(&channel.rate(link), 5, n));
        let high = |span: &(Duration, u64)| f64::from(u8::from(span.1 == 10_000_000_000));
        assert!((mean(one.iter().map(high)) - 0.5).abs() < 0.02);
        assert!((mean(two.iter().map(high)) - 0.5).abs() < 0.02);
        let alike = mean(one.iter().zip(&two).map(|(a, b)| f64::from(u8::from(a.1 == b.1))));
        let correlation = 2.0 * alike - 1.0; // both are high for half the time
        assert!((correlation - (2.0 * q - 1.0)).abs() < 0.02, "p {p}, q {q}: correlation {correlation}");
        let flips = one.windows(2).filter(|pair| pair[0].1 != pair[1].1).count() as f64 / n as f64;
        assert!((flips - p).abs() < 0.01, "p {p}: link 1 flips with {flips}");
    }
}

#[test]
fn deviations_within_a_state_are_normal_and_independent_for_each_link() {
    let channel = CotagChannel::paper(0.0, 1.0); // both links stay high
    let [one, two] = [1, 2].map(|link| spans(&channel.rate(link), 3, 50_000));
    let gbps = |spans: &[(Duration, u64)]| spans.iter().map(|span| span.1 as f64 / 1e9).collect::<Vec<_>>();
    let (one, two) = (gbps(&one), gbps(&two));
    for link in [&one, &two] {
        assert!((mean(link.iter().copied()) - 10.0).abs() < 0.02);
        assert!((deviation(link.iter().copied()) - 1.0).abs() < 0.02);
    }
    let product = mean(one.iter().zip(&two).map(|(a, b)| (a - 10.0) * (b - 10.0)));
    assert!(product.abs() < 0.02, "the links' deviations are independent, not correlated by {product}");
}

#[test]
fn a_gaussian_rate_has_its_mean_and_deviation_and_never_goes_below_zero() {
    let every = Duration::from_millis(20);
    let spec = RateSpec::Gaussian { mean: mbps(50), deviation: mbps(10), every };
    let rates: Vec<f64> = spans(&spec, 1, 50_000).iter().map(|span| span.1 as f64 / 1e6).collect();
    assert!((mean(rates.iter().copied()) - 50.0).abs() < 0.2);
    assert!((deviation(rates.iter().copied()) - 10.0).abs() < 0.2);
    let wide = RateSpec::Gaussian { mean: mbps(10), deviation: mbps(10), every };
    let zero = spans(&wide, 1, 50_000).iter().filter(|span| span.1 == 0).count() as f64 / 50_000.0;
    assert!((zero - 0.1587).abs() < 0.01, "one deviation below the mean is cut off: {zero}");
}

#[test]
fn blockages_come_after_exponential_times_and_have_the_configured_length() {
    for (clear_mean, shortest, longest) in [(1_000, 260, 300), (8_000, 2_000, 5_000)] {
        let [clear_mean, shortest, longest] = [clear_mean, shortest, longest].map(Duration::from_millis);
        let (clear, blocked) = (mbps(400), Bitrate::ZERO);
        let spec = RateSpec::Blockage { clear, blocked, clear_mean, shortest, longest };
        let walked = spans(&spec, 9, 40_000);
        let lengths = |rate: Bitrate| {
            let of = walked.iter().filter(move |span| span.1 == rate.as_bps());
            of.map(|span| span.0.as_secs_f64()).collect::<Vec<_>>()
        };
        let (open, shut) = (lengths(clear), lengths(blocked));
        assert_eq!((open.len(), shut.len(), walked[0].1), (20_000, 20_000, clear.as_bps()));
        let expected = clear_mean.as_secs_f64();
        assert!((mean(open.iter().copied()) / expected - 1.0).abs() < 0.03);
        let long = open.iter().filter(|length| **length > 2.0 * expected).count() as f64 / 20_000.0;
        assert!((long - 0.1353).abs() < 0.01, "{long} are longer than twice the mean, not e^-2");
        let (least, most) = (shortest.as_secs_f64(), longest.as_secs_f64());
        assert!(shut.iter().all(|length| (least..=most).contains(length)));
        assert!((mean(shut.iter().copied()) / f64::midpoint(least, most) - 1.0).abs() < 0.01);
        assert!((deviation(shut.iter().copied()) / ((most - least) / 12_f64.sqrt()) - 1.0).abs() < 0.03);
    }
}

#[test]
fn steps_hold_and_turns_repeat() {
    let second = Duration::from_secs(1);
    let steps = RateSpec::Steps(vec![(Duration::ZERO, mbps(5)), (second * 3, mbps(7))]);
    assert_eq!(spans(&steps, 1, 1), [(second * 3, 5_000_000)]);
    let mut process = RateProcess::new(steps, Rng::new(1));
    process.advance_to(Instant::ZERO + second * 1_000_000);
    assert_eq!(process.span(), Span { until: Instant::MAX, rate: mbps(7) });
    let turns = RateSpec::Turns(vec![(second, mbps(140)), (second * 2, mbps(3))]);
    let cycle = [(second, 140_000_000), (second * 2, 3_000_000)];
    assert_eq!(spans(&turns, 1, 4), [cycle, cycle].concat());
}
