//! Values over time: several lines in one frame, or one frame per series.

use super::frame::{self, Key, Swatch, WIDTH};
use super::scale::{self, Scale};
use super::{Band, Plot, Series, Tone};
use crate::svg::{self, Anchor, Canvas, Rect};

/// How the series share the plot.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Layout {
    /// All lines in one frame: best for up to three.
    #[default]
    Overlaid,
    /// One frame per series, all with the same axes: best for many.
    Stacked,
}

/// Values over time.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct TimeSeries {
    /// Title.
    pub title: String,
    /// Text alternative: the plot's main message.
    pub description: String,
    /// Unit of y, for example `Mbit/s`.
    pub unit: String,
    /// The lines.
    pub series: Vec<Series>,
    /// A grey area behind all lines, for example the capacity of all links.
    pub capacity: Option<Series>,
    /// Shaded spans of time.
    pub bands: Vec<Band>,
    /// How the series share the plot.
    pub layout: Layout,
    /// Length of the time axis in seconds; `None` takes the end of the longest series.
    pub seconds: Option<f64>,
    /// True: a value is valid until the next one (one value per second). False: it is valid at its moment
    /// only.
    pub steps: bool,
}

const LEFT: f64 = 58.0;
const RIGHT: f64 = 14.0;

impl TimeSeries {
    /// An empty plot in which every value stands for one second.
    #[must_use]
    pub fn per_second(title: &str, unit: &str) -> Self {
        Self { title: title.to_owned(), unit: unit.to_owned(), steps: true, ..Self::default() }
    }

    fn all(&self) -> impl Iterator<Item = &Series> {
        self.series.iter().chain(&self.capacity)
    }

    /// Time between two points: the length of the last step.
    fn step(series: &Series) -> f64 {
        match series.points.as_slice() {
            [.., a, b] if b.0 > a.0 => b.0 - a.0,
            _ => 1.0,
        }
    }

    fn span(&self) -> (f64, f64) {
        let ends = self.all().filter_map(|s| {
            let last = s.points.last()?.0;
            Some(if self.steps { last + Self::step(s) } else { last })
        });
        let low = self.all().filter_map(|s| s.points.first()).map(|p| p.0).fold(f64::INFINITY, f64::min);
        let high = self.seconds.unwrap_or_else(|| ends.fold(0.0, f64::max));
        (if low.is_finite() { low.min(high) } else { 0.0 }, high)
    }

    fn top(&self, ticks: usize) -> f64 {
        scale::round_top(self.all().map(Series::largest).fold(0.0, f64::max), ticks)
    }

    /// The corners of the line in coordinates.
    fn outline(&self, series: &Series, x: Scale, y: Scale) -> Vec<(f64, f64)> {
        if !self.steps {
            return series.points.iter().map(|p| (x.at(p.0), y.at(p.1))).collect();
        }
        let ends = series.points.iter().skip(1).map(|p| p.0);
        let last = series.points.last().map(|p| p.0 + Self::step(series));
        series
            .points
            .iter()
            .zip(ends.chain(last))
            .flat_map(|(p, end)| [(x.at(p.0), y.at(p.1)), (x.clamped(end), y.at(p.1))])
            .collect()
    }

    /// Invisible columns, one per point, that show every value on hover.
    fn hover(&self, canvas: &mut Canvas, shown: &[&Series], x: Scale, inside: Rect) {
        let Some(grid) = shown.iter().max_by_key(|s| s.points.len()) else { return };
        let every = grid.points.len().div_ceil(300).max(1);
        let step = Self::step(grid) * every as f64;
        for (i, (at, _)) in grid.points.iter().enumerate().step_by(every) {
            let mut title = format!("{} s", scale::label(*at));
            for series in shown.iter().copied().chain(&self.capacity) {
                if let Some((_, value)) = series.points.get(i).filter(|p| p.0 == *at && p.1.is_finite()) {
                    title += &format!("\n{}: {} {}", series.name, crate::schema::short(*value), self.unit);
                }
            }
            let shift = if self.steps { 0.0 } else { step / 2.0 };
            let (left, right) = (x.clamped(at - shift), x.clamped(at - shift + step));
            canvas.rect("hit", Rect { x: left, w: right - left, ..inside }, 0.0, &title);
        }
    }

