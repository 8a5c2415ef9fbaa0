//! The pre-shared key: 256 random bits in a one-line text file.
//!
//! The file holds `tributary-key-1:` and 64 hexadecimal digits; empty lines and lines that begin with
//! `#` are skipped. A key file that others may read is refused, as ssh refuses one.

use std::fmt;
use std::path::{Path, PathBuf};

use aws_lc_rs::rand::{SecureRandom, SystemRandom};
use thiserror::Error;

/// Prefix of every key line; the number is the version of the format.
pub const KEY_PREFIX: &str = "tributary-key-1:";

/// A pre-shared key. Never printed by `Debug`.
#[derive(Clone, PartialEq, Eq)]
pub struct Key([u8; 32]);

/// Why a key cannot be read or made.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum KeyError {
    /// The file cannot be read.
    #[error("key file {}: {error}", path.display())]
    Unreadable {
        /// The file.
        path: PathBuf,
        /// The system's reason.
        error: std::io::Error,
    },
    /// Users other than the owner may read the file.
    #[error("key file {} may be read by others (mode {mode:03o}); run: chmod 600 {}", path.display(), path.display())]
    TooOpen {
        /// The file.
        path: PathBuf,
        /// Its permission bits.
        mode: u32,
    },
    /// A line is not a key.
    #[error("{place}: expected `{KEY_PREFIX}` and 64 hexadecimal digits; make one with `tributary keygen`")]
    Malformed {
        /// File and line, or another description of the text's source.
        place: String,
    },
    /// The file has no key line.
    #[error("key file {} holds no key; make one with `tributary keygen`", path.display())]
    Empty {
        /// The file.
        path: PathBuf,
    },
    /// The operating system gave no random bytes.
    #[error("the operating system gives no random bytes")]
    NoEntropy,
}

impl Key {
    /// A fresh random key.
    ///
    /// # Errors
    /// [`KeyError::NoEntropy`].
    pub fn generate() -> Result<Self, KeyError> {
        let mut bytes = [0; 32];
        SystemRandom::new().fill(&mut bytes).map_err(|_| KeyError::NoEntropy)?;
        Ok(Self(bytes))
    }

    /// The key with these bytes, which must be secret and random.
    #[must_use]
    pub fn from_bytes(bytes: [u8; 32]) -> Self {
        Self(bytes)
    }

    /// The line of a key file, without the newline.
    #[must_use]
    pub fn to_line(&self) -> String {
        use fmt::Write;
        let mut line = String::from(KEY_PREFIX);
        for byte in self.0 {
            let _ = write!(line, "{byte:02x}");
        }
        line
    }

    /// Parses one line; `place` names it in errors.
    ///
    /// # Errors
    /// [`KeyError::Malformed`].
    pub fn parse(line: &str, place: &str) -> Result<Self, KeyError> {
        let malformed = || KeyError::Malformed { place: place.to_owned() };
        let digits = line.trim().strip_prefix(KEY_PREFIX).ok_or_else(malformed)?;
        let mut bytes = [0; 32];
        if digits.len() != 64 || !digits.bytes().all(|b| b.is_ascii_hexdigit()) {
            return Err(malformed());
        }
        for (byte, pair) in bytes.iter_mut().zip(digits.as_bytes().chunks_exact(2)) {
            let text = std::str::from_utf8(pair).map_err(|_| malformed())?;
            *byte = u8::from_str_radix(text, 16).map_err(|_| malformed())?;
        }
        Ok(Self(bytes))
    }

    /// Reads a key file.
    ///
    /// # Errors
    /// [`KeyError`] names the file and, where it applies, the line.
    pub fn load(path: &Path) -> Result<Self, KeyError> {
        use std::os::unix::fs::PermissionsExt;
        let unreadable = |error| KeyError::Unreadable { path: path.to_owned(), error };
        let metadata = std::fs::metadata(path).map_err(unreadable)?;
        let mode = metadata.permissions().mode() & 0o777;
        // The permissions of a pipe (`--key <(…)`) do not matter.
        if metadata.is_file() && mode & 0o077 != 0 {
            return Err(KeyError::TooOpen { path: path.to_owned(), mode });
        }
        let text = std::fs::read_to_string(path).map_err(unreadable)?;
        let line = text.lines().enumerate().find(|(_, l)| !l.trim().is_empty() && !l.starts_with('#'));
        let Some((number, line)) = line else { return Err(KeyError::Empty { path: path.to_owned() }) };
        Self::parse(line, &format!("{}:{}", path.display(), number + 1))
    }

    /// The secret bytes, for protocols that derive their own keys.
    #[must_use]
    pub fn bytes(&self) -> &[u8; 32] {
        &self.0
    }
}

impl fmt::Debug for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Key(secret)")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_round_trip_and_stay_secret() {
        let key = Key::generate().unwrap();
        assert_eq!(Key::parse(&key.to_line(), "test").unwrap(), key);
        assert!(!format!("{key:?}").contains(&key.to_line()[20..]));
        assert_ne!(key, Key::generate().unwrap());
    }

    #[test]
    fn malformed_lines_name_their_place() {
        for line in ["", "tributary-key-1:00", "tributary-key-2:", &format!("{KEY_PREFIX}{}", "é".repeat(32))]
        {
            let error = Key::parse(line, "k:3").unwrap_err().to_string();
            assert!(error.starts_with("k:3:"), "{error}");
        }
    }
}
