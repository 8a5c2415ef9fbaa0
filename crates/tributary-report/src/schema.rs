//! The result schema: experiments write it as JSON, and reports are made from it.
//!
//! A claim is an inequality, never an equality. It has two bounds that are never mixed: the project's promise, with the
//! verdict *holds*, *fails* or *undecided*, and the paper's figure, which is *reproduced*, *not reproduced* or *undecided*.
//! Both follow from the measured interval.

use crate::table::{Column, Table, TableCell};
use core::fmt;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// A closed interval in the unit of the number it belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Interval {
    /// Lower end.
    pub low: f64,
    /// Upper end.
    pub high: f64,
}

/// The inequality of a claim.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Expectation {
    /// At least this.
    AtLeast(f64),
    /// At most this.
    AtMost(f64),
    /// Between the two, ends included.
    Between(f64, f64),
}

impl Expectation {
    /// This value, within 20 %.
    #[must_use]
    pub const fn about(value: f64) -> Self {
        Self::Between(value * 0.8, value * 1.2)
    }

    /// The verdict for an interval.
    #[must_use]
    pub fn judge(self, interval: Interval) -> Verdict {
        let misses = match self {
            Self::AtLeast(bound) => interval.high < bound,
            Self::AtMost(bound) => interval.low > bound,
            Self::Between(low, high) => interval.high < low || interval.low > high,
        };
        match self.holds(interval.low) && self.holds(interval.high) {
            true => Verdict::Holds,
            false if misses => Verdict::Fails,
            false => Verdict::Undecided,
        }
    }

    /// Whether `measured` satisfies the inequality; a value that is not finite never does.
    #[must_use]
    pub fn holds(self, measured: f64) -> bool {
        measured.is_finite()
            && match self {
                Self::AtLeast(bound) => measured >= bound,
                Self::AtMost(bound) => measured <= bound,
                Self::Between(low, high) => (low..=high).contains(&measured),
            }
    }
}

impl fmt::Display for Expectation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text(Decimals::of(*self, &[])))
    }
}

impl Expectation {
    fn text(self, decimals: Decimals) -> String {
        match self {
            Self::AtLeast(bound) => format!("≥ {}", decimals.text(bound)),
            Self::AtMost(bound) => format!("≤ {}", decimals.text(bound)),
            Self::Between(low, high) => format!("{} – {}", decimals.text(low), decimals.text(high)),
        }
    }

    /// The same inequality with the paper's figure as its bound: at least as good as the paper. `None` for a range, which has no
    /// better side.
    fn at(self, paper: f64) -> Option<Self> {
        match self {
            Self::AtLeast(_) => Some(Self::AtLeast(paper)),
            Self::AtMost(_) => Some(Self::AtMost(paper)),
            Self::Between(..) => None,
        }
    }

    fn bounds(self) -> [f64; 2] {
        match self {
            Self::AtLeast(bound) | Self::AtMost(bound) => [bound, bound],
            Self::Between(low, high) => [low, high],
        }
    }
}

/// Digits after the point for all numbers of a claim; `None`: [`short`] decides for each number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Decimals(Option<usize>);

impl Decimals {
    /// Maximum number of digits.
    const MOST: usize = 6;

    /// The fewest digits that show the bounds to a hundredth of a per cent, and with which every one of
    /// `numbers` that differs from a bound is printed differently. Example: the bound 0.9995 is not printed
    /// as 1.00, and 0.9996 is not printed as the bound.
    fn of(expected: Expectation, numbers: &[f64]) -> Self {
        let clear = |decimals: &Self| {
            expected.bounds().into_iter().filter(|bound| bound.is_finite()).all(|bound| {
                let text = decimals.text(bound);
                let shown = text.parse().unwrap_or(bound);
                (shown - bound).abs() <= bound.abs() * 1e-4
                    && numbers.iter().all(|number| *number == bound || decimals.text(*number) != text)
            })
        };
        let more = (2..Self::MOST).map(|decimals| Self(Some(decimals)));
        std::iter::once(Self(None)).chain(more).find(clear).unwrap_or(Self(Some(Self::MOST)))
    }

    fn text(self, value: f64) -> String {
        match self.0 {
            Some(decimals) if value.is_finite() => format!("{value:.decimals$}"),
            _ => short(value),
        }
    }
}

/// The verdict of a claim.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Verdict {
    /// The whole interval satisfies the inequality.
    Holds,
    /// No value of the interval satisfies it.
    Fails,
    /// Some values satisfy it and some do not, or there is no interval.
    #[default]
    Undecided,
}

