//! Cargo.lock is tracked, and all its packages come from the public registry.
//!
//! `cargo metadata --locked` checks that it matches the manifests when the project is read.

use super::super::finding::Finding;
use super::super::project::Project;

const LOCK: &str = "Cargo.lock";
const REGISTRY: &str = "source = \"registry+https://github.com/rust-lang/crates.io-index\"";

/// Reports a missing lock file and packages from other places.
pub fn check(project: &Project) -> Vec<Finding> {
    let Some(lock) = project.file(LOCK) else {
        return vec![Finding::error(LOCK, 1, "is not tracked", "run `cargo check` and commit it")];
    };
    let foreign =
        lock.text.lines().enumerate().filter(|(_, line)| line.starts_with("source = ") && *line != REGISTRY);
    foreign
        .map(|(at, line)| {
            let what = format!("takes a package from elsewhere: {line}");
            Finding::error(LOCK, at + 1, what, "use a version published on the public registry")
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn absence_and_foreign_sources_fail() {
        assert_eq!(check(&Project::of_files(&[])).len(), 1);
        let lock = format!("[[package]]\n{REGISTRY}\n[[package]]\nsource = \"git+https://example.org/x\"\n");
        let findings = check(&Project::of_files(&[(LOCK, &lock)]));
        assert_eq!(findings.len(), 1);
        assert_eq!(findings[0].line, 4);
    }
}
