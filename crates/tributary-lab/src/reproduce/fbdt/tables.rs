//! Tables of the reproduction, for the terminal, the report and the documentation.

use super::Outcome;
use crate::contestant::radio;
use tributary_report::{Cell, Column, Table};

const TRANSPORTS: [&str; 7] = ["wifi", "wigig", "mptcp", "fbdt-paper", "fbdt", "min-rtt", "round-robin"];

/// The transports that were run.
fn transports(outcome: &Outcome) -> Vec<&'static str> {
    let ran = |name: &&str| outcome.cells.iter().any(|cell| cell.transport == *name);
    TRANSPORTS.into_iter().filter(ran).collect()
}

/// Whether the paper has figures of this transport.
fn in_paper(name: &str) -> bool {
    ["wifi", "wigig", "mptcp", "fbdt"].contains(&name)
}

/// "Paper, this run": mean goodputs, the paper's divided by ten.
#[must_use]
pub fn goodput(outcome: &Outcome) -> Table {
    let transports = transports(outcome);
    let mut columns = vec![Column::left("condition"), Column::left("control")];
    for name in &transports {
        let label = if *name == "mptcp" { "MPTCP".to_owned() } else { radio(name) };
        if in_paper(name) {
            columns.push(Column::right(&format!("{label}, paper")));
            columns.push(Column::right("this run"));
        } else {
            columns.push(Column::right(&format!("{label}, this run")));
        }
    }
    let mut table = Table::new("Mean goodput in Mbit/s, the paper's divided by ten").columns(columns);
    for (condition, congestion) in &outcome.planned {
        let mut row = vec![Cell::text(condition.label), Cell::text(congestion)];
        for name in &transports {
            let key = (condition.scenario, *name, congestion.as_str());
            if in_paper(name) {
                row.push(Cell::optional_number(condition.paper(name), 0));
            }
            let measured = Cell::optional_number(outcome.runs.goodput(key), 1);
            row.push(if *name == "fbdt" { measured.strong() } else { measured });
        }
        table.push(row);
    }
    table
}

/// What averages hide, for fbdt and kernel MPTCP.
#[must_use]
pub fn detail(outcome: &Outcome) -> Table {
    let mut table = Table::new("Beside the average").columns([
        Column::left("condition"),
        Column::left("control"),
        Column::left("transport"),
        Column::right("worst second").unit("Mbit/s"),
        Column::right("p10").unit("Mbit/s"),
        Column::right("of capacity").unit("%"),
        Column::right("longest silence").unit("ms"),
        Column::right("sent again").unit("%"),
        Column::right("CPU").unit("s/GB"),
    ]);
    for cell in &outcome.cells {
        let label = outcome.planned.iter().find(|(c, _)| c.scenario == cell.scenario).map(|(c, _)| c.label);
        let row = [
            Cell::text(label.unwrap_or_default()),
            Cell::text(&cell.congestion),
            Cell::text(&cell.transport),
            Cell::optional_number(cell.worst_second_mbps, 1),
            Cell::optional_number(cell.p10_mbps, 1),
            Cell::optional_number(cell.share_of_capacity.map(|share| share * 100.0), 1),
            Cell::optional_number(cell.longest_silence_ms, 0),
            Cell::optional_number(cell.duplicates_percent, 2),
            Cell::optional_number(cell.cpu_seconds_per_gb, 1),
        ];
        if cell.transport == "fbdt" { table.push_highlighted(row) } else { table.push(row) }
    }
    table
}

/// All tables as Markdown, with how they were made.
#[must_use]
pub fn markdown(outcome: &Outcome) -> String {
    let run = &outcome.reproduction.run;
    let audit = run.audit.as_ref().map_or("", |audit| audit.detail.as_str());
    let mut made = format!(
        "`{}`, version {}, Linux {}, {}. Congestion control: {}. Emulator: {audit}.",
        run.command, run.version, run.kernel, run.machine, run.congestion
    );
    for (name, value) in &run.configuration {
        made.push_str(&format!(" {name}: {value}."));
    }
    let claims = outcome.reproduction.table();
    let (goodput, detail) = (goodput(outcome), detail(outcome));
    format!("{made}\n\n{}\n{}\n{}", goodput.to_markdown(), claims.to_markdown(), detail.to_markdown())
}
