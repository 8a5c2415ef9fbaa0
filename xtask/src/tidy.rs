//! `cargo xtask tidy`: reads the project once, checks all rules, then runs the Rust tools.
//!
//! A rule is one small file under `tidy/rules/`, with tests in which a bad input fails.

mod finding;
mod mask;
mod project;
mod rules;
mod shared;
mod tools;

use std::time::Instant;

use anyhow::Result;
use finding::Severity;
pub use project::{Project, SourceFile};
pub use rules::{anchors, resolve};

/// Extent of the check.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Depth {
    /// All checks.
    Full,
    /// All checks that need no compilation.
    Fast,
}

/// Prints the links of documents that lead nowhere. True if there are none.
pub fn links_lead_somewhere(project: &Project) -> bool {
    let findings = rules::links(project);
    findings.iter().for_each(|finding| println!("{}", finding.line_for("links")));
    findings.is_empty()
}

/// Runs the checks and prints their findings. True when nothing failed.
pub fn run(depth: Depth) -> Result<bool> {
    let started = Instant::now();
    let project = Project::load()?;
    let (mut errors, mut warnings) = (0, 0);
    for rule in rules::ALL {
        for finding in (rule.check)(&project) {
            match finding.severity {
                Severity::Error => errors += 1,
                Severity::Warning => warnings += 1,
            }
            println!("{}", finding.line_for(rule.name));
        }
    }
    for tool in tools::ALL {
        if depth == Depth::Fast && tool.compiles {
            continue;
        }
        if !tool.passes(&project.root)? {
            errors += 1;
            println!("error[{}]: {}", tool.name, tool.way_out);
        }
    }
    for difference in shared::differences(&project.root)? {
        errors += 1;
        println!(
            "error[shared]: the Python package uses {difference}: change the feature `shared` of crates/tributary-python/Cargo.toml, \
             or `make test` compiles most crates twice"
        );
    }
    println!(
        "tidy: {} rules over {} files, {errors} errors, {warnings} warnings, {:.1} s",
        rules::ALL.len(),
        project.files.len(),
        started.elapsed().as_secs_f64()
    );
    Ok(errors == 0)
}
