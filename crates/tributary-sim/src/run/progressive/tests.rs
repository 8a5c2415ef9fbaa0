//! Playbacks over two WiFi networks of 6 Mbit/s, with and without the first one being cut.

use core::time::Duration;

use tributary_link::{Moment, Scenario, WorkloadSpec};
use tributary_player::progressive::{Film, Settings};

use super::*;
use crate::run::TransportName;

const SECONDS: u64 = 20;
const CUT: u64 = 8;
const STEPS: usize = 10;

/// The paper's film, ten seconds shorter than the run.
fn spec() -> ProgressiveSpec {
    let film = Film { pictures: 25 * (SECONDS - 10), ..Film::paper() };
    ProgressiveSpec { film, settings: Settings::default() }
}

fn long() -> ProgressiveSpec {
    ProgressiveSpec { film: Film::paper(), settings: Settings::default() }
}

fn run(transport: &str, cut: bool) -> SimRun {
    let mut scenario = Scenario::builtin("wifi-wifi-limited").unwrap();
    scenario.duration = Duration::from_secs(SECONDS);
    if cut {
        scenario.paths[0].dead = vec![(Moment::At(Duration::from_secs(CUT)), Moment::Share(1.0))];
    }
    let choice = TransportName::find(transport, None, &scenario.path_names()).unwrap();
    SimRun::new(&scenario, &choice, "cubic", &WorkloadSpec::Bulk { size: None })
}

#[test]
fn a_film_is_played_to_its_end_over_every_kind_of_transport() {
    for transport in ["mptcp/min-rtt", "mptcp", "fbdt", "wifi", "mpquic"] {
        let congestion = if transport == "mpquic" { "quic-cubic" } else { "lia" };
        let run = SimRun { congestion: congestion.to_owned(), ..run(transport, false) };
        let outcome = run.run_progressive(&spec()).unwrap();
        let record = outcome.record.unwrap();
        assert!(record.ended && record.shown == 250, "{transport}: {record:?}");
        assert_eq!((record.discards, record.underflows, record.stalls), (0, 0, 0), "{transport}");
        // A second of film and its request over 6 Mbit/s, or twice that, in slow start.
        let start_up = record.start_up.unwrap().as_secs_f64();
        assert!((0.5..2.0).contains(&start_up), "{transport}: {start_up}");
    }
}

#[test]
fn the_same_playback_twice_is_the_same() {
    for transport in ["mptcp/greedy-sticky", "fbdt"] {
        let once = || run(transport, true).run_progressive(&long()).unwrap();
        assert_eq!(once(), once());
        let other = SimRun { scenario: run(transport, true).scenario.with_seed(2), ..run(transport, true) };
        assert_ne!(once().hash, other.run_progressive(&long()).unwrap().hash);
    }
}

#[test]
fn a_cut_path_carries_nothing_more_and_the_other_carries_the_film() {
    for transport in ["mptcp/min-rtt", "mptcp/greedy-sticky", "fbdt"] {
        let outcome = run(transport, true).run_progressive(&long()).unwrap();
        // Data in flight at the cut arrives in the first step.
        let after =
            |path: usize| outcome.paths[path].delivered[CUT as usize * STEPS + 1..].iter().sum::<u64>();
        let before = outcome.paths[0].delivered[..CUT as usize * STEPS].iter().sum::<u64>();
        assert!(before > 1_000_000 && after(0) == 0, "{transport}: {before}, {}", after(0));
        // Most of 12 s of 655 kB; the rest had arrived before.
        assert!(after(1) > 9 * 655_000, "{transport}: {}", after(1));
        assert_eq!(outcome.paths[0].delivered.len(), SECONDS as usize * STEPS);
    }
}

#[test]
fn nothing_is_shown_after_the_only_path_is_cut() {
    let outcome = run("wifi", true).run_progressive(&long()).unwrap();
    let record = outcome.record.unwrap();
    assert_eq!((record.underflows, record.stalls, record.discards), (1, 1, 25), "{record:?}");
    assert!(record.stalled > Duration::from_secs(5), "{record:?}");
    assert!(
        outcome.arrivals.longest_silence > Duration::from_secs(6),
        "{:?}",
        outcome.arrivals.longest_silence
    );
    // The retransmission timer backs off: 0.3, 0.6, 1.2 … s.
    let again = outcome.paths[0].retransmitted[CUT as usize * STEPS..].iter().filter(|bytes| **bytes > 0);
    assert!((2..=8).contains(&again.count()));
}

#[test]
fn a_full_player_slows_the_server_to_the_films_bitrate() {
    let outcome = run("mptcp/min-rtt", false).run_progressive(&long()).unwrap();
    let read: u64 = outcome.arrivals.bins.iter().sum();
    let shown = Film::paper().bytes_of(outcome.record.unwrap().shown);
    // A second and a picture ahead of what is shown, and headers.
    assert!(read <= shown + 2 * 655_000 + 256, "{read} {shown}");
    // The receive buffer has filled. Both paths could carry 7.5 MB in the last five seconds.
    let last = outcome.paths.iter().flat_map(|path| path.delivered.iter().rev().take(5 * STEPS));
    let last: u64 = last.sum();
    assert!((3_000_000..3_800_000).contains(&last), "{last}");
}

#[test]
fn impossible_settings_are_refused() {
    let wrong = SimRun { congestion: "fast".to_owned(), ..run("fbdt", false) };
    assert!(wrong.run_progressive(&spec()).unwrap_err().to_string().contains("`fast`"));
}
