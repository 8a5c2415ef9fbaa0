//! Prints measurements of the emulator as JSON: accuracy, highest rate, loss equivalence, or the comparison with
//! rattan. `measure accuracy|ceiling|loss|peer FOLDER`

use core::time::Duration;
use std::path::Path;
use tributary_emu::{bench, isolate};
use tributary_types::Bitrate;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let what = arguments.first().map_or("accuracy", String::as_str);
    // Install first: the package registry is not reachable after isolation.
    let rattan = match (what, arguments.get(1)) {
        ("peer", Some(folder)) => Some(bench::install_rattan(Path::new(folder))?),
        _ => None,
    };
    isolate()?;
    let mut progress = |what: &str| eprintln!("{what}");
    let five = Duration::from_secs(5);
    let json = match (what, rattan) {
        (_, Some(program)) => {
            let (rate, rounds) = (Bitrate::from_mbps(4_000), (3, five));
            serde_json::to_string_pretty(&bench::compare_with_rattan(&program, rate, rounds, &mut progress)?)?
        }
        ("ceiling", _) => serde_json::to_string_pretty(&bench::ceiling(five, &mut progress)?)?,
        ("loss", _) => {
            let equivalence = bench::loss_equivalence(30, Duration::from_secs(2), &mut progress)?;
            serde_json::to_string_pretty(&equivalence)?
        }
        _ => serde_json::to_string_pretty(&bench::accuracy(&bench::AccuracyPlan::default(), &mut progress)?)?,
    };
    println!("{json}");
    Ok(())
}
