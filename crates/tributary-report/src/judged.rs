//! A measured value with its bound. The verdict follows from the interval, never from the value alone.

use crate::schema::{Expectation, Interval, Verdict};
use crate::stats;
use crate::table::{Column, Rows, Table, TableCell};
use serde::Serialize;

/// Resamples, and their seed.
const BOOTSTRAP: (u32, u64) = (2000, 1);
/// Rounds that an interval needs. The range of five contains the median in 94 % of all cases, the range of three in 75 %.
pub const FEWEST: usize = 5;

/// A measured value and the verdict on its bound.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Judged {
    /// The value; NaN if nothing was measured.
    pub value: f64,
    /// Its 95 % interval; `None` with fewer than five rounds, and where every case counts.
    pub interval: Option<Interval>,
    /// The bound.
    pub wanted: Expectation,
    /// The verdict.
    pub verdict: Verdict,
}

impl Judged {
    /// A value with an interval that was computed elsewhere.
    #[must_use]
    pub fn new(value: f64, interval: Option<Interval>, wanted: Expectation) -> Self {
        let verdict = interval.map_or(Verdict::Undecided, |interval| wanted.judge(interval));
        Self { value, interval, wanted, verdict }
    }

    /// A statistic of the rounds' values. The interval is bootstrapped over the rounds.
    #[must_use]
    pub fn over(rounds: &[f64], statistic: fn(&[f64]) -> Option<f64>, wanted: Expectation) -> Self {
        let interval = bootstrap(rounds, statistic);
        Self::new(statistic(rounds).unwrap_or(f64::NAN), interval, wanted)
    }

    /// The median of the rounds' values. Values that are not finite are left out.
    #[must_use]
    pub fn median(rounds: &[f64], wanted: Expectation) -> Self {
        Self::over(rounds, stats::median, wanted)
    }

    /// The median of the rounds' ratios, so that drift between rounds cancels.
    #[must_use]
    pub fn ratio(ours: &[f64], peers: &[f64], wanted: Expectation) -> Self {
        let ratios: Vec<f64> = ours.iter().zip(peers).map(|(our, peer)| our / peer).collect();
        Self::median(&ratios, wanted)
    }

    /// A count over all rounds. It has no interval: every case counts.
    #[must_use]
    pub fn count(value: f64, wanted: Expectation) -> Self {
        let exact = value.is_finite().then_some(Interval { low: value, high: value });
        Self { interval: None, ..Self::new(value, exact, wanted) }
    }

    /// A percentile of independent samples, such as every handoff of a run. The interval is the order statistics'
    /// ([`stats::percentile_interval`]): a bootstrap cannot go beyond the largest sample.
    #[must_use]
    pub fn percentile(samples: &[f64], percent: f64, wanted: Expectation) -> Self {
        let value = stats::percentile(samples, percent).unwrap_or(f64::NAN);
        Self::new(value, stats::percentile_interval(samples, percent), wanted)
    }

    /// The largest value of all rounds, for a bound that no round may exceed. As a count, it has no interval.
    #[must_use]
    pub fn most(rounds: &[f64], wanted: Expectation) -> Self {
        Self::count(stats::maximum(rounds).unwrap_or(f64::NAN), wanted)
    }

    /// Columns of [`Self::cells`].
    #[must_use]
    pub fn columns(heading: &str) -> [Column; 4] {
        [
            Column::right(heading),
            Column::right("95 % interval"),
            Column::right("wanted"),
            Column::left("verdict"),
        ]
    }

    /// Cells of a table's row; numbers have this many decimals.
    #[must_use]
    pub fn cells(&self, decimals: usize) -> [TableCell; 4] {
        let interval = |i: Interval| format!("{:.decimals$} to {:.decimals$}", i.low, i.high);
        [
            TableCell::number(self.value, decimals).strong(),
            TableCell::optional(self.interval.map(interval)),
            TableCell::text(&self.wanted.to_string()),
            self.verdict.cell(),
        ]
    }
}

impl<T: Copy> Rows<T> {
    /// A judged value: [`Judged::cells`], or nothing.
    #[must_use]
    pub fn judged<C: IntoIterator<Item = TableCell>>(self, heading: &str, of: impl Fn(T) -> C) -> Self {
        self.columns(Judged::columns(heading), of)
    }
}

/// A table of bounds: what is judged, its value, and the decimals of its numbers.
pub fn bounds<'a>(
    title: &str,
    [what, value]: [&str; 2],
    rows: impl IntoIterator<Item = (&'a str, &'a Judged, usize)>,
) -> Table {
    Table::of(title, rows)
        .text(what, |(what, ..)| what)
        .judged(value, |(_, judged, decimals)| judged.cells(decimals))
        .table()
}

