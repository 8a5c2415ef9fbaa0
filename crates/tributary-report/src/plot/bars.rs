//! Groups of bars, each bar with its value, its spread and the paper's value.

use super::frame::{self, Key, Swatch, WIDTH};
use super::scale::{self, Scale};
use super::{Plot, Tone};
use crate::schema::{Interval, short};
use crate::svg::{Anchor, Canvas, Rect};

/// One bar.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Bar {
    /// Height in the plot's unit; `None` leaves the place empty.
    pub value: Option<f64>,
    /// Spread over the runs.
    pub interval: Option<Interval>,
    /// The paper's value, drawn as a diamond.
    pub paper: Option<f64>,
}

impl Bar {
    /// A bar of height `value`.
    #[must_use]
    pub fn new(value: f64) -> Self {
        Self { value: Some(value), ..Self::default() }
    }

    /// With the paper's value.
    #[must_use]
    pub fn paper(mut self, value: f64) -> Self {
        self.paper = Some(value);
        self
    }

    /// With the spread over the runs.
    #[must_use]
    pub fn interval(mut self, interval: Option<Interval>) -> Self {
        self.interval = interval;
        self
    }
}

/// The bars of one condition, in the order of the plot's series.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct BarGroup {
    /// Name under the group.
    pub name: String,
    /// One bar per series.
    pub bars: Vec<Bar>,
}

/// Groups of bars.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Bars {
    /// Title.
    pub title: String,
    /// Text alternative: the plot's main message.
    pub description: String,
    /// Unit of the values.
    pub unit: String,
    /// Name and colour of each bar in a group.
    pub series: Vec<(String, Tone)>,
    /// The groups.
    pub groups: Vec<BarGroup>,
}

impl Bars {
    /// An empty plot.
    #[must_use]
    pub fn new(title: &str, unit: &str, series: &[(&str, Tone)]) -> Self {
        let series = series.iter().map(|(name, tone)| ((*name).to_owned(), *tone)).collect();
        Self { title: title.to_owned(), unit: unit.to_owned(), series, ..Self::default() }
    }

    /// Adds the group `name`.
    pub fn push(&mut self, name: &str, bars: impl IntoIterator<Item = Bar>) {
        self.groups.push(BarGroup { name: name.to_owned(), bars: bars.into_iter().collect() });
    }

    fn largest(&self) -> f64 {
        let bars = self.groups.iter().flat_map(|g| &g.bars);
        bars.flat_map(|b| [b.value, b.paper, b.interval.map(|i| i.high)])
            .flatten()
            .filter(|v| v.is_finite())
            .fold(0.0, f64::max)
    }

    /// Draws `bar` of the series `(name, tone)` at `(left, width)`.
    fn bar(
        &self,
        canvas: &mut Canvas,
        bar: &Bar,
        ((left, width), y): ((f64, f64), Scale),
        (name, tone): &(String, Tone),
    ) {
        let base = y.at(0.0);
        let middle = left + width / 2.0;
        let mut top = base;
        if let Some(value) = bar.value.filter(|v| v.is_finite()) {
            top = y.clamped(value);
            let paper = bar.paper.map(|p| format!(" (paper {})", short(p))).unwrap_or_default();
            let title = format!("{name}: {} {}{paper}", short(value), self.unit);
            let rect = Rect { x: left, y: top, w: width, h: base - top };
            canvas.rect(&format!("bar {}", tone.class()), rect, width.min(6.0) / 2.0, &title);
        }
        if let Some(Interval { low, high }) = bar.interval {
            canvas.line("whisker", (middle, y.clamped(low)), (middle, y.clamped(high)));
            top = top.min(y.clamped(high));
        }
        if let Some(paper) = bar.paper.filter(|p| p.is_finite()) {
            let at = y.clamped(paper);
            canvas.path(
                "paper",
                &frame::diamond(middle, at),
                &format!("{name}, paper: {} {}", short(paper), self.unit),
            );
            if (at - top).abs() < 16.0 {
                top = top.min(at - 5.0);
            }
        }
        if let Some(value) = bar.value.filter(|v| v.is_finite()) {
            let class = if *tone == Tone::Hero { "value strong" } else { "value" };
            canvas.text(class, (middle, top - 6.0), Anchor::Middle, &short(value));
        }
    }
}

impl Plot for Bars {
    fn title(&self) -> &str {
        &self.title
    }
    fn description(&self) -> &str {
        &self.description
    }

    fn draw(&self, style: &str) -> String {
        let mut keys: Vec<Key> =
            self.series.iter().map(|(name, tone)| Key::new(Swatch::Block(*tone), name, "")).collect();
        if self.groups.iter().flat_map(|g| &g.bars).any(|b| b.paper.is_some()) {
            keys.push(Key::new(Swatch::Paper, "paper", ""));
        }
        let top = frame::legend_height(&keys) + 34.0;
        let inside = Rect { x: 58.0, y: top, w: WIDTH - 72.0, h: 270.0 };
        let mut canvas = Canvas::new(WIDTH, top + inside.h + 34.0);
        frame::legend(&mut canvas, (10.0, 4.0), &keys);
        frame::y_unit(&mut canvas, top - 14.0, &self.unit);
        let y = Scale::new((0.0, scale::round_top(self.largest(), 5)), (inside.y + inside.h, inside.y));
        frame::y_axis(&mut canvas, y, 5, inside);
        let pitch = inside.w / self.groups.len().max(1) as f64;
        let width = (pitch * 0.82 / self.series.len().max(1) as f64).min(64.0);
        for (number, group) in self.groups.iter().enumerate() {
            let centre = inside.x + pitch * (number as f64 + 0.5);
            let left = centre - width * self.series.len() as f64 / 2.0;
            for (i, (bar, series)) in group.bars.iter().zip(&self.series).enumerate() {
                let gap = (width * 0.12).min(4.0);
                let place = (left + width * i as f64 + gap / 2.0, width - gap);
                self.bar(&mut canvas, bar, (place, y), series);
            }
            canvas.text("group", (centre, inside.y + inside.h + 22.0), Anchor::Middle, &group.name);
        }
        canvas.finish(&self.title, &self.description, style)
    }
}
