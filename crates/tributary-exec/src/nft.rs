//! Gives rules to nftables, by its program `nft`.

use std::io::{self, Write};
use std::process::{Command, Stdio};

use thiserror::Error;

/// Where else the program may be: a user's `PATH` often has no `sbin`.
const PROGRAMS: &[&str] = &["nft", "/usr/sbin/nft", "/sbin/nft"];

/// Why rules are not in force.
#[derive(Debug, Error)]
pub enum NftError {
    /// No nftables.
    #[error("the program `nft` is missing: install it (Debian, Ubuntu, Fedora: package nftables)")]
    Missing,
    /// The kernel or `nft` does not take them.
    #[error(
        "nft cannot redirect connections: {0}. The kernel needs nf_tables, nft_redir and nf_nat (`modprobe nft_redir`)"
    )]
    Refused(String),
    /// The program cannot be run.
    #[error("running nft: {0}")]
    System(#[from] io::Error),
}

/// Puts these rules into force, all or none. The calling thread's ambient capabilities must have CAP_NET_ADMIN unless it is root's.
///
/// # Errors
/// [`NftError`].
pub fn load(rules: &str) -> Result<(), NftError> {
    for program in PROGRAMS {
        let started = Command::new(program)
            .args(["-f", "-"])
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn();
        let mut child = match started {
            Ok(child) => child,
            Err(error)
                if matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::PermissionDenied) =>
            {
                continue;
            }
            Err(error) => return Err(error.into()),
        };
        let mut stdin = child.stdin.take().expect("it is a pipe");
        stdin.write_all(rules.as_bytes())?;
        drop(stdin);
        let output = child.wait_with_output()?;
        if output.status.success() {
            return Ok(());
        }
        let said = String::from_utf8_lossy(&output.stderr);
        return Err(NftError::Refused(said.lines().next().unwrap_or("it failed").to_owned()));
    }
    Err(NftError::Missing)
}
