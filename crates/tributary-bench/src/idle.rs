//! The cost of an idle session: processor time of both ends without payload.

use super::end::{CONGESTION, Contestant, EndResult, Until};
use super::process::Transfer;
use super::{BenchError, Progress, judged, verdict, within};
use serde::Serialize;
use std::ffi::OsStr;
use tributary_emu::{Side, VethNetwork};
use tributary_report::{Cell, Column, Table};

/// Paths of the session.
const PATHS: usize = 2;
/// Largest share of one core that both ends together may use.
const AIM: f64 = 0.001;

/// Settings of the benchmark.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Plan {
    /// Duration without payload; above 10 s it includes keep-alives.
    pub seconds: f64,
}

impl Default for Plan {
    fn default() -> Self {
        Self { seconds: 30.0 }
    }
}

/// The result.
#[derive(Clone, Debug, Serialize)]
pub struct Report {
    /// The client.
    pub client: EndResult,
    /// The server.
    pub server: EndResult,
    /// Processor time of both ends as a share of one core.
    pub share: f64,
    /// The share must be below this.
    pub below: f64,
    /// Whether it is met.
    pub holds: bool,
}

/// Measures a session over two paths with TLS.
///
/// # Errors
/// [`BenchError`].
pub fn run(plan: &Plan, progress: Progress<'_>) -> Result<Report, BenchError> {
    within("seconds", plan.seconds, 20.0..=3600.0)?;
    progress(&format!("idle for {} s", plan.seconds));
    let network = VethNetwork::create(PATHS)?;
    let command = |side: Side, program: &OsStr| network.command(side, program);
    let until = Until::Idle(plan.seconds);
    let contestant = Contestant::of("session");
    let transfer = Transfer { command: &command, paths: 0..PATHS, contestant, congestion: CONGESTION, until };
    let (client, server) = transfer.run()?;
    let share = client.cpu_seconds / client.seconds + server.cpu_seconds / server.seconds;
    Ok(Report { client, server, share, below: AIM, holds: share < AIM })
}

impl Report {
    /// The tables.
    #[must_use]
    pub fn tables(&self) -> Vec<Table> {
        let mut table = Table::new("An idle session over two paths, TLS").columns([
            Column::left("end"),
            Column::right("subflows"),
            Column::right("time").unit("s"),
            Column::right("CPU").unit("ms"),
            Column::right("share of a core").unit("%"),
            Column::left(""),
        ]);
        for (name, end) in [("client", &self.client), ("server", &self.server)] {
            table.push([
                Cell::text(name),
                Cell::number(end.subflows as f64, 0),
                Cell::number(end.seconds, 1),
                Cell::number(end.cpu_seconds * 1e3, 2),
                Cell::number(end.cpu_seconds / end.seconds * 100.0, 4),
            ]);
        }
        table.push([
            Cell::text("both"),
            Cell::text(""),
            Cell::text(""),
            Cell::number((self.client.cpu_seconds + self.server.cpu_seconds) * 1e3, 2),
            judged(self.share * 100.0, 4, self.holds),
            verdict(self.holds),
        ]);
        vec![table]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_time_without_a_keep_alive_is_refused() {
        let error = run(&Plan { seconds: 5.0 }, &mut |_| ()).unwrap_err().to_string();
        assert_eq!(error, "`seconds` is 5; it must be from 20 to 3600");
    }
}
