//! Algorithms of the caller's own: they take the place of named ones and change nothing else, and a run with them can be stopped.

use core::ops::ControlFlow;
use core::time::Duration;
use std::sync::Arc;

use tributary_link::{Scenario, WorkloadSpec};
use tributary_proto::scheduler;
use tributary_sim::own::Own;
use tributary_sim::run::{RunError, SimRun, TransportName};
use tributary_types::{Instant, Rng};

fn run(transport: &str, congestion: &str) -> SimRun {
    let scenario = Scenario::builtin("mobility").unwrap().with_duration(Duration::from_secs(3));
    let choice = TransportName::find(transport, None, &scenario.path_names()).unwrap();
    SimRun::new(&scenario, &choice, congestion, &WorkloadSpec::Bulk { size: None })
}

/// The named algorithms again, as if they were the caller's.
fn copies() -> Own {
    Own {
        scheduler: Some(Arc::new(|seed| scheduler::create("round-robin", Rng::new(seed)).unwrap())),
        congestion: Some(Arc::new(|setup| tributary_cc::create("reno", setup).unwrap())),
        rule: None,
    }
}

fn hash(run: &SimRun, own: &Own) -> u64 {
    run.run_watched(own, |_| Vec::new(), &mut |_| ControlFlow::Continue(())).unwrap().hash
}

#[test]
fn the_same_algorithm_by_name_and_by_its_maker_is_the_same_run() {
    let mut unnamed = run("mptcp", "own:congestion");
    unnamed.transport = TransportName::Mptcp { scheduler: "own:scheduler".to_owned() };
    let named = hash(&run("mptcp/round-robin", "reno"), &Own::default());
    assert_eq!(hash(&unnamed, &copies()), named);
    assert_ne!(hash(&run("mptcp/round-robin", "cubic"), &Own::default()), named);
    unnamed.transport = TransportName::Session { scheduler: "own:scheduler".to_owned() };
    assert_eq!(hash(&unnamed, &copies()), hash(&run("session/round-robin", "reno"), &Own::default()));
    let congestion = Own { scheduler: None, ..copies() };
    for transport in ["tcp:wifi", "session/fbdt"] {
        let named = hash(&run(transport, "reno"), &Own::default());
        assert_eq!(hash(&run(transport, "own:congestion"), &congestion), named, "{transport}");
    }
}

#[test]
fn they_are_refused_where_nothing_would_use_them() {
    let field = |run: SimRun, own: &Own| match run.check_own(own) {
        Err(RunError::Option { field, .. }) => field,
        other => panic!("{other:?}"),
    };
    let (scheduler, congestion) = (Own { congestion: None, ..copies() }, Own { scheduler: None, ..copies() });
    for transport in ["tcp:wifi", "quic", "mpquic"] {
        assert_eq!(field(run(transport, "cubic"), &scheduler), "scheduler", "{transport}");
    }
    for transport in ["quic", "mpquic"] {
        assert_eq!(field(run(transport, "cubic"), &congestion), "congestion", "{transport}");
    }
}

#[test]
fn whoever_watches_a_run_can_stop_it() {
    let watch = &mut |share| if share > 0.5 { ControlFlow::Break(()) } else { ControlFlow::Continue(()) };
    let stopped = run("mptcp", "cubic").run_watched(&Own::default(), |_| Vec::new(), watch).unwrap_err();
    assert!(matches!(stopped, RunError::Stopped { at } if at == Instant::from_millis(1600)), "{stopped}");
}
