//! Cells of the experiment: accepted values, the time of the cut, and reported metrics.

use super::*;
use crate::reproduce::matrix::Selection;
use crate::reproduce::paper::Paper;

/// A file with one matrix of these values.
fn planned(scenario: &str, handoff: &str, ahead: &str, seeds: u32) -> Vec<Cell> {
    let text = format!(
        "name = 'x'\ntitle = 'x'\nlead = 'x'\n[[matrix]]\nworld = 'sim'\nexperiment = 'handoff'\n\
         scenarios = ['{scenario}']\ntransports = ['mptcp/min-rtt']\ncongestion = ['cubic']\n\
         axes = {{ handoff = ['{handoff}'], ahead = ['{ahead}'] }}\nseeds = {seeds}\nseconds = 10\n"
    );
    let paper = Paper::parse(&text, "x.toml").unwrap();
    let selection = Selection { world: World::Sim, ..Selection::default() };
    paper.cells(&selection).unwrap()
}

#[test]
fn unknown_values_of_an_axis_are_refused_with_the_known_ones() {
    let refusal = |scenario, handoff, ahead| {
        let cell = &planned(scenario, handoff, ahead, 1)[0];
        Handoff.check(cell).unwrap_err().to_string()
    };
    let refused = |of: String, parts: [&str; 2]| assert!(parts.iter().all(|part| of.contains(part)), "{of}");
    refused(refusal("wifi-lte", "slow", "1000 ms"), ["`slow`", "none, silent or announced"]);
    refused(refusal("wifi-lte", "none", "far"), ["ahead `far`", "20 ms"]);
    refused(refusal("wifi-lost", "none", "all"), ["`wifi-lost`", "wifi-lte"]);
    assert!(Handoff.check(&planned("wifi-lte", "announced", "all", 1)[0]).is_ok());
}

#[test]
fn the_cut_is_drawn_from_the_middle_of_the_run_by_the_seed() {
    let all: Vec<Duration> = planned("wifi-lte", "silent", "1000 ms", 50)
        .iter()
        .map(|cell| cut(cell, CUT, Duration::from_secs(10)))
        .collect();
    let inside = Duration::from_secs(4)..=Duration::from_secs(6);
    assert!(all.iter().all(|cut| inside.contains(cut)), "{all:?}");
    let early = all.iter().filter(|cut| **cut < Duration::from_secs(5)).count();
    assert!((10..=40).contains(&early), "{early} of 50 in the first half");
}

#[test]
fn a_forced_handoff_moves_the_video_to_the_second_path() {
    let measure = |handoff| Handoff.measure(&planned("wifi-wifi-large", handoff, "1000 ms", 1)[0]).unwrap();
    let calm = measure("none");
    let one = |sample: &Sample, name: &str| sample.metrics[name][0];
    assert!(!calm.metrics.contains_key("silence") && one(&calm, "discards") == 0.0, "{calm:?}");
    assert_eq!((one(&calm, "first_rtt"), one(&calm, "second_rtt")), (50.0, 100.0));
    assert_eq!((one(&calm, "first_rate"), one(&calm, "film_size")), (18.0, 408.72));
    assert!(one(&calm, "first_after") > 2.0, "the first path has the smaller round trip: {calm:?}");
    for handoff in ["silent", "announced"] {
        let cut = measure(handoff);
        assert_eq!(one(&cut, "first_after"), 0.0, "{handoff}: {cut:?}");
        assert!(one(&cut, "second_after") > 4.0, "{handoff}: {cut:?}");
        assert!(
            (one(&cut, "silence") - one(&cut, "silence_excess") - 350.0).abs() < 1e-6,
            "{handoff}: {cut:?}"
        );
        assert_eq!(cut.metrics["first_seconds"].len(), 10);
    }
}
