//! No test is disabled, no code is unfinished.

use super::super::finding::Finding;
use super::super::mask::lines_with_word;
use super::super::project::Project;

/// Words that are not allowed in code.
const IN_CODE: &[(&str, &str)] = &[
    ("todo!", "write the code, or leave the feature out"),
    ("unimplemented!", "write the code, or leave the feature out"),
    ("dbg!", "use `tracing`"),
];

/// Words that are not allowed in comments either. (Split here, so that the rule does not find them in this file.)
const IN_TEXT: &[&str] = &[concat!("TO", "DO"), concat!("FIX", "ME")];

/// Reports marks of unfinished work.
pub fn check(project: &Project) -> Vec<Finding> {
    let mut findings = Vec::new();
    for file in project.rust() {
        for (word, way_out) in IN_CODE {
            let lines = lines_with_word(&file.code, word);
            findings.extend(
                lines.into_iter().map(|line| Finding::error(&file.path, line, format!("`{word}`"), *way_out)),
            );
        }
        for (at, line) in file.code.lines().enumerate().filter(|(_, line)| is_ignore(line)) {
            let what = format!("a test is switched off: `{}`", line.trim());
            let way_out = "repair the test; one that cannot run here prints why and fails when CI=true";
            findings.push(Finding::error(&file.path, at + 1, what, way_out));
        }
        for word in IN_TEXT {
            let lines = lines_with_word(&file.text, word);
            let finding = |line| {
                Finding::error(&file.path, line, format!("`{word}`"), "do it, or describe the present state")
            };
            findings.extend(lines.into_iter().map(finding));
        }
    }
    findings
}

fn is_ignore(line: &str) -> bool {
    let line: String = line.split_whitespace().collect();
    line.contains("#[ignore]") || line.contains("#[ignore=")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn findings(text: &str) -> usize {
        check(&Project::of_files(&[("a.rs", text)])).len()
    }

    #[test]
    fn unfinished_code_fails() {
        assert_eq!(findings("fn f() { todo!() }"), 1);
        assert_eq!(findings("fn f() { unimplemented!(\"later\") }"), 1);
        assert_eq!(findings(concat!("// TO", "DO: later")), 1);
        assert_eq!(findings(concat!("/// FIX", "ME")), 1);
    }

    #[test]
    fn switched_off_tests_fail() {
        assert_eq!(findings("#[test]\n#[ignore]\nfn f() {}"), 1);
        assert_eq!(findings("#[ignore = \"slow\"]\nfn f() {}"), 1);
    }

    #[test]
    fn similar_words_pass() {
        assert_eq!(findings("// a todo! in a comment\nlet s = \"#[ignore]\"; not_todo!();"), 0);
    }
}