/// Whether the paper's figure was reached.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Reproduced {
    /// The whole interval is at least as good as the paper's figure.
    Yes,
    /// No value of the interval is.
    No,
    /// Some values are and some are not, or there is no interval.
    Undecided,
}

impl From<Verdict> for Reproduced {
    fn from(verdict: Verdict) -> Self {
        match verdict {
            Verdict::Holds => Self::Yes,
            Verdict::Fails => Self::No,
            Verdict::Undecided => Self::Undecided,
        }
    }
}

/// A claim of a paper, or an aim of the product, with the measured value.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Claim {
    /// A short stable name, for example `los-goodput-vs-sum`.
    pub id: String,
    /// The claim in words, with its unit.
    pub claim: String,
    /// The paper's value in the unit of `measured`, if it gives one.
    pub paper: Option<f64>,
    /// Whether `measured` is at least as good as the paper's value; `None` without such a value, or for a range.
    #[serde(default)]
    pub reproduced: Option<Reproduced>,
    /// The median over the runs; `null` when no run gave a value.
    pub measured: Option<f64>,
    /// Spread over the runs, for example the minimum and maximum or a confidence interval.
    pub interval: Option<Interval>,
    /// The verdict on the promise; undecided without an interval.
    pub verdict: Verdict,
    /// Whether `measured` itself satisfies the inequality, regardless of the interval.
    pub met: bool,
    /// The promise.
    pub expected: Option<Expectation>,
    /// The unit of all numbers; empty for a ratio.
    #[serde(default)]
    pub unit: String,
    /// Figure, table or section of the paper.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub source: String,
}

impl Claim {
    /// A claim about `measured`, undecided until an interval is set. A value that is missing or not finite
    /// never satisfies it.
    #[must_use]
    pub fn judge(id: &str, claim: &str, measured: Option<f64>, expected: Expectation) -> Self {
        let measured = measured.filter(|m| m.is_finite());
        Self {
            id: id.to_owned(),
            claim: claim.to_owned(),
            paper: None,
            reproduced: None,
            measured,
            interval: None,
            verdict: Verdict::Undecided,
            met: measured.is_some_and(|m| expected.holds(m)),
            expected: Some(expected),
            unit: String::new(),
            source: String::new(),
        }
    }

    /// With the paper's value.
    #[must_use]
    pub fn paper(mut self, value: f64) -> Self {
        self.paper = Some(value).filter(|v| v.is_finite());
        self.reproduce()
    }

    /// With the spread over the runs.
    #[must_use]
    pub fn interval(mut self, interval: Option<Interval>) -> Self {
        self.interval = interval.filter(|i| i.low.is_finite() && i.high.is_finite());
        self.verdict = self.expected.map_or(Verdict::Undecided, |expected| self.judged(expected));
        self.reproduce()
    }

    fn judged(&self, expected: Expectation) -> Verdict {
        self.interval.filter(|_| self.measured.is_some()).map_or(Verdict::Undecided, |i| expected.judge(i))
    }

    fn reproduce(mut self) -> Self {
        let figure = self.expected.zip(self.paper).and_then(|(expected, paper)| expected.at(paper));
        self.reproduced = figure.map(|figure| self.judged(figure).into());
        self
    }

    /// With the unit of its numbers.
    #[must_use]
    pub fn unit(mut self, unit: &str) -> Self {
        unit.clone_into(&mut self.unit);
        self
    }
}

/// How a result was made: everything needed to repeat it.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct RunInfo {
    /// The command line as it was typed.
    pub command: String,
    /// Version of the program.
    pub version: String,
    /// Commit of the source, if known.
    pub commit: Option<String>,
    /// Start of the run, RFC 3339, UTC.
    pub started: Option<String>,
    /// Wall time of the run, in seconds.
    pub seconds: Option<f64>,
    /// Seeds of all random choices.
    pub seeds: Vec<u64>,
    /// Kernel release.
    pub kernel: String,
    /// Processor, number of cores, memory.
    pub machine: String,
    /// Congestion control of every transport in the comparison, checked on both ends.
    pub congestion: String,
    /// All other settings (scenario, queue, round-trip times and so on), shown in this order.
    pub configuration: BTreeMap<String, String>,
    /// The emulator's audit; `None` when nothing was emulated.
    pub audit: Option<Audit>,
}

impl RunInfo {
    /// The Markdown line before generated tables: command, version and commit.
    #[must_use]
    pub fn marker(&self) -> String {
        let commit = self.commit.as_deref().unwrap_or("unknown");
        format!("Generated by `{}` at commit {commit}, version {}.", self.command, self.version)
    }

