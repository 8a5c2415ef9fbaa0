//! The Python package `tributary`: its compiled module `tributary._native`. Runs, sweeps and rankings are those of the laboratory's one
//! runner. Not here: the emulator, and everything on sockets.
//!
//! Doc comments of Python's classes and functions are their docstrings, in the form of numpydoc; the examples in them are tests.

#![cfg(feature = "module")]
// The examples of docstrings are no block quotes.
#![allow(clippy::doc_lazy_continuation)]

mod allocation;
mod coding;
mod congestion;
mod errors;
mod failure;
mod head;
mod names;
mod network;
mod options;
mod own;
mod playback;
mod run;
mod scheduler;
mod sweep;
mod table;

use pyo3::prelude::*;

/// Compiled part of `tributary`; import `tributary` instead.
#[pymodule(name = "_native")]
mod native {
    #[pymodule_export]
    use super::allocation::{Allocation, allocate, allocate_together};
    #[pymodule_export]
    use super::coding::{CodedSymbol, Decoder, Encoder, Erasure, Recoder};
    #[pymodule_export]
    use super::congestion::{Ack, Loss, Sibling};
    #[pymodule_export]
    use super::errors::SimulationError;
    #[pymodule_export]
    use super::head::HeadTrace;
    #[pymodule_export]
    use super::names::{allocators, bitrate_rules, congestion_controls, scenarios, schedulers, transports};
    #[pymodule_export]
    use super::network::{Network, Trace};
    #[pymodule_export]
    use super::playback::{Playback, PlayerView, play};
    #[pymodule_export]
    use super::run::{Run, RunResult, run, run_all};
    #[pymodule_export]
    use super::scheduler::{Subflow, Window};
    #[pymodule_export]
    use super::sweep::{Ranking, Sweep, compare, sweep};
    #[pymodule_export]
    use super::table::Table;
    #[pymodule_export]
    #[allow(non_upper_case_globals, reason = "Python's name for it")]
    const __version__: &str = env!("CARGO_PKG_VERSION");
}
