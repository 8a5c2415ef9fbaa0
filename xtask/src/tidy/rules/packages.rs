//! A crate contains all files that it is compiled from, so that it compiles as a package. The files in `include_str!`
//! and `include_bytes!` are inside the crate, if necessary through a link to a folder of the project. Tests
//! may include any file.

use super::super::finding::Finding;
use super::super::project::{Project, SourceFile};

const UP: &str = "../";

/// Reports included files outside the crate.
pub fn check(project: &Project) -> Vec<Finding> {
    let is_packaged = |path: &str| path.starts_with("crates/") && !path.contains("/tests");
    project.rust().filter(|file| is_packaged(&file.path)).flat_map(check_file).collect()
}

fn check_file(file: &SourceFile) -> Vec<Finding> {
    // `crates/NAME/src/a/b.rs` may go up twice, to `crates/NAME`.
    let most = file.path.matches('/').count().saturating_sub(2);
    let mut findings = Vec::new();
    for (number, line) in file.text.lines().enumerate() {
        let Some((_, included)) = line.split_once("include_") else { continue };
        let literal = included.split('"').nth(1).unwrap_or_default();
        let ups = literal.len() - literal.trim_start_matches(UP).len();
        if included.contains("!(") && ups / UP.len() > most {
            let what = format!("`{literal}` is outside the crate and missing from its package");
            let way_out = "link its folder into the crate, as crates/tributary-link/scenarios";
            findings.push(Finding::error(&file.path, number + 1, what, way_out));
        }
    }
    findings
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_included_from_outside_the_crate_is_found() {
        let found = |path: &str, text: &str| check(&Project::of_files(&[(path, text)])).len();
        let text = "const A: &str = include_str!(\"../../../../scenarios/a.toml\");";
        assert_eq!(found("crates/c/src/a/b.rs", text), 1);
        assert_eq!(found("crates/c/src/a/b.rs", "include_bytes!(concat!(\"../../x/\", $name))"), 0);
        assert_eq!(found("crates/c/src/lib.rs", "#![doc = include_str!(\"../README.md\")]"), 0);
        assert_eq!(found("crates/c/src/lib.rs", "#![doc = include_str!(\"../../README.md\")]"), 1);
        assert_eq!(found("tests/tests/a.rs", text) + found("crates/c/src/tests.rs", text), 0);
    }
}
