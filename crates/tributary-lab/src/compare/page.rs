//! A ranking as text, Markdown, JSON, and one HTML page with plots.

use super::ranking::{Against, Ranked, Ranking, Verdict};
use crate::reproduce::Outcome;
use crate::reproduce::comparison::Workload;
use serde_json::{Value, json};
use tributary_link::{Direction, Scenario};
use tributary_report::{
    Column, HtmlReport, KeyFigure, Rank, Ranks, Series, Table, TableCell, TimeSeries, Tone,
};
use tributary_types::Instant;

/// Points of the plot of the network, at most.
const POINTS: u64 = 600;
/// Failures that are told.
const TOLD: usize = 10;

/// The report of a comparison.
#[derive(Debug)]
pub struct Page<'a> {
    ranking: &'a Ranking,
    outcome: &'a Outcome,
    scenario: &'a Scenario,
}

impl<'a> Page<'a> {
    /// The report of finished runs over a network.
    #[must_use]
    pub fn new(ranking: &'a Ranking, outcome: &'a Outcome, scenario: &'a Scenario) -> Self {
        Self { ranking, outcome, scenario }
    }

    /// How the numbers were made, in a few sentences.
    fn method(&self) -> String {
        let info = &self.outcome.reproduction.run;
        let one = |name: &str| info.configuration.get(name).cloned().unwrap_or_default();
        format!(
            "{} over {}, simulated: {} seeds, runs of {}. Each seed's run begins at another time of the network, the same for \
             all transports. Intervals: 95 % by Student's t over the seeds; a verdict is the interval of the differences seed \
             by seed, and undecided if it contains zero.",
            self.ranking.workload,
            self.scenario.name,
            info.seeds.len(),
            one("each run"),
        )
    }

    fn table(&self) -> Table {
        let measure = self.ranking.measure;
        let digits = measure.digits;
        let names = Table::of("Transports, the best first", self.ranking.standings.iter().enumerate())
            .number("rank", 0, |(number, _)| (number + 1) as f64)
            .text("transport", |(_, ranked)| &ranked.label)
            .number((measure.title, measure.unit), digits, |(_, ranked)| ranked.mean)
            .strong()
            .columns([Column::right("95 % interval")], |(_, ranked)| {
                let interval = ranked.interval;
                [TableCell::optional(interval.map(|i| format!("{:.digits$} to {:.digits$}", i.low, i.high)))]
            })
            .text("against the best single path", |(_, ranked)| self.verdict(ranked.against_single.as_ref()))
            .text("against kernel MPTCP", |(_, ranked)| self.verdict(ranked.against_mptcp.as_ref()));
        let more = measure.more.iter().fold(names, |table, (metric, title, unit)| {
            table.number((*title, *unit), 1, |(_, ranked)| ranked.more.get(metric).copied())
        });
        more.number("seeds", 0, |(_, ranked)| ranked.seeds as f64)
            .highlighted(|(_, ranked)| ranked.tone == Tone::Hero)
            .table()
    }

    /// `better, +41 % (38 to 45)`.
    fn verdict(&self, against: Option<&Against>) -> TableCell {
        let Some(against) = against else { return TableCell::text("–") };
        let measure = self.ranking.measure;
        let (digits, unit) = if measure.relative { (1, "%") } else { (measure.digits, measure.unit) };
        let interval = against.interval.map_or(String::new(), |interval| {
            format!(" ({:+.digits$} to {:+.digits$})", interval.low, interval.high)
        });
        let numbers = format!("{:+.digits$} {unit}{interval}", against.difference);
        match against.verdict {
            Verdict::Better => TableCell::text(&format!("better, {numbers}")).good(),
            Verdict::Worse => TableCell::text(&format!("worse, {numbers}")).bad(),
            Verdict::Undecided => TableCell::text(&format!("undecided, {numbers}")),
        }
    }

    fn failures(&self) -> Vec<String> {
        let failed = self
            .outcome
            .samples
            .iter()
            .filter_map(|s| Some(format!("{}: {}", s.title(), s.failure.as_ref()?)));
        failed.take(TOLD).collect()
    }

    /// For the terminal.
    #[must_use]
    pub fn text(&self) -> String {
        let mut text = format!("{}\n\n{}\n", self.table().to_text(), self.ranking.advice());
        for failure in self.failures() {
            text.push_str(&format!("failed: {failure}\n"));
        }
        text.trim_end().to_owned()
    }

    /// For documents.
    #[must_use]
    pub fn markdown(&self) -> String {
        let marker = self.outcome.reproduction.run.marker();
        format!("{marker}\n{}\n\n{}\n\n{}", self.ranking.advice(), self.method(), self.table().to_markdown())
    }

