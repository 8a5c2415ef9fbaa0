//! The comparison as tables, for the terminal and for the page in docs/models.

use super::super::Traffic;
use super::{BAND, Report, Row, Subject, within_band};
use tributary_report::{Cell, Column, Expectation, Judged, Table};

impl Report {
    /// The summary, and a table per quantity.
    #[must_use]
    pub fn tables(&self) -> Vec<Table> {
        let mut tables = vec![self.summary()];
        for (subject, title) in [
            (Subject::Goodput, "Goodput of one long transfer"),
            (Subject::GoodputUnderLoss, "Goodput with random loss, mean over seeds"),
            (Subject::Completion, "Time of one transfer, from its first packet on"),
        ] {
            let mut table = Table::new(title).columns(columns(subject));
            let rows = self.rows.iter().filter(|row| row.subject == subject);
            rows.for_each(|row| table.push(cells(row)));
            if !table.is_empty() {
                tables.push(table);
            }
        }
        tables
    }

    /// The same in Markdown.
    #[must_use]
    pub fn to_markdown(&self) -> String {
        self.tables().iter().map(Table::to_markdown).collect::<Vec<_>>().join("\n")
    }

    /// How many cells of each congestion control agree.
    fn summary(&self) -> Table {
        let title = format!("Cells within {:.0} % of ns-3 3.37", self.band * 100.0);
        let columns = [
            Column::left("congestion control"),
            Column::left("subject"),
            Column::right("cells"),
            Column::right("agree"),
            Column::right("agree, without the first third"),
            Column::right("no result of ns-3"),
        ];
        let columns = columns.into_iter().chain(Judged::columns("median ratio"));
        let mut table = Table::new(&title).columns(columns);
        let mut names: Vec<&str> = self.rows.iter().map(|row| row.cell.congestion.as_str()).collect();
        names.dedup();
        names.sort_unstable();
        names.dedup();
        for name in names {
            for subject in [Subject::Goodput, Subject::GoodputUnderLoss, Subject::Completion] {
                let of_both = |row: &&Row| row.cell.congestion == name && row.subject == subject;
                let rows: Vec<&Row> = self.rows.iter().filter(of_both).collect();
                if !rows.is_empty() {
                    table.push(summary_row(name, subject, &rows));
                }
            }
        }
        table
    }
}

fn summary_row(name: &str, subject: Subject, rows: &[&Row]) -> Vec<Cell> {
    let agree = rows.iter().filter(|row| row.agrees() == Some(true)).count();
    let compared = rows.iter().filter(|row| row.ratio.is_some()).count();
    let settled = rows.iter().filter(|row| row.settled_ratio.is_some_and(within_band)).count();
    let settled = (subject != Subject::Completion).then_some(settled as f64);
    let ratios: Vec<f64> = rows.iter().filter_map(|row| row.ratio).collect();
    let names = [
        Cell::text(name),
        Cell::text(match subject {
            Subject::Goodput => "goodput",
            Subject::GoodputUnderLoss => "goodput with loss",
            Subject::Completion => "completion time",
        }),
        Cell::number(rows.len() as f64, 0),
        Cell::number(agree as f64, 0),
        Cell::optional_number(settled, 0),
        Cell::number((rows.len() - compared) as f64, 0),
    ];
    let wanted = Expectation::Between(1.0 - BAND, 1.0 + BAND);
    names.into_iter().chain(Judged::median(&ratios, wanted).cells(3)).collect()
}

fn columns(subject: Subject) -> Vec<Column> {
    let mut columns = vec![
        Column::left("control"),
        Column::right("rate").unit("Mbit/s"),
        Column::right("RTT").unit("ms"),
        Column::right("queue").unit("BDP"),
    ];
    match subject {
        Subject::Goodput => {}
        Subject::GoodputUnderLoss => columns.push(Column::right("loss").unit("%")),
        Subject::Completion => columns.push(Column::right("size").unit("KiB")),
    }
    let unit = if subject == Subject::Completion { "s" } else { "Mbit/s" };
    columns.extend([
        Column::right("here").unit(unit),
        Column::right("ns-3").unit(unit),
        Column::right("ratio"),
    ]);
    if subject != Subject::Completion {
        columns.push(Column::right("ratio without the first third"));
    }
    columns
}

fn cells(row: &Row) -> Vec<Cell> {
    let cell = &row.cell;
    let mut cells = vec![
        Cell::text(&cell.congestion),
        Cell::number(cell.rate_bps as f64 / 1e6, 0),
        Cell::number(cell.rtt.as_secs_f64() * 1e3, 0),
        Cell::number(row.buffer_bdp, 2),
    ];
    match (row.subject, cell.traffic) {
        (Subject::GoodputUnderLoss, _) => cells.push(Cell::number(cell.loss * 100.0, 1)),
        (Subject::Completion, Traffic::Transfer(bytes)) => cells.push(Cell::number((bytes >> 10) as f64, 0)),
        _ => {}
    }
    let decimals = if row.subject == Subject::Completion { 3 } else { 2 };
    cells.push(Cell::number(row.ours, decimals));
    match (&row.failure, row.peer) {
        (Some(failure), None) => cells.push(Cell::text(short(failure))),
        (_, peer) => cells.push(Cell::optional_number(peer, decimals)),
    }
    let ratio = |ratio: Option<f64>| Cell::optional_number(ratio, 3);
    cells.push(ratio(row.ratio));
    if row.subject != Subject::Completion {
        cells.push(ratio(row.settled_ratio));
    }
    cells
}

/// Why ns-3 has no result, as one word.
fn short(failure: &str) -> &'static str {
    if failure.contains("gave up") { "too slow" } else { "crashed" }
}
