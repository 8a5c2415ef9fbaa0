//! A package has the name of its folder.

use super::super::finding::Finding;
use super::super::project::Project;

/// The package of integration tests is the exception: its folder is `tests`.
const EXCEPTIONS: &[(&str, &str)] = &[("tests", "tributary-tests")];

/// Reports packages whose folder has another name.
pub fn check(project: &Project) -> Vec<Finding> {
    let mut findings = Vec::new();
    for package in project.members() {
        let directory = package.directory.as_deref().unwrap_or_default();
        let folder = directory.rsplit('/').next().unwrap_or_default();
        if folder != package.name && !EXCEPTIONS.contains(&(folder, package.name.as_str())) {
            let what = format!("package `{}` is in folder `{folder}`", package.name);
            findings.push(Finding::error(&format!("{directory}/Cargo.toml"), 1, what, "rename one of them"));
        }
    }
    findings
}

#[cfg(test)]
mod tests {
    use super::super::super::project::Package;
    use super::*;

    fn findings(directory: &str, name: &str) -> usize {
        let directory = Some(directory.to_owned());
        check(&Project::of_packages(vec![Package { name: name.to_owned(), directory, ..Package::default() }]))
            .len()
    }

    #[test]
    fn a_folder_with_another_name_fails() {
        assert_eq!(findings("crates/link", "tributary-link"), 1);
        assert_eq!(findings("crates/tributary-link", "tributary-link"), 0);
        assert_eq!(findings("tests", "tributary-tests"), 0);
    }
}
