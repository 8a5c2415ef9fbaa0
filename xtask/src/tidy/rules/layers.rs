//! A crate depends only on crates of lower layers, tests and build scripts included; and the product's program is built
//! without the laboratory, over any number of crates, tests not included.

use super::super::finding::Finding;
use super::super::project::{Package, Project};

/// The crates by layer; other crates are not allowed.
const LAYERS: &[(&str, u8)] = &[
    ("tributary-testing", 0),
    ("tributary-types", 0),
    ("tributary-coding", 1),
    ("tributary-link", 1),
    ("tributary-report", 1),
    ("tributary-site", 1),
    ("tributary-tun", 1),
    ("tributary-video", 1),
    ("tributary-cc", 2),
    ("tributary-cotag", 2),
    ("tributary-exec", 2),
    ("tributary-proto", 2),
    ("tributary-player", 2),
    ("tributary-bpf", 3),
    ("tributary-emu", 3),
    ("tributary-sim", 3),
    ("tributary-net", 3),
    ("tributary-tiles", 3),
    ("tributary-tunnel", 3),
    ("tributary-dash", 4),
    ("tributary-nodes", 4),
    ("tributary-stream", 4),
    ("tributary-cli", 5),
    ("tributary-lab", 5),
    ("tributary", 6),
    ("tributary-bench", 6),
    ("tributary-lab-cli", 7),
    ("tributary-python", 7),
];

/// The product's program.
const PRODUCT: &str = "tributary";
/// What the product is built without: everything that only experiments need.
const NOT_IN_PRODUCT: &[&str] = &[
    "tributary-emu",
    "tributary-sim",
    "tributary-lab",
    "tributary-bench",
    "tributary-lab-cli",
    "tributary-python",
    "parquet",
];

/// Packages outside the product.
const FREE: &[&str] = &["tributary-tests", "xtask"];

/// Reports dependencies on the same or a higher layer, and those of the product's program on the laboratory.
pub fn check(project: &Project) -> Vec<Finding> {
    let layers = project.members().flat_map(|package| check_package(project, package));
    layers.chain(check_product(project)).collect()
}

/// Follows the dependencies of the product's program, breadth first, so that each finding shows a shortest chain.
fn check_product(project: &Project) -> Vec<Finding> {
    let packages = &project.packages;
    let program = packages.iter().position(|package| package.name == PRODUCT);
    let mut reached: Vec<(usize, String)> =
        program.into_iter().map(|at| (at, format!("`{PRODUCT}`"))).collect();
    let (mut at, mut findings) = (0, Vec::new());
    while let Some((package, chain)) = reached.get(at).cloned() {
        at += 1;
        for dependency in packages[package].dependencies.iter().filter(|dependency| dependency.normal) {
            if reached.iter().any(|(known, _)| *known == dependency.index) {
                continue;
            }
            let chain = format!("{chain} → `{}`", dependency.name);
            if NOT_IN_PRODUCT.contains(&dependency.name.as_str()) {
                let manifest =
                    format!("{}/Cargo.toml", packages[package].directory.as_deref().unwrap_or("."));
                let line = manifest_line(project, &manifest, &dependency.name);
                let way_out = "move what the product needs of it to a crate of the product";
                findings.push(Finding::error(
                    &manifest,
                    line,
                    format!("the product reaches {chain}"),
                    way_out,
                ));
            }
            reached.push((dependency.index, chain));
        }
    }
    findings
}

fn check_package(project: &Project, package: &Package) -> Vec<Finding> {
    if FREE.contains(&package.name.as_str()) {
        return Vec::new();
    }
    let manifest = format!("{}/Cargo.toml", package.directory.as_deref().unwrap_or_default());
    let Some(own) = layer(&package.name) else {
        let what = format!("`{}` has no layer", package.name);
        return vec![Finding::error(
            &manifest,
            1,
            what,
            "give it one in xtask/src/tidy/rules/layers.rs and ARCHITECTURE.md",
        )];
    };
    let mut findings = Vec::new();
    for dependency in &package.dependencies {
        let other = match layer(&dependency.name) {
            Some(layer) if layer >= own => format!("layer {layer}"),
            None if FREE.contains(&dependency.name.as_str()) => "no layer".to_owned(),
            _ => continue,
        };
        let what = format!("`{}` (layer {own}) depends on `{}` ({other})", package.name, dependency.name);
        let line = manifest_line(project, &manifest, &dependency.name);
        findings.push(Finding::error(
            &manifest,
            line,
            what,
            "move the shared part to a lower layer, or the code to a higher one",
        ));
    }
    findings
}

fn layer(name: &str) -> Option<u8> {
    LAYERS.iter().find(|(known, _)| *known == name).map(|(_, layer)| *layer)
}

fn manifest_line(project: &Project, manifest: &str, dependency: &str) -> usize {
    let text = project.file(manifest).map_or("", |file| file.text.as_str());
    let names =
        |line: &str| line.strip_prefix(dependency).is_some_and(|rest| rest.starts_with(['.', ' ', '=']));
    text.lines().position(names).map_or(1, |at| at + 1)
}

#[cfg(test)]
mod tests {
    use super::super::super::project::Dependency;
    use super::*;

    fn member(name: &str, dependency: &str) -> Package {
        Package {
            name: name.to_owned(),
            directory: Some(format!("crates/{name}")),
            dependencies: vec![Dependency { name: dependency.to_owned(), index: 0, normal: true }],
            ..Package::default()
        }
    }

    fn findings(name: &str, dependency: &str) -> usize {
        check(&Project::of_packages(vec![member(name, dependency)])).len()
    }

    #[test]
    fn upward_and_sideways_dependencies_fail() {
        assert_eq!(findings("tributary-types", "tributary-link"), 1);
        assert_eq!(findings("tributary-emu", "tributary-net"), 1);
        assert_eq!(findings("tributary-lab", "xtask"), 1);
    }

    #[test]
    fn downward_and_foreign_dependencies_pass() {
        assert_eq!(findings("tributary-lab", "tributary-net"), 0);
        assert_eq!(findings("tributary-types", "thiserror"), 0);
        assert_eq!(findings("tributary-tests", "tributary"), 0);
    }

    /// The product's program on a crate that is on `last`, which it does not itself name.
    fn product(last: &str, normal: bool) -> Vec<Finding> {
        let edge = |name: &str, index, normal| Dependency { name: name.to_owned(), index, normal };
        let package = |name: &str, dependencies| Package { dependencies, ..member(name, "") };
        check(&Project::of_packages(vec![
            package("tributary-net", vec![edge(last, 1, normal)]),
            package(last, Vec::new()),
            package("tributary", vec![edge("tributary-net", 0, true)]),
        ]))
    }

    #[test]
    fn the_product_is_built_without_the_laboratory() {
        for laboratory in ["tributary-sim", "tributary-emu", "tributary-lab", "parquet"] {
            let findings = product(laboratory, true);
            let chain = format!("`tributary` → `tributary-net` → `{laboratory}`");
            assert!(findings.iter().any(|finding| finding.what.ends_with(&chain)), "{laboratory}");
        }
        assert!(product("tributary-proto", true).is_empty());
        assert!(
            product("parquet", false).iter().all(|finding| !finding.what.contains("→")),
            "only tests need it"
        );
        assert_eq!(
            findings("tributary", "tributary-bench") + findings("tributary-lab", "tributary-bench"),
            2
        );
    }

    #[test]
    fn a_crate_without_a_layer_fails() {
        assert_eq!(findings("tributary-new", "thiserror"), 1);
    }
}
