//! A ranking: one row per contestant, best first, with a dot at its value and a line over its interval.

use super::frame::{self, WIDTH};
use super::scale::{self, Scale};
use super::{Plot, Tone};
use crate::schema::{Interval, short};
use crate::svg::{Anchor, Canvas, Rect};

/// One contestant.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Rank {
    /// Name to the left.
    pub name: String,
    /// Colour.
    pub tone: Tone,
    /// Its value in the plot's unit; one that is not finite has no dot.
    pub value: f64,
    /// Spread over the runs.
    pub interval: Option<Interval>,
}

/// Contestants, best first.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Ranks {
    /// Title.
    pub title: String,
    /// Text alternative: the plot's main message.
    pub description: String,
    /// Name and unit of the values, for example `goodput (Mbit/s)`.
    pub unit: String,
    /// The rows, top to bottom.
    pub rows: Vec<Rank>,
    /// A value for comparison with its name, drawn as a vertical line.
    pub reference: Option<(String, f64)>,
}

impl Ranks {
    /// An empty plot.
    #[must_use]
    pub fn new(title: &str, unit: &str) -> Self {
        Self { title: title.to_owned(), unit: unit.to_owned(), ..Self::default() }
    }

    /// All values that must be inside the frame.
    fn values(&self) -> impl Iterator<Item = f64> {
        let ends = self.rows.iter().filter_map(|row| row.interval).flat_map(|i| [i.low, i.high]);
        let values = self.rows.iter().map(|row| row.value).chain(ends);
        values.chain(self.reference.as_ref().map(|(_, value)| *value)).filter(|value| value.is_finite())
    }

    /// From zero if the values reach below half of the largest one; otherwise only their range, because dots need no zero.
    fn range(&self) -> (f64, f64) {
        let (low, high) = self
            .values()
            .fold((f64::INFINITY, f64::NEG_INFINITY), |(low, high), v| (low.min(v), high.max(v)));
        let margin = (high - low).max(high.abs() * 0.01) * 0.08;
        match low {
            low if !low.is_finite() => (0.0, 1.0),
            low if low >= 0.0 && low < high * 0.5 => (0.0, high + margin),
            low => (low - margin, high + margin),
        }
    }

    fn row(&self, canvas: &mut Canvas, row: &Rank, (x, y): (Scale, f64), left: f64) {
        let class = if row.tone == Tone::Hero { "name strong" } else { "name" };
        canvas.text(class, (left - 12.0, y + 4.5), Anchor::End, &row.name);
        let mut end = row.value;
        if let Some(Interval { low, high }) = row.interval {
            canvas.line("whisker", (x.clamped(low), y), (x.clamped(high), y));
            end = end.max(high);
        }
        if row.value.is_finite() {
            let title = format!("{}: {} {}", row.name, short(row.value), self.unit);
            canvas.circle(&format!("key {}", row.tone.class()), (x.clamped(row.value), y), 5.0, &title);
            canvas.text("value", (x.clamped(end) + 9.0, y + 4.0), Anchor::Start, &short(row.value));
        }
    }
}

impl Plot for Ranks {
    fn title(&self) -> &str {
        &self.title
    }
    fn description(&self) -> &str {
        &self.description
    }

    fn draw(&self, style: &str) -> String {
        const PITCH: f64 = 23.0;
        let widest = self.rows.iter().map(|row| frame::text_width(&row.name)).fold(60.0, f64::max).min(260.0);
        let (left, top) = (widest + 24.0, 30.0);
        let height = PITCH * self.rows.len() as f64;
        let inside = Rect { x: left, y: top, w: WIDTH - left - 70.0, h: height };
        let mut canvas = Canvas::new(WIDTH, top + height + 46.0);
        let x = Scale::new(self.range(), (inside.x, inside.x + inside.w));
        for tick in x.ticks(8) {
            canvas.line("grid", (x.at(tick), top), (x.at(tick), top + height));
        }
        if let Some((name, value)) = self.reference.as_ref().filter(|(_, value)| value.is_finite()) {
            let at = x.clamped(*value);
            canvas.line("axis", (at, top - 6.0), (at, top + height));
            canvas.text(
                "note",
                (at, top - 11.0),
                Anchor::Middle,
                &format!("{name} {}", scale::label(*value)),
            );
        }
        for (number, row) in self.rows.iter().enumerate() {
            self.row(&mut canvas, row, (x, top + PITCH * (number as f64 + 0.5)), left);
        }
        frame::x_axis(&mut canvas, x, 8, inside, &self.unit);
        canvas.finish(&self.title, &self.description, style)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rank(value: f64) -> Rank {
        Rank { value, ..Rank::default() }
    }

    #[test]
    fn values_near_each_other_are_not_drawn_from_zero() {
        let range = |values: &[f64]| {
            Ranks { rows: values.iter().copied().map(rank).collect(), ..Ranks::default() }.range()
        };
        assert!((range(&[38.0, 40.0]).0 - 37.84).abs() < 1e-9);
        assert_eq!(range(&[5.0, 40.0]).0, 0.0);
        assert!(range(&[-3.0, 4.0]).0 < -3.0);
        assert_eq!(range(&[]), (0.0, 1.0));
    }

    #[test]
    fn missing_values_and_equal_values_draw() {
        let mut ranks = Ranks::new("t", "Mbit/s");
        ranks.rows = vec![rank(f64::NAN), rank(3.0), rank(3.0)];
        ranks.reference = Some(("a".to_owned(), f64::NAN));
        let drawn = ranks.svg();
        assert!(!drawn.contains("NaN") && drawn.matches("<circle").count() == 2, "{drawn}");
    }
}
