//! Why a reproduction failed. A claim that does not hold is a result, not an error.

use super::evaluate::Ambiguous;
use super::matrix::CellError;
use super::paper::PaperError;
use crate::sweep::StoreError;
use thiserror::Error;

/// Why a reproduction failed.
#[derive(Debug, Error)]
pub enum ReproduceError {
    /// The paper's file is invalid.
    #[error(transparent)]
    Paper(#[from] PaperError),
    /// A cell is not possible.
    #[error("{cell}: {source}")]
    Cell {
        /// Which.
        cell: String,
        /// Why.
        source: CellError,
    },
    /// The user's choice leaves nothing to run.
    #[error(transparent)]
    Choice(#[from] CellError),
    /// A matrix names an unknown experiment.
    #[error("unknown experiment `{name}`; known: {known}")]
    Experiment {
        /// What was asked for.
        name: String,
        /// The known ones.
        known: String,
    },
    /// Finished cells cannot be stored.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// An expression is ambiguous.
    #[error("{place}: {source}")]
    Ambiguous {
        /// Which claim, table or figure.
        place: String,
        /// Why.
        source: Ambiguous,
    },
}
