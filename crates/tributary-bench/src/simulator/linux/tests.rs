//! The comparison with invented runs, the grid, and the file of the kernel's results; the kernel is not used.

use super::*;

fn sample(mbps_per_second: &[f64]) -> Sample {
    let bins = mbps_per_second.iter().flat_map(|mbps| vec![(mbps * 1250.0) as u64; 100]).collect();
    Sample { bins, valid: true, windows: Vec::new() }
}

fn probe(group: Group) -> Probe {
    let plan = Plan { full: true, groups: vec![group], ..Plan::default() };
    let mut probe = grid::probes(&plan).swap_remove(0);
    probe.seconds = 3.0;
    probe
}

#[test]
fn goodput_leaves_out_the_first_second() {
    let row = row(&probe(Group::Steady), &[sample(&[1.0, 10.0, 10.0])], &[sample(&[9.0, 10.4, 10.4])]);
    assert!((row.ratio - 1.04).abs() < 1e-9 && row.agrees(), "{row:?}");
    assert_eq!((row.kernel, row.spread, row.valid), (10.0, 0.0, true));
}

#[test]
fn repetitions_count_by_their_median_and_seeds_by_their_mean() {
    let runs = [sample(&[0.0, 8.0]), sample(&[0.0, 10.0]), sample(&[0.0, 18.0])];
    assert_eq!(row(&probe(Group::Steady), &runs, &runs).kernel, 10.0);
    assert_eq!(row(&probe(Group::Loss), &runs, &runs).kernel, 12.0);
}

#[test]
fn the_bands_are_narrow_for_steady_links_alone() {
    assert!(within_band(Group::Steady, 1.049) && !within_band(Group::Steady, 0.94));
    assert!(within_band(Group::Schedulers, 0.91) && !within_band(Group::Loss, 1.11));
    assert!(!within_band(Group::Changing, f64::NAN));
}

#[test]
fn the_full_grid_has_every_cell_and_the_selection_is_a_part_of_it() {
    let count = |plan: &Plan, group| grid::probes(&Plan { groups: vec![group], ..plan.clone() }).len();
    let full = Plan { full: true, ..Plan::default() };
    assert_eq!(
        Group::USUAL.map(|group| count(&full, group)),
        [4 * 4 * 3 * 3, 4 * 4 * 3, 4 * 2 * 3, 5 * 2 * 6]
    );
    assert_eq!(count(&full, Group::Ebpf), tributary_bpf::CONTROLLERS.len());
    let few = Plan::default();
    assert!(Group::USUAL.iter().all(|group| (1..count(&full, *group)).contains(&count(&few, *group))));
    let slow = Plan { fastest_mbps: 20, ..full };
    assert_eq!(count(&slow, Group::Steady), 2 * 4 * 3 * 3);
    let mut labels: Vec<String> =
        grid::probes(&Plan { full: true, ..Plan::default() }).iter().map(Probe::label).collect();
    labels.sort_unstable();
    labels.dedup();
    assert_eq!(labels.len(), 144 + 48 + 24 + 60, "labels tell cells apart");
}

#[test]
fn the_simulator_fills_a_steady_link() {
    let plan = Plan { full: true, groups: vec![Group::Steady], ..Plan::default() };
    let mut probes = grid::probes(&plan).into_iter();
    let mut probe = probes.find(|probe| probe.label() == "reno over 5 Mbit/s, 20 ms, 4 BDP").unwrap();
    probe.seconds = 4.0;
    let sample = measure::simulator(&probe, 1).unwrap();
    let share = sample.mean(RAMP_UP) / (5.0 * 1448.0 / 1500.0);
    assert!((0.98..=1.001).contains(&share), "{share}");
    assert_eq!(sample.bins.len(), 400);
    assert!(sample.windows.len() > 390);
}

#[test]
fn the_kernels_results_are_kept_and_taken() {
    let file = std::env::temp_dir().join(format!("tributary-kernel-{}", std::process::id()));
    let probe = probe(Group::Steady);
    let kept = sample(&[1.0, 2.0]);
    let mut store = Store::open(Some(file.clone())).unwrap();
    assert_eq!(store.take_or(&probe, (1, 0), || Ok(kept.clone())).unwrap(), kept);
    let mut again = Store::open(Some(file.clone())).unwrap();
    assert_eq!(again.take_or(&probe, (1, 0), || unreachable!("it is there")).unwrap(), kept);
    std::fs::write(&file, "no line of it\n").unwrap();
    let error = Store::open(Some(file.clone())).unwrap_err().to_string();
    std::fs::remove_file(&file).unwrap();
    assert!(error.contains("line 1") && error.contains("remove this one"), "{error}");
}

#[test]
fn misses_are_listed_and_the_page_shows_the_windows() {
    let miss = row(&probe(Group::Steady), &[sample(&[0.0, 10.0])], &[sample(&[0.0, 11.0])]);
    let windows = |window| (0..1000).map(|i| Window { at: f64::from(i) / 100.0, window }).collect::<Vec<_>>();
    let overlay = Overlay {
        name: "cwnd-x".to_owned(),
        title: "x over y".to_owned(),
        kernel: windows(14_480),
        simulator: windows(28_960),
    };
    let report = Report { rows: vec![miss], overlays: vec![overlay] };
    let markdown = report.to_markdown();
    assert!(markdown.contains("Outside the band") && markdown.contains("1.100"), "{markdown}");
    let drawings = report.drawings();
    assert!(drawings[0].0 == "cwnd-x" && drawings[0].1.contains("<svg"));
    let page = report.to_html("tributary-lab bench simulator linux");
    assert!(page.contains("0 of 1 cells agree") && page.contains("x over y"));
}
