//! Congestion controllers by name: one list for the command line, scenario files and bindings.

use super::cubic::Cubic;
use super::reno::Reno;
use super::{CongestionController, Setup};

type Make = fn(Setup) -> Box<dyn CongestionController>;

const KNOWN: &[(&str, Make)] = &[
    ("cubic", |setup| Box::new(Cubic::new(setup))),
    ("cubic-no-hystart", |setup| Box::new(Cubic::without_hystart(setup))),
    ("reno", |setup| Box::new(Reno::new(setup))),
];

/// The controller called `name`; `None` when there is none.
#[must_use]
pub fn create(name: &str, setup: Setup) -> Option<Box<dyn CongestionController>> {
    KNOWN.iter().find(|(known, _)| *known == name).map(|(_, make)| make(setup))
}

/// Every name, in alphabetical order.
#[must_use]
pub fn names() -> Vec<&'static str> {
    KNOWN.iter().map(|(name, _)| *name).collect()
}
