//! The cost of an idle session: processor time of both ends without payload.

use super::end::{CONGESTION, Contestant, EndResult, Until};
use super::process::Transfer;
use super::{BenchError, Expectation, Judged, Progress, median, within};
use serde::Serialize;
use std::ffi::OsStr;
use tributary_emu::{Side, VethNetwork};
use tributary_report::{Cell, Column, Table};

/// Paths of the session.
const PATHS: usize = 2;
/// Largest share of one core that both ends together may use, per cent.
const AIM: Expectation = Expectation::AtMost(0.1);

/// Settings of the benchmark.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Plan {
    /// Duration without payload in each round; above 10 s it includes keep-alives.
    pub seconds: f64,
    /// Rounds, each with a new session.
    pub rounds: u32,
}

impl Default for Plan {
    fn default() -> Self {
        Self { seconds: 30.0, rounds: 5 }
    }
}

/// One round.
#[derive(Clone, Debug, Serialize)]
pub struct Round {
    /// The client.
    pub client: EndResult,
    /// The server.
    pub server: EndResult,
}

impl Round {
    /// Processor time of both ends as a share of one core, per cent.
    fn share(&self) -> f64 {
        [&self.client, &self.server].map(|end| end.cpu_seconds / end.seconds * 100.0).iter().sum()
    }
}

/// The result.
#[derive(Clone, Debug, Serialize)]
pub struct Report {
    /// Every round.
    pub rounds: Vec<Round>,
    /// Processor time of both ends as a share of one core, per cent.
    pub share: Judged,
}

/// Measures a session over two paths with TLS.
///
/// # Errors
/// [`BenchError`].
pub fn run(plan: &Plan, progress: Progress<'_>) -> Result<Report, BenchError> {
    within("seconds", plan.seconds, 20.0..=3600.0)?;
    within("rounds", f64::from(plan.rounds), 1.0..=100.0)?;
    let network = VethNetwork::create(PATHS)?;
    let command = |side: Side, program: &OsStr| network.command(side, program);
    let until = Until::Idle(plan.seconds);
    let mut rounds = Vec::new();
    for round in 1..=plan.rounds {
        progress(&format!("idle for {} s, round {round} of {}", plan.seconds, plan.rounds));
        let contestant = Contestant::of("session");
        let paths = 0..PATHS;
        let transfer = Transfer { command: &command, paths, contestant, congestion: CONGESTION, until };
        let (client, server) = transfer.run()?;
        rounds.push(Round { client, server });
    }
    let shares: Vec<f64> = rounds.iter().map(Round::share).collect();
    Ok(Report { rounds, share: Judged::median(&shares, AIM) })
}

impl Report {
    /// The tables.
    #[must_use]
    pub fn tables(&self) -> Vec<Table> {
        let columns = [
            Column::left("end"),
            Column::right("subflows"),
            Column::right("time").unit("s"),
            Column::right("CPU").unit("ms"),
        ]
        .into_iter()
        .chain(Judged::columns("share of a core, %"));
        let mut table =
            Table::new("An idle session over two paths, TLS; medians of the rounds").columns(columns);
        for name in ["client", "server"] {
            let end = |round: &Round| if name == "client" { &round.client } else { &round.server }.clone();
            let middle = |of: fn(&EndResult) -> f64| {
                median(&self.rounds.iter().map(|round| of(&end(round))).collect::<Vec<_>>())
            };
            table.push([
                Cell::text(name),
                Cell::number(middle(|end| end.subflows as f64), 0),
                Cell::number(middle(|end| end.seconds), 1),
                Cell::number(middle(|end| end.cpu_seconds * 1e3), 2),
                Cell::number(middle(|end| end.cpu_seconds / end.seconds * 100.0), 4),
            ]);
        }
        let both = [Cell::text("both"), Cell::text(""), Cell::text(""), Cell::text("")];
        table.push(both.into_iter().chain(self.share.cells(4)));
        vec![table]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_time_without_a_keep_alive_is_refused() {
        let error = run(&Plan { seconds: 5.0, ..Plan::default() }, &mut |_| ()).unwrap_err().to_string();
        assert_eq!(error, "`seconds` is 5; it must be from 20 to 3600");
    }
}
