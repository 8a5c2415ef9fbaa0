//! Schedulers by name: one list for the command line, scenario files and bindings.
//!
//! `avira+NAME` puts the content discriminator in front of the scheduler called NAME.

use tributary_types::Rng;

use super::Scheduler;
use super::classifier::Weights;
use super::fbdt::Fbdt;
use super::fbdt_paper::FbdtPaper;
use super::one_at_a_time::OneAtATime;
use super::one_at_a_time::{
    blest, ecf, greedy_sticky, linux_default, lowest_rtt, min_rtt, musher, random, round_robin,
};
use super::prioritised::Prioritised;
use super::redundant::Redundant;

type Make = fn(Rng) -> Box<dyn Scheduler>;

/// A scheduler without priorities.
struct Entry {
    name: &'static str,
    /// With the discriminator in front.
    prioritised: &'static str,
    make: Make,
}

macro_rules! entry {
    ($name:literal, $make:expr) => {
        Entry { name: $name, prioritised: concat!("avira+", $name), make: $make }
    };
}

/// The paper's AVIRA.
const AVIRA: &str = "avira";
/// The same without the forecast: a prioritised segment goes where the subflows' present state is the best.
const AVIRA_PRESENT: &str = "avira-present";
/// The same, in which a prioritised segment waits for the forecast's choice.
const AVIRA_WAITING: &str = "avira-waiting";
/// `avira+fbdt` without the forecast, as [`AVIRA_PRESENT`].
const FBDT_PRESENT: &str = "avira-present+fbdt";
/// `avira+fbdt` without copies of small segments.
const FBDT_SINGLE: &str = "avira-single+fbdt";
/// Schedulers with the discriminator that have a name of their own, unlike `avira+NAME`.
const OWN: [&str; 5] = [AVIRA, AVIRA_PRESENT, AVIRA_WAITING, FBDT_PRESENT, FBDT_SINGLE];

const KNOWN: &[Entry] = &[
    entry!("blest", |_| Box::new(OneAtATime::new(blest::Blest::default()))),
    entry!("ecf", |_| Box::new(OneAtATime::new(ecf::Ecf::default()))),
    entry!("fbdt", |_| Box::new(Fbdt::default())),
    entry!("fbdt-paper", |_| Box::new(FbdtPaper::published())),
    entry!("fbdt-release", |_| Box::new(FbdtPaper::released())),
    entry!("greedy-sticky", |_| Box::new(OneAtATime::new(greedy_sticky::GreedySticky::default()))),
    entry!("linux-default", |_| Box::new(OneAtATime::new(linux_default::LinuxDefault::default()))),
    entry!("lowest-rtt", |_| Box::new(OneAtATime::new(lowest_rtt::LowestRtt))),
    entry!("min-rtt", |_| Box::new(OneAtATime::new(min_rtt::MinRtt::default()))),
    entry!("musher", |_| Box::new(OneAtATime::new(musher::MuSher::default()))),
    entry!("random", |rng| Box::new(OneAtATime::new(random::Random(rng)))),
    entry!("redundant", |_| Box::new(Redundant::default())),
    entry!("round-robin", |_| Box::new(OneAtATime::new(round_robin::RoundRobin::default()))),
];

/// The scheduler called `name`, with the default weights; `None` when there is none.
#[must_use]
pub fn create(name: &str, rng: Rng) -> Option<Box<dyn Scheduler>> {
    create_weighted(name, rng, &Weights::default())
}

/// The scheduler called `name`; `None` when there is none. The weights are for schedulers that forecast.
#[must_use]
pub fn create_weighted(name: &str, rng: Rng, weights: &Weights) -> Option<Box<dyn Scheduler>> {
    // Round-robin is the default of the ns-3 model that the paper extends.
    let default = || Box::new(OneAtATime::new(round_robin::RoundRobin::default()));
    match name {
        AVIRA => return Some(Box::new(Prioritised::paper(AVIRA, default(), *weights))),
        AVIRA_PRESENT => {
            return Some(Box::new(Prioritised::paper(AVIRA_PRESENT, default(), *weights).of_the_present()));
        }
        AVIRA_WAITING => return Some(Box::new(Prioritised::waiting(AVIRA_WAITING, default(), *weights))),
        FBDT_PRESENT => {
            let product = Prioritised::product(FBDT_PRESENT, Box::new(Fbdt::default()), *weights);
            return Some(Box::new(product.of_the_present()));
        }
        FBDT_SINGLE => {
            let product = Prioritised::product(FBDT_SINGLE, Box::new(Fbdt::default()), *weights);
            return Some(Box::new(product.without_copies()));
        }
        _ => {}
    }
    let entry = KNOWN.iter().find(|entry| entry.name == name || entry.prioritised == name)?;
    let bulk = (entry.make)(rng);
    Some(if entry.name == name {
        bulk
    } else {
        Box::new(Prioritised::product(entry.prioritised, bulk, *weights))
    })
}

/// Whether [`create`] accepts the name: one of [`names`], or `avira+` and one of those that are not AVIRA's.
#[must_use]
pub fn is_known(name: &str) -> bool {
    OWN.contains(&name) || KNOWN.iter().any(|entry| entry.name == name || entry.prioritised == name)
}

/// Every name, in alphabetical order, without those that begin with `avira+`.
#[must_use]
pub fn names() -> Vec<&'static str> {
    OWN.into_iter().chain(KNOWN.iter().map(|entry| entry.name)).collect()
}
