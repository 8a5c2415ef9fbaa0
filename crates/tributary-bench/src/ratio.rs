//! A ratio of paired measurements, its interval, and the verdict on its bound.

use crate::{Bounds, Judgement, paired_interval, paired_ratio};
use serde::Serialize;
use tributary_report::{Cell, Column};

/// The bound of a ratio.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Wanted {
    /// At least this.
    AtLeast(f64),
    /// At most this.
    AtMost(f64),
    /// This, within 20 %.
    About(f64),
}

impl Wanted {
    /// Largest difference from the value of [`Wanted::About`], as a share of it.
    const NEAR: f64 = 0.2;

    fn judge(self, interval: Option<Bounds>) -> Judgement {
        match self {
            Self::AtLeast(least) => Judgement::at_least(least, interval),
            Self::AtMost(most) => Judgement::at_most(most, interval),
            Self::About(value) => {
                Judgement::inside(value * (1.0 - Self::NEAR)..=value * (1.0 + Self::NEAR), interval)
            }
        }
    }

    fn words(self) -> String {
        match self {
            Self::AtLeast(least) => format!("≥ {least}"),
            Self::AtMost(most) => format!("≤ {most}"),
            Self::About(value) => format!("{value} ± {:.0} %", Self::NEAR * 100.0),
        }
    }
}

/// A ratio over several rounds.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Ratio {
    /// Median of the rounds' own ratios.
    pub value: f64,
    /// Its 95 % interval, bootstrapped over the rounds.
    pub interval: Option<Bounds>,
    /// The bound.
    pub wanted: Wanted,
    /// The verdict.
    pub judgement: Judgement,
}

impl Ratio {
    /// The ratio of two series with a value for each round. Rounds with a value that is not finite are left out.
    pub(crate) fn of(ours: &[f64], peers: &[f64], wanted: Wanted) -> Self {
        let interval = paired_interval(ours, peers);
        Self { value: paired_ratio(ours, peers), interval, wanted, judgement: wanted.judge(interval) }
    }

    /// A value that is measured in each round and has a bound of its own: its ratio to one unit.
    pub(crate) fn of_values(values: &[f64], wanted: Wanted) -> Self {
        Self::of(values, &vec![1.0; values.len()], wanted)
    }

    /// A count over all rounds, which has no interval: each counts.
    pub(crate) fn of_count(value: f64, wanted: Wanted) -> Self {
        let exact = value.is_finite().then_some(Bounds { low: value, high: value });
        Self { value, interval: None, wanted, judgement: wanted.judge(exact) }
    }

    /// Columns of [`Ratio::cells`].
    pub(crate) fn columns(heading: &str) -> [Column; 4] {
        [
            Column::right(heading),
            Column::right("95 % interval"),
            Column::right("wanted"),
            Column::left("verdict"),
        ]
    }

    /// Cells of a table's row.
    pub(crate) fn cells(&self) -> [Cell; 4] {
        [
            Cell::number(self.value, 3).strong(),
            Cell::optional(self.interval.map(|interval| interval.to_string())),
            Cell::text(&self.wanted.words()),
            self.judgement.cell(),
        ]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rounds_without_a_value_are_left_out_of_ratio_and_interval() {
        let ratio = Ratio::of(&[1.9, f64::NAN, 2.1, 2.0], &[1.0; 4], Wanted::About(2.0));
        assert_eq!((ratio.value, ratio.judgement), (2.0, Judgement::Holds));
        let nothing = Ratio::of(&[f64::NAN; 3], &[1.0; 3], Wanted::AtMost(1.2));
        assert!(nothing.value.is_nan());
        assert_eq!(nothing.judgement, Judgement::Undecided);
    }

    #[test]
    fn a_count_is_judged_as_it_is() {
        let none = Wanted::AtMost(0.0);
        assert_eq!(Ratio::of_count(0.0, none).judgement, Judgement::Holds);
        assert_eq!(Ratio::of_count(1.0, none).judgement, Judgement::Fails);
        assert_eq!(Ratio::of_count(f64::NAN, none).judgement, Judgement::Undecided);
        assert_eq!(Ratio::of_values(&[2.0, 2.1, 2.2], Wanted::AtLeast(2.0)).value, 2.1);
    }

    #[test]
    fn a_bound_is_judged_from_its_own_side() {
        let judge = |value: f64, wanted| Ratio::of(&[value; 5], &[1.0; 5], wanted).judgement;
        assert_eq!(judge(1.1, Wanted::AtMost(1.2)), Judgement::Holds);
        assert_eq!(judge(1.3, Wanted::AtMost(1.2)), Judgement::Fails);
        assert_eq!(judge(0.9, Wanted::AtLeast(0.95)), Judgement::Fails);
        assert_eq!(judge(1.5, Wanted::About(2.0)), Judgement::Fails);
    }
}
