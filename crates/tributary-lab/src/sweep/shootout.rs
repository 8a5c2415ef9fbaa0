//! The shoot-out: every transport in every condition, the best transport of each row, and the conditions in which the
//! product's scheduler is not the best. The verdicts are computed from the runs.

use super::groups::{Group, Spread};
use super::plan::{Plan, Work};
use super::row::Row;
use crate::machine;
use tributary_report::{Bars, Cell, Column, HtmlReport, KeyFigure, RunInfo, Table, Tone, plot::Bar};

/// The product's scheduler.
const HERO: &str = "fbdt";
/// Differences below this share of the best value are a tie.
const TIE: f64 = 0.01;

/// The measures that are compared.
const MEASURES: [Measure; 3] = [
    Measure { title: "mean", of: |row| row.measured.goodput_mbps },
    Measure { title: "p10 of the seconds", of: |row| row.measured.p10_mbps },
    Measure { title: "worst second", of: |row| row.measured.worst_second_mbps },
];

#[derive(Clone, Copy)]
struct Measure {
    title: &'static str,
    of: fn(&Row) -> Option<f64>,
}

/// The report.
#[derive(Debug)]
pub struct Page<'a> {
    groups: Vec<Group<'a>>,
    lines: Vec<Line>,
    transports: Vec<String>,
    info: RunInfo,
    name: String,
    /// Whether all seeds are among the plan's held-back seeds.
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
struct Standing {
    line: Line,
    measure: &'static str,
    hero: f64,
    best: f64,
    winner: String,
    /// The confidence intervals do not overlap; false with a single seed.
    clear: bool,
}

