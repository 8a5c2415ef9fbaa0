//! The shared key, 256 random bits, and how files with secrets are read.
//!
//! A key file holds one line; empty lines and lines that begin with `#` are skipped. The line of a shared key is
//! `tributary-key-1:` and 64 hexadecimal digits. A file that others may read, or that belongs to another user than this one
//! or root, is refused, as ssh refuses one. Memory that held a key is overwritten before it is freed. Not here: the keys of
//! one end ([`crate::identity`]).

use std::fmt;
use std::fs::{File, Metadata};
use std::io::Read;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use aws_lc_rs::rand::{SecureRandom, SystemRandom};
use thiserror::Error;
use zeroize::Zeroizing;

/// Prefix of a shared key's line; the number is the version of the format.
pub const KEY_PREFIX: &str = "tributary-key-1:";

/// Prefix of a private key's line; the number is the version of the format.
pub(crate) const PRIVATE_PREFIX: &str = "tributary-private-1:";

/// Most bytes of a key file that are read.
const MOST: usize = 64 << 10;

/// A shared key: all that have it can pose as each other, the server included. Never printed by `Debug`, and overwritten when it is dropped.
#[derive(Clone, PartialEq, Eq)]
pub struct Key(Zeroizing<[u8; 32]>);

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
    /// The file belongs to another user, who could replace the key.
    #[error("key file {} belongs to user {owner}, not to this user ({user}) or root; run: chown {user} {}", path.display(), path.display())]
    Foreign {
        /// The file.
        path: PathBuf,
        /// Its owner.
        owner: u32,
        /// The user whom this process runs as.
        user: u32,
    },
    /// A private key was given where a shared one is needed.
    #[error(
        "{place} is a private key, and a shared one is needed (tributary keygen --shared); sessions take a private one as --key"
    )]
    IsPrivate {
        /// File and line.
        place: String,
    },
    /// A shared key was given where a private one is needed.
    #[error(
        "{place} is a shared key, not a private one; make a private key with `tributary keygen`, or give this file as \
         --shared-key, if all who have it may pose as the server"
    )]
    IsShared {
        /// File and line.
        place: String,
    },
    /// A text is not a public key. The text is not part of the message, because it may be a secret.
    #[error("{place} is not a public key; `tributary pubkey FILE` prints it, 44 characters that end in `=`")]
    NotPublic {
        /// Where the text is from.
        place: String,
    },
    /// A line is not a private key.
    #[error(
        "{place}: expected `{PRIVATE_PREFIX}` and 44 characters; make a private key with `tributary keygen`"
    )]
    MalformedPrivate {
        /// File and line.
        place: String,
    },
    /// A line is not a shared key.
    #[error(
        "{place}: expected `{KEY_PREFIX}` and 64 hexadecimal digits; make one with `tributary keygen --shared`"
    )]
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
        let mut bytes = Zeroizing::new([0; 32]);
        SystemRandom::new().fill(&mut *bytes).map_err(|_| KeyError::NoEntropy)?;
        Ok(Self(bytes))
    }

    /// The key with these bytes, which must be secret and random.
    #[must_use]
    pub fn from_bytes(bytes: [u8; 32]) -> Self {
        Self(Zeroizing::new(bytes))
    }

    /// The line of a key file, without the newline.
    #[must_use]
    pub fn to_line(&self) -> Zeroizing<String> {
        use fmt::Write;
        // With its whole length from the beginning: growing would leave a copy behind.
        let mut line = Zeroizing::new(String::with_capacity(KEY_PREFIX.len() + 64));
        line.push_str(KEY_PREFIX);
        for byte in *self.0 {
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
        if line.trim().starts_with(PRIVATE_PREFIX) {
            return Err(KeyError::IsPrivate { place: place.to_owned() });
        }
        let digits = line.trim().strip_prefix(KEY_PREFIX).ok_or_else(malformed)?;
        let mut bytes = Zeroizing::new([0; 32]);
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
        let (line, place) = secret_line(path)?;
        Self::parse(&line, &place)
    }

    /// The secret bytes, for protocols that derive their own keys.
    #[must_use]
    pub fn bytes(&self) -> &[u8; 32] {
        &self.0
    }
}

/// The line with the key in a key file, and its place for errors.
pub(crate) fn secret_line(path: &Path) -> Result<(Zeroizing<String>, String), KeyError> {
    let text = read_secret(path)?;
    let line = text.lines().enumerate().find(|(_, l)| !l.trim().is_empty() && !l.starts_with('#'));
    let Some((number, line)) = line else { return Err(KeyError::Empty { path: path.to_owned() }) };
    Ok((Zeroizing::new(line.to_owned()), format!("{}:{}", path.display(), number + 1)))
}

/// The text of a file with a secret, at most 64 KiB of it: a key, a private key of a certificate.
///
/// # Errors
/// [`KeyError`] when it cannot be read, others may read it, or it belongs to another user than this one and root.
pub fn read_secret(path: &Path) -> Result<Zeroizing<String>, KeyError> {
    let unreadable = |error| KeyError::Unreadable { path: path.to_owned(), error };
    let mut file = File::open(path).map_err(unreadable)?;
    // Of the opened file, which cannot be exchanged any more.
    let metadata = file.metadata().map_err(unreadable)?;
    // The permissions of a pipe (`--key <(…)`) do not matter.
    if metadata.is_file() {
        check(path, &metadata, rustix::process::geteuid().as_raw())?;
    }
    // With its whole length from the beginning: growing would leave a copy behind.
    let length = usize::try_from(metadata.len()).unwrap_or(0).min(MOST) + 1;
    let mut text = Zeroizing::new(String::with_capacity(length));
    (&mut file).take(MOST as u64).read_to_string(&mut text).map_err(unreadable)?;
    Ok(text)
}

/// Refuses a file that others may read, or that belongs to neither `user` nor root.
fn check(path: &Path, metadata: &Metadata, user: u32) -> Result<(), KeyError> {
    let (owner, mode) = (metadata.uid(), metadata.mode() & 0o777);
    if owner != user && owner != 0 {
        return Err(KeyError::Foreign { path: path.to_owned(), owner, user });
    }
    if mode & 0o077 != 0 {
        return Err(KeyError::TooOpen { path: path.to_owned(), mode });
    }
    Ok(())
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
    fn a_key_file_of_another_user_is_refused() {
        let path = std::env::temp_dir().join(format!("tributary-key-{}", std::process::id()));
        std::fs::write(&path, &*Key::generate().unwrap().to_line()).unwrap();
        std::fs::set_permissions(&path, std::os::unix::fs::PermissionsExt::from_mode(0o600)).unwrap();
        let metadata = std::fs::metadata(&path).unwrap();
        assert!(Key::load(&path).is_ok());
        std::fs::remove_file(&path).unwrap();
        assert!(check(&path, &metadata, metadata.uid()).is_ok());
        let other = check(&path, &metadata, metadata.uid() + 1);
        // Root may own the key of any user.
        assert_eq!(other.is_ok(), metadata.uid() == 0);
        if let Err(error) = other {
            assert!(error.to_string().contains("chown"), "{error}");
        }
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
