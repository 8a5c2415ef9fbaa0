//! Why a scenario is refused. Errors name the place and what is expected there.

use thiserror::Error;

/// Why a scenario was refused.
#[derive(Debug, Error)]
pub enum ScenarioError {
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
        /// The field, such as `path.down.rate`.
        field: String,
        /// Description of the error, and the expected value.
        problem: String,
    },
    /// A scenario built in code has an invalid value.
    #[error("scenario {scenario}: {field}: {problem}")]
    Impossible {
        /// The scenario's name.
        scenario: String,
        /// The field.
        field: String,
        /// Description of the error, and the expected value.
        problem: String,
    },
    /// A scenario built in code names an unknown transport, scheduler or the like.
    #[error("`{name}`: {problem}")]
    Name {
        /// The name.
        name: String,
        /// Description of the error, and the expected value.
        problem: String,
    },
    /// No built-in scenario has this name.
    #[error("no scenario is called `{name}`; there are {known}, or give the path of a .toml file")]
    Unknown {
        /// The requested name.
        name: String,
        /// The existing names.
        known: String,
    },
}
