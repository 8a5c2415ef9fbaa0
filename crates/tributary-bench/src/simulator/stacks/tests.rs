//! The cells of both papers, the bottleneck, and a simulated run; neither the kernel nor ns-3 is used.

use super::*;
use tributary_lab::World;
use tributary_lab::reproduce::{Paper, Selection};

fn cells(paper: &str, world: World, quick: bool) -> Vec<Cell> {
    let paper = Paper::find(paper).unwrap();
    paper.check_metrics(&METRICS).unwrap();
    paper.cells(&Selection { world, quick, ..Selection::default() }).unwrap()
}

#[test]
fn every_cell_of_both_papers_is_possible() {
    for (paper, world, full, quick) in [
        ("simulator-linux", World::Emu, 2 * (144 + 3 * 48 + 24 + 60), 2 * (45 + 6 + 6 + 10)),
        ("simulator-ns3", World::Sim, 2 * (144 + 5 * 12 + 18), 2 * (36 + 5 * 12 + 18)),
        ("../../scenarios/papers/simulator-ebpf.toml", World::Emu, 2 * 5, 2 * 5),
    ] {
        for (quick, count) in [(false, full), (true, quick)] {
            let cells = cells(paper, world, quick);
            assert_eq!(cells.len(), count, "{paper} {quick}");
            for cell in cells.iter().filter(|cell| cell.seed == 1) {
                Stacks.check(cell).unwrap_or_else(|error| panic!("{:?}: {error}", cell.labels));
            }
        }
    }
}

#[test]
fn results_of_others_do_not_depend_on_the_models() {
    let cells = cells("simulator-linux", World::Emu, true);
    let has_models = |name: &str| {
        let cell = cells.iter().find(|cell| cell.label("stack") == name).unwrap();
        Stacks.identity(cell).starts_with("models")
    };
    assert!(has_models("simulator") && !has_models("kernel"));
}

#[test]
fn the_simulator_fills_a_steady_link() {
    let cells = cells("simulator-linux", World::Emu, false);
    let is = |cell: &&Cell| {
        let wanted = [("rate", "5 Mbit/s"), ("rtt", "20 ms"), ("buffer", "4 BDP"), ("congestion", "reno")];
        cell.label("stack") == "simulator" && wanted.iter().all(|(axis, value)| cell.label(axis) == *value)
    };
    let sample = Stacks.measure(cells.iter().find(is).unwrap()).unwrap();
    let share = sample.metrics["goodput"][0] / (5.0 * 1448.0 / 1500.0);
    assert!((0.98..=1.001).contains(&share), "{share}");
    assert_eq!((sample.metrics["seconds"].len(), sample.metrics["window"].len()), (7, 160));
    assert!(sample.metrics["window"].iter().filter(|window| **window > 1.0).count() > 150);
}

#[test]
fn values_that_no_bottleneck_has_are_refused() {
    let mut cell = cells("simulator-ns3", World::Sim, true).swap_remove(0);
    for (axis, value) in
        [("rate", "20"), ("buffer", "0 BDP"), ("rtt", "scenario"), ("stack", "BSD"), ("size", "1 GB")]
    {
        let before = cell.labels.insert(axis.to_owned(), value.to_owned());
        let error = Stacks.check(&cell).unwrap_err().to_string();
        assert!(error.contains(axis) && error.contains(value) && error.contains("expected"), "{error}");
        match before {
            Some(before) => _ = cell.labels.insert(axis.to_owned(), before),
            None => _ = cell.labels.remove(axis),
        }
    }
}
