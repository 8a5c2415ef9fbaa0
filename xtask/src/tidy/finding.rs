//! A finding of a rule: the place, the problem and the remedy.

/// Whether a finding fails the check.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Severity {
    /// The check fails.
    Error,
    /// The finding is only printed.
    Warning,
}

/// One violation of a rule.
#[derive(Clone, Debug)]
pub struct Finding {
    /// Whether it fails the check.
    pub severity: Severity,
    /// Path from the project root.
    pub file: String,
    /// Number of the line, from 1.
    pub line: usize,
    /// The problem.
    pub what: String,
    /// The remedy.
    pub way_out: String,
}

impl Finding {
    /// A finding with which the check fails.
    pub fn error(file: &str, line: usize, what: impl Into<String>, way_out: impl Into<String>) -> Self {
        Self {
            severity: Severity::Error,
            file: file.to_owned(),
            line,
            what: what.into(),
            way_out: way_out.into(),
        }
    }

    /// A finding that is only printed.
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
    fn a_finding_names_the_rule_the_place_and_the_remedy() {
        let finding = Finding::error("a/b.rs", 7, "too long", "divide it");
        assert_eq!(finding.line_for("sizes"), "error[sizes] a/b.rs:7: too long; divide it");
    }
}
