//! `tributary doctor`.

mod checks;

use anyhow::{Result, bail};
use checks::{Machine, State, examine, names};
use clap::Args;
use std::process::ExitCode;
use tributary_cli::output;
use tributary_report::{Column, Table, TableCell};

/// Say what this machine can and cannot do for Tributary, and how to mend it. Changes nothing.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  tributary doctor
  tributary doctor --require namespaces,ffmpeg && echo ready    # exit code 1 when one of them is absent")]
pub(crate) struct DoctorArguments {
    /// Exit with code 1 if one of these checks finds something absent; separated by commas
    #[arg(long, value_name = "CHECK", value_delimiter = ',')]
    require: Vec<String>,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

pub(crate) fn run(arguments: &DoctorArguments) -> Result<ExitCode> {
    if let Some(unknown) = arguments.require.iter().find(|name| names().all(|known| known != *name)) {
        bail!("--require {unknown}: no such check; there are {}", names().collect::<Vec<_>>().join(", "));
    }
    let findings = examine(&Machine::this());
    if arguments.json {
        output::line(&serde_json::json!({ "checks": findings }).to_string())?;
    } else {
        let columns = ["check", "state", "found", "needed by"];
        let mut table = Table::new("").columns(columns.map(Column::left));
        for finding in &findings {
            let cells = [finding.check, finding.state.word(), &finding.found, finding.needed_by];
            table.push(cells.map(TableCell::text));
        }
        output::line(table.to_text().trim_end())?;
        for finding in &findings {
            if let Some(mend) = &finding.mend {
                output::line(&format!("\n{}: {}\n    {mend}", finding.check, finding.found))?;
            }
        }
    }
    let missing = findings.iter().any(|finding| {
        finding.state == State::Absent && arguments.require.iter().any(|name| name == finding.check)
    });
    Ok(ExitCode::from(u8::from(missing)))
}
