//! Why a reproduction failed. A claim that fails is no error: that is a result.

use super::evaluate::Ambiguous;
use super::matrix::CellError;
use super::paper::PaperError;
use crate::sweep::StoreError;
use thiserror::Error;

/// Why a reproduction failed.
#[derive(Debug, Error)]
pub enum ReproduceError {
    /// The paper's file.
    #[error(transparent)]
    Paper(#[from] PaperError),
    /// A cell that is not possible.
    #[error("{cell}: {source}")]
    Cell {
        /// Which.
        cell: String,
        /// Why.
        source: CellError,
    },
    /// The choice leaves nothing.
    #[error(transparent)]
    Choice(#[from] CellError),
    /// A matrix names an experiment that there is not.
    #[error("unknown experiment `{name}`; known: {known}")]
    Experiment {
        /// What was asked for.
        name: String,
        /// Those there are.
        known: String,
    },
    /// Finished cells cannot be kept.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// An expression.
    #[error("{place}: {source}")]
    Ambiguous {
        /// Which claim, table or figure.
        place: String,
        /// Why.
        source: Ambiguous,
    },
}
