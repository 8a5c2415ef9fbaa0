//! What a rule reports: where, what is wrong, and the way out.

/// Whether a finding fails the check.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Severity {
    /// Fails.
    Error,
    /// Is printed only.
    Warning,
}

/// One breach of a rule.
#[derive(Clone, Debug)]
pub struct Finding {
    /// Whether it fails the check.
    pub severity: Severity,
    /// Path from the project root.
    pub file: String,
    /// 1-based line.
    pub line: usize,
    /// What is wrong.
    pub what: String,
    /// What to do about it.
    pub way_out: String,
}

impl Finding {
    /// A finding that fails the check.
    pub fn error(file: &str, line: usize, what: impl Into<String>, way_out: impl Into<String>) -> Self {
        Self {
            severity: Severity::Error,
            file: file.to_owned(),
            line,
            what: what.into(),
            way_out: way_out.into(),
        }
    }

    /// A finding that is printed only.
    pub fn warning(file: &str, line: usize, what: impl Into<String>, way_out: impl Into<String>) -> Self {
        Self { severity: Severity::Warning, ..Self::error(file, line, what, way_out) }
    }

    /// The printed form, `error[rule] file:line: what; way out`.
    pub fn line_for(&self, rule: &str) -> String {
        let severity = match self.severity {
            Severity::Error => "error",
            Severity::Warning => "warning",
        };
        format!("{severity}[{rule}] {}:{}: {}; {}", self.file, self.line, self.what, self.way_out)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_finding_names_the_rule_the_place_and_the_way_out() {
        let finding = Finding::error("a/b.rs", 7, "too long", "divide it");
        assert_eq!(finding.line_for("sizes"), "error[sizes] a/b.rs:7: too long; divide it");
    }
}
