//! Why a scenario is refused: always with the place, and with what is expected there.

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
    /// A field has an impossible value, is missing or is unknown; or the text is no TOML.
    #[error("{file}:{line}: {field}: {problem}")]
    Field {
        /// The file.
        file: String,
        /// Line, counted from one.
        line: usize,
        /// The field, such as `path.down.rate`.
        field: String,
        /// What is wrong, and what is expected.
        problem: String,
    },
    /// A scenario built in code has an impossible value.
    #[error("scenario {scenario}: {field}: {problem}")]
    Impossible {
        /// The scenario's name.
        scenario: String,
        /// The field.
        field: String,
        /// What is wrong, and what is expected.
        problem: String,
    },
    /// A name that a scenario built in code gives to a transport, scheduler or the like is not known.
    #[error("`{name}`: {problem}")]
    Name {
        /// The name.
        name: String,
        /// What is wrong, and what is expected.
        problem: String,
    },
    /// No shipped scenario has this name.
    #[error("no scenario is called `{name}`; there are {known}, or give the path of a .toml file")]
    Unknown {
        /// The name asked for.
        name: String,
        /// The names there are.
        known: String,
    },
}
