//! A name that a higher crate resolves, with its place in the file.

use crate::error::ScenarioError;

/// A name of a transport, scheduler, congestion control or metric, unresolved.
#[derive(Clone, Debug, Eq)]
pub struct Name {
    text: String,
    written_at: Option<WrittenAt>,
}

/// A place in a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WrittenAt {
    /// The file.
    pub file: String,
    /// Line, counted from one.
    pub line: usize,
    /// The field, such as `run.scheduler`.
    pub field: String,
}

impl Name {
    /// A name given in code.
    #[must_use]
    pub fn new(text: &str) -> Self {
        Self { text: text.to_owned(), written_at: None }
    }

    pub(crate) fn read(text: &str, written_at: WrittenAt) -> Self {
        Self { text: text.to_owned(), written_at: Some(written_at) }
    }

    /// The name.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.text
    }

    /// Where the name was read; `None` if it was given in code.
    #[must_use]
    pub fn written_at(&self) -> Option<&WrittenAt> {
        self.written_at.as_ref()
    }

    /// An error about this name, with file, line and field if it was read from a file.
    #[must_use]
    pub fn refuse(&self, problem: &str) -> ScenarioError {
        match self.written_at.clone() {
            Some(WrittenAt { file, line, field }) => {
                ScenarioError::Field { file, line, field, problem: format!("`{}`: {problem}", self.text) }
            }
            None => ScenarioError::Name { name: self.text.clone(), problem: problem.to_owned() },
        }
    }
}

/// Names are equal if their texts are equal, wherever they were read.
impl PartialEq for Name {
    fn eq(&self, other: &Self) -> bool {
        self.text == other.text
    }
}
