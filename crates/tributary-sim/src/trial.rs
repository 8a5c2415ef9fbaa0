//! Trials: a random network, two ends of a session and faults on both, checked by rules.
//!
//! A seed gives a [`Trial`] ([`Trial::draw`]), [`run`] carries it out and checks the rules, and [`shrink`] makes a trial that breaks
//! one shorter. A trial is a text that a test can contain. Sessions, attempts and drivers are the product's, TCP and links are
//! modelled. Not here: which seeds are run, and in how many threads (the laboratory). Guide: `docs/guide/faults.md`.

mod cases;
mod draw;
mod lines;
mod node;
mod rate;
mod rules;
mod run;
mod script;
mod shrink;

pub use cases::{Case, cases};
pub use rules::{Fault, Rule};
pub use run::{Outcome, run};
pub use script::{Act, End, Operation, Trial, TrialError, TrialPath, Way};
pub use shrink::shrink;

#[cfg(test)]
mod tests;
