//! Congestion controllers by name: one list for the command line, scenario files and bindings.

use super::new_reno::NewReno;
use super::{CongestionController, Setup};

type Make = fn(Setup) -> Box<dyn CongestionController>;

const KNOWN: &[(&str, Make)] = &[("reno", |setup| Box::new(NewReno::new(setup)))];

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
