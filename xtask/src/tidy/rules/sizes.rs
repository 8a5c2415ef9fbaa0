//! Limits on the length of files and functions: one length gives a warning, a larger one an error.

use super::super::finding::Finding;
use super::super::project::{Project, SourceFile};

/// Lines of a file, tests included.
const FILE: Limits = Limits { warn: 500, fail: 800 };
/// Lines of a function that contain code: blank lines and comments do not count.
const FUNCTION: Limits = Limits { warn: 60, fail: 100 };

struct Limits {
    warn: usize,
    fail: usize,
}

/// Reports long files and long functions.
pub fn check(project: &Project) -> Vec<Finding> {
    let mut findings = Vec::new();
    for file in project.files.iter().filter(|file| file.is_rust() || file.path.starts_with("scripts/")) {
        let lines = file.text.lines().count();
        findings.extend(judge(&FILE, lines, &file.path, 1, "the file"));
        for function in functions(file) {
            let name = format!("function `{}`", function.name);
            findings.extend(judge(&FUNCTION, function.lines, &file.path, function.line, &name));
        }
    }
    findings
}

fn judge(limits: &Limits, lines: usize, file: &str, line: usize, name: &str) -> Option<Finding> {
    let what = format!("{name} has {lines} lines (warns over {}, fails over {})", limits.warn, limits.fail);
    let way_out = "divide it by topic";
    match lines {
        lines if lines > limits.fail => Some(Finding::error(file, line, what, way_out)),
        lines if lines > limits.warn => Some(Finding::warning(file, line, what, way_out)),
        _ => None,
    }
}

struct Function {
    name: String,
    line: usize,
    lines: usize,
}

/// The functions of a file, nested ones included.
fn functions(file: &SourceFile) -> Vec<Function> {
    let code = file.code.as_str();
    let mut found = Vec::new();
    for (at, _) in code.match_indices("fn ") {
        let starts_word = !code[..at].ends_with(|before: char| before.is_alphanumeric() || before == '_');
        let name: String =
            code[at + 3..].chars().take_while(|letter| letter.is_alphanumeric() || *letter == '_').collect();
        if !starts_word || name.is_empty() {
            continue;
        }
        if let Some(length) = length(&code[at..]) {
            let line = code[..at].matches('\n').count() + 1;
            let lines = code[at..at + length].lines().filter(|line| !line.trim().is_empty()).count();
            found.push(Function { name, line, lines });
        }
    }
    found
}

/// Bytes from `fn` to the brace that closes its body; `None` for a declaration without a body.
fn length(code: &str) -> Option<usize> {
    let (mut braces, mut brackets) = (0_usize, 0_usize);
    for (at, byte) in code.bytes().enumerate() {
        match byte {
            b'{' => braces += 1,
            b'}' => {
                braces = braces.checked_sub(1)?;
                if braces == 0 {
                    return Some(at + 1);
                }
            }
            b'(' | b'[' => brackets += 1,
            b')' | b']' => brackets = brackets.checked_sub(1)?,
            b';' if braces == 0 && brackets == 0 => return None,
            _ => {}
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::super::super::finding::Severity;
    use super::*;

    fn body(lines: usize) -> String {
        format!(
            "\nfn long(a: [u8; 3]) {{\n{}}}\nfn short() {{ \"}}\" }}\n",
            "    call();\n".repeat(lines - 2)
        )
    }

    fn severities(text: &str) -> Vec<Severity> {
        check(&Project::of_files(&[("a.rs", text)])).iter().map(|finding| finding.severity).collect()
    }

    #[test]
    fn long_functions_warn_then_fail() {
        assert!(severities(&body(60)).is_empty());
        assert_eq!(severities(&body(61)), [Severity::Warning]);
        assert_eq!(severities(&body(101)), [Severity::Error]);
    }

    #[test]
    fn comments_and_blank_lines_in_a_function_are_free() {
        assert!(severities(&body(60).replace("call();\n", "call();\n\n    // why\n")).is_empty());
    }

    #[test]
    fn long_files_warn_then_fail() {
        assert!(severities(&"//\n".repeat(500)).is_empty());
        assert_eq!(severities(&"//\n".repeat(501)), [Severity::Warning]);
        assert_eq!(severities(&"//\n".repeat(801)), [Severity::Error]);
    }

    #[test]
    fn functions_are_found_with_their_lines() {
        let file = SourceFile::new(
            "a.rs",
            "trait T {\n    fn declared(&self);\n    fn given(&self) {\n    }\n}\ntype F = fn (u8);\nfn last() {}\n",
        );
        let found: Vec<_> = functions(&file).into_iter().map(|f| (f.name, f.line, f.lines)).collect();
        assert_eq!(found, [("given".to_owned(), 3, 2), ("last".to_owned(), 7, 1)]);
    }
}
