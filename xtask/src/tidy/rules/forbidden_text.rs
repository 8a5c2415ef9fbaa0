//! No tracked file contains a path that exists on one machine only, or the host of a package registry.

use super::super::finding::Finding;
use super::super::project::Project;

/// Folders of single machines. (Split here, so that the rule does not find them in this file.)
const MACHINE_PATHS: &[&str] = &[
    concat!("/wo", "rk/"),
    concat!("/ro", "ot/"),
    concat!("/fa", "rm/"),
    concat!("/tmp/", "bash_jobs"),
    concat!("/tmp/", "brief"),
];

/// Hosts that a user's own configuration chooses.
const REGISTRY_HOSTS: &[&str] = &[
    concat!("index.", "crates.io"),
    concat!("static.", "crates.io"),
    concat!("files.", "pythonhosted.org"),
    concat!("pypi.", "org/simple"),
    concat!("registry.", "npmjs.org"),
    concat!("proxy.", "golang.org"),
    concat!("deb.", "debian.org"),
];

/// Sections of a cargo configuration that replace the registry.
const CARGO_SOURCES: &[&str] = &["[source", "[registr"];

/// Reports such text.
pub fn check(project: &Project) -> Vec<Finding> {
    let mut findings = Vec::new();
    for file in &project.files {
        for (at, line) in file.text.lines().enumerate() {
            if let Some(path) = MACHINE_PATHS.iter().find(|path| has_path(line, path)) {
                let what = format!("names `{path}`, a folder of one machine");
                findings.push(Finding::error(&file.path, at + 1, what, "use a path from the project root"));
            }
            if let Some(host) = REGISTRY_HOSTS.iter().find(|host| line.contains(**host)) {
                let what = format!("names the registry host `{host}`");
                findings.push(Finding::error(
                    &file.path,
                    at + 1,
                    what,
                    "leave it to the user's configuration",
                ));
            }
            if file.path.starts_with(".cargo/")
                && CARGO_SOURCES.iter().any(|start| line.trim().starts_with(start))
            {
                let what = format!("chooses a registry: `{}`", line.trim());
                findings.push(Finding::error(
                    &file.path,
                    at + 1,
                    what,
                    "leave it to the user's configuration",
                ));
            }
        }
    }
    findings
}

/// Whether `path` occurs in `line` as an absolute path, not as part of a longer path.
fn has_path(line: &str, path: &str) -> bool {
    line.match_indices(path).any(|(at, _)| {
        !line[..at].ends_with(|before: char| before.is_alphanumeric() || "_.-~*}".contains(before))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn findings(path: &str, text: &str) -> usize {
        check(&Project::of_files(&[(path, text)])).len()
    }

    #[test]
    fn machine_paths_fail_in_any_file() {
        assert_eq!(findings("README.md", concat!("see `/ro", "ot/x`")), 1);
        assert_eq!(findings("a.rs", concat!("open(\"/wo", "rk/main\")")), 1);
        assert_eq!(findings("a.sh", concat!("cat /tmp/", "bash_jobs.0/1")), 1);
    }

    #[test]
    fn parts_of_longer_paths_pass() {
        assert_eq!(findings("a.md", concat!("net/wo", "rk/x ../wo", "rk/x https://x.org/ro", "ot/x")), 0);
    }

    #[test]
    fn registries_fail() {
        assert_eq!(findings("setup.sh", concat!("curl https://static.", "crates.io/x")), 1);
        assert_eq!(findings(".cargo/config.toml", "[source.crates-io]"), 1);
        assert_eq!(findings("scenarios/a.toml", "[source]"), 0);
    }
}
