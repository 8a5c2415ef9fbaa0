//! Settings of a recording.

use core::time::Duration;

/// How much of a path a recording takes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Pace {
    /// A tenth of the path in each direction, ten trains a second: beside other traffic.
    #[default]
    Light,
    /// Two fifths of the path in each direction, forty trains a second: alone.
    Saturating,
}

impl Pace {
    /// Time between two requests.
    #[must_use]
    pub const fn slot(self) -> Duration {
        Duration::from_millis(match self {
            Self::Light => 100,
            Self::Saturating => 25,
        })
    }

    /// Share of the time that trains take in each direction.
    #[must_use]
    pub const fn share(self) -> f64 {
        match self {
            Self::Light => 0.1,
            Self::Saturating => 0.4,
        }
    }
}

/// Settings of a recording.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Options {
    /// How much of a path it takes.
    pub pace: Pace,
    /// Its length; `None`: until it is stopped.
    pub length: Option<Duration>,
    /// The clocks of both ends differ by less than a millisecond (PTP, GPS), so that delays are measured in each direction. They
    /// are in any case if both ends run on one machine.
    pub synchronised: bool,
}
