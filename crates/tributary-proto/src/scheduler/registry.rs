//! Schedulers by name: one list for the command line, scenario files and bindings.

use tributary_types::Rng;

use super::Scheduler;
use super::fbdt::Fbdt;
use super::fbdt_paper::FbdtPaper;
use super::min_rtt::MinRtt;
use super::redundant::Redundant;
use super::round_robin::RoundRobin;

type Make = fn(Rng) -> Box<dyn Scheduler>;

const KNOWN: &[(&str, Make)] = &[
    ("fbdt", |_| Box::new(Fbdt::default())),
    ("fbdt-paper", |_| Box::new(FbdtPaper::default())),
    ("min-rtt", |_| Box::new(MinRtt::default())),
    ("redundant", |_| Box::new(Redundant::default())),
    ("round-robin", |_| Box::new(RoundRobin::default())),
];

/// The scheduler called `name`; `None` when there is none.
#[must_use]
pub fn create(name: &str, rng: Rng) -> Option<Box<dyn Scheduler>> {
    KNOWN.iter().find(|(known, _)| *known == name).map(|(_, make)| make(rng))
}

/// Every name, in alphabetical order.
#[must_use]
pub fn names() -> Vec<&'static str> {
    KNOWN.iter().map(|(name, _)| *name).collect()
}
