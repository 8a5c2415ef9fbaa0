//! The cost of an idle session: processor time of both ends without payload.

use super::end::{CONGESTION, Contestant, EndResult, Until};
use super::process::over_veth;
use super::{BenchError, Expectation, Judged, Progress, Tables, middle};
use clap::Args;
use serde::Serialize;
use tributary_cli::quantity;
use tributary_report::{Column, Table, TableCell};

/// Largest share of one core that both ends together may use, per cent.
const AIM: Expectation = Expectation::AtMost(0.1);

/// Processor time of an idle session.
#[derive(Clone, Debug, Args)]
pub struct Settings {
    /// Seconds without payload in each round
    #[arg(long, default_value_t = 30.0, value_parser = quantity::part_seconds_in(20.0..=3600.0))]
    pub seconds: f64,
    /// Rounds, each with a new session
    #[arg(long, default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..=100))]
    pub rounds: u32,
}

#[derive(Clone, Debug, Serialize)]
pub struct Round {
    pub client: EndResult,
    pub server: EndResult,
}

impl Round {
    /// Processor time of both ends as a share of one core, per cent.
    fn share(&self) -> f64 {
        [&self.client, &self.server].map(|end| end.cpu_seconds / end.seconds * 100.0).iter().sum()
    }
}

#[derive(Clone, Debug, Serialize)]
pub struct Report {
    pub rounds: Vec<Round>,
    /// Processor time of both ends as a share of one core, per cent.
    pub share: Judged,
}

/// Measures a session over two paths with TLS.
pub fn run(settings: &Settings, progress: Progress<'_>) -> Result<Report, BenchError> {
    let until = Until::Idle(settings.seconds);
    let mut rounds = Vec::new();
    for round in 1..=settings.rounds {
        progress(&format!("idle for {} s, round {round} of {}", settings.seconds, settings.rounds));
        let (client, server) = over_veth(&Contestant::of("session"), CONGESTION, until)?;
        rounds.push(Round { client, server });
    }
    let shares: Vec<f64> = rounds.iter().map(Round::share).collect();
    Ok(Report { rounds, share: Judged::median(&shares, AIM) })
}

impl Tables for Report {
    fn tables(&self) -> Vec<Table> {
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
        let mut push = |name: &str, end: fn(&Round) -> &EndResult| {
            let middle = |of: fn(&EndResult) -> f64| middle(&self.rounds, |round| of(end(round)));
            table.push([
                TableCell::text(name),
                TableCell::number(middle(|end| end.subflows as f64), 0),
                TableCell::number(middle(|end| end.seconds), 1),
                TableCell::number(middle(|end| end.cpu_seconds * 1e3), 2),
                TableCell::number(middle(|end| end.cpu_seconds / end.seconds * 100.0), 4),
            ]);
        };
        push("client", |round| &round.client);
        push("server", |round| &round.server);
        let both = [TableCell::text("both"), TableCell::text(""), TableCell::text(""), TableCell::text("")];
        table.push(both.into_iter().chain(self.share.cells(4)));
        vec![table]
    }
}