    /// What a reader must know before all numbers: that the emulator was not exact, and what to do. `None` if it was.
    #[must_use]
    pub fn warning(&self) -> Option<String> {
        let audit = self.audit.as_ref().filter(|audit| !audit.valid)?;
        Some(format!(
            "This run is not valid. {}. Run it again while this machine has little else to do.",
            audit.detail
        ))
    }
}

/// The emulator's audit of the run.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Audit {
    /// Whether the links matched the scenario; otherwise the numbers are invalid.
    pub valid: bool,
    /// The reason, with numbers.
    pub detail: String,
}

/// The result of reproducing one paper.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Reproduction {
    /// Name of the reproduction, for example `fbdt`.
    pub name: String,
    /// Every claim with its verdict.
    pub claims: Vec<Claim>,
    /// How it was made.
    pub run: RunInfo,
}

impl Reproduction {
    /// Whether there are claims and every one holds.
    #[must_use]
    pub fn holds(&self) -> bool {
        !self.claims.is_empty() && self.claims.iter().all(|c| c.verdict == Verdict::Holds)
    }

    /// The table "paper, this run".
    #[must_use]
    pub fn table(&self) -> Table {
        let mut table = Table::new(&self.name).columns([
            Column::left("claim"),
            Column::left("of"),
            Column::right("paper"),
            Column::right("promise"),
            Column::right("this run"),
            Column::right("interval"),
            Column::left("unit"),
            Column::left("paper reproduced"),
            Column::left("promise kept"),
        ]);
        for claim in &self.claims {
            let interval = claim.interval;
            let ends = interval.into_iter().flat_map(|i| [i.low, i.high]);
            let numbers: Vec<f64> = claim.measured.into_iter().chain(ends).collect();
            let decimals = claim.expected.map_or(Decimals(None), |e| Decimals::of(e, &numbers));
            table.push([
                TableCell::text(&claim.claim),
                TableCell::text(&claim.source),
                TableCell::optional(claim.paper.map(short)),
                TableCell::optional(claim.expected.map(|expected| expected.text(decimals))),
                TableCell::optional(claim.measured.map(|value| decimals.text(value))).strong(),
                // The cell says why there is no interval.
                match (interval, claim.measured) {
                    (Some(i), _) if i.low < i.high => {
                        TableCell::text(&format!("{} – {}", decimals.text(i.low), decimals.text(i.high)))
                    }
                    (Some(_), _) => TableCell::text("all runs equal"),
                    (None, Some(_)) => TableCell::text("one run"),
                    (None, None) => TableCell::optional(None),
                },
                TableCell::text(&claim.unit),
                match claim.reproduced {
                    Some(Reproduced::Yes) => TableCell::text("yes").good(),
                    Some(Reproduced::No) => TableCell::text("no").bad(),
                    Some(Reproduced::Undecided) => TableCell::text("undecided"),
                    None if claim.paper.is_none() => TableCell::text("no figure"),
                    None => TableCell::optional(None),
                },
                match (claim.verdict, claim.met, claim.measured) {
                    (Verdict::Holds, ..) => TableCell::text("holds").good(),
                    (Verdict::Fails, ..) => TableCell::text("FAILS").bad(),
                    (_, _, None) => TableCell::text("undecided, not measured"),
                    (_, true, _) => TableCell::text("undecided, value meets it"),
                    (_, false, _) => TableCell::text("undecided, value misses it"),
                },
            ]);
        }
        table
    }
}

