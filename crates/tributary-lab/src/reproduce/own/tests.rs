//! A scheduler of the caller's own in plans: refused where it is absent, run where it is there, and what happens when it fails.

use super::*;
use crate::reproduce::comparison::Comparison;
use crate::reproduce::transfer::Transfer;
use crate::reproduce::{Experiment, Paper, Selection};
use std::sync::Arc;
use tributary_proto::scheduler;
use tributary_types::Rng;

/// Round-robin from the registry.
#[derive(Debug)]
struct Named {
    version: &'static str,
    fails: bool,
}

const FIRST: Named = Named { version: "round-robin 1", fails: false };

impl OwnScheduler for Named {
    fn name(&self) -> &str {
        "RoundRobin"
    }

    fn identity(&self) -> &str {
        self.version
    }

    fn around(&self, title: &str, run: &mut (dyn FnMut(&Own, Watch<'_>) + Send)) -> Result<(), String> {
        let make = |seed| scheduler::create("round-robin", Rng::new(seed)).expect("it is known");
        let own = Own { scheduler: Some(Arc::new(make)), ..Own::default() };
        run(&own, &mut |_| ControlFlow::Continue(()));
        if self.fails { Err(format!("raised in {title}")) } else { Ok(()) }
    }
}

fn cells(world: World, matrix: &str, transports: &str) -> Vec<Cell> {
    let plan = format!(
        "name = \"own\"\n[[matrix]]\nworld = \"{world}\"\nscenarios = [\"los\"]\ntransports = [{transports}]\n\
         seeds = 1\nseconds = 3\n{matrix}"
    );
    let paper = Paper::parse(&plan, "own.toml").expect("a valid plan");
    paper.cells(&Selection { world, ..Selection::default() }).expect("it has cells")
}

#[test]
fn a_plan_with_a_scheduler_of_ones_own_is_refused_without_one() {
    for (world, wanted) in
        [(World::Sim, "tributary.sweep(..., scheduler=CLASS)"), (World::Emu, "sockets take")]
    {
        let cells = cells(world, "", "\"mptcp/own\"");
        let error = Transfer::default().check(&cells[0]).expect_err("it is absent").to_string();
        assert!(error.contains("transport `mptcp/own`") && error.contains(wanted), "{error}");
    }
}

#[test]
fn it_takes_the_place_of_a_named_scheduler_in_its_cells_only() {
    for kind in ["mptcp", "session"] {
        let [named, own] = &cells(World::Sim, "", &format!("\"{kind}/round-robin\", \"{kind}/own\""))[..]
        else {
            panic!("two cells");
        };
        let transfer = Transfer { own: Some(&FIRST) };
        transfer.check(own).expect("it is possible");
        assert_eq!(transfer.measure(own).expect("a result"), transfer.measure(named).expect("a result"));
        let later = Transfer { own: Some(&Named { version: "round-robin 2", ..FIRST }) };
        assert_ne!(transfer.identity(own), later.identity(own), "another version, another result");
        assert_eq!(
            transfer.identity(named),
            Transfer::default().identity(named),
            "named cells keep their keys"
        );
    }
}

#[test]
fn its_failure_is_the_cells() {
    let cells = cells(World::Sim, "", "\"mptcp/own\"");
    let transfer = Transfer { own: Some(&Named { fails: true, ..FIRST }) };
    let error = transfer.measure(&cells[0]).expect_err("it failed").to_string();
    assert_eq!(error, "raised in los · mptcp/own · cubic · seed 1");
}

#[test]
fn comparisons_take_it_for_every_workload_but_tiles() {
    let comparison = Comparison { own: Some(&FIRST) };
    for (workload, metric) in [("bulk", "goodput"), ("objects", "object_mean"), ("dash", "qoe")] {
        let matrix = format!("experiment = \"comparison\"\naxes = {{ workload = [\"{workload}\"] }}\n");
        let mut cells = cells(World::Sim, &matrix, "\"mptcp/own\"");
        cells[0].seconds = 12;
        comparison.check(&cells[0]).expect("it is possible");
        assert!(comparison.measure(&cells[0]).expect("a result").metrics.contains_key(metric));
    }
    let matrix = "experiment = \"comparison\"\naxes = { workload = [\"tiles\"] }\n";
    let mut tiles = cells(World::Sim, matrix, "\"mptcp/own\"");
    tiles[0].seconds = 12;
    let error = comparison.check(&tiles[0]).expect_err("tiles go by name").to_string();
    assert!(error.contains("leave yours out"), "{error}");
}
