//! Why a reproduction failed. A claim that does not hold is a result, not an error.

use super::evaluate::Ambiguous;
use super::matrix::CellError;
use super::paper::PaperError;
use crate::store::StoreError;
use thiserror::Error;

/// Why a reproduction failed.
#[derive(Debug, Error)]
pub enum ReproduceError {
    /// The paper's file is invalid.
    #[error(transparent)]
    Paper(#[from] PaperError),
    /// A cell cannot be run.
    #[error("{cell}: {source}")]
    Cell {
        /// The cell.
        cell: String,
        /// The reason.
        source: CellError,
    },
    /// The user's choice leaves nothing to run.
    #[error(transparent)]
    Choice(#[from] CellError),
    /// A matrix names an unknown experiment.
    #[error("unknown experiment `{name}`; known: {known}")]
    Experiment {
        /// The requested experiment.
        name: String,
        /// The known experiments.
        known: String,
    },
    /// Finished cells cannot be stored.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// An expression is ambiguous.
    #[error("{place}: {source}")]
    Ambiguous {
        /// The claim, table or figure.
        place: String,
        /// The reason.
        source: Ambiguous,
    },
}