/// A number with three significant figures, or with all its whole digits if it has more.
pub(crate) fn short(value: f64) -> String {
    if !value.is_finite() {
        return "–".to_owned();
    }
    match value.abs() {
        v if v >= 99.95 || v == 0.0 => format!("{value:.0}"),
        v if v >= 9.995 => format!("{value:.1}"),
        v if v >= 0.01 => format!("{value:.2}"),
        _ => format!("{value:.2e}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_claim_without_a_value_never_holds() {
        let around = Some(Interval { low: 0.5, high: 0.9 });
        let none = Claim::judge("a", "b", None, Expectation::AtMost(1.0)).interval(around);
        assert!(!none.met && none.verdict == Verdict::Undecided);
        let nan = Claim::judge("a", "b", Some(f64::NAN), Expectation::AtLeast(0.0));
        assert!(!nan.met && nan.verdict == Verdict::Undecided);
        assert_eq!(nan.measured, None);
        assert!(!Reproduction::default().holds());
    }

    #[test]
    fn the_verdict_follows_from_the_interval_and_not_from_the_value() {
        let verdict = |low, high| {
            let claim = Claim::judge("a", "b", Some(1.2), Expectation::AtLeast(1.0));
            claim.interval(Some(Interval { low, high })).verdict
        };
        assert_eq!(verdict(1.0, 1.4), Verdict::Holds);
        assert_eq!(verdict(0.99, 1.4), Verdict::Undecided);
        assert_eq!(verdict(0.8, 0.99), Verdict::Fails);
        let alone = Claim::judge("a", "b", Some(1.2), Expectation::AtLeast(1.0));
        assert!(alone.met && alone.verdict == Verdict::Undecided);
    }

    #[test]
    fn the_paper_s_figure_and_the_promise_are_judged_apart() {
        let judged = |expected, paper, (low, high)| {
            let claim = Claim::judge("a", "b", Some((low + high) / 2.0), expected).paper(paper);
            let claim = claim.interval(Some(Interval { low, high }));
            (claim.verdict, claim.reproduced)
        };
        let (at_least, at_most) = (Expectation::AtLeast(1.0), Expectation::AtMost(50.0));
        // 1.02 of MPTCP keeps a promise of 1.00, and is not the paper's 1.24.
        assert_eq!(judged(at_least, 1.24, (1.01, 1.03)), (Verdict::Holds, Some(Reproduced::No)));
        assert_eq!(judged(at_least, 1.24, (1.25, 1.30)), (Verdict::Holds, Some(Reproduced::Yes)));
        assert_eq!(judged(at_least, 0.9, (0.91, 0.95)), (Verdict::Fails, Some(Reproduced::Yes)));
        assert_eq!(judged(at_most, 30.0, (29.0, 31.0)), (Verdict::Holds, Some(Reproduced::Undecided)));
        assert_eq!(judged(Expectation::Between(1.0, 2.0), 1.5, (1.4, 1.6)), (Verdict::Holds, None));
        let without = Claim::judge("a", "b", Some(1.0), at_least).paper(1.0);
        assert_eq!(without.reproduced, Some(Reproduced::Undecided), "no interval");
        assert_eq!(Claim::judge("a", "b", Some(1.0), at_least).reproduced, None, "no figure of a paper");
    }

    #[test]
    fn inequalities_include_their_ends() {
        assert!(Expectation::AtLeast(0.97).holds(0.97));
        assert!(Expectation::AtMost(120.0).holds(120.0));
        assert!(!Expectation::Between(1.0, 2.0).holds(2.1));
    }

    #[test]
    fn json_has_the_agreed_fields_and_round_trips() {
        let claim = Claim::judge("los", "LoS", Some(183.0), Expectation::AtLeast(180.0))
            .paper(192.0)
            .unit("Mbit/s")
            .interval(Some(Interval { low: 181.0, high: 184.5 }));
        let made = Reproduction { name: "fbdt".into(), claims: vec![claim], run: RunInfo::default() };
        let json = serde_json::to_value(&made).unwrap();
        let first = &json["claims"][0];
        for field in ["id", "claim", "paper", "measured", "interval", "expected", "verdict"] {
            assert!(first.get(field).is_some(), "{field}");
        }
        assert_eq!(serde_json::from_value::<Reproduction>(json).unwrap(), made);
        assert!(made.holds());
        let text = made.table().to_text();
        assert!(text.contains("holds") && text.contains("≥ 180"), "{text}");
    }

    #[test]
    fn different_bounds_and_values_are_printed_differently() {
        let row = |measured, expected, interval: Option<(f64, f64)>| {
            let claim = Claim::judge("a", "words", Some(measured), expected);
            let claim = claim.interval(interval.map(|(low, high)| Interval { low, high }));
            let claims = vec![claim];
            Reproduction { claims, ..Reproduction::default() }.table().to_text()
        };
        for (measured, expected, interval, wanted) in [
            (0.9993, Expectation::AtLeast(0.9995), None, ["≥ 0.9995", "0.9993"]),
            (0.98, Expectation::AtLeast(0.9995), None, ["≥ 0.9995", "0.9800"]),
            (120.02, Expectation::AtMost(120.0), Some((119.98, 120.04)), ["≤ 120.00", "119.98 – 120.04"]),
            (183.0, Expectation::AtLeast(180.0), Some((181.0, 184.5)), ["≥ 180 ", "181 – 184"]),
            (1.5, Expectation::Between(1.0, 2.0), None, ["1.00 – 2.00", "1.50"]),
        ] {
            let text = row(measured, expected, interval);
            assert!(wanted.iter().all(|part| text.contains(part)), "{wanted:?} is not in {text}");
        }
    }

    #[test]
    fn numbers_are_short() {
        assert_eq!(short(1380.4), "1380");
        assert_eq!(short(47.25), "47.2");
        assert_eq!(short(1.234), "1.23");
        assert_eq!(short(f64::NAN), "–");
    }
}
