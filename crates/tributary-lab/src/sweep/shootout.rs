//! The shoot-out: every transport in every condition, and the conditions in which the product's scheduler is not the best. It is
//! compared with each other transport seed by seed: both had the same losses and rates. The verdicts come from the intervals of
//! these differences.

use super::groups::{Group, Spread};
use crate::reproduce::{Labels, Outcome};
use std::collections::BTreeMap;
use tributary_report::{
    Bars, Column, Expectation, HtmlReport, Judged, KeyFigure, RunInfo, Table, TableCell, Tone, Verdict,
    plot::Bar, stats,
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

    /// The largest difference that is a tie, in the unit of [`Self::behind`].
    fn bound(self) -> Expectation {
        Expectation::AtMost(match self {
            Self::More { tie } => tie * 100.0,
            Self::Less { tie } => tie,
        })
    }
}

/// The report.
#[derive(Debug)]
pub struct Page<'a> {
    /// The runs of each line, by transport.
    groups: BTreeMap<Line, BTreeMap<String, Group<'a>>>,
    /// In the order of the first runs.
    lines: Vec<Line>,
    transports: Vec<String>,
    info: RunInfo,
    name: String,
    /// Whether all seeds are held-back ones.
    is_held_back: bool,
    failed: Vec<Line>,
}

/// One row of the tables.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
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
    /// How far it is behind the winner, over the seeds.
    behind: Judged,
    /// Whether it is the best, or within a tie of it: the verdict on all other transports together.
    verdict: Verdict,
}

impl Rank {
    /// By the means alone.
    fn is_tie(&self) -> bool {
        self.better.is_tie(self.hero, self.best)
    }
}

