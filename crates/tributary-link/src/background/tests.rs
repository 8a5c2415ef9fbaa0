//! Background traffic: rate, pattern, repeatability.

use super::*;

const PACKET: DataSize = DataSize::from_bytes(1_250);

fn run(kind: &BackgroundKind, seed: u64) -> Vec<Instant> {
    let (from, to) = (Instant::from_millis(1_000), Instant::from_millis(101_000));
    let mut source = Background::new(kind, from, to, Rng::new(seed)).expect("not TCP");
    let mut sent = Vec::new();
    while let Some(at) = source.poll_timeout() {
        assert!(at >= from && at < to);
        assert_eq!(source.poll(at), Some(1_250));
        sent.push(at);
    }
    assert_eq!(source.poll(Instant::MAX), None);
    sent
}

#[test]
fn constant_traffic_does_not_drift() {
    let rate = Bitrate::from_bps(9_999_991); // prime: no gap is whole nanoseconds
    let sent = run(&BackgroundKind::Constant { rate, packet: PACKET }, 1);
    let exact = |n: u128| 1_000_000_000 + (n * 10_000 * 1_000_000_000).div_ceil(9_999_991);
    for (n, at) in sent.iter().enumerate() {
        assert_eq!(u128::from(at.as_nanos()), exact(n as u128));
    }
    assert_eq!(sent.len(), 100_000);
}

#[test]
fn poisson_traffic_has_its_rate_and_exponential_gaps() {
    let kind = BackgroundKind::Poisson { rate: Bitrate::from_mbps(10), packet: PACKET };
    let sent = run(&kind, 2);
    assert!((98_800..101_200).contains(&sent.len()), "{} packets", sent.len()); // 4 deviations
    let gaps = sent.windows(2).map(|pair| pair[1].saturating_since(pair[0]));
    let long = gaps.filter(|gap| *gap > Duration::from_millis(2)).count() as f64 / sent.len() as f64;
    assert!((long - 0.1353).abs() < 0.005, "{long} of the gaps are longer than twice the mean, not e^-2");
    assert_eq!(sent, run(&kind, 2));
    assert_ne!(sent, run(&kind, 3));
}

#[test]
fn on_off_traffic_is_on_for_the_configured_share_of_the_time() {
    let kind = BackgroundKind::OnOff {
        rate: Bitrate::from_mbps(10),
        packet: PACKET,
        on_mean: Duration::from_millis(20),
        off_mean: Duration::from_millis(30),
    };
    let sent = run(&kind, 4);
    let share = sent.len() as f64 / 100_000.0;
    // Each burst begins with a packet, which adds half a packet on average: 20.5 of 50.
    assert!((share - 0.41).abs() < 0.02, "on for {share}");
    let gaps = sent.windows(2).map(|pair| pair[1].saturating_since(pair[0]));
    let bursts = gaps.filter(|gap| *gap > Duration::from_millis(1)).count();
    assert!((1_800..2_100).contains(&bursts), "{bursts} bursts");
}

#[test]
fn tcp_flows_are_not_generated_here() {
    let kind = BackgroundKind::Tcp { flows: 2, congestion: Name::new("cubic"), rtt: None };
    assert!(Background::new(&kind, Instant::ZERO, Instant::MAX, Rng::new(1)).is_none());
}
