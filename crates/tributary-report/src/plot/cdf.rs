//! Cumulative distributions: the share of the samples that is at most x.

use super::frame::{self, Key, Swatch, WIDTH};
use super::scale::{self, Scale};
use super::{Plot, Tone};
use crate::stats;
use crate::svg::{self, Canvas, Rect};

/// Cumulative distributions of several sets of samples.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Cdf {
    /// Title.
    pub title: String,
    /// Text alternative: the plot's main message.
    pub description: String,
    /// Label of the x axis with its unit, for example `goodput of a second (Mbit/s)`.
    pub label: String,
    /// (name, colour, samples); samples that are not finite are ignored.
    pub sets: Vec<(String, Tone, Vec<f64>)>,
}

impl Cdf {
    /// An empty plot.
    #[must_use]
    pub fn new(title: &str, label: &str) -> Self {
        Self { title: title.to_owned(), label: label.to_owned(), ..Self::default() }
    }

    /// Adds a set of samples.
    pub fn push(&mut self, name: &str, tone: Tone, samples: &[f64]) {
        self.sets.push((name.to_owned(), tone, samples.to_vec()));
    }

    fn keys(&self) -> Vec<Key> {
        self.sets
            .iter()
            .map(|(name, tone, samples)| {
                let note = stats::median(samples).map(|m| format!("median {}", crate::schema::short(m)));
                Key::new(Swatch::Line(*tone), name, &note.unwrap_or_default())
            })
            .collect()
    }
}

impl Plot for Cdf {
    fn title(&self) -> &str {
        &self.title
    }
    fn description(&self) -> &str {
        &self.description
    }

    fn draw(&self, style: &str) -> String {
        let keys = self.keys();
        let top = frame::legend_height(&keys) + 34.0;
        let inside = Rect { x: 58.0, y: top, w: WIDTH - 72.0, h: 250.0 };
        let mut canvas = Canvas::new(WIDTH, top + inside.h + 46.0);
        frame::legend(&mut canvas, (10.0, 4.0), &keys);
        frame::y_unit(&mut canvas, top - 14.0, "%");
        let largest = self.sets.iter().filter_map(|s| stats::maximum(&s.2)).fold(0.0, f64::max);
        let lowest = self.sets.iter().filter_map(|s| stats::minimum(&s.2)).fold(0.0, f64::min);
        let x = Scale::new((lowest, scale::round_top(largest, 10)), (inside.x, inside.x + inside.w));
        let y = Scale::new((0.0, 100.0), (inside.y + inside.h, inside.y));
        frame::y_axis(&mut canvas, y, 5, inside);
        frame::x_axis(&mut canvas, x, 10, inside, &self.label);
        let mut sets: Vec<_> = self.sets.iter().collect();
        sets.sort_by_key(|s| s.1 == Tone::Hero);
        for (name, tone, samples) in sets {
            let mut points = Vec::new();
            let mut share = 0.0;
            for (value, up_to) in stats::cdf(samples) {
                points.push((x.at(value), y.at(share * 100.0)));
                points.push((x.at(value), y.at(up_to * 100.0)));
                share = up_to;
            }
            points.extend(points.last().map(|last| (inside.x + inside.w, last.1)));
            let weight = if *tone == Tone::Hero { "line hero" } else { "line" };
            canvas.path(&format!("{weight} {}", tone.class()), &svg::polyline(points), "");
            for percent in [10.0, 25.0, 50.0, 75.0, 90.0] {
                if let Some(value) = stats::percentile(samples, percent) {
                    let title = format!("{name}: {percent:.0} % at most {}", crate::schema::short(value));
                    canvas.circle(
                        &format!("dot {}", tone.class()),
                        (x.at(value), y.at(percent)),
                        7.0,
                        &title,
                    );
                }
            }
        }
        canvas.finish(&self.title, &self.description, style)
    }
}
