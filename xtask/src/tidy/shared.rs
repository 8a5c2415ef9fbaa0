//! The Python package is compiled for its tests with the crates that the workspace's tests have compiled. This works only while both
//! use them with the same features; else `make test` compiles most crates twice.

use std::collections::BTreeSet;
use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result, ensure};

/// What `scripts/test` builds, and what `scripts/test-python` builds.
const TESTS: [&str; 5] = [
    "--workspace",
    "--features",
    "tributary-bpf/ebpf,tributary-tests/ebpf,tributary-python/module",
    "--edges",
    "normal,build,dev",
];
const PACKAGE: [&str; 6] =
    ["--package", "tributary-python", "--features", "module,shared", "--edges", "normal,build"];

/// Crates that the Python package uses with other features than the tests, each with both lists.
pub fn differences(root: &Path) -> Result<Vec<String>> {
    Ok(compare(&tree(root, &TESTS)?, &tree(root, &PACKAGE)?))
}

fn tree(root: &Path, selected: &[&str]) -> Result<String> {
    let mut command = Command::new(super::project::cargo());
    command.args(["tree", "--locked", "--color", "never", "--prefix", "none", "--format", "{p}|{f}"]);
    let output = command.args(selected).current_dir(root).output().context("cannot run `cargo tree`")?;
    ensure!(output.status.success(), "cargo tree: {}", String::from_utf8_lossy(&output.stderr));
    Ok(String::from_utf8(output.stdout)?)
}

/// Lines are `name version (place)|features`; repeated crates end in ` (*)`.
fn compare(tests: &str, package: &str) -> Vec<String> {
    let parse = |text: &str| -> BTreeSet<(String, String)> {
        let line = |line: &str| {
            let (name, features) = line.trim_end_matches(" (*)").split_once('|')?;
            let name: Vec<&str> = name.split(' ').take(2).collect();
            Some((name.join(" "), features.to_owned()))
        };
        text.lines().filter_map(line).collect()
    };
    let tests = parse(tests);
    let own = |name: &str| name.starts_with("tributary-python ");
    let other = parse(package).into_iter().filter(|used| !own(&used.0) && !tests.contains(used));
    let describe = |(name, features): (String, String)| {
        let of_tests: Vec<&str> =
            tests.iter().filter(|(tested, _)| *tested == name).map(|(_, features)| &**features).collect();
        format!("{name} with `{features}`, the tests with `{}`", of_tests.join("` and `"))
    };
    other.map(describe).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn other_features_are_named() {
        let tests = "tokio v1.0.0|net,test-util\nlibc v0.2.0|std\ntributary-net v0.1.0 (/here)|h3 (*)\n";
        let package = "tributary-python v0.1.0 (/here)|module\ntokio v1.0.0|net\nlibc v0.2.0|std (*)\ntributary-net v0.1.0 (/here)|h3\n";
        assert_eq!(compare(tests, package), ["tokio v1.0.0 with `net`, the tests with `net,test-util`"]);
        assert!(compare(tests, tests).is_empty());
    }
}
