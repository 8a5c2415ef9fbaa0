//! Which runs are measured, and what follows for the plan.

use super::*;
use crate::reproduce::EXPERIMENTS;

#[test]
fn the_sample_has_no_run_twice_and_meets_every_transport_and_seed() {
    // 3 transports innermost, then 4 networks, then 100 seeds.
    let places = sample(1200, 24);
    let mut distinct = places.clone();
    distinct.sort_unstable();
    distinct.dedup();
    assert_eq!(distinct.len(), 24);
    for transport in 0..3 {
        assert!((5..=11).contains(&places.iter().filter(|place| *place % 3 == transport).count()));
    }
    for network in 0..4 {
        assert!((3..=9).contains(&places.iter().filter(|place| *place / 3 % 4 == network).count()));
    }
    assert!(distinct[0] < 100 && distinct[23] > 1100, "early and late seeds: {distinct:?}");
    assert_eq!(sample(3, 24), [0, 1, 2]);
}

#[test]
fn ten_thousand_runs_are_hours_and_shards() {
    let cost = Cost::new(10_000, vec![0.9, 1.1, 1.0, 1.0]);
    let interval = cost.interval.expect("four were measured");
    assert!((cost.mean - 1.0).abs() < 1e-12 && interval.low < 0.9 && interval.high > 1.1);
    assert!((cost.hours() - 2.777_8).abs() < 1e-3);
    assert_eq!(cost.shards(1.0), 4, "the upper end is {:?}", cost.hours_interval());
    assert_eq!((cost.shards(1e-9), cost.shards(100.0)), (10_000, 1));
    let text = cost.text("plan.toml", 1.0);
    assert!(
        text.contains("10000 runs planned, 4 measured") && text.contains("each run: 1.00 s (95 % interval")
    );
    assert!(text.ends_with("sweep plan.toml --shard 1/4 --out DIR"), "{text}");
}

#[test]
fn a_plan_is_measured_without_keeping_anything() {
    let plan = "name = \"p\"\nworld = \"sim\"\n[[matrix]]\nworld = \"sim\"\nscenarios = [\"los\"]\ntransports = [\"wifi\", \"nobody\"]\n\
                seeds = 3\nseconds = 2\n";
    let measured = |plan: &str| {
        let paper = Paper::parse(plan, "p.toml").expect("a plan");
        let count = NonZeroUsize::new(2).expect("not zero");
        let selection = Selection { world: crate::World::Sim, ..Selection::default() };
        measure(&paper, &EXPERIMENTS, (&selection, count), &mut |_, _| ())
    };
    let cost = measured(&plan.replace("nobody", "fbdt")).expect("both are known");
    assert_eq!((cost.runs, cost.seconds.len()), (6, 2));
    assert!(cost.mean > 0.0);
    let error = measured(plan).expect_err("nobody is no transport").to_string();
    assert!(error.contains("nobody"), "{error}");
}