    fn keys(&self, with_series: bool) -> Vec<Key> {
        let lines = self.series.iter().filter(|_| with_series);
        lines
            .map(|s| Key::new(Swatch::Line(s.tone), &s.name, &s.note))
            .chain(self.capacity.iter().map(|s| Key::new(Swatch::Capacity, &s.name, &s.note)))
            .chain(frame::band_keys(&self.bands))
            .collect()
    }

    /// One frame: bands, capacity, grid and lines, with a light filling below each line when `filled`.
    fn panel(&self, canvas: &mut Canvas, shown: &[&Series], (x, y): (Scale, Scale), inside: Rect) {
        let base = inside.y + inside.h;
        frame::draw_bands(canvas, &self.bands, x, inside);
        if let Some(capacity) = &self.capacity {
            canvas.path("capacity", &svg::area(&self.outline(capacity, x, y), base), "");
        }
        frame::y_axis(canvas, y, if self.layout == Layout::Stacked { 2 } else { 5 }, inside);
        for series in shown {
            let outline = self.outline(series, x, y);
            let tone = series.tone.class();
            if shown.len() == 1 {
                canvas.path(&format!("under {tone}"), &svg::area(&outline, base), "");
            }
            let weight = if series.tone == Tone::Hero { "line hero" } else { "line" };
            canvas.path(&format!("{weight} {tone}"), &svg::polyline(outline), "");
        }
        self.hover(canvas, shown, x, inside);
    }

    fn draw_overlaid(&self, style: &str) -> String {
        let keys = self.keys(true);
        let top = frame::legend_height(&keys) + 34.0;
        let inside = Rect { x: LEFT, y: top, w: WIDTH - LEFT - RIGHT, h: 280.0 };
        let mut canvas = Canvas::new(WIDTH, top + inside.h + 46.0);
        frame::legend(&mut canvas, (10.0, 4.0), &keys);
        frame::y_unit(&mut canvas, top - 14.0, &self.unit);
        let x = Scale::new(self.span(), (inside.x, inside.x + inside.w));
        let y = Scale::new((0.0, self.top(5)), (inside.y + inside.h, inside.y));
        // The hero is drawn last, above the other lines.
        let mut shown: Vec<&Series> = self.series.iter().collect();
        shown.sort_by_key(|s| s.tone == Tone::Hero);
        self.panel(&mut canvas, &shown, (x, y), inside);
        frame::x_axis(&mut canvas, x, 12, inside, "time (s)");
        canvas.finish(&self.title, &self.description, style)
    }

    fn draw_stacked(&self, style: &str) -> String {
        const PANEL: f64 = 74.0;
        const PITCH: f64 = PANEL + 40.0;
        let keys = self.keys(false);
        let top = frame::legend_height(&keys) + 46.0;
        let height = top + PITCH * self.series.len() as f64 + 26.0;
        let mut canvas = Canvas::new(WIDTH, height);
        frame::legend(&mut canvas, (10.0, 4.0), &keys);
        frame::y_unit(&mut canvas, top - 28.0, &self.unit);
        for (row, series) in self.series.iter().enumerate() {
            let inside = Rect { x: LEFT, y: top + PITCH * row as f64, w: WIDTH - LEFT - RIGHT, h: PANEL };
            let x = Scale::new(self.span(), (inside.x, inside.x + inside.w));
            let y = Scale::new((0.0, self.top(2)), (inside.y + inside.h, inside.y));
            let tone = series.tone.class();
            canvas.circle(&format!("key {tone}"), (LEFT + 5.0, inside.y - 13.0), 5.0, "");
            canvas.text("name strong", (LEFT + 17.0, inside.y - 8.5), Anchor::Start, &series.name);
            canvas.text("note", (inside.x + inside.w, inside.y - 8.5), Anchor::End, &series.note);
            self.panel(&mut canvas, &[series], (x, y), inside);
            if row + 1 == self.series.len() {
                frame::x_axis(&mut canvas, x, 12, inside, "time (s)");
            }
        }
        canvas.finish(&self.title, &self.description, style)
    }
}

impl Plot for TimeSeries {
    fn title(&self) -> &str {
        &self.title
    }
    fn description(&self) -> &str {
        &self.description
    }
    fn draw(&self, style: &str) -> String {
        match self.layout {
            Layout::Overlaid => self.draw_overlaid(style),
            Layout::Stacked => self.draw_stacked(style),
        }
    }
}
