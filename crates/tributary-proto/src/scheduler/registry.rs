//! Schedulers by name: one list for the command line, scenario files and bindings.

use tributary_types::Rng;

use super::Scheduler;
use super::fbdt::Fbdt;
use super::fbdt_paper::FbdtPaper;
use super::one_at_a_time::OneAtATime;
use super::one_at_a_time::{
    blest, ecf, greedy_sticky, linux_default, lowest_rtt, min_rtt, musher, random, round_robin,
};
use super::redundant::Redundant;

type Make = fn(Rng) -> Box<dyn Scheduler>;

const KNOWN: &[(&str, Make)] = &[
    ("blest", |_| Box::new(OneAtATime::new(blest::Blest::default()))),
    ("ecf", |_| Box::new(OneAtATime::new(ecf::Ecf::default()))),
    ("fbdt", |_| Box::new(Fbdt::default())),
    ("fbdt-paper", |_| Box::new(FbdtPaper::default())),
    ("greedy-sticky", |_| Box::new(OneAtATime::new(greedy_sticky::GreedySticky::default()))),
    ("linux-default", |_| Box::new(OneAtATime::new(linux_default::LinuxDefault::default()))),
    ("lowest-rtt", |_| Box::new(OneAtATime::new(lowest_rtt::LowestRtt))),
    ("min-rtt", |_| Box::new(OneAtATime::new(min_rtt::MinRtt::default()))),
    ("musher", |_| Box::new(OneAtATime::new(musher::MuSher::default()))),
    ("random", |rng| Box::new(OneAtATime::new(random::Random(rng)))),
    ("redundant", |_| Box::new(Redundant::default())),
    ("round-robin", |_| Box::new(OneAtATime::new(round_robin::RoundRobin::default()))),
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
