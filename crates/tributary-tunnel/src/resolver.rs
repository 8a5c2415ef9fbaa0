//! Who resolves the machine's names: a setting of systemd-resolved for the device, where it runs, or another resolv.conf.
//!
//! What resolv.conf was is kept in a file, for the end of this process or for the next start.

use std::fs;
use std::io::{self, Write};
use std::net::IpAddr;
use std::os::unix::fs::{OpenOptionsExt, symlink};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use serde::{Deserialize, Serialize};

const RESOLV_CONF: &str = "/etc/resolv.conf";
const KEPT: &str = "/run/tributary-tunnel/resolv.conf.json";

/// What resolv.conf was.
#[derive(Debug, Deserialize, Serialize)]
struct Kept {
    /// Where a symbolic link led.
    link: Option<PathBuf>,
    /// What a file had in it; `None` for a link, and if there was none.
    text: Option<String>,
    /// What this program wrote. Another program's changes since then stay.
    written: String,
}

/// Lets names be resolved by the server at this address, which the device leads to.
pub(crate) fn set(device: &str, server: IpAddr) -> io::Result<()> {
    if asks_resolved(Path::new(RESOLV_CONF)) && set_resolved(device, server) {
        // Its settings for a device end with the device.
        return Ok(());
    }
    let written = format!(
        "# Written by tributary tunnel; the file of before comes back at its end.\nnameserver {server}\n"
    );
    replace(Path::new(RESOLV_CONF), Path::new(KEPT), written)
}

/// Takes [`set`] back, in this process or another.
pub(crate) fn restore() -> io::Result<()> {
    restore_file(Path::new(RESOLV_CONF), Path::new(KEPT))
}

fn asks_resolved(file: &Path) -> bool {
    fs::read_to_string(file).is_ok_and(|text| text.contains("127.0.0.53"))
}

fn set_resolved(device: &str, server: IpAddr) -> bool {
    let server = server.to_string();
    let run = |words: &[&str]| {
        let run = Command::new("resolvectl").args(words).stdin(Stdio::null()).stdout(Stdio::null()).output();
        match run {
            Ok(output) if output.status.success() => true,
            Ok(output) => {
                let said = String::from_utf8_lossy(&output.stderr).trim().to_owned();
                tracing::warn!("resolvectl {}: {said}; resolv.conf is replaced instead", words.join(" "));
                false
            }
            Err(_) => false,
        }
    };
    // `~.`: this server for all names.
    run(&["dns", device, &server])
        && run(&["domain", device, "~."])
        && run(&["default-route", device, "true"])
}

fn replace(file: &Path, kept: &Path, written: String) -> io::Result<()> {
    let link = fs::read_link(file).ok();
    let text = match &link {
        Some(_) => None,
        None => fs::read_to_string(file).map(Some).or_else(|error| match error.kind() {
            io::ErrorKind::NotFound => Ok(None),
            _ => Err(error),
        })?,
    };
    let record = Kept { link, text, written };
    kept.parent().map_or(Ok(()), fs::create_dir_all)?;
    write(kept, &serde_json::to_string(&record)?)?;
    write(file, &record.written)
}

fn restore_file(file: &Path, kept: &Path) -> io::Result<()> {
    let record: Kept = match fs::read_to_string(kept) {
        Ok(text) => serde_json::from_str(&text)?,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        Err(error) => return Err(error),
    };
    if fs::read_to_string(file).is_ok_and(|text| text == record.written) {
        match (&record.link, &record.text) {
            (Some(link), _) => {
                fs::remove_file(file)?;
                symlink(link, file)?;
            }
            (None, Some(text)) => write(file, text)?,
            (None, None) => fs::remove_file(file)?,
        }
    }
    fs::remove_file(kept)
}

/// Replaces a file, or a link by a file, at once. A file that is mounted is written in place.
fn write(file: &Path, text: &str) -> io::Result<()> {
    let mut name = file.as_os_str().to_owned();
    name.push(".tributary");
    let _ = fs::remove_file(&name);
    let mut new = fs::OpenOptions::new().write(true).create_new(true).mode(0o644).open(&name)?;
    new.write_all(text.as_bytes())?;
    fs::rename(&name, file).or_else(|_| {
        let _ = fs::remove_file(&name);
        fs::write(file, text)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_there_comes_back_and_changes_of_others_stay() {
        let directory = tempfile::tempdir().unwrap();
        let at = |name: &str| directory.path().join(name);
        let (file, kept) = (at("resolv.conf"), at("run/kept"));
        let set = || replace(&file, &kept, "nameserver 198.18.0.2\n".to_owned()).unwrap();
        restore_file(&file, &kept).unwrap();
        // None.
        set();
        assert!(fs::read_to_string(&file).unwrap().contains("198.18.0.2"));
        restore_file(&file, &kept).unwrap();
        assert!(!file.exists() && !kept.exists());
        // A file.
        fs::write(&file, "nameserver 192.0.2.1\n").unwrap();
        set();
        restore_file(&file, &kept).unwrap();
        assert_eq!(fs::read_to_string(&file).unwrap(), "nameserver 192.0.2.1\n");
        // A link, also to nothing.
        for target in ["other", "nothing"] {
            fs::write(at("other"), "nameserver 192.0.2.2\n").unwrap();
            fs::remove_file(&file).unwrap();
            symlink(target, &file).unwrap();
            set();
            assert!(fs::read_link(&file).is_err());
            restore_file(&file, &kept).unwrap();
            assert_eq!(fs::read_link(&file).unwrap(), Path::new(target));
        }
        assert_eq!(fs::read_to_string(at("other")).unwrap(), "nameserver 192.0.2.2\n");
        // Somebody else wrote it meanwhile.
        set();
        fs::write(&file, "nameserver 192.0.2.3\n").unwrap();
        restore_file(&file, &kept).unwrap();
        assert_eq!(fs::read_to_string(&file).unwrap(), "nameserver 192.0.2.3\n");
        assert!(!kept.exists());
    }
}
