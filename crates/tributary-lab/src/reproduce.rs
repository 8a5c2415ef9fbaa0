//! Reproductions of papers: runs the papers' experiments, compares the results with the papers' values, and judges
//! each claim.
//!
//! A [`Paper`] is data: cells, claims, tables and figures. [`run`] measures its cells by [`Experiment`]s and
//! judges the claims; [`Page`] prints them. Adding a paper: `docs/guide/reproductions.md`.

mod check;
pub mod comparison;
pub mod cotag;
pub mod decision_engine;
mod error;
pub mod evaluate;
pub mod expression;
mod figure;
pub mod handoff;
mod judge;
pub mod matrix;
mod network;
pub mod own;
pub mod ows;
mod page;
pub mod paper;
pub mod pathways;
mod runner;
mod sample;
pub mod transfer;

pub use error::ReproduceError;
pub use expression::Statistic;
pub use matrix::{Cell, CellError, Selection, failed};
pub use page::Page;
pub use paper::{Paper, PaperError, papers};
pub use runner::{Experiment, Outcome, Settings, expected, measure, run};
pub use sample::{Labels, Metric, Sample};

/// The experiments that are part of the program and need no files.
pub const EXPERIMENTS: [&dyn Experiment; 6] = [
    &transfer::Transfer { own: None },
    &pathways::Pathways,
    &cotag::Cotag,
    &decision_engine::DecisionEngine,
    &handoff::Handoff,
    &comparison::Comparison { own: None },
];

/// Description of a run: its values other than the defaults, and its seed.
#[must_use]
pub fn title(cell: &Cell) -> String {
    sample::title(&cell.labels, cell.seed)
}

/// [`EXPERIMENTS`], of which these take the places of those of the same name.
pub fn experiments_with<'a>(others: &[&'a dyn Experiment]) -> Vec<&'a dyn Experiment> {
    let other = |known: &'a dyn Experiment| others.iter().find(|other| other.name() == known.name());
    EXPERIMENTS.into_iter().map(|known| other(known).copied().unwrap_or(known)).collect()
}
