//! Every Rust file starts with `//!`: its purpose, its limits, its source.

use super::super::finding::Finding;
use super::super::project::Project;

/// Reports files that start with anything else.
pub fn check(project: &Project) -> Vec<Finding> {
    let headless = project.rust().filter(|file| !has_head(&file.text));
    headless
        .map(|file| {
            let way_out = "open it with `//!`: what the file is, what it is not, its source";
            Finding::error(&file.path, 1, "has no head", way_out)
        })
        .collect()
}

fn has_head(text: &str) -> bool {
    let first = text.lines().find(|line| !line.trim().is_empty());
    first.and_then(|line| line.strip_prefix("//!")).is_some_and(|words| !words.trim().is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_without_a_head_fails() {
        let project = Project::of_files(&[
            ("good.rs", "//! What it is.\nfn f() {}\n"),
            ("none.rs", "fn f() {}\n//! Late.\n"),
            ("empty_head.rs", "//!\nfn f() {}\n"),
            ("empty.rs", ""),
            ("not_rust.md", "text"),
        ]);
        let files: Vec<_> = check(&project).into_iter().map(|finding| finding.file).collect();
        assert_eq!(files, ["none.rs", "empty_head.rs", "empty.rs"]);
    }
}
