//! Parts common to all plots: legend, axes, grid, bands.

use super::scale::{self, Scale};
use super::{Band, Tone};
use crate::svg::{Anchor, Canvas, Rect};

/// Width of every plot in user units; pages scale it.
pub(super) const WIDTH: f64 = 960.0;
/// Height of one row of the legend.
const LEGEND_ROW: f64 = 24.0;

/// One entry of a legend.
pub(super) struct Key {
    pub(super) swatch: Swatch,
    pub(super) name: String,
    pub(super) note: String,
}

/// The symbol of a legend entry.
#[derive(Clone, Copy)]
pub(super) enum Swatch {
    Line(Tone),
    Block(Tone),
    Capacity,
    Band,
    Paper,
}

impl Key {
    pub(super) fn new(swatch: Swatch, name: &str, note: &str) -> Self {
        Self { swatch, name: name.to_owned(), note: note.to_owned() }
    }

    fn width(&self) -> f64 {
        let gap = if self.note.is_empty() { 0.0 } else { 7.0 };
        30.0 + text_width(&self.name) + gap + text_width(&self.note) + 22.0
    }
}

/// Upper estimate of the width of `text` at the label size.
pub(super) fn text_width(text: &str) -> f64 {
    text.chars()
        .map(|c| {
            if "iljt.,:·'|() ".contains(c) {
                4.4
            } else if c.is_uppercase() {
                9.0
            } else {
                7.4
            }
        })
        .sum()
}

/// Position of each legend entry, and the height of all rows.
fn legend_places(keys: &[Key]) -> (Vec<(f64, f64)>, f64) {
    let (mut x, mut y) = (0.0, 0.0);
    let mut places = Vec::with_capacity(keys.len());
    for key in keys {
        let width = key.width();
        if x > 0.0 && x + width > WIDTH {
            (x, y) = (0.0, y + LEGEND_ROW);
        }
        places.push((x, y));
        x += width;
    }
    (places, if keys.is_empty() { 0.0 } else { y + LEGEND_ROW })
}

/// Height that the legend of `keys` takes.
pub(super) fn legend_height(keys: &[Key]) -> f64 {
    legend_places(keys).1
}

/// Draws the legend from the top left corner `(x, y)`.
pub(super) fn legend(canvas: &mut Canvas, (left, top): (f64, f64), keys: &[Key]) {
    for (key, (dx, dy)) in keys.iter().zip(legend_places(keys).0) {
        let (x, y) = (left + dx, top + dy + 12.0);
        let block = Rect { x, y: y - 6.0, w: 20.0, h: 12.0 };
        match key.swatch {
            Swatch::Line(tone) => {
                let class = format!("key {}", tone.class());
                canvas.rect(&class, Rect { y: y - 2.0, h: 4.0, ..block }, 2.0, "");
            }
            Swatch::Block(tone) => canvas.rect(&format!("key {}", tone.class()), block, 3.0, ""),
            Swatch::Capacity => canvas.rect("capacity", block, 3.0, ""),
            Swatch::Band => canvas.rect("band", block, 3.0, ""),
            Swatch::Paper => canvas.path("paper", &diamond(x + 10.0, y), ""),
        }
        canvas.name((x + 28.0, y + 4.5), &key.name, &key.note);
    }
}

/// The symbol of a paper's value.
pub(super) fn diamond(x: f64, y: f64) -> String {
    crate::svg::polyline([(x, y - 5.5), (x + 5.5, y), (x, y + 5.5), (x - 5.5, y)]) + "Z"
}

/// The legend entries of `bands`, each label once.
pub(super) fn band_keys(bands: &[Band]) -> Vec<Key> {
    let mut keys: Vec<Key> = Vec::new();
    for band in bands {
        if !band.label.is_empty() && keys.iter().all(|k| k.name != band.label) {
            keys.push(Key::new(Swatch::Band, &band.label, ""));
        }
    }
    keys
}

/// Shades `bands` over the height of `inside`.
pub(super) fn draw_bands(canvas: &mut Canvas, bands: &[Band], x: Scale, inside: Rect) {
    for band in bands {
        let (left, right) = (x.clamped(band.from), x.clamped(band.to));
        if right > left {
            let title = format!("{}: {} – {} s", band.label, scale::label(band.from), scale::label(band.to));
            canvas.rect("band", Rect { x: left, w: right - left, ..inside }, 0.0, &title);
        }
    }
}

/// The unit of the y axis, written from the picture's left edge so that long units fit.
pub(super) fn y_unit(canvas: &mut Canvas, baseline: f64, unit: &str) {
    canvas.text("unit", (10.0, baseline), Anchor::Start, unit);
}

/// Horizontal grid lines with their values to the left.
pub(super) fn y_axis(canvas: &mut Canvas, y: Scale, ticks: usize, inside: Rect) {
    for tick in y.ticks(ticks) {
        let at = y.at(tick);
        let class = if tick == 0.0 { "axis" } else { "grid" };
        canvas.line(class, (inside.x, at), (inside.x + inside.w, at));
        canvas.text("tick", (inside.x - 9.0, at + 4.0), Anchor::End, &scale::label(tick));
    }
}

/// Tick values under the bottom edge of `inside`, and the label of the x axis.
pub(super) fn x_axis(canvas: &mut Canvas, x: Scale, ticks: usize, inside: Rect, label: &str) {
    let bottom = inside.y + inside.h;
    for tick in x.ticks(ticks) {
        canvas.line("axis", (x.at(tick), bottom), (x.at(tick), bottom + 4.0));
        canvas.text("tick", (x.at(tick), bottom + 18.0), Anchor::Middle, &scale::label(tick));
    }
    canvas.text("unit", (inside.x + inside.w, bottom + 35.0), Anchor::End, label);
}
