//! The shoot-out: every transport in every condition, the best transport of each row, and the conditions in which the
//! product's scheduler is not the best. The verdicts are computed from the runs.

use super::groups::{Group, Spread};
use crate::reproduce::{Labels, Outcome};
use tributary_report::{
    Bars, Column, HtmlReport, Interval, KeyFigure, RunInfo, Table, TableCell, Tone, plot::Bar,
};

/// The product's scheduler.
const HERO: &str = "fbdt";

/// Rates: differences of less than 1 % of the best value are a tie.
const RATE: Better = Better::More { tie: 0.01 };
/// Silences: differences of less than 20 ms are a tie.
const SILENCE: Better = Better::Less { tie: 20.0 };
/// The measures that are compared.
const MEASURES: [Measure; 4] = [
    Measure { title: "mean", better: RATE, of: "goodput" },
    Measure { title: "p10 of the seconds", better: RATE, of: "p10" },
    Measure { title: "worst second", better: RATE, of: "worst_second" },
    Measure { title: "longest silence", better: SILENCE, of: "silence" },
];

#[derive(Clone, Copy)]
struct Measure {
    title: &'static str,
    better: Better,
    /// The metric.
    of: &'static str,
}

/// Which values of a measure are better.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Better {
    /// Larger ones, in Mbit/s; `tie`: as a share of the best value.
    More { tie: f64 },
    /// Smaller ones, in milliseconds; `tie`: in milliseconds.
    Less { tie: f64 },
}

impl Better {
    fn unit(self) -> &'static str {
        match self {
            Self::More { .. } => "Mbit/s",
            Self::Less { .. } => "ms",
        }
    }

    /// Unit of [`Self::behind`].
    fn behind_unit(self) -> &'static str {
        match self {
            Self::More { .. } => "%",
            Self::Less { .. } => "ms",
        }
    }

    /// The largest difference that is a tie, as text.
    fn tie(self) -> String {
        match self {
            Self::More { tie } => format!("{} %", tie * 100.0),
            Self::Less { tie } => format!("{tie} ms"),
        }
    }

    /// Whether `a` is better than `b`.
    fn prefers(self, a: f64, b: f64) -> bool {
        match self {
            Self::More { .. } => a > b,
            Self::Less { .. } => a < b,
        }
    }

    /// How far `value` is behind `best`: in per cent of `best`, or in milliseconds.
    fn behind(self, value: f64, best: f64) -> f64 {
        match self {
            Self::More { .. } => (best - value) / best.max(1e-9) * 100.0,
            Self::Less { .. } => value - best,
        }
    }

    fn is_tie(self, value: f64, best: f64) -> bool {
        match self {
            Self::More { tie } => value >= best * (1.0 - tie),
            Self::Less { tie } => value <= best + tie,
        }
    }

    /// Whether all of `best` is better than all of `value`.
    fn is_apart(self, value: Interval, best: Interval) -> bool {
        match self {
            Self::More { .. } => best.low > value.high,
            Self::Less { .. } => best.high < value.low,
        }
    }
}

/// The report.
#[derive(Debug)]
pub struct Page<'a> {
    groups: Vec<Group<'a>>,
    lines: Vec<Line>,
    transports: Vec<String>,
    info: RunInfo,
    name: String,
    /// Whether all seeds are held-back ones.
    is_held_back: bool,
    failed: Vec<Line>,
}

/// One row of the tables.
#[derive(Clone, Debug, PartialEq)]
struct Line {
    scenario: String,
    congestion: String,
    rtt: String,
    queue: String,
}

/// Rank of the product's scheduler in one line by one measure.
#[derive(Clone, Debug, PartialEq)]
struct Rank {
    line: Line,
    measure: &'static str,
    better: Better,
    hero: f64,
    best: f64,
    winner: String,
    /// The confidence intervals do not overlap; false with a single seed.
    clear: bool,
}

impl Rank {
    fn is_tie(&self) -> bool {
        self.better.is_tie(self.hero, self.best)
    }