impl Verdict {
    /// The verdict on all of several bounds: fails if one fails, holds if all hold.
    #[must_use]
    pub fn all(verdicts: impl IntoIterator<Item = Self>) -> Self {
        verdicts.into_iter().fold(Self::Holds, |all, next| match (all, next) {
            (Self::Fails, _) | (_, Self::Fails) => Self::Fails,
            (Self::Holds, next) => next,
            (all, _) => all,
        })
    }

    /// As a cell of a table.
    #[must_use]
    pub fn cell(self) -> TableCell {
        match self {
            Self::Holds => TableCell::text("holds").good(),
            Self::Fails => TableCell::text("fails").bad(),
            Self::Undecided => TableCell::text("undecided"),
        }
    }
}

/// The bootstrapped 95 % interval of a statistic; `None` with fewer than five samples.
pub fn bootstrap(samples: &[f64], statistic: impl Fn(&[f64]) -> Option<f64>) -> Option<Interval> {
    let enough = samples.iter().filter(|sample| sample.is_finite()).count() >= FEWEST;
    enough.then(|| stats::bootstrap_interval(samples, statistic, BOOTSTRAP.0, BOOTSTRAP.1)).flatten()
}

/// As [`bootstrap`], of whole rounds: the statistic is given the numbers of the drawn rounds.
pub fn bootstrap_rounds(rounds: usize, statistic: impl Fn(&[usize]) -> f64) -> Option<Interval> {
    let numbers: Vec<f64> = (0..rounds).map(|round| round as f64).collect();
    bootstrap(&numbers, |drawn| {
        Some(statistic(&drawn.iter().map(|round| *round as usize).collect::<Vec<_>>()))
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use Verdict::{Fails, Holds, Undecided};

    #[test]
    fn rounds_without_a_value_are_left_out_of_ratio_and_interval() {
        let ours = [1.9, f64::NAN, 2.1, 2.0, 2.0, 2.0];
        let ratio = Judged::ratio(&ours, &[1.0; 6], Expectation::about(2.0));
        assert_eq!((ratio.value, ratio.verdict), (2.0, Holds));
        let nothing = Judged::ratio(&[f64::NAN; 3], &[1.0; 3], Expectation::AtMost(1.2));
        assert!(nothing.value.is_nan());
        assert_eq!(nothing.verdict, Undecided);
        // The second round was twice as fast for both; the third has an outlier.
        let drift = Judged::ratio(&[10.0, 20.0, 3.0], &[8.0, 16.0, 8.0], Expectation::AtLeast(1.0));
        assert_eq!(drift.value, 1.25);
    }

    #[test]
    fn counts_and_maxima_are_judged_as_they_are_and_few_rounds_are_undecided() {
        let none = Expectation::AtMost(0.0);
        assert_eq!([0.0, 1.0, f64::NAN].map(|n| Judged::count(n, none).verdict), [Holds, Fails, Undecided]);
        assert_eq!(Judged::median(&[0.0; 4], none).verdict, Undecided);
        assert_eq!(Judged::median(&[0.0; 5], none).verdict, Holds);
        let most = |at_most| Judged::most(&[1.0, 3.0, 2.0], Expectation::AtMost(at_most));
        assert_eq!((most(3.0).verdict, most(2.9).verdict, most(3.0).interval), (Holds, Fails, None));
        assert_eq!(Judged::most(&[], none).verdict, Undecided);
    }

    #[test]
    fn every_kind_of_bound_is_judged() {
        let judge = |value: f64, wanted| Judged::ratio(&[value; 5], &[1.0; 5], wanted).verdict;
        assert_eq!(judge(1.1, Expectation::AtMost(1.2)), Holds);
        assert_eq!(judge(1.3, Expectation::AtMost(1.2)), Fails);
        assert_eq!(judge(0.9, Expectation::AtLeast(0.95)), Fails);
        assert_eq!(judge(1.5, Expectation::about(2.0)), Fails);
        let spread = Judged::median(&[0.8, 0.9, 0.9, 1.1, 1.2], Expectation::AtLeast(0.95));
        assert_eq!(spread.verdict, Undecided);
    }

    #[test]
    fn all_bounds_hold_only_if_each_holds() {
        assert_eq!(Verdict::all([]), Holds);
        assert_eq!(Verdict::all([Holds, Undecided, Holds]), Undecided);
        assert_eq!(Verdict::all([Undecided, Fails, Holds]), Fails);
    }

    #[test]
    fn an_interval_over_rounds_draws_whole_rounds() {
        let rounds = [[1.0, 2.0]; 5];
        let mean = |drawn: &[usize]| drawn.iter().map(|r| rounds[*r].iter().sum::<f64>()).sum::<f64>() / 10.0;
        assert_eq!(bootstrap_rounds(5, mean), Some(Interval { low: 1.5, high: 1.5 }));
        assert_eq!(bootstrap_rounds(4, mean), None);
        let spread = bootstrap_rounds(9, |drawn| drawn.iter().sum::<usize>() as f64 / 9.0).unwrap();
        assert!(spread.low < 3.5 && spread.high > 4.5, "{spread:?}");
    }
}
