//! Reproductions of papers: their experiments, beside their values, judged claim by claim.

pub mod fbdt;
mod runs;

pub use runs::Runs;