impl Line {
    fn of(row: &Row) -> Self {
        Self {
            scenario: row.scenario.clone(),
            congestion: row.congestion.clone(),
            rtt: row.rtt.clone(),
            queue: row.queue.clone(),
        }
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
    pub fn new(plan: &Plan, rows: &'a [Row], command: &str) -> Self {
        let groups = Group::of(rows);
        let (mut lines, mut transports): (Vec<Line>, Vec<String>) = Default::default();
        for group in &groups {
            let (line, transport) = (Line::of(group.head()), group.head().transport.clone());
            if !lines.contains(&line) {
                lines.push(line);
            }
            if !transports.contains(&transport) {
                transports.push(transport);
            }
        }
        let mut info = machine::run_info(command);
        let mut seeds: Vec<u64> = rows.iter().map(|row| row.seed).collect();
        seeds.sort_unstable();
        seeds.dedup();
        info.seeds = seeds;
        info.congestion = plan.congestion.join(", ");
        let mut set = |name: &str, value: String| _ = info.configuration.insert(name.to_owned(), value);
        set("world", "simulated: the same on every machine for the same seeds".to_owned());
        let work = match plan.workload {
            Work::Bulk => "bulk",
            Work::Scenario => "what the scenario's `run` table says",
        };
        set("each run", format!("{} s of {work}; the first second is left out of goodput", plan.seconds));
        set("runs", rows.len().to_string());
        let is_held_back = !rows.is_empty() && rows.iter().all(|row| plan.held_back.contains(&row.seed));
        let failed = rows.iter().filter(|row| row.failure.is_some()).map(Line::of).collect();
        Self { groups, lines, transports, info, name: plan.name.clone(), is_held_back, failed }
    }

    /// The smallest number of seeds of any transport in a line, and the number of failed runs of the line.
    fn counts(&self, line: &Line) -> (usize, usize) {
        let own = self.groups.iter().filter(|group| Line::of(group.head()) == *line);
        let fewest = own.map(|group| group.rows.len()).min().unwrap_or(0);
        (fewest, self.failed.iter().filter(|failed| *failed == line).count())
    }

    fn spread(&self, line: &Line, transport: &str, measure: Measure) -> Option<Spread> {
        let same =
            |group: &&Group<'_>| group.head().transport == transport && Line::of(group.head()) == *line;
        self.groups.iter().find(same)?.spread(measure.of)
    }

    /// The best transport of a line; the first one if several are equal.
    fn best(&self, line: &Line, measure: Measure) -> Option<(&str, Spread)> {
        let all = self
            .transports
            .iter()
            .filter_map(|transport| Some((transport.as_str(), self.spread(line, transport, measure)?)));
        all.reduce(|best, next| if next.1.mean > best.1.mean { next } else { best })
    }

    fn standings(&self) -> Vec<Standing> {
        let mut standings = Vec::new();
        for line in &self.lines {
            for measure in MEASURES {
                let hero = self.spread(line, HERO, measure);
                let (Some(hero), Some((winner, best))) = (hero, self.best(line, measure)) else { continue };
                let ends = hero.interval.zip(best.interval);
                standings.push(Standing {
                    line: line.clone(),
                    measure: measure.title,
                    hero: hero.mean,
                    best: best.mean,
                    winner: winner.to_owned(),
                    clear: ends.is_some_and(|(hero, best)| best.low > hero.high),
                });
            }
        }
        standings
    }

    fn table(&self, measure: Measure) -> Table {
        let mut columns = vec![Column::left("condition"), Column::left("control")];
        columns.extend(self.transports.iter().map(|name| Column::right(name)));
        columns.extend([Column::left("best"), Column::right("seeds"), Column::right("failed")]);
        let title = format!("Mbit/s, {}: means over the seeds", measure.title);
        let mut table = Table::new(&title).columns(columns);
        for line in &self.lines {
            let best = self.best(line, measure);
            let top = best.map_or(f64::NAN, |(_, spread)| spread.mean);
            let mut row = vec![Cell::text(&line.condition()), Cell::text(&line.congestion)];
            for transport in &self.transports {
                let mean = self.spread(line, transport, measure).map(|spread| spread.mean);
                let cell = Cell::optional_number(mean, 1);
                row.push(if mean == Some(top) { cell.strong() } else { cell });
            }
            let (seeds, failed) = self.counts(line);
            row.push(Cell::text(best.map_or("–", |(name, _)| name)));
            row.extend([Cell::text(&seeds.to_string()), Cell::text(&failed.to_string())]);
            table.push(row);
        }
        table
    }

    /// The conditions in which the product's scheduler is not the best; the largest difference first.
    fn losses(&self) -> Table {
        let mut lost: Vec<Standing> =
            self.standings().into_iter().filter(|s| s.hero < s.best * (1.0 - TIE)).collect();
        let gap = |standing: &Standing| (standing.best - standing.hero) / standing.best.max(1e-9);
        lost.sort_by(|a, b| gap(b).total_cmp(&gap(a)));
        let mut table = Table::new(&format!("Where {HERO} is not the best")).columns([
            Column::left("condition"),
            Column::left("control"),
            Column::left("by"),
            Column::right(HERO).unit("Mbit/s"),
            Column::left("best"),
            Column::right("its value").unit("Mbit/s"),
            Column::right("behind").unit("%"),
            Column::left("intervals"),
        ]);
        for standing in &lost {
            table.push([
                Cell::text(&standing.line.condition()),
                Cell::text(&standing.line.congestion),
                Cell::text(standing.measure),
                Cell::number(standing.hero, 1),
                Cell::text(&standing.winner),
                Cell::number(standing.best, 1).strong(),
                Cell::number(gap(standing) * 100.0, 1),
                Cell::text(if standing.clear { "apart" } else { "touch, or none" }),
            ]);
        }
        table
    }

    /// One sentence per measure: in how many conditions the product's scheduler is the best, or within 1 % of
    /// it.
    fn verdicts(&self) -> Vec<String> {
        let standings = self.standings();
        let of = |measure: &Measure| {
            let all: Vec<&Standing> = standings.iter().filter(|s| s.measure == measure.title).collect();
            let best = all.iter().filter(|s| s.hero >= s.best * (1.0 - TIE)).count();
            let clearly = all.iter().filter(|s| s.hero < s.best * (1.0 - TIE) && s.clear).count();
            format!(
                "By {}: {HERO} is the best, or within 1 % of it, in {best} of {} rows; in {clearly} another is \
                 ahead with intervals that do not touch.",
                measure.title,
                all.len()
            )
        };
        MEASURES.iter().map(of).collect()
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
        let losses = self.losses();
        if !losses.is_empty() {
            out.push_str(&format!("\n### Where {HERO} is not the best\n\n{}", losses.to_markdown()));
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
            let best = own.clone().filter(|s| s.hero >= s.best * (1.0 - TIE)).count();
            let value = format!("{best} of {}", own.count());
            report.card(
                KeyFigure::new(&format!("{HERO} best by {}", measure.title), &value, "rows").note(verdict),
            );
        }
        let losses = self.losses();
        report.section(&format!("Where {HERO} is not the best"));
        if losses.is_empty() {
            report.text(&format!("{HERO} is the best, or within 1 % of it, in every row."));
        } else {
            report.table(&losses, "Worst first. Intervals: 95 % of the mean over the seeds, by bootstrap.");
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
        let mut bars = Bars::new(&format!("{}, {control}", measure.title), "Mbit/s", &series);
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
