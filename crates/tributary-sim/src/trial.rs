//! Trials: a random network, two ends of a session and faults on both, checked by rules.
//!
//! A seed gives a [`Trial`] ([`Trial::draw`]), [`run`] carries it out and checks the rules, and [`shrink`] makes a trial that breaks
//! one shorter. A trial is a text that a test can contain. Sessions, attempts and drivers are the product's, TCP and links are
//! modelled. What the laboratory needs to run the same trial on real sockets is public: the application ([`Lines`]) and the rules
//! about what both ends show ([`Watch`], [`judge`]). Not here: which seeds are run, and in how many threads (the laboratory). Guide: `docs/guide/faults.md`.

mod cases;
mod draw;
mod fault;
mod lines;
mod node;
mod rate;
mod rules;
mod run;
mod script;
mod shrink;
mod streams;
mod watch;

pub use cases::{Case, cases};
pub use fault::{Fault, Rule};
pub use lines::{Ended, LineState, Lines};
pub use rate::{Series, TICK, judge};
pub use rules::{CLOSING, DELIVERY, LINGERING, too_much, transfer};
pub use run::{Outcome, run};
pub use script::{Act, End, Operation, Trial, TrialError, TrialPath, Way};
pub use shrink::shrink;
pub use streams::Streams;
pub use watch::{Watch, refusal};

#[cfg(test)]
mod tests;
