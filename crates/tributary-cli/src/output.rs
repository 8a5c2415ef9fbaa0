//! Standard output and files.

use anyhow::{Context, Result};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

/// One line on standard output. A closed reader is an error, not a panic.
///
/// # Errors
/// Standard output is closed.
pub fn line(text: &str) -> Result<()> {
    writeln!(io::stdout().lock(), "{text}").context("standard output")
}

/// The directory for results, created if it is missing. Writing is tested before the work begins. Several processes may
/// do so in one directory at once, as the shards of a sweep.
///
/// # Errors
/// The directory cannot be made or written.
pub fn directory(path: &Path) -> Result<()> {
    std::fs::create_dir_all(path).with_context(|| format!("cannot make the directory {}", path.display()))?;
    let probe = path.join(".writable");
    std::fs::write(&probe, b"").with_context(|| format!("cannot write into {}", path.display()))?;
    match std::fs::remove_file(&probe) {
        // Another process tested at the same time and was first.
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        removed => removed.with_context(|| format!("cannot remove {}", probe.display())),
    }
}

/// Writes one file of a report and returns its path.
///
/// # Errors
/// The file cannot be written.
pub fn file(directory: &Path, name: &str, text: &str) -> Result<PathBuf> {
    let path = directory.join(name);
    std::fs::write(&path, text).with_context(|| format!("cannot write {}", path.display()))?;
    Ok(path)
}

/// The command line as it was typed.
#[must_use]
pub fn command_line() -> String {
    let mut words = std::env::args();
    let program = words.next().unwrap_or_default();
    let name = Path::new(&program).file_name().map_or(program.clone(), |n| n.to_string_lossy().into_owned());
    let quoted = words.map(|word| if word.contains(' ') { format!("'{word}'") } else { word });
    std::iter::once(name).chain(quoted).collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use super::directory;

    #[test]
    fn several_test_one_directory_at_once() {
        let dir = tempfile::tempdir().expect("a directory");
        std::thread::scope(|scope| {
            for _ in 0..8 {
                scope.spawn(|| {
                    for _ in 0..200 {
                        directory(dir.path()).expect("it can be written");
                    }
                });
            }
        });
        assert_eq!(std::fs::read_dir(dir.path()).expect("it is there").count(), 0, "nothing is left");
    }
}
