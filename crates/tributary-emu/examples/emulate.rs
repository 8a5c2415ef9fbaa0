//! Runs a command on the client of a scenario: `emulate SCENARIO [--server SHELL-COMMAND] COMMAND…`. A
//! minimal program that uses the emulator.

use std::ffi::OsString;
use tributary_emu::{CommandOptions, isolate, run_command};
use tributary_link::Scenario;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    isolate()?;
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let (scenario, server, command) = match arguments.as_slice() {
        [scenario, flag, server, command @ ..] if flag == "--server" => {
            (scenario, Some(server.as_str()), command)
        }
        [scenario, command @ ..] => (scenario, None, command),
        [] => return Err("usage: emulate SCENARIO [--server SHELL-COMMAND] COMMAND…".into()),
    };
    let command: Vec<OsString> = command.iter().map(OsString::from).collect();
    let run = run_command(
        &Scenario::find(scenario)?,
        &command,
        CommandOptions { server, ..CommandOptions::default() },
    )?;
    eprintln!("{}", run.audit);
    std::process::exit(run.code);
}