/// How many ranks hold, fail, and are undecided.
fn tally<'a>(ranks: impl Iterator<Item = &'a Rank>) -> [usize; 3] {
    let mut counts = [0; 3];
    for rank in ranks {
        counts[match rank.verdict {
            Verdict::Holds => 0,
            Verdict::Fails => 1,
            Verdict::Undecided => 2,
        }] += 1;
    }
    counts
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
        let mut groups: BTreeMap<Line, BTreeMap<String, Group<'a>>> = BTreeMap::new();
        let (mut lines, mut transports): (Vec<Line>, Vec<String>) = Default::default();
        for group in Group::of(&outcome.samples) {
            let (line, transport) = (Line::of(group.labels()), transport_of(group.labels()));
            if !lines.contains(&line) {
                lines.push(line.clone());
            }
            if !transports.contains(&transport) {
                transports.push(transport.clone());
            }
            groups.entry(line).or_default().entry(transport).or_insert(group);
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
        let own = self.groups.get(line).into_iter().flat_map(BTreeMap::values);
        let fewest = own.map(|group| group.runs.len()).min().unwrap_or(0);
        (fewest, self.failed.iter().filter(|failed| *failed == line).count())
    }

    fn group(&self, line: &Line, transport: &str) -> Option<&Group<'a>> {
        self.groups.get(line)?.get(transport)
    }

    fn spread(&self, line: &Line, transport: &str, measure: Measure) -> Option<Spread> {
        self.group(line, transport)?.spread(measure.of)
    }

    /// How far a transport is behind another one, over the seeds that both have. If it is the same for all of at least five seeds,
    /// nothing in the condition is random for them, and the difference is exact.
    fn behind(&self, line: &Line, transport: &str, other: &str, measure: Measure) -> Option<Judged> {
        let [own, others] = [transport, other].map(|name| self.group(line, name));
        let others = others?.values(measure.of);
        let pairs = own?
            .values(measure.of)
            .into_iter()
            .filter_map(|(seed, own)| Some(measure.better.behind(own, *others.get(&seed)?)));
        let differences: Vec<f64> = pairs.collect();
        (!differences.is_empty()).then(|| Judged::over(&differences, stats::mean, measure.better.bound()))
    }

    /// Whether a transport is the best of a line, or within a tie of it.
    fn verdict(&self, line: &Line, transport: &str, measure: Measure) -> Verdict {
        let others = self.transports.iter().filter(|other| *other != transport);
        Verdict::all(others.filter_map(|other| Some(self.behind(line, transport, other, measure)?.verdict)))
    }

    /// The best transport of a line; the first one if several are equal.
    fn best(&self, line: &Line, measure: Measure) -> Option<(&str, Spread)> {
        let all = self
            .transports
            .iter()
            .filter_map(|transport| Some((transport.as_str(), self.spread(line, transport, measure)?)));
        all.reduce(|best, next| if measure.better.prefers(next.1.mean, best.1.mean) { next } else { best })
    }

    fn ranks(&self) -> Vec<Rank> {
        let mut ranks = Vec::new();
        for line in &self.lines {
            for measure in MEASURES {
                let hero = self.spread(line, HERO, measure);
                let (Some(hero), Some((winner, best))) = (hero, self.best(line, measure)) else { continue };
                let Some(behind) = self.behind(line, HERO, winner, measure) else { continue };
                ranks.push(Rank {
                    line: line.clone(),
                    measure: measure.title,
                    better: measure.better,
                    hero: hero.mean,
                    best: best.mean,
                    winner: winner.to_owned(),
                    behind,
                    verdict: self.verdict(line, HERO, measure),
                });
            }
        }
        ranks
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

    /// The conditions in which the product's scheduler is not the best by the measures of one kind, by the interval or by the means;
    /// the largest difference first.
    fn losses(&self, kind: Better, ranks: &[Rank]) -> Table {
        let is_lost =
            |rank: &&Rank| rank.better == kind && (!rank.is_tie() || rank.verdict == Verdict::Fails);
        let mut lost: Vec<&Rank> = ranks.iter().filter(is_lost).collect();
        lost.sort_by(|a, b| b.behind.value.total_cmp(&a.behind.value));
        Table::of(lost_title(kind), lost)
            .text("condition", |rank| rank.line.condition())
            .text("control", |rank| &rank.line.congestion)
            .text("by", |rank| rank.measure)
            .number((HERO, kind.unit()), 1, |rank| rank.hero)
            .text("best", |rank| &rank.winner)
            .number(("its value", kind.unit()), 1, |rank| rank.best)
            .strong()
            .judged(&format!("behind ({})", kind.behind_unit()), |rank| rank.behind.cells(1))
            .table()
    }

    /// One sentence per measure: in how many conditions the product's scheduler is the best, or not behind it by more than a tie; and
    /// one about all measures.
    fn verdicts(&self, ranks: &[Rank]) -> Vec<String> {
        let of = |measure: &Measure| {
            let all = || ranks.iter().filter(|rank| rank.measure == measure.title);
            let [holds, fails, undecided] = tally(all());
            format!(
                "By {}: {HERO} is the best, or within {} of it, in {holds} of {} rows; another is further ahead in {fails}; \
                 {undecided} are undecided. By the means alone it is in {}.",
                measure.title,
                measure.better.tie(),
                all().count(),
                all().filter(|rank| rank.is_tie()).count()
            )
        };
        MEASURES.iter().map(of).chain([self.all_at_once()]).collect()
    }

    /// Whether a transport is the best of a line, or within a tie, by every measure: by the means, and by the intervals. A measure
    /// without values does not count.
    fn leads(&self, line: &Line, transport: &str) -> [bool; 2] {
        let by_means = MEASURES.iter().all(|&measure| {
            let own = self.spread(line, transport, measure).map(|spread| spread.mean);
            let best = self.best(line, measure).map(|(_, spread)| spread.mean);
            best.is_none_or(|best| own.is_some_and(|own| measure.better.is_tie(own, best)))
        });
        let holds = |measure: &Measure| self.verdict(line, transport, *measure) == Verdict::Holds;
        [by_means, by_means && MEASURES.iter().all(holds)]
    }

    /// In how many lines the product's scheduler, another transport, or none is the best by every measure.
    fn all_at_once(&self) -> String {
        let [mut by_means, mut by_intervals] = [[0; 2]; 2];
        for line in &self.lines {
            let own = self.leads(line, HERO);
            let others = self.transports.iter().map(|name| self.leads(line, name));
            let any = others.fold([false; 2], |any, leads| [any[0] || leads[0], any[1] || leads[1]]);
            for (counts, at) in [(&mut by_means, 0), (&mut by_intervals, 1)] {
                counts[0] += usize::from(own[at]);
                counts[1] += usize::from(any[at] && !own[at]);
            }
        }
        format!(
            "By all {} at once: {HERO} in {} of {} rows, only others in {}. By the means alone: {HERO} in {}, only others in {}.",
            MEASURES.len(),
            by_intervals[0],
            self.lines.len(),
            by_intervals[1],
            by_means[0],
            by_means[1]
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
        let ranks = self.ranks();
        for verdict in self.verdicts(&ranks) {
            out.push_str(&format!("- {verdict}\n"));
        }
        for kind in [RATE, SILENCE] {
            let losses = self.losses(kind, &ranks);
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
        let ranks = self.ranks();
        let verdicts = self.verdicts(&ranks);
        report.headline(&format!(
            "{} transports in {} rows of conditions and controls{}.",
            self.transports.len(),
            self.lines.len(),
            if self.is_held_back { ", on seeds that were not used for tuning" } else { "" }
        ));
        report.lead(&verdicts.join(" "));
        for (measure, verdict) in MEASURES.iter().zip(&verdicts) {
            let own = || ranks.iter().filter(|rank| rank.measure == measure.title);
            let value = format!("{} of {}", tally(own())[0], own().count());
            report.card(
                KeyFigure::new(&format!("{HERO} best by {}", measure.title), &value, "rows").note(verdict),
            );
        }
        for kind in [RATE, SILENCE] {
            let losses = self.losses(kind, &ranks);
            report.section(lost_title(kind));
            if losses.is_empty() {
                report.text(&format!("{HERO} is the best, or within {} of it, in every row.", kind.tie()));
            } else {
                report.table(
                    &losses,
                    "Worst first. Intervals: 95 % of the mean difference over the seeds, by bootstrap.",
                );
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
