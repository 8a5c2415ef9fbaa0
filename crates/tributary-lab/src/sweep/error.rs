//! Errors of a plan, with file and place.

use thiserror::Error;
use tributary_link::ScenarioError;

/// Why a plan is refused.
#[derive(Debug, Error)]
pub enum PlanError {
    /// The file could not be read.
    #[error("{file}: {problem}")]
    Unreadable {
        /// The file.
        file: String,
        /// The reason.
        problem: String,
    },
    /// A field is missing, unknown or has an invalid value; or the text is not TOML.
    #[error("{file}:{line}: {field}: {problem}")]
    Field {
        /// The file.
        file: String,
        /// Line, counted from one.
        line: usize,
        /// The field.
        field: String,
        /// What is wrong, and what is expected.
        problem: String,
    },
    /// A scenario of the plan is invalid.
    #[error(transparent)]
    Scenario(#[from] ScenarioError),
    /// Too many cells.
    #[error(
        "{plan}: {product} = {cells} runs, more than {limit}; shorten a list, or allow more with \
         `limit` in the plan or --limit"
    )]
    TooLarge {
        /// Its file or name.
        plan: String,
        /// The lengths of its lists, as a product.
        product: String,
        /// The number of cells.
        cells: u128,
        /// The limit.
        limit: u64,
    },
    /// A plan made in code has an invalid combination.
    #[error("{plan}: {problem}")]
    Impossible {
        /// Its file or name.
        plan: String,
        /// What is wrong.
        problem: String,
    },
}
