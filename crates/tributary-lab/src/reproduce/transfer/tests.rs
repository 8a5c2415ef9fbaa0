//! Metrics of a radio that dies and comes back.

use super::*;
use crate::reproduce::matrix::Selection;
use crate::reproduce::paper::Paper;
use core::time::Duration;

#[test]
fn a_radio_that_dies_and_comes_back_is_measured() {
    let scenario = Scenario::builtin("dead-wigig").unwrap().with_duration(Duration::from_secs(6));
    let mut sample = Sample::default();
    // Dead from a third to two thirds of six seconds; it carries again at 4.3 s.
    let tenths = [vec![140.0; 20], vec![0.0; 23], vec![140.0; 17]].concat();
    let silences = [(500.0, 900.0), (2000.0, 60.0)].map(|(at_ms, length_ms)| Silence { at_ms, length_ms });
    dead_radio(&mut sample, &scenario, &silences, &[("wigig".to_owned(), tenths)].into());
    assert_eq!(sample.metrics["dead_silence"], [60.0], "the earlier silence does not count");
    assert!((0.2..=0.5).contains(&sample.metrics["back_after"][0]), "{:?}", sample.metrics);
    dead_radio(&mut sample, &scenario, &[], &[("wigig".to_owned(), vec![0.0; 60])].into());
    assert_eq!(sample.metrics["dead_silence"], [UNRECORDED_MS]);
    assert!(sample.metrics["back_after"][0] > 3600.0, "never used again misses every bound");
}

#[test]
fn the_axis_inner_is_the_congestion_control_inside_a_session_and_of_quic_alone() {
    let plan = "name = \"inner\"\n[[matrix]]\nworld = \"WORLD\"\nscenarios = [\"los\"]\ntransports = [\"quic:wifi\", \"fbdt\"]\n\
                congestion = [\"reno\"]\naxes = { inner = [\"cubic\"] }\nseeds = 1\nseconds = 2\n";
    let cells = |world| {
        let paper = Paper::parse(&plan.replace("WORLD", &format!("{world}")), "inner.toml").unwrap();
        paper.cells(&Selection { world, ..Selection::default() }).unwrap()
    };
    for cell in cells(World::Emu) {
        let run = emulation(&cell).unwrap();
        let congestion = if run.transport.is_quic() { "cubic" } else { "reno" };
        assert_eq!((run.congestion.as_str(), run.inner_quic.as_deref()), (congestion, Some("cubic")));
    }
    for cell in cells(World::Sim) {
        let run = simulation(&cell, None).unwrap().cell;
        let wanted =
            if run.transport.is_quic() { ("quic-cubic", None) } else { ("reno", Some("quic-cubic")) };
        assert_eq!((run.congestion.as_str(), run.options.inner_quic.as_deref()), wanted);
    }
}

#[test]
fn the_axis_subflows_is_what_carries_a_session_on_sockets() {
    let plan = "name = \"carried\"\n[[matrix]]\nworld = \"WORLD\"\nscenarios = [\"los\"]\ntransports = [\"fbdt\"]\n\
                congestion = [\"cubic\"]\naxes = { subflows = [\"SUBFLOWS\"] }\nseeds = 1\nseconds = 2\n";
    let cell = |world: World, subflows| {
        let plan = plan.replace("WORLD", &world.to_string()).replace("SUBFLOWS", subflows);
        let paper = Paper::parse(&plan, "carried.toml").unwrap();
        paper.cells(&Selection { world, ..Selection::default() }).unwrap().remove(0)
    };
    for (subflows, over_quic) in [("tcp", false), ("quic", true)] {
        assert_eq!(emulation(&cell(World::Emu, subflows)).unwrap().session.quic, over_quic);
    }
    assert!(simulation(&cell(World::Sim, "tcp"), None).is_ok());
    for refused in
        [simulation(&cell(World::Sim, "quic"), None).err(), emulation(&cell(World::Emu, "sctp")).err()]
    {
        let told = refused.expect("it is not measured").to_string();
        assert!(told.contains("tcp, or on sockets quic"), "{told}");
    }
}
