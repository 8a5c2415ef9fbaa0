//! All packages that are built into or used by the product have a permissive licence, and the product states its own.
//!
//! Reads SPDX licence expressions (SPDX specification 2.3, annex D), with the `/` of old manifests as `OR`.

use super::super::finding::Finding;
use super::super::project::Project;

/// Licences that require only their text and notices.
const PERMISSIVE: &[&str] = &[
    "0BSD",
    "Apache-2.0",
    "BSD-2-Clause",
    "BSD-3-Clause",
    "BSL-1.0",
    "CC0-1.0",
    "CDLA-Permissive-2.0",
    "ISC",
    "MIT",
    "MIT-0",
    "Unicode-3.0",
    "Unicode-DFS-2016",
    "Unlicense",
    "Zlib",
];

/// Configuration of cargo-deny.
const DENY: &str = "deny.toml";

/// Licence of every package of the workspace.
const OWN: &str = "MIT OR Apache-2.0";

/// Reports packages under other licences.
pub fn check(project: &Project) -> Vec<Finding> {
    let mut findings = Vec::new();
    for package in &project.packages {
        let stated = package.licence.as_deref().unwrap_or("none");
        if let Some(directory) = &package.directory {
            if stated != OWN {
                let what = format!("`{}` states the licence `{stated}`", package.name);
                let file = format!("{directory}/Cargo.toml");
                findings.push(Finding::error(&file, 1, what, "write `license.workspace = true`"));
            }
        } else if !permissive(stated) {
            let what = format!("`{} {}` has the licence `{stated}`", package.name, package.version);
            let line = lock_line(project, &package.name);
            findings.push(Finding::error("Cargo.lock", line, what, "depend on something permissive instead"));
        }
    }
    findings.extend(project.file(DENY).and_then(|file| check_deny(&file.text)));
    findings
}

/// Reports a list for cargo-deny that differs from [`PERMISSIVE`].
fn check_deny(text: &str) -> Option<Finding> {
    let begin = text.find("\nallow = [")?;
    let list = text[begin..].split_once('[')?.1.split_once(']')?.0;
    let listed: Vec<&str> = list.split('"').skip(1).step_by(2).collect();
    (listed != PERMISSIVE).then(|| {
        let line = text[..begin + 1].lines().count() + 1;
        let way_out = "make it that of xtask/src/tidy/rules/licences.rs, in its order";
        Finding::error(DENY, line, "the list of licences is another one than tidy's", way_out)
    })
}

fn lock_line(project: &Project, name: &str) -> usize {
    let text = project.file("Cargo.lock").map_or("", |file| file.text.as_str());
    let wanted = format!("name = \"{name}\"");
    text.lines().position(|line| line == wanted).map_or(1, |at| at + 1)
}

/// Whether permissive licences alone satisfy the expression. An expression that cannot be read is not permissive.
fn permissive(expression: &str) -> bool {
    let spaced = expression.replace('(', " ( ").replace(')', " ) ").replace('/', " OR ");
    let words: Vec<&str> = spaced.split_whitespace().collect();
    let mut rest = words.as_slice();
    any_of(&mut rest) == Some(true) && rest.is_empty()
}

fn any_of(rest: &mut &[&str]) -> Option<bool> {
    let mut met = all_of(rest)?;
    while take(rest, "OR") {
        met |= all_of(rest)?;
    }
    Some(met)
}

fn all_of(rest: &mut &[&str]) -> Option<bool> {
    let mut met = one(rest)?;
    while take(rest, "AND") {
        met &= one(rest)?;
    }
    Some(met)
}

fn one(rest: &mut &[&str]) -> Option<bool> {
    if take(rest, "(") {
        let met = any_of(rest)?;
        return take(rest, ")").then_some(met);
    }
    let (licence, after) = rest.split_first()?;
    *rest = after;
    if take(rest, "WITH") {
        // An exception removes conditions, so the licence alone decides.
        *rest = rest.split_first()?.1;
    }
    Some(PERMISSIVE.contains(licence))
}

fn take(rest: &mut &[&str], word: &str) -> bool {
    match rest.split_first() {
        Some((first, after)) if *first == word => {
            *rest = after;
            true
        }
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::super::super::project::Package;
    use super::*;

    #[test]
    fn permissive_expressions_pass() {
        for expression in [
            "MIT",
            "MIT/Apache-2.0",
            "Apache-2.0 AND ISC",
            "(MIT OR Apache-2.0) AND Unicode-3.0",
            "Apache-2.0 WITH LLVM-exception OR GPL-3.0",
        ] {
            assert!(permissive(expression), "{expression}");
        }
    }

    #[test]
    fn others_and_unreadable_ones_fail() {
        for expression in
            ["GPL-3.0", "MIT AND MPL-2.0", "none", "", "(MIT", "MIT OR", "MIT Apache-2.0", "MIT) OR (MIT"]
        {
            assert!(!permissive(expression), "{expression}");
        }
    }

    #[test]
    fn a_dependency_and_a_member_under_another_licence_fail() {
        let package = |directory: Option<&str>| Package {
            name: "a".to_owned(),
            licence: Some("GPL-3.0-only".to_owned()),
            directory: directory.map(str::to_owned),
            ..Package::default()
        };
        let findings = check(&Project::of_packages(vec![package(None), package(Some("crates/a"))]));
        assert_eq!(findings.len(), 2);
    }

    #[test]
    fn another_list_for_cargo_deny_fails() {
        let quoted: Vec<String> = PERMISSIVE.iter().map(|one| format!("    \"{one}\",\n")).collect();
        let good = format!("[licenses]\nallow = [\n{}]\n", quoted.concat());
        assert!(check_deny(&good).is_none());
        let finding = check_deny(&good.replace("MIT-0", "GPL-3.0")).expect("a list that differs");
        assert_eq!(finding.line, 2);
    }
}