    fn behind(&self) -> f64 {
        self.better.behind(self.hero, self.best)
    }
}

impl Line {
    fn of(labels: &Labels) -> Self {
        let label = |axis: &str| labels.get(axis).cloned().unwrap_or_default();
        let [scenario, congestion, rtt, queue] = ["scenario", "congestion", "rtt", "queue"].map(label);
        Self { scenario, congestion, rtt, queue }
    }

    /// The condition as text, without values that are the scenario's own.
    fn condition(&self) -> String {
        let mut text = self.scenario.clone();
        for (name, value) in [("RTT", &self.rtt), ("queue", &self.queue)] {
            if value != "scenario" {
                text.push_str(&format!(", {name} {value}"));
            }
        }
        text
    }
}

impl<'a> Page<'a> {
    /// Makes the report of finished runs.
    #[must_use]
    pub fn new(outcome: &'a Outcome, is_held_back: bool) -> Self {
        let groups = Group::of(&outcome.samples);
        let (mut lines, mut transports): (Vec<Line>, Vec<String>) = Default::default();
        for group in &groups {
            let (line, transport) = (Line::of(group.labels()), transport_of(group.labels()));
            if !lines.contains(&line) {
                lines.push(line);
            }
            if !transports.contains(&transport) {
                transports.push(transport);
            }
        }
        let failed = outcome.samples.iter().filter(|sample| sample.failure.is_some());
        let failed = failed.map(|sample| Line::of(&sample.labels)).collect();
        let made = &outcome.reproduction;
        Self {
            groups,
            lines,
            transports,
            info: made.run.clone(),
            name: made.name.clone(),
            is_held_back,
            failed,
        }
    }

    /// The smallest number of seeds of any transport in a line, and the number of failed runs of the line.
    fn counts(&self, line: &Line) -> (usize, usize) {
        let own = self.groups.iter().filter(|group| Line::of(group.labels()) == *line);
        let fewest = own.map(|group| group.runs.len()).min().unwrap_or(0);
        (fewest, self.failed.iter().filter(|failed| *failed == line).count())
    }

