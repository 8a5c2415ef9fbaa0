//! Runs a shell command on the client of a scenario: `emulate SCENARIO [--server CMD] -- CMD`.
//! A small stand-in for `tributary emu run`, used to try the emulator alone.

use tributary_emu::{Network, Side, isolate};
use tributary_link::Scenario;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    isolate()?;
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let scenario = Scenario::find(&arguments[0])?;
    let network = Network::start(&scenario)?;
    let mut server = None;
    if arguments[1] != "-" {
        server = Some(network.command(Side::Server, "sh").args(["-c", &arguments[1]]).spawn()?);
    }
    let status = network.command(Side::Client, "sh").args(["-c", &arguments[2]]).status()?;
    println!("{}", network.audit()?);
    if let Some(mut server) = server {
        server.kill()?;
        server.wait()?;
    }
    std::process::exit(status.code().unwrap_or(1));
}
