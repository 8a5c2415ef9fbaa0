//! Why stored pictures are not converted, before the file is named.

/// A refusal before it has its file.
pub(super) struct Refusal {
    pub(super) problem: String,
    pub(super) way: String,
}

impl Refusal {
    pub(super) fn new(problem: impl Into<String>, filter: &str) -> Self {
        Self { problem: problem.into(), way: format!("ffmpeg -i IN -vf {filter} OUT") }
    }
}