    fn spread(&self, line: &Line, transport: &str, measure: Measure) -> Option<Spread> {
        let same = |group: &&Group<'_>| {
            transport_of(group.labels()) == transport && Line::of(group.labels()) == *line
        };
        self.groups.iter().find(same)?.spread(measure.of)
    }

    /// The best transport of a line; the first one if several are equal.
    fn best(&self, line: &Line, measure: Measure) -> Option<(&str, Spread)> {
        let all = self
            .transports
            .iter()
            .filter_map(|transport| Some((transport.as_str(), self.spread(line, transport, measure)?)));
        all.reduce(|best, next| if measure.better.prefers(next.1.mean, best.1.mean) { next } else { best })
    }

    fn standings(&self) -> Vec<Rank> {
        let mut standings = Vec::new();
        for line in &self.lines {
            for measure in MEASURES {
                let hero = self.spread(line, HERO, measure);
                let (Some(hero), Some((winner, best))) = (hero, self.best(line, measure)) else { continue };
                let ends = hero.interval.zip(best.interval);
                standings.push(Rank {
                    line: line.clone(),
                    measure: measure.title,
                    better: measure.better,
                    hero: hero.mean,
                    best: best.mean,
                    winner: winner.to_owned(),
                    clear: ends.is_some_and(|(hero, best)| measure.better.is_apart(hero, best)),
                });
            }
        }
        standings
    }

    fn table(&self, measure: Measure) -> Table {
        let mut columns = vec![Column::left("condition"), Column::left("control")];
        columns.extend(self.transports.iter().map(|name| Column::right(name)));
        columns.extend([Column::left("best"), Column::right("seeds"), Column::right("failed")]);
        let title = format!("{}, {}: means over the seeds", measure.better.unit(), measure.title);
        let mut table = Table::new(&title).columns(columns);
        for line in &self.lines {
            let best = self.best(line, measure);
            let top = best.map_or(f64::NAN, |(_, spread)| spread.mean);
            let mut row = vec![TableCell::text(&line.condition()), TableCell::text(&line.congestion)];
            for transport in &self.transports {
                let mean = self.spread(line, transport, measure).map(|spread| spread.mean);
                let cell = TableCell::optional_number(mean, 1);
                row.push(if mean == Some(top) { cell.strong() } else { cell });
            }
            let (seeds, failed) = self.counts(line);
            row.push(TableCell::text(best.map_or("–", |(name, _)| name)));
            row.extend([TableCell::text(&seeds.to_string()), TableCell::text(&failed.to_string())]);
            table.push(row);
        }
        table
    }

    /// The conditions in which the product's scheduler is not the best by the measures of one kind; the largest
    /// difference first.
    fn losses(&self, kind: Better) -> Table {
        let mut lost: Vec<Rank> =
            self.standings().into_iter().filter(|s| s.better == kind && !s.is_tie()).collect();
        lost.sort_by(|a, b| b.behind().total_cmp(&a.behind()));
        Table::of(lost_title(kind), &lost)
            .text("condition", |rank| rank.line.condition())
            .text("control", |rank| &rank.line.congestion)
            .text("by", |rank| rank.measure)
            .number((HERO, kind.unit()), 1, |rank| rank.hero)
            .text("best", |rank| &rank.winner)
            .number(("its value", kind.unit()), 1, |rank| rank.best)
            .strong()
            .number(("behind", kind.behind_unit()), 1, Rank::behind)
            .text("intervals", |rank| if rank.clear { "apart" } else { "touch, or none" })
            .table()
    }

    /// One sentence per measure: in how many conditions the product's scheduler is the best, or not apart from it by
    /// more than a tie; and one about all measures.
    fn verdicts(&self) -> Vec<String> {
        let standings = self.standings();
        let of = |measure: &Measure| {
            let all: Vec<&Rank> = standings.iter().filter(|s| s.measure == measure.title).collect();
            let best = all.iter().filter(|s| s.is_tie()).count();
            let clearly = all.iter().filter(|s| !s.is_tie() && s.clear).count();
            format!(
                "By {}: {HERO} is the best, or within {} of it, in {best} of {} rows; in {clearly} another is \
                 ahead with intervals that do not touch.",
                measure.title,
                measure.better.tie(),
                all.len()
            )
        };
        MEASURES.iter().map(of).chain([self.all_at_once()]).collect()
    }

    /// Whether a transport is the best of a line, or within a tie, by every measure. A measure without values does not count.
    fn leads(&self, line: &Line, transport: &str) -> bool {
        MEASURES.iter().all(|&measure| {
            let own = self.spread(line, transport, measure).map(|spread| spread.mean);
            let best = self.best(line, measure).map(|(_, spread)| spread.mean);
            best.is_none_or(|best| own.is_some_and(|own| measure.better.is_tie(own, best)))
        })
    }

    /// In how many lines the product's scheduler, another transport, or none is the best by every measure.
    fn all_at_once(&self) -> String {
        let (own, others): (Vec<&Line>, Vec<&Line>) =
            self.lines.iter().partition(|line| self.leads(line, HERO));
        let another = others.iter().filter(|line| self.transports.iter().any(|name| self.leads(line, name)));
        let another = another.count();
        format!(
            "By all {} at once: {HERO} in {} of {} rows, only others in {another}, none in {}.",
            MEASURES.len(),
            own.len(),
            self.lines.len(),
            others.len() - another
        )
    }

    /// As Markdown, for the documentation.
    #[must_use]
    pub fn markdown(&self) -> String {
        let info = &self.info;
        let seeds = match (info.seeds.first(), info.seeds.last()) {
            (Some(first), Some(last)) => format!("{} seeds, {first} to {last}", info.seeds.len()),
            _ => "no seeds".to_owned(),
        };
        let mut out = format!("{}\n{seeds}.", info.marker());
        for (name, value) in &info.configuration {
            out.push_str(&format!(" {name}: {value}."));
        }
        out.push_str("\n\n");
        for verdict in self.verdicts() {
            out.push_str(&format!("- {verdict}\n"));
        }
        for kind in [RATE, SILENCE] {
            let losses = self.losses(kind);
            if !losses.is_empty() {
                out.push_str(&format!("\n### {}\n\n{}", lost_title(kind), losses.to_markdown()));
            }
        }
        for measure in MEASURES {
            out.push_str(&format!("\n### By {}\n\n{}", measure.title, self.table(measure).to_markdown()));
        }
        out
    }

    /// As one HTML file.
    #[must_use]
    pub fn html(&self) -> String {
        let mut report = HtmlReport::new(&format!("shoot-out · {}", self.name));
        let verdicts = self.verdicts();
        report.headline(&format!(
            "{} transports in {} rows of conditions and controls{}.",
            self.transports.len(),
            self.lines.len(),
            if self.is_held_back { ", on seeds that were not used for tuning" } else { "" }
        ));
        report.lead(&verdicts.join(" "));
        for (measure, verdict) in MEASURES.iter().zip(&verdicts) {
            let standings = self.standings();
            let own = standings.iter().filter(|s| s.measure == measure.title);
            let best = own.clone().filter(|s| s.is_tie()).count();
            let value = format!("{best} of {}", own.count());
            report.card(
                KeyFigure::new(&format!("{HERO} best by {}", measure.title), &value, "rows").note(verdict),
            );
        }
        for kind in [RATE, SILENCE] {
            let losses = self.losses(kind);
            report.section(lost_title(kind));
            if losses.is_empty() {
                report.text(&format!("{HERO} is the best, or within {} of it, in every row.", kind.tie()));
            } else {
                report
                    .table(&losses, "Worst first. Intervals: 95 % of the mean over the seeds, by bootstrap.");
            }
        }
        for measure in MEASURES {
            report
                .section(&format!("By {}", measure.title))
                .figure(&self.bars(measure), "Means over the seeds; whiskers are 95 % intervals.")
                .table(&self.table(measure), "The best of each row stands out.");
        }
        report.made(&self.info);
        report.render()
    }

    /// Bars of the first congestion control in every condition.
    fn bars(&self, measure: Measure) -> Bars {
        let few: Vec<&String> = self.transports.iter().filter(|name| tone(name) != Tone::Peer).collect();
        let series: Vec<(&str, Tone)> = few.iter().map(|name| (name.as_str(), tone(name))).collect();
        let control = self.lines.first().map_or("", |line| line.congestion.as_str());
        let mut bars = Bars::new(&format!("{}, {control}", measure.title), measure.better.unit(), &series);
        for line in self.lines.iter().filter(|line| line.congestion == control) {
            let bar = |name: &&String| {
                let spread = self.spread(line, name, measure);
                Bar::new(spread.map_or(f64::NAN, |s| s.mean)).interval(spread.and_then(|s| s.interval))
            };
            bars.push(&line.condition(), few.iter().map(bar));
        }
        bars
    }
}

/// Heading of the rows that the product's scheduler loses by the measures of this kind.
fn lost_title(kind: Better) -> &'static str {
    match kind {
        Better::More { .. } => "Where fbdt is not the best",
        Better::Less { .. } => "Where fbdt is silent for longer than the best",
    }
}

/// A transport with its scheduler, if it has one to choose.
fn transport_of(labels: &Labels) -> String {
    let label = |axis: &str| labels.get(axis).map_or("none", String::as_str);
    match label("scheduler") {
        "none" => label("transport").to_owned(),
        scheduler => format!("{}/{scheduler}", label("transport")),
    }
}

fn tone(transport: &str) -> Tone {
    match transport {
        HERO => Tone::Hero,
        "fbdt-paper" => Tone::Cousin,
        "mptcp" => Tone::Rival,
        "wifi" => Tone::RadioA,
        "wigig" => Tone::RadioB,
        _ => Tone::Peer,
    }
}

#[cfg(test)]
mod tests;
