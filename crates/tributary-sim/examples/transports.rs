//! One long transfer over a built-in scenario with each of the named transports: goodput, worst second,
//! longest silence, and simulation speed. Goodput excludes the first second.
//!
//! `cargo run --release -p tributary-sim --example transports -- SCENARIO SECONDS CONGESTION TRANSPORT[/SCHEDULER]…`

use std::time::{Duration, Instant};

use tributary_link::{Scenario, WorkloadSpec};
use tributary_sim::run::{SimRun, TransportName};

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [scenario, seconds, congestion, transports @ ..] = arguments.as_slice() else {
        eprintln!("usage: SCENARIO SECONDS CONGESTION TRANSPORT[/SCHEDULER]...");
        std::process::exit(2);
    };
    if let Err(error) = table(scenario, seconds, congestion, transports) {
        eprintln!("{error}");
        std::process::exit(1);
    }
}

#[expect(clippy::disallowed_methods, reason = "an example that measures is a driver: it owns the clock")]
fn table(
    scenario: &str,
    seconds: &str,
    congestion: &str,
    transports: &[String],
) -> Result<(), Box<dyn std::error::Error>> {
    let seconds: u64 = seconds.parse()?;
    let scenario = Scenario::find(scenario)?.with_duration(Duration::from_secs(seconds));
    println!(
        "{:26} {:>8} {:>8} {:>9} {:>8} {:>10} {:>10} {:>6}  hash",
        "transport", "Mbit/s", "worst", "silence", "again %", "packets", "packets/s", "x real"
    );
    for name in transports {
        let (transport, scheduler) =
            name.split_once('/').map_or((name.as_str(), None), |(t, s)| (t, Some(s)));
        let choice = TransportName::find(transport, scheduler, &scenario.path_names())?;
        let run = SimRun::new(&scenario, &choice, congestion, &WorkloadSpec::Bulk { size: None });
        let started = Instant::now();
        let outcome = run.run()?;
        let took = started.elapsed().as_secs_f64();
        let arrivals = outcome.arrivals();
        let by_second = arrivals.mbps_per_second();
        let counted = by_second.get(1..).unwrap_or_default();
        let sent = outcome.sent();
        println!(
            "{:26} {:8.1} {:8.1} {:6.0} ms {:8.2} {:10} {:10.0} {:6.1}  {:016x}",
            name,
            counted.iter().sum::<f64>() / counted.len().max(1) as f64,
            counted.iter().copied().fold(f64::INFINITY, f64::min),
            arrivals.longest_silence.as_secs_f64() * 1e3,
            100.0 * sent.reinjected as f64 / sent.sent.max(1) as f64,
            outcome.packets,
            outcome.packets as f64 / took,
            seconds as f64 / took,
            outcome.hash,
        );
    }
    Ok(())
}
