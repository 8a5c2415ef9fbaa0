//! The Python package is compiled for its tests with the crates that the workspace's tests have compiled. This works only while both
//! use them with the same features; else `make test` compiles most crates twice.

use std::collections::BTreeSet;
use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result, ensure};

/// Crates that the Python package uses with other features than the tests, each with both lists.
pub fn differences(root: &Path) -> Result<Vec<String>> {
    let features = |script: &str| -> Result<String> {
        let text = std::fs::read_to_string(root.join(script)).with_context(|| script.to_owned())?;
        features(&text).map(str::to_owned).with_context(|| format!("{script} has no --features"))
    };
    let (tests, package) = (features("scripts/test")?, features("scripts/test-python")?);
    let tests = tree(root, &["--workspace", "--features", &tests, "--edges", "normal,build,dev"])?;
    let package = ["--package", "tributary-python", "--features", &package, "--edges", "normal,build"];
    Ok(compare(&tests, &tree(root, &package)?))
}

/// The features with which a script builds.
fn features(script: &str) -> Option<&str> {
    script.split_once("--features ")?.1.split([' ', ')', '\n']).next()
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
    fn the_scripts_features_are_found() {
        assert_eq!(features("cargo --features a/b,c)\n"), Some("a/b,c"));
        assert_eq!(features("maturin --features a --locked"), Some("a"));
        assert_eq!(features("cargo build"), None);
    }

    #[test]
    fn other_features_are_named() {
        let tests = "tokio v1.0.0|net,test-util\nlibc v0.2.0|std\ntributary-net v0.1.0 (/here)|h3 (*)\n";
        let package = "tributary-python v0.1.0 (/here)|module\ntokio v1.0.0|net\nlibc v0.2.0|std (*)\ntributary-net v0.1.0 (/here)|h3\n";
        assert_eq!(compare(tests, package), ["tokio v1.0.0 with `net`, the tests with `net,test-util`"]);
        assert!(compare(tests, tests).is_empty());
    }
}