    /// The ranking and how it was made, as one object.
    #[must_use]
    pub fn json(&self) -> Value {
        let (ranking, tally) = (self.ranking, self.outcome.tally);
        let name = |ranked: Option<&Ranked>| ranked.map(|ranked| ranked.transport.clone());
        json!({
            "advice": ranking.advice(),
            "scenario": self.scenario.name,
            "ranking": ranking,
            "best": name(ranking.best()),
            "best_single": name(ranking.single()),
            "runs": { "planned": self.outcome.cells, "before": tally.before, "now": tally.now, "failed": tally.failed },
            "failures": self.failures(),
            "run": self.outcome.reproduction.run,
        })
    }

    /// As one HTML page.
    #[must_use]
    pub fn html(&self) -> String {
        let ranking = self.ranking;
        let mut report = HtmlReport::new(&format!("{} over {}", ranking.workload, self.scenario.name));
        report.headline(&ranking.advice()).lead(&self.method());
        let cards = [
            ("best", ranking.best()),
            ("best single path", ranking.single()),
            ("kernel MPTCP", ranking.mptcp()),
        ];
        for (title, ranked) in cards {
            let Some(ranked) = ranked else { continue };
            let value = format!("{:.*}", ranking.measure.digits, ranked.mean.unwrap_or(f64::NAN));
            report.card(KeyFigure::new(title, &value, ranking.measure.unit).note(&ranked.label));
        }
        report
            .section("Ranking")
            .figure(
                &self.ranks(),
                "Means over the seeds; lines are 95 % intervals. The vertical line is the best single path.",
            )
            .table(&self.table(), "Verdicts follow from the intervals of the differences seed by seed.");
        if ranking.workload == Workload::Bulk {
            report
                .section("One run")
                .figure(&self.seconds(), "The first seed; the grey area is what all links could carry.");
        }
        report.section("The network").figure(
            &self.network(),
            "What each path could carry towards the client, over the whole network.",
        );
        for failure in self.failures() {
            report.text(&format!("Failed: {failure}"));
        }
        report.made(&self.outcome.reproduction.run);
        report.render()
    }

    fn ranks(&self) -> Ranks {
        let measure = self.ranking.measure;
        let mut ranks =
            Ranks::new("Transports, the best first", &format!("{} ({})", measure.title, measure.unit));
        self.ranking.advice().clone_into(&mut ranks.description);
        ranks.rows = self
            .ranking
            .standings
            .iter()
            .map(|ranked| Rank {
                name: ranked.label.clone(),
                tone: ranked.tone,
                value: ranked.mean.unwrap_or(f64::NAN),
                interval: ranked.interval,
            })
            .collect();
        ranks.reference = self.ranking.single().and_then(|single| Some((single.label.clone(), single.mean?)));
        ranks
    }

    /// Goodput of the best, the best single path and MPTCP in each second of the first seed.
    fn seconds(&self) -> TimeSeries {
        let mut plot = TimeSeries::per_second("Goodput, every second", "Mbit/s");
        plot.description = "Goodput of three transports over time.".to_owned();
        let seed = self.outcome.reproduction.run.seeds.first();
        let mut seen = Vec::new();
        for ranked in [self.ranking.best(), self.ranking.mptcp(), self.ranking.single()].into_iter().flatten()
        {
            if seen.contains(&ranked.transport.as_str()) {
                continue;
            }
            seen.push(&ranked.transport);
            let run = self.outcome.samples.iter().find(|sample| {
                Some(&sample.seed) == seed && sample.labels.get("transport") == Some(&ranked.transport)
            });
            let Some(run) = run else { continue };
            let from = |name: &str| {
                let values = run.metrics.get(name).into_iter().flatten().enumerate();
                values.map(|(second, value)| (second as f64 + 1.0, *value)).collect::<Vec<_>>()
            };
            let tone = if seen.len() == 1 && ranked.tone == Tone::Cousin { Tone::Hero } else { ranked.tone };
            plot.series.push(Series::new(&ranked.label, tone, from("seconds")));
            plot.capacity.get_or_insert(Series::new(
                "capacity of all links",
                Tone::Neutral,
                from("capacity"),
            ));
        }
        plot
    }

    fn network(&self) -> TimeSeries {
        let scenario = self.scenario;
        let whole = scenario.duration.as_nanos() as u64;
        let step = whole.div_ceil(POINTS).max(1_000_000_000);
        let mut plot = TimeSeries::per_second("Rate of each path", "Mbit/s");
        plot.description = "Capacity of each path over time.".to_owned();
        for (path, spec) in scenario.paths.iter().enumerate() {
            let points = (0..whole / step).map(|number| {
                let (from, to) = (number * step, (number + 1) * step);
                let (begin, end) = (Instant::from_nanos(from), Instant::from_nanos(to));
                let bytes = scenario.capacity(path, Direction::Down, begin, end).as_bytes();
                (from as f64 / 1e9, bytes as f64 * 8e3 / step as f64)
            });
            let tone = [Tone::RadioA, Tone::RadioB, Tone::RadioC].get(path).copied().unwrap_or(Tone::Neutral);
            plot.series.push(Series::new(&spec.name, tone, points.collect()));
        }
        plot
    }
}
