//! The Rust tools that tidy runs: formatting, lock file of the fuzz targets, lints, documentation. Their own output names file and line.

use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result};

/// A tool, with the messages for its failure.
pub struct Tool {
    /// Name, printed before a failure.
    pub name: &'static str,
    /// Whether it compiles the workspace.
    pub compiles: bool,
    /// Remedy for a failure.
    pub way_out: &'static str,
    arguments: &'static [&'static str],
    environment: &'static [(&'static str, &'static str)],
}

/// All tools, cheapest first.
pub const ALL: &[Tool] = &[
    Tool {
        name: "fmt",
        compiles: false,
        way_out: "files are not formatted; run `cargo fmt --all`",
        arguments: &["fmt", "--all", "--check"],
        environment: &[],
    },
    // A workspace of its own, which no other check builds.
    Tool {
        name: "fuzz-fmt",
        compiles: false,
        way_out: "files of fuzz/ are not formatted; run `cargo fmt --manifest-path fuzz/Cargo.toml`",
        arguments: &["fmt", "--check", "--manifest-path", "fuzz/Cargo.toml"],
        environment: &[],
    },
    Tool {
        name: "fuzz-lock",
        compiles: false,
        way_out: "fuzz/Cargo.lock is out of date; run `cargo fetch --manifest-path fuzz/Cargo.toml` and commit it",
        arguments: &["fetch", "--locked", "--quiet", "--manifest-path", "fuzz/Cargo.toml"],
        environment: &[],
    },
    Tool {
        name: "clippy",
        compiles: true,
        way_out: "clippy reported the warnings above; correct the code, or allow one at its place with a reason",
        arguments: &["clippy", "--locked", "--workspace", "--all-targets", "--", "-D", "warnings"],
        environment: &[],
    },
    Tool {
        name: "rustdoc",
        compiles: true,
        way_out: "rustdoc reported the warnings above; correct the documentation",
        arguments: &["doc", "--locked", "--workspace", "--no-deps"],
        environment: &[("RUSTDOCFLAGS", "-D warnings")],
    },
];

impl Tool {
    /// Runs the tool in `root`; true when it succeeds.
    pub fn passes(&self, root: &Path) -> Result<bool> {
        let status = Command::new(super::project::cargo())
            .args(self.arguments)
            .envs(self.environment.iter().copied())
            .current_dir(root)
            .status()
            .with_context(|| format!("cannot run `cargo {}`", self.arguments.join(" ")))?;
        Ok(status.success())
    }
}
