//! Reads the facts that the rules need from `cargo metadata`.
//!
//! It runs with `--locked`, so a Cargo.lock that does not match the manifests fails here.

use std::collections::BTreeMap;
use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result, bail};
use serde_json::Value;

/// A package of the dependency graph.
#[derive(Clone, Debug, Default)]
pub struct Package {
    /// Its name.
    pub name: String,
    /// Its version.
    pub version: String,
    /// Its licence expression, as published.
    pub licence: Option<String>,
    /// Folder from the project root; `None` for packages outside the workspace.
    pub directory: Option<String>,
    /// Its dependencies, on the host's platform.
    pub dependencies: Vec<Dependency>,
}

/// An edge of the dependency graph.
#[derive(Clone, Debug)]
pub struct Dependency {
    /// Name of the dependency.
    pub name: String,
    /// Index of the dependency in the list of packages.
    pub index: usize,
    /// Whether it is linked into the package itself, not only into its tests or build script.
    pub normal: bool,
}

/// The packages of the workspace at `root`.
pub fn load(root: &Path) -> Result<Vec<Package>> {
    let host = host()?;
    let output = Command::new(super::cargo())
        .args(["metadata", "--format-version", "1", "--locked", "--filter-platform", &host])
        .current_dir(root)
        .output()
        .context("cannot run cargo metadata")?;
    if !output.status.success() {
        bail!(
            "cargo metadata --locked failed; when Cargo.lock is out of date, run `cargo check` and commit \
             Cargo.lock with the manifest that changed it\n{}",
            String::from_utf8_lossy(&output.stderr).trim()
        );
    }
    let value = serde_json::from_slice(&output.stdout).context("cargo metadata did not print JSON")?;
    parse(&value, root).context("cargo metadata has another form than expected")
}

/// The host triple, as in the output of `rustc -vV`.
fn host() -> Result<String> {
    let output = Command::new("rustc").arg("-vV").output().context("cannot run rustc")?;
    String::from_utf8_lossy(&output.stdout)
        .lines()
        .find_map(|line| line.strip_prefix("host: ").map(str::to_owned))
        .context("`rustc -vV` names no host")
}

fn parse(value: &Value, root: &Path) -> Option<Vec<Package>> {
    let nodes = value["resolve"]["nodes"].as_array()?;
    let index: BTreeMap<&str, usize> =
        nodes.iter().enumerate().filter_map(|(at, node)| Some((node["id"].as_str()?, at))).collect();
    let mut packages = vec![Package::default(); nodes.len()];
    for entry in value["packages"].as_array()? {
        // With a platform filter cargo lists packages that the graph does not reach; they are not built and
        // not checked.
        let Some(&at) = index.get(entry["id"].as_str()?) else { continue };
        let folder = Path::new(entry["manifest_path"].as_str()?).parent()?;
        packages[at] = Package {
            name: entry["name"].as_str()?.to_owned(),
            version: entry["version"].as_str()?.to_owned(),
            licence: entry["license"].as_str().map(str::to_owned),
            directory: folder.strip_prefix(root).ok().map(|path| path.to_string_lossy().into_owned()),
            dependencies: Vec::new(),
        };
    }
    for (at, node) in nodes.iter().enumerate() {
        for edge in node["deps"].as_array()? {
            let target = *index.get(edge["pkg"].as_str()?)?;
            let normal = edge["dep_kinds"].as_array()?.iter().any(|kind| kind["kind"].is_null());
            let name = packages[target].name.clone();
            packages[at].dependencies.push(Dependency { name, index: target, normal });
        }
    }
    Some(packages)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_members_edges_and_their_kinds() {
        let value = serde_json::json!({
            "packages": [
                {"id": "a 1", "name": "a", "version": "1.0.0", "license": "MIT", "manifest_path": "/p/crates/a/Cargo.toml"},
                {"id": "b 1", "name": "b", "version": "2.0.0", "license": null, "manifest_path": "/cache/b/Cargo.toml"},
                {"id": "c 1", "name": "c", "version": "2.0.0", "license": null, "manifest_path": "/cache/c/Cargo.toml"},
            ],
            "resolve": {"nodes": [
                {"id": "a 1", "deps": [{"pkg": "b 1", "dep_kinds": [{"kind": "dev"}]}]},
                {"id": "b 1", "deps": []},
            ]},
        });
        let packages = parse(&value, Path::new("/p")).expect("a well-formed document");
        assert_eq!(packages.len(), 2, "c is not in the graph");
        assert_eq!(packages[0].directory.as_deref(), Some("crates/a"));
        assert_eq!(packages[1].directory, None);
        assert_eq!(packages[0].dependencies[0].name, "b");
        assert!(!packages[0].dependencies[0].normal);
    }
}
