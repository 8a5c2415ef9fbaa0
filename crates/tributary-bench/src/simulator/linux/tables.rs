//! The comparison as tables, for the terminal and for the page in docs/models.

use super::{Group, Report, Row, within_band};
use tributary_report::{Cell, Column, Expectation, Judged, Table};

const SUMMARY: &str = "Simulator by kernel: cells within the band";
const MISSES: &str = "Outside the band";

impl Report {
    /// The shares within the band, the misses, and all cells.
    #[must_use]
    pub fn tables(&self) -> Vec<Table> {
        self.titled().into_iter().map(|(_, table)| table).collect()
    }

    /// The same in Markdown.
    #[must_use]
    pub fn to_markdown(&self) -> String {
        let texts = self.titled().into_iter();
        let texts = texts.map(|(title, table)| format!("**{title}**\n\n{}", table.to_markdown()));
        texts.collect::<Vec<_>>().join("\n")
    }

    fn titled(&self) -> Vec<(&'static str, Table)> {
        let mut tables = vec![(SUMMARY, self.summary())];
        let misses = self.rows.iter().filter(|row| !row.agrees());
        tables.extend(listed(MISSES, misses));
        for group in Group::ALL {
            let rows = self.rows.iter().filter(|row| row.group == group);
            tables.extend(listed(title(group), rows));
        }
        tables
    }

    /// How many cells of each congestion control or scheduler agree.
    fn summary(&self) -> Table {
        let columns = [
            Column::left("group"),
            Column::left(""),
            Column::right("band").unit("%"),
            Column::right("cells"),
            Column::right("agree"),
            Column::right("agree, without the first third"),
            Column::right("inexact runs"),
        ];
        let columns = columns.into_iter().chain(Judged::columns("median ratio"));
        let mut table = Table::new(SUMMARY).columns(columns);
        for group in Group::ALL {
            let mut names: Vec<&str> =
                self.rows.iter().filter(|row| row.group == group).map(Row::subject).collect();
            names.sort_unstable();
            names.dedup();
            for name in names {
                let rows = self.rows.iter().filter(|row| row.group == group && row.subject() == name);
                table.push(summary_row((group, name), &rows.collect::<Vec<_>>()));
            }
        }
        table
    }
}

impl Row {
    /// The congestion control or scheduler that is compared.
    fn subject(&self) -> &str {
        if self.group == Group::Schedulers { &self.transport } else { &self.congestion }
    }
}

fn summary_row((group, name): (Group, &str), rows: &[&Row]) -> Vec<Cell> {
    let agree = rows.iter().filter(|row| row.agrees()).count();
    let settled = rows.iter().filter(|row| within_band(group, row.settled_ratio)).count();
    let ratios: Vec<f64> = rows.iter().map(|row| row.ratio).collect();
    let inexact = rows.iter().filter(|row| !row.valid).count();
    let names = [
        Cell::text(group.name()),
        Cell::text(name),
        Cell::number(group.band() * 100.0, 0),
        Cell::number(rows.len() as f64, 0),
        Cell::number(agree as f64, 0),
        Cell::number(settled as f64, 0),
        Cell::number(inexact as f64, 0),
    ];
    let wanted = Expectation::Between(1.0 - group.band(), 1.0 + group.band());
    names.into_iter().chain(Judged::median(&ratios, wanted).cells(3)).collect()
}

fn title(group: Group) -> &'static str {
    match group {
        Group::Steady => "One connection, constant rate",
        Group::Loss => "One connection, random loss, mean over seeds",
        Group::Changing => "One connection, changing rate",
        Group::Schedulers => "Sessions over two radios",
        Group::Ebpf => "One connection, controllers by eBPF",
    }
}

fn listed<'a>(title: &'static str, rows: impl Iterator<Item = &'a Row>) -> Option<(&'static str, Table)> {
    let mut table = Table::new(title).columns([
        Column::left("network"),
        Column::left("transport"),
        Column::left("control"),
        Column::right("kernel").unit("Mbit/s"),
        Column::right("simulator").unit("Mbit/s"),
        Column::right("ratio"),
        Column::right("ratio without the first third"),
        Column::right("spread of the kernel's runs").unit("%"),
        Column::left("audit"),
    ]);
    rows.for_each(|row| table.push(cells(row)));
    (!table.is_empty()).then_some((title, table))
}

fn cells(row: &Row) -> Vec<Cell> {
    vec![
        Cell::text(&row.network),
        Cell::text(if row.group == Group::Schedulers { &row.transport } else { "TCP" }),
        Cell::text(&row.congestion),
        Cell::number(row.kernel, 2),
        Cell::number(row.simulator, 2),
        Cell::number(row.ratio, 3),
        Cell::number(row.settled_ratio, 3),
        Cell::number(row.spread * 100.0, 1),
        Cell::text(if row.valid { "exact" } else { "inexact" }),
    ]
}
