//! Tables and pages of a reproduction, from the paper's file. Drawings: `figure`.

use super::check::{combinations, values_of};
use super::evaluate::{Measured, Measurements, Method, measure};
use super::expression::Expression;
use super::judge::taken;
use super::matrix::Axes;
use super::paper::{FigureSpec, Paper, TableSpec, Take};
use super::runner::Outcome;
use super::sample::{Labels, combined, filled};
use std::collections::BTreeMap;
use tributary_report::{Column, HtmlReport, Reproduced, Table, TableCell, Verdict};

/// A reproduction with its paper, to be printed.
pub struct Page<'a> {
    pub(super) paper: &'a Paper,
    pub(super) outcome: &'a Outcome,
    pub(super) subjects: BTreeMap<String, Labels>,
}

/// The cells of which a value is computed.
#[derive(Clone, Copy)]
pub(super) struct Scope<'a> {
    /// Labels of its cells.
    pub at: &'a Labels,
    /// The value is the mean over all combinations of these values.
    pub over: &'a Axes,
    /// Axes whose values count as further seeds.
    pub pool: &'a [String],
}

impl<'a> Page<'a> {
    /// The page of this outcome.
    #[must_use]
    pub fn new(paper: &'a Paper, outcome: &'a Outcome) -> Self {
        let mut subjects = paper.subject.clone();
        subjects.insert("row".to_owned(), Labels::new());
        Self { paper, outcome, subjects }
    }

    /// The mean of a value over the combinations of a place, with its interval if `interval` is set. There is no
    /// value if a subject matches several cells or if a cell was not run.
    pub(super) fn value(&self, text: &str, place: Scope<'_>, interval: bool) -> Measured {
        let places = combinations(place.over, &self.outcome.planned);
        let places: Vec<Labels> =
            places.into_iter().map(|more| place.at.clone().into_iter().chain(more).collect()).collect();
        let parsed: Result<Vec<_>, _> =
            places.iter().map(|place| Expression::parse(&filled(text, place))).collect();
        let Ok(expressions) = parsed else { return Measured::default() };
        let (samples, metrics) = (&self.outcome.samples, &self.outcome.metrics);
        let measurements = Measurements { samples, subjects: &self.subjects, metrics, pool: place.pool };
        let terms = expressions.iter().zip(&places);
        let bound: Result<Vec<_>, _> =
            terms.map(|(expression, place)| measurements.bind(expression, place)).collect();
        // The range is much cheaper than a bootstrap, and the interval is not shown.
        let method = if interval { self.paper.interval } else { Method::Range };
        match bound {
            Ok(bound) => measure(&bound, |values| taken(Take::Mean, values), method),
            Err(_) => Measured::default(),
        }
    }

    /// The paper's tables, without that of the claims.
    #[must_use]
    pub fn tables(&self) -> Vec<Table> {
        let own = self.paper.table.iter().filter(|t| t.world.is_none_or(|w| w == self.outcome.world));
        own.map(|spec| self.table(spec)).filter(|table| !table.is_empty()).collect()
    }

    fn table(&self, spec: &TableSpec) -> Table {
        let mut columns: Vec<Column> = spec.rows.iter().map(|axis| Column::left(axis)).collect();
        let mut shown = Vec::new();
        let rows = self.rows(spec);
        for column in &spec.column {
            let value = |at: &Labels| {
                let place = Scope { at, over: &spec.over, pool: &spec.pool };
                self.value(&column.value, place, column.interval)
            };
            let values: Vec<Measured> = rows.iter().map(value).collect();
            if values.iter().all(|measured| measured.value.is_none()) {
                continue; // not measured in this world or with this choice
            }
            if column.paper.is_some() {
                columns.push(Column::right(&format!("{}, paper", column.head)).unit(&column.unit));
            }
            columns.push(Column::right(&column.head).unit(&column.unit));
            shown.push((column, values));
        }
        let mut table = Table::new(&spec.title).columns(columns);
        for (number, at) in rows.iter().enumerate() {
            let label = |axis: &String| TableCell::text(self.paper.label(axis, &at[axis]));
            let mut cells: Vec<TableCell> = spec.rows.iter().map(label).collect();
            if shown.iter().all(|(_, values)| values[number].value.is_none()) {
                continue;
            }
            for (column, values) in &shown {
                if let Some((name, subject)) = column.paper.as_ref().and_then(|paper| paper.split_once('.')) {
                    let row = spec.rows.first().map_or("", |axis| at[axis].as_str());
                    let number = self.paper.number(name, row, &filled(subject, at), self.outcome.world);
                    cells.push(TableCell::optional_number(number, column.digits));
                }
                cells.push(number_cell(values[number], column.digits, column.interval));
            }
            let stands_out = !spec.highlight.is_empty()
                && spec.highlight.iter().all(|(axis, value)| at.get(axis) == Some(value));
            if stands_out { table.push_highlighted(cells) } else { table.push(cells) }
        }
        table
    }

    /// Combinations of the rows' axes that were planned, in the order of the axes. Each has the value that `only` gives to
    /// an axis without rows, too.
    fn rows(&self, spec: &TableSpec) -> Vec<Labels> {
        let fixed = spec.only.iter().filter(|(axis, _)| !spec.rows.contains(axis));
        let fixed = fixed.filter_map(|(axis, values)| Some((axis.clone(), values.first()?.clone())));
        let values = |axis: &String| {
            spec.only.get(axis).cloned().unwrap_or_else(|| values_of(axis, &self.outcome.planned))
        };
        let rows = combined(fixed.collect(), spec.rows.iter().map(|axis| (axis.as_str(), values(axis))));
        let planned = |at: &Labels| {
            self.outcome.planned.iter().any(|labels| at.iter().all(|(axis, v)| labels.get(axis) == Some(v)))
        };
        rows.into_iter().filter(planned).collect()
    }

