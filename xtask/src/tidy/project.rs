//! The project for the rules: its text files, and its packages from `cargo metadata`.

mod metadata;

use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail};

#[cfg(test)]
pub use metadata::Dependency;
pub use metadata::Package;

use super::mask;

/// One text file of the project.
pub struct SourceFile {
    /// Path from the project root, separated by `/`.
    pub path: String,
    /// Its text.
    pub text: String,
    /// For Rust, the text with comments and literals blanked; otherwise empty.
    pub code: String,
}

impl SourceFile {
    /// A file from its path and text.
    pub fn new(path: impl Into<String>, text: impl Into<String>) -> Self {
        let (path, text) = (path.into(), text.into());
        let code = if path.ends_with(".rs") { mask::code_only(&text) } else { String::new() };
        Self { path, text, code }
    }

    /// True for Rust source.
    pub fn is_rust(&self) -> bool {
        self.path.ends_with(".rs")
    }
}

/// Input of the rules.
pub struct Project {
    /// Folder of the workspace manifest.
    pub root: PathBuf,
    /// All files under version control or not yet added to it, text or not.
    pub paths: Vec<String>,
    /// The text files of these.
    pub files: Vec<SourceFile>,
    /// The workspace members and all their dependencies, for the host's platform.
    pub packages: Vec<Package>,
}

impl Project {
    /// Reads the project from which this program was built.
    pub fn load() -> Result<Self> {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("xtask stands in the project root");
        let (paths, mut files) = (paths(root)?, Vec::new());
        for path in &paths {
            // A file that was deleted but is still in the index counts as absent. A file that is
            // not text (a picture, a seed of a fuzz corpus) is not read by any rule.
            if let Ok(text) = fs::read_to_string(root.join(path)) {
                files.push(SourceFile::new(path.as_str(), text));
            }
        }
        Ok(Self { root: root.to_path_buf(), paths, files, packages: metadata::load(root)? })
    }

    /// The file at `path`, if it exists in the project.
    pub fn file(&self, path: &str) -> Option<&SourceFile> {
        self.files.iter().find(|file| file.path == path)
    }

    /// The Rust files.
    pub fn rust(&self) -> impl Iterator<Item = &SourceFile> {
        self.files.iter().filter(|file| file.is_rust())
    }

    /// The packages of the workspace itself.
    pub fn members(&self) -> impl Iterator<Item = &Package> {
        self.packages.iter().filter(|package| package.directory.is_some())
    }

    /// A project with these files only, for the tests of rules.
    #[cfg(test)]
    pub fn of_files(files: &[(&str, &str)]) -> Self {
        let paths = files.iter().map(|(path, _)| (*path).to_owned()).collect();
        let files = files.iter().map(|(path, text)| SourceFile::new(*path, *text)).collect();
        Self { root: PathBuf::new(), paths, files, packages: Vec::new() }
    }

    /// A project with these packages only, for the tests of rules.
    #[cfg(test)]
    pub fn of_packages(packages: Vec<Package>) -> Self {
        Self { root: PathBuf::new(), paths: Vec::new(), files: Vec::new(), packages }
    }
}

/// The cargo that runs this program, or the one on the search path.
pub fn cargo() -> OsString {
    std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into())
}

/// Paths from git, or in an unpacked archive from the folders.
fn paths(root: &Path) -> Result<Vec<String>> {
    if !root.join(".git").exists() {
        let mut found = Vec::new();
        walk(root, root, &mut found)?;
        found.sort();
        return Ok(found);
    }
    let output = Command::new("git")
        .args(["ls-files", "-z", "--cached", "--others", "--exclude-standard"])
        .current_dir(root)
        .output()
        .context("cannot run git; install it (Debian package `git`)")?;
    if !output.status.success() {
        bail!("git ls-files failed: {}", String::from_utf8_lossy(&output.stderr).trim());
    }
    let text = String::from_utf8(output.stdout).context("a file name is not UTF-8")?;
    Ok(text.split('\0').filter(|path| !path.is_empty()).map(str::to_owned).collect())
}

fn walk(root: &Path, folder: &Path, found: &mut Vec<String>) -> Result<()> {
    for entry in fs::read_dir(folder).with_context(|| format!("cannot list {}", folder.display()))? {
        let path = entry?.path();
        let name =
            path.strip_prefix(root).expect("the walk starts at the root").to_string_lossy().into_owned();
        if path.is_dir() {
            if !["target", "out", "fuzz/target", "fuzz/corpus"].contains(&name.as_str()) {
                walk(root, &path, found)?;
            }
        } else {
            found.push(name);
        }
    }
    Ok(())
}
