//! One row per transport, one cell per second. Dark red cells are seconds with low values.
//!
//! Use goodput as a share of each second's link capacity: then a low value is the transport's, not the
//! link's.
//! Cells have six classes by their share of `full`. Classes differ in lightness, so readers with
//! colour-blindness, on light and on dark pages, see the same order.

use super::frame::{self, WIDTH};
use super::scale::{self, Scale};
use super::{Band, Plot};
use crate::schema::short;
use crate::svg::{Anchor, Canvas, Rect};

/// One row.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct StripRow {
    /// Name to the left.
    pub name: String,
    /// A few words under the name; may be empty.
    pub note: String,
    /// One value per second; a value that is not finite leaves the cell empty.
    pub cells: Vec<f64>,
}

/// Rows of seconds.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Strip {
    /// Title.
    pub title: String,
    /// Text alternative: the plot's main message.
    pub description: String,
    /// Unit of the cells.
    pub unit: String,
    /// The value of a full cell, for example the capacity of all links.
    pub full: f64,
    /// The rows, top to bottom.
    pub rows: Vec<StripRow>,
    /// Marked spans above the rows.
    pub bands: Vec<Band>,
}

/// Lower bounds of the classes as shares of `full`: class 0 is below the first.
const BOUNDS: [f64; 5] = [0.10, 0.25, 0.45, 0.65, 0.85];

fn class_of(share: f64) -> usize {
    BOUNDS.iter().filter(|bound| share >= **bound).count()
}

impl Strip {
    /// An empty plot whose full cell is `full` `unit`.
    #[must_use]
    pub fn new(title: &str, unit: &str, full: f64) -> Self {
        Self { title: title.to_owned(), unit: unit.to_owned(), full, ..Self::default() }
    }

    /// Adds a row.
    pub fn push(&mut self, name: &str, note: &str, cells: &[f64]) {
        self.rows.push(StripRow { name: name.to_owned(), note: note.to_owned(), cells: cells.to_vec() });
    }

    fn legend(&self, canvas: &mut Canvas, right: f64) {
        const STEP: f64 = 46.0;
        let left = right - STEP * 6.0;
        for class in 0..6 {
            let x = left + STEP * class as f64;
            let rect = Rect { x, y: 4.0, w: STEP - 2.0, h: 11.0 };
            canvas.rect(&format!("cell c{class}"), rect, 2.0, "");
            if class > 0 {
                let bound = BOUNDS[class - 1] * self.full;
                canvas.text("tick", (x - 1.0, 29.0), Anchor::Middle, &scale::label(bound));
            }
        }
        canvas.text("unit", (left - 10.0, 14.0), Anchor::End, &self.unit);
    }

    fn row(&self, canvas: &mut Canvas, row: &StripRow, x: Scale, inside: Rect) {
        let middle = inside.y + inside.h / 2.0;
        let lift = if row.note.is_empty() { 4.5 } else { -2.0 };
        canvas.text("name strong", (inside.x - 14.0, middle + lift), Anchor::End, &row.name);
        if !row.note.is_empty() {
            canvas.text("note", (inside.x - 14.0, middle + 14.0), Anchor::End, &row.note);
        }
        for (second, value) in row.cells.iter().enumerate() {
            let (left, right) = (x.at(second as f64), x.at(second as f64 + 1.0));
            let rect = Rect { x: left + 0.75, w: right - left - 1.5, ..inside };
            if value.is_finite() {
                let class = class_of(value / self.full.max(f64::MIN_POSITIVE));
                let title =
                    format!("{}\n{second} – {} s: {} {}", row.name, second + 1, short(*value), self.unit);
                canvas.rect(&format!("cell c{class}"), rect, 2.0, &title);
            } else {
                canvas.rect("cell none", rect, 2.0, &format!("{}\n{second} s: no value", row.name));
            }
        }
    }
}

impl Plot for Strip {
    fn title(&self) -> &str {
        &self.title
    }
    fn description(&self) -> &str {
        &self.description
    }

    fn draw(&self, style: &str) -> String {
        const HEIGHT: f64 = 34.0;
        const PITCH: f64 = HEIGHT + 8.0;
        let widest = self.rows.iter().flat_map(|r| [&r.name, &r.note]).map(|t| frame::text_width(t));
        let left = widest.fold(60.0, f64::max).min(260.0) + 24.0;
        let top = if self.bands.is_empty() { 44.0 } else { 62.0 };
        let rows = self.rows.len() as f64;
        let inside = Rect { x: left, y: top, w: WIDTH - left - 14.0, h: PITCH * rows - 8.0 };
        let mut canvas = Canvas::new(WIDTH, top + PITCH * rows + 42.0);
        self.legend(&mut canvas, WIDTH - 14.0);
        let seconds = self.rows.iter().map(|r| r.cells.len()).max().unwrap_or(0);
        let x = Scale::new((0.0, seconds as f64), (inside.x, inside.x + inside.w));
        for band in &self.bands {
            let (from, to) = (x.clamped(band.from), x.clamped(band.to));
            let title = format!("{}: {} – {} s", band.label, scale::label(band.from), scale::label(band.to));
            canvas.rect("mark", Rect { x: from, y: top - 12.0, w: to - from, h: 5.0 }, 2.5, &title);
        }
        if let Some(band) = self.bands.first() {
            canvas.text("note", (inside.x - 14.0, top - 5.0), Anchor::End, &band.label);
        }
        for (number, row) in self.rows.iter().enumerate() {
            let place = Rect { y: top + PITCH * number as f64, h: HEIGHT, ..inside };
            self.row(&mut canvas, row, x, place);
        }
        frame::x_axis(&mut canvas, x, 12, inside, "time (s)");
        canvas.finish(&self.title, &self.description, style)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn classes_follow_their_bounds() {
        assert_eq!([0.0, 0.09, 0.10, 0.5, 0.85, 2.0, -1.0].map(class_of), [0, 0, 1, 3, 5, 5, 0]);
    }

    #[test]
    fn a_full_of_zero_and_a_gap_draw() {
        let mut strip = Strip::new("t", "Mbit/s", 0.0);
        strip.push("a", "", &[1.0, f64::NAN]);
        assert!(strip.svg().contains("no value"));
    }
}
