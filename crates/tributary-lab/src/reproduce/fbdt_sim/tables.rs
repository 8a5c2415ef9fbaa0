//! Tables of the simulated reproduction, for the terminal, the report and the documentation.

use super::{CellSummary, Outcome, paper};
use crate::contestant::radio;
use tributary_report::{Cell, Column, Table};

/// Whether the paper has figures of this transport.
const IN_PAPER: [&str; 4] = ["wifi", "wigig", "mptcp", "fbdt"];
/// Shown first, in this order.
const FIRST: [&str; 6] = ["wifi", "wigig", "mptcp", "fbdt", "fbdt-paper", "musher"];

/// The transports that were run, the most telling first.
fn transports(outcome: &Outcome) -> Vec<String> {
    let mut names: Vec<String> = Vec::new();
    let ran = |name: &str| outcome.cells.iter().any(|cell| cell.transport == name);
    names.extend(FIRST.iter().filter(|name| ran(name)).map(|&name| name.to_owned()));
    for cell in &outcome.cells {
        if !names.contains(&cell.transport) {
            names.push(cell.transport.clone());
        }
    }
    names
}

fn cell<'a>(
    outcome: &'a Outcome,
    (scenario, transport, congestion): (&str, &str, &str),
) -> Option<&'a CellSummary> {
    outcome.cells.iter().find(|cell| {
        cell.scenario == scenario && cell.transport == transport && cell.congestion == congestion
    })
}

/// "Paper, this run": mean goodputs.
#[must_use]
pub fn goodput(outcome: &Outcome) -> Table {
    let names = transports(outcome);
    let mut columns = vec![Column::left("condition"), Column::left("control")];
    for name in &names {
        let label = if name == "mptcp" { "MPTCP".to_owned() } else { radio(name) };
        if IN_PAPER.contains(&name.as_str()) {
            columns.push(Column::right(&format!("{label}, paper")));
            columns.push(Column::right("this run"));
        } else {
            columns.push(Column::right(&label));
        }
    }
    let mut table = Table::new("Mean goodput in Mbit/s, means over the seeds").columns(columns);
    for (condition, congestion) in &outcome.planned {
        let mut row = vec![Cell::text(condition.label), Cell::text(congestion)];
        for name in &names {
            if IN_PAPER.contains(&name.as_str()) {
                row.push(Cell::optional_number(paper(condition, name), 0));
            }
            let mean =
                cell(outcome, (condition.scenario, name, congestion)).and_then(|cell| cell.goodput_mbps);
            let measured = Cell::optional_number(mean, 0);
            row.push(if name == "fbdt" { measured.strong() } else { measured });
        }
        table.push(row);
    }
    table
}

/// What averages hide, for every transport.
#[must_use]
pub fn detail(outcome: &Outcome) -> Table {
    let mut table = Table::new("Beside the average").columns([
        Column::left("condition"),
        Column::left("control"),
        Column::left("transport"),
        Column::right("seeds"),
        Column::right("mean").unit("Mbit/s"),
        Column::right("p10").unit("Mbit/s"),
        Column::right("worst second").unit("Mbit/s"),
        Column::right("of capacity").unit("%"),
        Column::right("longest silence").unit("ms"),
        Column::right("sent again").unit("%"),
    ]);
    for (condition, congestion) in &outcome.planned {
        for name in transports(outcome) {
            let Some(cell) = cell(outcome, (condition.scenario, &name, congestion)) else { continue };
            let row = [
                Cell::text(condition.label),
                Cell::text(congestion),
                Cell::text(&name),
                Cell::text(&cell.runs.to_string()),
                Cell::optional_number(cell.goodput_mbps, 0),
                Cell::optional_number(cell.p10_mbps, 0),
                Cell::optional_number(cell.worst_second_mbps, 0),
                Cell::optional_number(cell.share_of_capacity.map(|share| share * 100.0), 1),
                Cell::optional_number(cell.longest_silence_ms, 0),
                Cell::optional_number(cell.reinjected_percent, 2),
            ];
            if name == "fbdt" { table.push_highlighted(row) } else { table.push(row) }
        }
    }
    table
}

/// All tables as Markdown, with how they were made.
#[must_use]
pub fn markdown(outcome: &Outcome) -> String {
    let run = &outcome.reproduction.run;
    let seeds = match (run.seeds.first(), run.seeds.last()) {
        (Some(first), Some(last)) => format!("{} seeds, {first} to {last}", run.seeds.len()),
        _ => "no seeds".to_owned(),
    };
    let mut made = format!(
        "`{}`, version {}; {seeds}. Congestion control: {}.",
        run.command, run.version, run.congestion
    );
    for (name, value) in &run.configuration {
        made.push_str(&format!(" {name}: {value}."));
    }
    let claims = outcome.reproduction.table();
    let (goodput, detail) = (goodput(outcome), detail(outcome));
    format!("{made}\n\n{}\n{}\n{}", goodput.to_markdown(), claims.to_markdown(), detail.to_markdown())
}
