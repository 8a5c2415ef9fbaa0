//! Directories that only the user may enter, for sockets and caches that have no better place.
//!
//! Another user may have made a directory of this name in the temporary directory, or may enter one that is open to
//! others, and could replace what is in it. So a directory is used only if it is the user's and closed to others.

use anyhow::{Context, Result, bail};
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::path::{Path, PathBuf};

/// The user's directory in the temporary directory.
#[must_use]
pub fn temporary(user: u32) -> PathBuf {
    std::env::temp_dir().join(format!("tributary-{user}"))
}

/// The number of the user whom this thread runs as.
#[must_use]
pub fn user() -> u32 {
    rustix::process::geteuid().as_raw()
}

/// Makes a directory that only this user may enter, if it does not exist.
///
/// # Errors
/// When it cannot be made, or is another user's, or is open to others.
pub fn make(directory: &Path) -> Result<()> {
    std::fs::DirBuilder::new()
        .recursive(true)
        .mode(0o700)
        .create(directory)
        .with_context(|| format!("cannot make {}", directory.display()))?;
    check(directory, user())
}

/// Refuses a directory of another user, or one that others may enter.
///
/// # Errors
/// Names the directory and the way out.
pub fn check(directory: &Path, user: u32) -> Result<()> {
    let made = std::fs::symlink_metadata(directory)
        .with_context(|| format!("cannot look at {}", directory.display()))?;
    if !made.is_dir() || made.uid() != user || made.mode() & 0o077 != 0 {
        bail!("{} is not a directory that only this user may enter: remove it", directory.display());
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt;

    #[test]
    fn a_directory_of_another_user_or_open_to_others_is_refused() {
        let base = temporary(user()).with_extension(format!("test-{}", std::process::id()));
        make(&base).unwrap();
        assert!(check(&base, user()).is_ok());
        assert!(check(&base, user() + 1).is_err(), "another user's");
        std::fs::set_permissions(&base, PermissionsExt::from_mode(0o755)).unwrap();
        let error = make(&base).unwrap_err().to_string();
        assert!(error.contains("remove it"), "{error}");
        std::fs::remove_dir(&base).unwrap();
        // A link to a directory of the user's is no such directory.
        std::os::unix::fs::symlink("/", &base).unwrap();
        assert!(make(&base).is_err());
        std::fs::remove_file(&base).unwrap();
    }
}
