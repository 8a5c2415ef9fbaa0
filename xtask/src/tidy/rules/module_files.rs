//! A module `foo` is the file `foo.rs` with its parts in `foo/`, so every tab of an editor has a distinct name.

use super::super::finding::Finding;
use super::super::project::Project;

/// Reports `mod.rs` files.
pub fn check(project: &Project) -> Vec<Finding> {
    let mut findings = Vec::new();
    for file in project.rust() {
        if let Some(folder) = file.path.strip_suffix("/mod.rs") {
            findings.push(Finding::error(&file.path, 1, "is a mod.rs", format!("rename it to {folder}.rs")));
        }
    }
    findings
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mod_rs_fails() {
        let project =
            Project::of_files(&[("a/src/wire/mod.rs", ""), ("a/src/wire.rs", ""), ("a/src/not_mod.rs", "")]);
        let findings = check(&project);
        assert_eq!(findings.len(), 1);
        assert!(findings[0].way_out.contains("a/src/wire.rs"));
    }
}
