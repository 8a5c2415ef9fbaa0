//! A document that links a function's name to a source file names a function of that file, so that a page whose lines name their tests
//! stays true: `` [`name`](../tests/file.rs) ``.
//!
//! Not checked: whether the test shows what the line says.

use super::super::finding::Finding;
use super::super::project::Project;
use super::links::resolve;

/// Reports names that their file does not have.
pub fn check(project: &Project) -> Vec<Finding> {
    let mut findings = Vec::new();
    for file in project.files.iter().filter(|file| file.path.ends_with(".md")) {
        for (at, line) in file.text.lines().enumerate() {
            for (name, target) in named(line) {
                let target = resolve(&file.path, target);
                // A file that is not there is reported by the rule `links`.
                let Some(source) = project.file(&target) else { continue };
                if !defines(&source.text, name) {
                    let what = format!("`{name}` is no function of {target}");
                    findings.push(Finding::error(&file.path, at + 1, what, "give its new name or file"));
                }
            }
        }
    }
    findings
}

/// Names in code spans that link to a source file, and the file.
fn named(line: &str) -> impl Iterator<Item = (&str, &str)> {
    let spans = line.split("[`").skip(1).filter_map(|rest| {
        let (name, rest) = rest.split_once("`](")?;
        Some((name, rest.split_once(')')?.0))
    });
    spans.filter(|(name, target)| {
        let is_name =
            name.bytes().all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'_');
        is_name && [".rs", ".py"].iter().any(|ending| target.ends_with(ending))
    })
}

fn defines(source: &str, name: &str) -> bool {
    ["fn", "def"].iter().any(|word| source.contains(&format!("{word} {name}(")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_function_that_is_gone_fails() {
        let page = "[`it_works`](../a.rs), [`it_is_gone`](../a.rs) and [`test_it`](../b.py)\n[`Type`](../a.rs) [`x`](../c.toml)\n";
        let project = Project::of_files(&[
            ("a.rs", "#[test]\nfn it_works() {}\nfn it_is_gone_too() {}\n"),
            ("b.py", "def test_other() -> None: ...\n"),
            ("docs/page.md", page),
        ]);
        let found: Vec<_> = check(&project).into_iter().map(|finding| finding.what).collect();
        assert_eq!(found, ["`it_is_gone` is no function of a.rs", "`test_it` is no function of b.py"]);
    }
}
