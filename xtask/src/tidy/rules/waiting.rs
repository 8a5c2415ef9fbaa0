//! Tests wait for events, not for time: CONTRIBUTING, "Before you send it".

use super::super::finding::Finding;
use super::super::mask::lines_with_word;
use super::super::project::{Project, SourceFile};

/// What waits for time, or measures it.
const WORDS: &[&str] = &["sleep", "sleep_until", "yield_now", "elapsed()"];
/// In a test file with one of these, time is virtual: it passes when nothing else can happen.
const VIRTUAL: &[&str] = &["start_paused = true", "time::pause()"];
/// On the line, or on one of the comment lines directly above it: why real time is right here.
const REASON: &str = "// real time: ";

/// Reports sleeps, spins and measured times in tests.
pub fn check(project: &Project) -> Vec<Finding> {
    project.rust().flat_map(check_file).collect()
}

fn check_file(file: &SourceFile) -> Vec<Finding> {
    let Some(begin) = first_line_of_tests(file) else { return Vec::new() };
    if VIRTUAL.iter().any(|word| file.code.contains(word)) {
        return Vec::new();
    }
    let text: Vec<&str> = file.text.lines().collect();
    let mut findings = Vec::new();
    for word in WORDS {
        for line in lines_with_word(&file.code, word) {
            if line < begin || has_reason(&text, line - 1) || is_import(text[line - 1]) {
                continue;
            }
            let way_out = "wait for an event, or use `tributary_testing::{until, becomes, succeeds}`; where real time is what is \
                           tested, say why: `// real time: ...`";
            findings.push(Finding::error(&file.path, line, format!("a test uses `{word}`"), way_out));
        }
    }
    findings
}

/// The line, counted from 1, at which tests begin: the first one of a file of tests, or that of the test module.
fn first_line_of_tests(file: &SourceFile) -> Option<usize> {
    let folders = file.path.split('/');
    if file.path.starts_with("crates/tributary-testing/") {
        return None;
    }
    if folders.clone().any(|folder| folder == "tests") || file.path.ends_with("/tests.rs") {
        return Some(1);
    }
    let at = file.code.lines().position(|line| line.trim() == "#[cfg(test)]")?;
    let module = file.code.lines().nth(at + 1)?;
    (module.starts_with("mod ") && module.ends_with('{')).then_some(at + 1)
}

fn has_reason(text: &[&str], line: usize) -> bool {
    let above = text[..line].iter().rev().take_while(|line| line.trim_start().starts_with("//"));
    text[line].contains(REASON) || above.into_iter().any(|line| line.contains(REASON))
}

fn is_import(line: &str) -> bool {
    line.trim_start().starts_with("use ")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines(path: &str, text: &str) -> Vec<usize> {
        check(&Project::of_files(&[(path, text)])).into_iter().map(|finding| finding.line).collect()
    }

    #[test]
    fn a_wait_in_a_test_fails() {
        let text = "use tokio::time::sleep;\nfn f() {\n    sleep(1);\n    a.elapsed();\n}\n";
        for path in [
            "tests/tests/net/a.rs",
            "crates/a/tests/b.rs",
            "crates/a/src/b/tests.rs",
            "crates/a/src/tests/b.rs",
        ] {
            assert_eq!(lines(path, text), [3, 4], "{path}");
        }
        assert_eq!(lines("crates/a/src/b.rs", text), [] as [usize; 0]);
        let module = format!("fn g() {{ sleep(2); }}\n#[cfg(test)]\nmod tests {{\n{text}}}\n");
        assert_eq!(lines("crates/a/src/b.rs", &module), [6, 7]);
    }

    #[test]
    fn a_reason_virtual_time_and_the_place_for_waits_pass() {
        for text in [
            "// real time: the link's delay is tested\n// by this\nsleep(1);",
            "sleep(1); // real time: the load passes",
            "#[tokio::test(start_paused = true)]\nasync fn f() { sleep(1).await }",
            "// sleep\nlet text = \"sleep\";",
        ] {
            assert_eq!(lines("crates/a/tests/b.rs", text), [] as [usize; 0], "{text}");
        }
        assert_eq!(lines("crates/tributary-testing/src/lib.rs", "fn f() { sleep(1); }"), [] as [usize; 0]);
        assert_eq!(lines("crates/a/tests/b.rs", "// real time: no\nf();\nsleep(1);"), [3]);
    }
}
