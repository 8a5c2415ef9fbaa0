//! Reproductions of papers: their experiments, beside their values, judged claim by claim.

pub mod avira;
pub mod fbdt;
pub mod fbdt_sim;
pub mod ows;
mod runs;

pub use runs::Runs;
