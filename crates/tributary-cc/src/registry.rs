//! Congestion controllers by name: one list for the command line, scenario files and bindings.

use super::balia::Balia;
use super::bbr::Bbr;
use super::compound::Compound;
use super::coupled::Coupled;
use super::cubic::Cubic;
use super::lia::Lia;
use super::olia::Olia;
use super::reno::Reno;
use super::wvegas::WVegas;
use super::{CongestionController, Setup};

type Make = fn(Setup) -> Box<dyn CongestionController>;

const KNOWN: &[(&str, Make)] = &[
    ("balia", |setup| Box::new(Coupled::<Balia>::new(setup))),
    ("bbr", |setup| Box::new(Bbr::new(setup))),
    ("compound", |setup| Box::new(Compound::new(setup))),
    ("cubic", |setup| Box::new(Cubic::new(setup))),
    ("cubic-no-hystart", |setup| Box::new(Cubic::without_hystart(setup))),
    ("lia", |setup| Box::new(Coupled::<Lia>::new(setup))),
    ("olia", |setup| Box::new(Coupled::<Olia>::new(setup))),
    ("reno", |setup| Box::new(Reno::new(setup))),
    ("wvegas", |setup| Box::new(WVegas::new(setup))),
];

/// The controller called `name`; `None` if unknown.
#[must_use]
pub fn create(name: &str, setup: Setup) -> Option<Box<dyn CongestionController>> {
    KNOWN.iter().find(|(known, _)| *known == name).map(|(_, make)| make(setup))
}

/// Every name, in alphabetical order.
#[must_use]
pub fn names() -> Vec<&'static str> {
    KNOWN.iter().map(|(name, _)| *name).collect()
}
