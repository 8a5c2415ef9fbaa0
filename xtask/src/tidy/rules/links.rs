//! Every relative link and picture of a document refers to a tracked file or folder.
//!
//! Not checked: links to other sites, and headings after a `#`.

use super::super::finding::Finding;
use super::super::project::Project;

/// Reports links without a target.
pub fn check(project: &Project) -> Vec<Finding> {
    let mut findings = Vec::new();
    for file in project.files.iter().filter(|file| file.path.ends_with(".md")) {
        for (at, line) in file.text.lines().enumerate() {
            for target in targets(line) {
                if !exists(project, &resolve(&file.path, target)) {
                    let what = format!("the link `{target}` has no target");
                    findings.push(Finding::error(&file.path, at + 1, what, "correct it, or add the file"));
                }
            }
        }
    }
    findings
}

/// The relative targets of `[text](target)` in a line.
fn targets(line: &str) -> impl Iterator<Item = &str> {
    let behind = line.split("](").skip(1).filter_map(|rest| rest.split([')', '#', ' ']).next());
    behind.filter(|target| !target.is_empty() && !target.contains(':'))
}

/// `target` relative to the folder of `file`, as a path from the project root.
pub(super) fn resolve(file: &str, target: &str) -> String {
    let mut parts: Vec<&str> = file.split('/').collect();
    parts.pop();
    for part in target.split('/') {
        match part {
            "" | "." => {}
            ".." => drop(parts.pop()),
            part => parts.push(part),
        }
    }
    parts.join("/")
}

fn exists(project: &Project, path: &str) -> bool {
    let folder = format!("{path}/");
    project.paths.iter().any(|known| known == path || known.starts_with(&folder))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn links_without_a_target_fail() {
        let text = "[a](../README.md) [b](models/) ![c](img/none.svg)\n[d](https://x.org/) [e](#here) [f](../gone.md#x)\n";
        let project =
            Project::of_files(&[("README.md", ""), ("docs/README.md", text), ("docs/models/link.md", "")]);
        let found: Vec<_> = check(&project).into_iter().map(|finding| (finding.line, finding.what)).collect();
        assert_eq!(found.len(), 2, "{found:?}");
        assert!(
            found[0].1.contains("img/none.svg")
                && found[1] == (2, "the link `../gone.md` has no target".to_owned())
        );
    }
}
