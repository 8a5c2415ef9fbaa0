//! Every relative link and picture of a document refers to a tracked file or folder, and what follows a `#` to a heading of it.
//!
//! Headings are named as GitHub and mdBook name them. Not checked: links to other sites.

use super::super::finding::Finding;
use super::super::project::{Project, SourceFile};
use std::collections::{BTreeMap, BTreeSet};

/// Reports links without a target.
pub fn check(project: &Project) -> Vec<Finding> {
    let mut findings = Vec::new();
    let pages = || project.files.iter().filter(|file| file.path.ends_with(".md"));
    let anchors: BTreeMap<&str, BTreeSet<String>> =
        pages().map(|page| (page.path.as_str(), anchors(page).into_iter().collect())).collect();
    for file in pages() {
        for (at, line) in file.text.lines().enumerate() {
            for (target, heading) in targets(line) {
                let path = if target.is_empty() { file.path.clone() } else { resolve(&file.path, target) };
                if !exists(project, &path) {
                    let what = format!("the link `{target}` has no target");
                    findings.push(Finding::error(&file.path, at + 1, what, "correct it, or add the file"));
                }
                let unknown = |heading: &&str| {
                    anchors.get(path.as_str()).is_some_and(|known| !known.contains(*heading))
                };
                if let Some(heading) = heading.filter(unknown) {
                    let what = format!("`{path}` has no heading `#{heading}`");
                    findings.push(Finding::error(&file.path, at + 1, what, "take a heading that it has"));
                }
            }
        }
    }
    findings
}

/// Names of a page's headings in links, in order. A name that is taken gets a number.
pub fn anchors(page: &SourceFile) -> Vec<String> {
    let (mut names, mut code) = (Vec::<String>::new(), false);
    for line in page.text.lines() {
        code ^= line.trim_start().starts_with("```");
        let text = line.trim_start_matches('#');
        if code || text.len() == line.len() || !text.starts_with(' ') {
            continue;
        }
        let kept = text.trim().chars().filter(|c| c.is_alphanumeric() || [' ', '-', '_'].contains(c));
        let name: String =
            kept.flat_map(char::to_lowercase).map(|c| if c == ' ' { '-' } else { c }).collect();
        let numbered = (0..).map(|n| if n == 0 { name.clone() } else { format!("{name}-{n}") });
        let free = numbered.into_iter().find(|name| !names.contains(name));
        names.extend(free);
    }
    names
}

/// The relative targets of `[text](target#heading)` in a line.
fn targets(line: &str) -> impl Iterator<Item = (&str, Option<&str>)> {
    let behind = line.split("](").skip(1).filter_map(|rest| rest.split([')', ' ']).next());
    let parts = behind.map(|link| link.split_once('#').map_or((link, None), |(at, name)| (at, Some(name))));
    parts.filter(|(target, heading)| (!target.is_empty() || heading.is_some()) && !target.contains(':'))
}

/// `target` relative to the folder of `file`, as a path from the project root.
pub fn resolve(file: &str, target: &str) -> String {
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
        let text = "[a](../README.md) [b](models/) ![c](img/none.svg)\n[d](https://x.org/) [e](#here) [f](../gone.md#x)\n## Here\n";
        let project =
            Project::of_files(&[("README.md", ""), ("docs/README.md", text), ("docs/models/link.md", "")]);
        let found: Vec<_> = check(&project).into_iter().map(|finding| (finding.line, finding.what)).collect();
        assert_eq!(found.len(), 2, "{found:?}");
        assert!(
            found[0].1.contains("img/none.svg")
                && found[1] == (2, "the link `../gone.md` has no target".to_owned())
        );
    }

    #[test]
    fn links_to_headings_that_do_not_exist_fail() {
        let there = "# A page\n## What, and `how`?\n```\n# a comment\n```\n## Results\n### Results\n";
        let links = [
            ("b.md#what-and-how", true),
            ("b.md#results", true),
            ("b.md#results-1", true),
            ("b.md#results-2", false),
            ("b.md#a-comment", false),
            ("#own", true),
            ("#other", false),
            ("code.rs#L5", true),
        ];
        for (link, good) in links {
            let page = format!("# Own\n[x]({link})\n");
            let project =
                Project::of_files(&[("docs/a.md", &page), ("docs/b.md", there), ("docs/code.rs", "")]);
            assert_eq!(check(&project).is_empty(), good, "{link}");
        }
    }
}