    /// All tables as Markdown, each below its title. The first line states the command and the commit that made them.
    #[must_use]
    pub fn markdown(&self) -> String {
        let run = &self.outcome.reproduction.run;
        let mut made = format!("{}\n{} seeds.", run.marker(), run.seeds.len());
        if let Some(audit) = &run.audit {
            made.push_str(&format!(" Linux {}, {}. Emulator: {}.", run.kernel, run.machine, audit.detail));
        }
        made.push_str(&format!(" Congestion control: {}.", run.congestion));
        for (name, value) in &run.configuration {
            made.push_str(&format!(" {name}: {value}."));
        }
        let mut out = format!("{made}\n");
        if let Some(claims) = self.claims() {
            out.push_str(&format!("\n### Claims\n\n{}", claims.to_markdown()));
        }
        for table in self.tables() {
            out.push_str(&format!("\n{}", table.to_section()));
        }
        out
    }

    /// The text for a terminal.
    #[must_use]
    pub fn text(&self) -> String {
        let tables = self.tables().into_iter().chain(self.claims());
        tables.map(|table| table.to_text()).collect::<Vec<_>>().join("\n")
    }

    /// The table of claims; `None` if no claim is about the cells that were run.
    fn claims(&self) -> Option<Table> {
        Some(self.outcome.reproduction.table()).filter(|table| !table.is_empty())
    }

    /// Figures with a separate file: file name and SVG.
    #[must_use]
    pub fn drawings(&self) -> Vec<(String, String)> {
        let named = self.shown_figures().filter_map(|spec| Some((spec.file.as_ref()?, spec)));
        let drawn = |(name, spec): (&String, &FigureSpec)| {
            let places = self.plots(spec).into_iter();
            places.map(|(at, plot)| (file_name(name, &at), plot.standalone())).collect::<Vec<_>>()
        };
        named.flat_map(drawn).collect()
    }

    /// The figures of this world.
    fn shown_figures(&self) -> impl Iterator<Item = &FigureSpec> {
        self.paper.figure.iter().filter(|spec| spec.world.is_none_or(|world| world == self.outcome.world))
    }

    /// The page as one HTML file.
    #[must_use]
    pub fn html(&self) -> String {
        self.report().render()
    }

    /// The page as a report to which the caller may add sections.
    #[must_use]
    pub fn report(&self) -> HtmlReport {
        let (paper, made) = (self.paper, &self.outcome.reproduction);
        let mut report = HtmlReport::new(&format!("reproduction · {}", made.name));
        let count = |verdict| made.claims.iter().filter(|claim| claim.verdict == verdict).count();
        let (holds, fails) = (count(Verdict::Holds), count(Verdict::Fails));
        let (all, open) = (made.claims.len(), count(Verdict::Undecided));
        let figures = made.claims.iter().filter(|claim| claim.reproduced.is_some()).count();
        let reproduced = made.claims.iter().filter(|claim| claim.reproduced == Some(Reproduced::Yes)).count();
        report.lead(&paper.lead);
        if made.claims.is_empty() {
            report.headline(&paper.title).made(&made.run);
        } else {
            let published = match figures {
                0 => String::new(),
                _ => format!("{reproduced} of {figures} figures of the paper reproduced; "),
            };
            report
                .headline(&format!(
                    "{}: {published}of {all} promises {holds} hold, {fails} fail, {open} undecided.",
                    paper.title
                ))
                .section("Claims")
                .reproduction(
                    made,
                    "Two verdicts. The paper's figure is reproduced if the whole interval is at least as good as it. The \
                     promise is this project's own bound: it holds or fails if the whole interval lies on one side. \
                     Otherwise a verdict is undecided. Intervals are over the seeds, paired; with a single seed, or if every seed gives \
                     the same result (deterministic), over the seconds of the run.",
                );
        }
        let shown = |world: Option<crate::result::World>| world.is_none_or(|w| w == self.outcome.world);
        for spec in paper.table.iter().filter(|spec| shown(spec.world)) {
            let table = self.table(spec);
            if !table.is_empty() {
                report.section(&spec.title).table(&table, &spec.caption);
            }
        }
        for spec in self.shown_figures() {
            for (_, plot) in self.plots(spec) {
                report.section(plot.title()).figure(plot.as_ref(), &spec.caption);
            }
        }
        report
    }
}

/// The figure's name and the values of its place, which may be names of files.
fn file_name(name: &str, at: &Labels) -> String {
    let values =
        at.values().map(|value| value.replace(|c: char| !c.is_ascii_alphanumeric() && c != '.', "-"));
    std::iter::once(name.to_owned()).chain(values).collect::<Vec<_>>().join("-")
}

fn number_cell(measured: Measured, digits: usize, with_interval: bool) -> TableCell {
    match (measured.value, measured.interval) {
        (Some(value), _) if with_interval && measured.deterministic => {
            TableCell::text(&format!("{value:.digits$}, deterministic"))
        }
        (Some(value), Some(i)) if with_interval && i.low < i.high => {
            TableCell::text(&format!("{value:.digits$} [{:.digits$}, {:.digits$}]", i.low, i.high))
        }
        (value, _) => TableCell::optional_number(value, digits),
    }
}
