//! Every rule in the same scenarios, and the details of single rules.

use super::*;

fn ladder() -> Ladder {
    let rates = [300, 700, 1_500, 3_000, 6_000].map(|kbps| Bitrate::from_bps(kbps * 1000));
    Ladder::new(Duration::from_secs(4), rates.to_vec()).expect("a valid ladder")
}

fn view(ladder: &Ladder, level: u64, throughput: Option<f64>) -> View<'_> {
    View {
        ladder,
        level: Duration::from_secs(level),
        capacity: Duration::from_secs(40),
        next: 20,
        remaining: Some(60),
        estimate: throughput.map(|throughput| Estimate { throughput, latency: Duration::from_millis(50) }),
    }
}

#[test]
fn an_unknown_rule_lists_the_known_ones() {
    let error = rule("bolla").err().expect("no such rule").to_string();
    assert_eq!(error, "unknown bitrate rule `bolla`; known: throughput, bba, bola, bola-e, dynamic");
}

#[test]
fn every_rule_reaches_the_lowest_quality_on_a_slow_path_and_the_highest_on_a_fast_one() {
    let ladder = ladder();
    for name in names() {
        let mut starved = rule(name).expect("a known name");
        let mut fast = rule(name).expect("a known name");
        for _ in 0..40 {
            let low = view(&ladder, 1, Some(100_000.0));
            let quality = starved.choose(&low).quality;
            let done = Finished { quality, elapsed: Duration::from_secs(12), abandoned_to: None };
            starved.finished(&low, &done);
            let high = view(&ladder, 38, Some(50_000_000.0));
            let quality = fast.choose(&high).quality;
            let done = Finished { quality, elapsed: Duration::from_millis(500), abandoned_to: None };
            fast.finished(&high, &done);
        }
        assert_eq!(starved.choose(&view(&ladder, 1, Some(100_000.0))).quality, 0, "{name} starved");
        assert_eq!(fast.choose(&view(&ladder, 38, Some(50_000_000.0))).quality, ladder.top(), "{name} fast");
    }
}

#[test]
fn every_rule_stays_within_the_ladder_for_any_input() {
    let one =
        Ladder::new(Duration::from_secs(2), vec![Bitrate::from_bps(1_000_000)]).expect("a valid ladder");
    let many = ladder();
    for name in names() {
        for ladder in [&one, &many] {
            let mut rule = rule(name).expect("a known name");
            for throughput in [None, Some(0.0), Some(f64::INFINITY), Some(f64::NAN), Some(1e-300)] {
                for level in [0, 3, 40, 100_000] {
                    let view = view(ladder, level, throughput);
                    let decision = rule.choose(&view);
                    assert!(decision.quality < ladder.len(), "{name}: {decision:?}");
                    let progress = Progress {
                        quality: decision.quality,
                        size: 1e6,
                        arrived: 1e3,
                        elapsed: Duration::from_secs(9),
                        first_byte: Duration::from_millis(20),
                    };
                    let to = rule.abandon(&view, &progress);
                    assert!(to.is_none_or(|to| to < decision.quality), "{name}: {to:?}");
                    let elapsed = Duration::from_secs(1);
                    rule.finished(&view, &Finished { quality: decision.quality, elapsed, abandoned_to: to });
                }
            }
        }
    }
}

#[test]
fn the_throughput_rule_abandons_a_download_that_stalls() {
    let ladder = ladder();
    let mut rule = Throughput::default();
    let view = view(&ladder, 8, Some(7_000_000.0));
    let stalled = Progress {
        quality: 4,
        size: 24e6,
        arrived: 1e6,
        elapsed: Duration::from_secs(2),
        first_byte: Duration::from_millis(50),
    };
    assert_eq!(rule.abandon(&view, &stalled), Some(0));
    let early = Progress { elapsed: Duration::from_millis(400), ..stalled };
    assert_eq!(rule.abandon(&view, &early), None);
}

#[test]
fn bba_keeps_the_quality_while_the_rate_map_is_between_its_neighbours() {
    let ladder = ladder();
    let mut rule = Bba::default();
    assert_eq!(rule.choose(&view(&ladder, 15, None)).quality, 0, "the reservoir of a 40 s buffer");
    assert_eq!(
        rule.choose(&view(&ladder, 26, None)).quality,
        3,
        "300 + 5700 x 0.52 = 3286 kbit/s passes 3000"
    );
    assert_eq!(
        rule.choose(&view(&ladder, 24, None)).quality,
        3,
        "2743 kbit/s is above 1500: no reason to go down"
    );
    assert_eq!(rule.choose(&view(&ladder, 36, None)).quality, 4);
}

#[test]
fn invalid_ladders_are_refused() {
    let rate = Bitrate::from_bps;
    let second = Duration::from_secs(1);
    assert_eq!(Ladder::new(second, vec![]), Err(LadderError::Empty));
    assert_eq!(Ladder::new(second, vec![rate(2), rate(1)]), Err(LadderError::Order(1)));
    assert_eq!(Ladder::new(second, vec![rate(0)]), Err(LadderError::Order(0)));
    assert_eq!(Ladder::new(Duration::ZERO, vec![rate(1)]), Err(LadderError::Duration));
}
