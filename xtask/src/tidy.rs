//! `cargo xtask tidy`: reads the project once, runs every rule over it, then the Rust tools.
//!
//! A rule is one small file under `tidy/rules/` with tests that show a bad input failing.

mod finding;
mod mask;
mod project;
mod rules;
mod tools;

use std::time::Instant;

use anyhow::Result;
use finding::Severity;
use project::Project;

/// How much of the check to run.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Depth {
    /// Everything.
    Full,
    /// Everything that needs no compilation.
    Fast,
}

/// Runs the checks and prints what they found. True when nothing failed.
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
    println!(
        "tidy: {} rules over {} files, {errors} errors, {warnings} warnings, {:.1} s",
        rules::ALL.len(),
        project.files.len(),
        started.elapsed().as_secs_f64()
    );
    Ok(errors == 0)
}
