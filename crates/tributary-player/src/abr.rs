//! Adaptive bitrate: which quality of the next media segment to request, and when to abandon a download.
//!
//! One rule per file, built by name. A rule reads a [`View`] of the player and returns a [`Decision`]; it sends
//! nothing and reads no clock. The rules follow the definitions of dash.js and of Spiteri, Sitaraman and Sparacio,
//! "From Theory to Practice: Improving Bitrate Adaptation in the DASH Reference Player" (MMSys 2018).

mod bba;
mod bola;
mod bola_e;
mod dynamic;
mod estimate;
mod throughput;

use core::time::Duration;

use thiserror::Error;
use tributary_types::Bitrate;

pub use bba::Bba;
pub use bola::Bola;
pub use bola_e::BolaE;
pub use dynamic::Dynamic;
pub use estimate::{Estimate, ThroughputEstimate};
pub use throughput::Throughput;

/// The qualities of a title and the duration of its media segments.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ladder {
    segment: Duration,
    bitrates: Vec<Bitrate>,
}

/// Why a ladder cannot be used.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum LadderError {
    /// The ladder is empty.
    #[error("the ladder has no representation; the MPD needs at least one with a bandwidth")]
    Empty,
    /// A bitrate is zero or below its predecessor.
    #[error(
        "bitrate {0} of the ladder is zero or below the one before it; sort representations by bandwidth"
    )]
    Order(usize),
    /// Segments have no duration.
    #[error("media segments last 0 s; the MPD needs a duration and a timescale above zero")]
    Duration,
}

impl Ladder {
    /// A ladder of `bitrates` from lowest to highest, in segments of this duration.
    ///
    /// # Errors
    /// [`LadderError`].
    pub fn new(segment: Duration, bitrates: Vec<Bitrate>) -> Result<Self, LadderError> {
        if bitrates.is_empty() {
            return Err(LadderError::Empty);
        }
        if segment.is_zero() {
            return Err(LadderError::Duration);
        }
        let mut last = 1;
        for (at, bitrate) in bitrates.iter().enumerate() {
            if bitrate.as_bps() < last {
                return Err(LadderError::Order(at));
            }
            last = bitrate.as_bps();
        }
        Ok(Self { segment, bitrates })
    }

    /// Duration of a media segment.
    #[must_use]
    pub fn segment(&self) -> Duration {
        self.segment
    }

    /// Number of qualities, at least one.
    #[must_use]
    #[expect(clippy::len_without_is_empty, reason = "a ladder is never empty")]
    pub fn len(&self) -> usize {
        self.bitrates.len()
    }

    /// Index of the highest quality.
    #[must_use]
    pub fn top(&self) -> usize {
        self.bitrates.len() - 1
    }

    /// Nominal bitrate of a quality, bit/s.
    #[must_use]
    pub fn bitrate(&self, quality: usize) -> f64 {
        self.bitrates[quality.min(self.top())].as_bps() as f64
    }

    /// Highest quality whose segments arrive within their own duration at `throughput` bit/s, counting `latency`
    /// until the first byte; the lowest when none does.
    #[must_use]
    pub fn sustainable(&self, throughput: f64, latency: Duration) -> usize {
        let duration = self.segment.as_secs_f64();
        let fits = |quality: &usize| {
            latency.as_secs_f64() + duration * self.bitrate(*quality) / throughput <= duration
        };
        (1..self.len()).take_while(fits).last().unwrap_or(0)
    }

    /// Logarithmic utility of each quality; the lowest has `lowest`.
    fn utilities(&self, lowest: f64) -> Vec<f64> {
        let first = self.bitrate(0);
        (0..self.len()).map(|quality| libm::log(self.bitrate(quality) / first) + lowest).collect()
    }
}

/// The player's state, as a rule sees it.
#[derive(Clone, Copy, Debug)]
pub struct View<'a> {
    /// The title.
    pub ladder: &'a Ladder,
    /// Media in the play buffer.
    pub level: Duration,
    /// Capacity of the play buffer.
    pub capacity: Duration,
    /// Zero-based index of the media segment whose quality is chosen.
    pub next: usize,
    /// Segments from `next` to the end of the title; `None` for a live one.
    pub remaining: Option<usize>,
    /// Measured throughput and latency; `None` before the first download.
    pub estimate: Option<Estimate>,
}

/// The decision of a rule.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Decision {
    /// Quality of the next segment.
    pub quality: usize,
    /// Wait before the request. Above zero when the buffer already holds enough for the chosen quality.
    pub delay: Duration,
}

impl Decision {
    fn at_once(quality: usize) -> Self {
        Self { quality, delay: Duration::ZERO }
    }
}

/// A running download.
#[derive(Clone, Copy, Debug)]
pub struct Progress {
    /// Its quality.
    pub quality: usize,
    /// Size of the segment in bits.
    pub size: f64,
    /// Bits that have arrived, as the player counts them.
    pub arrived: f64,
    /// Time since the request.
    pub elapsed: Duration,
    /// Time from the request to the first byte.
    pub first_byte: Duration,
}

/// A download that has ended.
#[derive(Clone, Copy, Debug)]
pub struct Finished {
    /// Its quality.
    pub quality: usize,
    /// Time since the request.
    pub elapsed: Duration,
    /// The quality requested instead, if the download was abandoned.
    pub abandoned_to: Option<usize>,
}

/// A bitrate rule.
pub trait Rule: Send {
    /// Chooses the next segment's quality.
    fn choose(&mut self, view: &View<'_>) -> Decision;

    /// The player waited because its buffer was full.
    fn waited(&mut self, _time: Duration) {}

    /// A download ended; `view.level` includes its segment unless it was abandoned.
    fn finished(&mut self, _view: &View<'_>, _download: &Finished) {}

    /// The quality to request in place of a running download; `None` to continue it. `view.level` is the buffer
    /// at this moment.
    fn abandon(&mut self, _view: &View<'_>, _progress: &Progress) -> Option<usize> {
        None
    }

    /// The playhead moved to media segment `to`; the buffer is empty.
    fn seeked(&mut self, _to: usize) {}

    /// The next segment has another ladder than the one before: qualities that the rule remembers mean nothing any more.
    fn new_ladder(&mut self) {}
}

/// No rule has this name.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("unknown bitrate rule `{0}`; known: {known}", known = names().join(", "))]
pub struct UnknownRule(pub String);

type Build = fn() -> Box<dyn Rule>;

const RULES: &[(&str, Build)] = &[
    ("throughput", || Box::new(Throughput::default())),
    ("bba", || Box::new(Bba::default())),
    ("bola", || Box::new(Bola::default())),
    ("bola-e", || Box::new(BolaE::default())),
    ("dynamic", || Box::new(Dynamic::default())),
];

/// The names of all rules.
#[must_use]
pub fn names() -> Vec<&'static str> {
    RULES.iter().map(|(name, _)| *name).collect()
}

/// Builds the rule of this name.
///
/// # Errors
/// [`UnknownRule`] lists the existing names.
pub fn rule(name: &str) -> Result<Box<dyn Rule>, UnknownRule> {
    let found = RULES.iter().find(|(known, _)| *known == name);
    found.map(|(_, build)| build()).ok_or_else(|| UnknownRule(name.to_owned()))
}

/// Seconds as a duration; zero for a value that is negative, not a number or too large.
fn seconds(value: f64) -> Duration {
    Duration::try_from_secs_f64(value).unwrap_or_default()
}

#[cfg(test)]
mod tests;
