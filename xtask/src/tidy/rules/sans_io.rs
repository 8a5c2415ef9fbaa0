//! The sans-IO crates (`SANS_IO`, for example the protocol and the player) use no socket, thread, clock or
//! randomness.
//!
//! This rule checks their dependency trees. Clippy's `disallowed-methods` checks their own calls, and this rule
//! checks that each crate's configuration has them. `STACKS` has the exceptions: the foreign protocol
//! stacks that the simulator runs.

use super::super::finding::Finding;
use super::super::project::{Package, Project};

/// The crates under this rule.
const SANS_IO: &[&str] = &[
    "tributary-types",
    "tributary-cc",
    "tributary-coding",
    "tributary-cotag",
    "tributary-link",
    "tributary-player",
    "tributary-proto",
    "tributary-sim",
    "tributary-video",
];

/// Dependencies whose own trees are not checked: (crate, dependency). Each is a sans-IO machine
/// that links a source of randomness, which its user replaces by a seeded one: a test of the simulator
/// shows that the same seed gives the same events. They must not bring [`SOCKETS`].
const STACKS: &[(&str, &str)] =
    &[("tributary-sim", "noq-proto"), ("tributary-sim", "quinn-proto"), ("tributary-sim", "rustls")];

/// The forbidden packages that no exception covers.
const SOCKETS: &[&str] = &["async-std", "mio", "polling", "smol", "socket2", "tokio"];

/// Packages that bring sockets, threads, clocks or randomness.
const FORBIDDEN: &[&str] = &[
    "async-std",
    "chrono",
    "fastrand",
    "getrandom",
    "mio",
    "nix",
    "polling",
    "rand",
    "rand_core",
    "rustix",
    "smol",
    "socket2",
    "time",
    "tokio",
    "web-time",
];

/// Calls that each crate's clippy.toml must disallow.
const DISALLOWED_METHODS: &[&str] =
    &["std::time::Instant::now", "std::time::SystemTime::now", "std::thread::sleep", "std::thread::spawn"];

/// Reports forbidden packages in the normal dependency tree, and missing entries of clippy.toml.
pub fn check(project: &Project) -> Vec<Finding> {
    let members = project.members().filter(|package| SANS_IO.contains(&package.name.as_str()));
    members
        .flat_map(|package| [check_tree(project, package), check_guard(project, package)].concat())
        .collect()
}

fn check_tree(project: &Project, package: &Package) -> Vec<Finding> {
    let manifest = format!("{}/Cargo.toml", package.directory.as_deref().unwrap_or_default());
    let mut seen = vec![false; project.packages.len()];
    let mut findings = Vec::new();
    let mut pending: Vec<(&Package, String)> = vec![(package, package.name.clone())];
    // Checked last: no package is excepted that is also reached in another way.
    let mut stacks = Vec::new();
    loop {
        let (from, way, forbidden) = match pending.pop() {
            Some((from, way)) => (from, way, FORBIDDEN),
            None => match stacks.pop() {
                Some((from, way)) => (from, way, SOCKETS),
                None => return findings,
            },
        };
        for dependency in from.dependencies.iter().filter(|dependency| dependency.normal) {
            let way = format!("{way} → {}", dependency.name);
            let next = (&project.packages[dependency.index], way.clone());
            if STACKS.contains(&(from.name.as_str(), dependency.name.as_str())) {
                stacks.push(next);
                continue;
            }
            if std::mem::replace(&mut seen[dependency.index], true) {
                continue;
            }
            if forbidden.contains(&dependency.name.as_str()) {
                let what = format!("a sans-IO crate depends on `{}` ({way})", dependency.name);
                let remedy = "take time, seeds and bytes as arguments instead";
                findings.push(Finding::error(&manifest, 1, what, remedy));
            }
            if forbidden == SOCKETS { stacks.push(next) } else { pending.push(next) }
        }
    }
}

fn check_guard(project: &Project, package: &Package) -> Vec<Finding> {
    let path = format!("{}/clippy.toml", package.directory.as_deref().unwrap_or_default());
    let text = project.file(&path).map_or("", |file| file.text.as_str());
    let absent = DISALLOWED_METHODS.iter().filter(|method| !text.contains(&format!("\"{method}\"")));
    absent
        .map(|method| {
            let what = format!("`{method}` is not disallowed");
            Finding::error(
                &path,
                1,
                what,
                "list it under `disallowed-methods`, as in crates/tributary-types/clippy.toml",
            )
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::super::super::project::{Dependency, SourceFile};
    use super::*;

    fn package(name: &str, dependency: Option<(usize, &str, bool)>) -> Package {
        Package {
            name: name.to_owned(),
            directory: name.starts_with("tributary").then(|| format!("crates/{name}")),
            dependencies: dependency
                .map(|(index, name, normal)| Dependency { name: name.to_owned(), index, normal })
                .into_iter()
                .collect(),
            ..Package::default()
        }
    }

    fn project(normal: bool, guard: &str) -> Project {
        let mut project = Project::of_packages(vec![
            package("tributary-proto", Some((1, "middle", normal))),
            package("middle", Some((2, "getrandom", true))),
            package("getrandom", None),
        ]);
        project.files.push(SourceFile::new("crates/tributary-proto/clippy.toml", guard));
        project
    }

    fn guard() -> String {
        DISALLOWED_METHODS.iter().map(|method| format!("\"{method}\",")).collect()
    }

    #[test]
    fn a_forbidden_package_deep_in_the_tree_fails() {
        let findings = check(&project(true, &guard()));
        assert_eq!(findings.len(), 1);
        assert!(findings[0].what.contains("tributary-proto → middle → getrandom"), "{}", findings[0].what);
    }

    #[test]
    fn dependencies_of_tests_are_allowed() {
        assert!(check(&project(false, &guard())).is_empty());
    }

    #[test]
    fn a_stack_may_bring_randomness_but_no_sockets_and_only_where_it_is_named() {
        let through = |owner: &str, brought: &str| {
            let mut project = Project::of_packages(vec![
                package(owner, Some((1, "quinn-proto", true))),
                package("quinn-proto", Some((2, brought, true))),
                package(brought, None),
            ]);
            project.files.push(SourceFile::new(format!("crates/{owner}/clippy.toml"), guard()));
            check(&project).len()
        };
        assert_eq!(through("tributary-sim", "getrandom"), 0);
        assert_eq!(through("tributary-sim", "socket2"), 1);
        assert_eq!(through("tributary-proto", "getrandom"), 1);
    }

    #[test]
    fn a_missing_guard_fails() {
        let findings = check(&project(false, &guard().replace("SystemTime", "Other")));
        assert_eq!(findings.len(), 1);
        assert!(findings[0].what.contains("SystemTime::now"));
    }
}
