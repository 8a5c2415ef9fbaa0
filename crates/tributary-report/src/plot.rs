//! Plots as SVG: time series, distributions, bars beside a paper's values, rankings, and strips of seconds.
//!
//! A plot is a plain value; [`Plot::svg`] draws it for a page that carries [`STYLE`] (as
//! [`crate::HtmlReport`] does), [`Plot::standalone`] as a file of its own that follows the reader's
//! light or dark setting. Values that are not finite are gaps.

mod bars;
mod cdf;
mod frame;
mod ranks;
mod scale;
mod strip;
mod time_series;

pub use bars::{Bar, BarGroup, Bars};
pub use cdf::Cdf;
pub use ranks::{Rank, Ranks};
pub use strip::{Strip, StripRow};
pub use time_series::{Layout, TimeSeries};

/// The style sheet of every plot: colours for light and dark, text sizes, hover marks.
pub const STYLE: &str = include_str!("plot/plot.css");

/// Anything that can be drawn.
pub trait Plot {
    /// Title, a few words.
    fn title(&self) -> &str;
    /// Text alternative: the plot's main message.
    fn description(&self) -> &str;
    /// The drawing; `style` is put inside it unless empty.
    fn draw(&self, style: &str) -> String;

    /// The drawing for a page that carries [`STYLE`].
    fn svg(&self) -> String {
        self.draw("")
    }

    /// The drawing as a separate file.
    fn standalone(&self) -> String {
        self.draw(STYLE)
    }
}

/// A colour by role. Give each transport one colour and use it in every plot of a report.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Tone {
    /// The product itself.
    #[default]
    Hero,
    /// The main competitor.
    Rival,
    /// A variant of the hero.
    Cousin,
    /// The first of the single radios.
    RadioA,
    /// The second of the single radios.
    RadioB,
    /// The third of the single radios.
    RadioC,
    /// Another transport.
    Peer,
    /// Neutral: capacity, sums, references.
    Neutral,
}

impl Tone {
    /// All tones, the most distinct first.
    pub const ALL: [Self; 8] = [
        Self::Hero,
        Self::Rival,
        Self::Cousin,
        Self::RadioA,
        Self::RadioB,
        Self::RadioC,
        Self::Peer,
        Self::Neutral,
    ];

    pub(crate) fn class(self) -> &'static str {
        match self {
            Self::Hero => "t0",
            Self::Rival => "t1",
            Self::Cousin => "t2",
            Self::RadioA => "t3",
            Self::RadioB => "t4",
            Self::RadioC => "t5",
            Self::Peer => "t6",
            Self::Neutral => "t7",
        }
    }
}

/// A named line: points in the units of the plot's axes, ascending in x.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Series {
    /// Name in the legend.
    pub name: String,
    /// Colour.
    pub tone: Tone,
    /// (x, y); a y that is not finite is a gap.
    pub points: Vec<(f64, f64)>,
    /// A few words beside the name, for example `mean 124 Mbit/s`; may be empty.
    pub note: String,
}

impl Series {
    /// The series `name` in the colour `tone`.
    #[must_use]
    pub fn new(name: &str, tone: Tone, points: Vec<(f64, f64)>) -> Self {
        Self { name: name.to_owned(), tone, points, note: String::new() }
    }

    /// One value per second; the first value is for the time from 0 to 1 s.
    #[must_use]
    pub fn per_second(name: &str, tone: Tone, values: &[f64]) -> Self {
        let points = values.iter().enumerate().map(|(second, v)| (second as f64, *v)).collect();
        Self::new(name, tone, points)
    }

    /// With a few words beside the name.
    #[must_use]
    pub fn note(mut self, note: &str) -> Self {
        note.clone_into(&mut self.note);
        self
    }

    fn largest(&self) -> f64 {
        self.points.iter().map(|p| p.1).filter(|y| y.is_finite()).fold(0.0, f64::max)
    }
}

/// A shaded span of x, for example a blockage.
#[derive(Clone, Debug, PartialEq)]
pub struct Band {
    /// Start, in the x unit.
    pub from: f64,
    /// End, in the x unit.
    pub to: f64,
    /// Label, shown on hover and once in the legend.
    pub label: String,
}

impl Band {
    /// The span `from..to` called `label`.
    #[must_use]
    pub fn new(from: f64, to: f64, label: &str) -> Self {
        Self { from, to, label: label.to_owned() }
    }
}
