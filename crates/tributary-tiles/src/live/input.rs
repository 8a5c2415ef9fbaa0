//! Which source: parsed from what the user gives, and as ffmpeg's arguments.

use std::ffi::OsString;
use std::fmt;
use std::os::unix::fs::FileTypeExt;
use std::path::{Path, PathBuf};
use std::str::FromStr;

use thiserror::Error;

use crate::program::name_of;

/// A live source.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Input {
    /// A video file, read at its own speed.
    File(PathBuf),
    /// A camera of the kernel's Video4Linux.
    Camera(PathBuf),
    /// A stream that is fetched, or waited for at a port.
    Stream {
        /// RTMP or SRT.
        protocol: Protocol,
        /// Its address, without `mode=listener` for RTMP, which only ffmpeg's option says.
        url: String,
        /// Whether it is waited for.
        listens: bool,
    },
}

/// The protocol of a stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Protocol {
    /// RTMP.
    Rtmp,
    /// SRT.
    Srt,
}

/// The text names no source.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error(
    "`{0}` is no live source{1}: give rtmp://HOST:PORT/APP/NAME or srt://HOST:PORT (with ?mode=listener to wait for the sender), \
     a camera such as /dev/video0, or a video file"
)]
pub struct InputError(String, &'static str);

const LISTENER: &str = "mode=listener";

impl FromStr for Input {
    type Err = InputError;

    fn from_str(text: &str) -> Result<Self, InputError> {
        let because = |why| InputError(text.chars().filter(|c| !c.is_control()).take(200).collect(), why);
        let refuse = || because("");
        if let Some((scheme, rest)) = text.split_once("://") {
            let protocol = match scheme {
                "rtmp" => Protocol::Rtmp,
                "srt" => Protocol::Srt,
                _ => return Err(refuse()),
            };
            // A space would begin another option of RTMP.
            if rest.is_empty() || rest.contains(|c: char| c.is_whitespace() || c.is_control()) {
                return Err(refuse());
            }
            let (address, query) = text.split_once('?').unwrap_or((text, ""));
            let listens = query.split('&').any(|option| option == LISTENER);
            let url = match protocol {
                Protocol::Srt => text.to_owned(),
                Protocol::Rtmp => {
                    let kept: Vec<&str> =
                        query.split('&').filter(|o| *o != LISTENER && !o.is_empty()).collect();
                    if kept.is_empty() { address.to_owned() } else { format!("{address}?{}", kept.join("&")) }
                }
            };
            return Ok(Self::Stream { protocol, url, listens });
        }
        let path = Path::new(text);
        match std::fs::metadata(path) {
            Ok(data) if data.file_type().is_char_device() => Ok(Self::Camera(path.to_owned())),
            Ok(data) if data.is_file() => Ok(Self::File(path.to_owned())),
            Ok(_) => Err(because(", and neither a file nor a device")),
            Err(_) => Err(because(", and there is no such file")),
        }
    }
}

impl fmt::Display for Input {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::File(path) | Self::Camera(path) => path.display().fmt(f),
            // What follows the address may be a secret, such as a stream's key.
            Self::Stream { url, .. } => f.write_str(url.split('?').next().unwrap_or(url)),
        }
    }
}

impl Input {
    /// ffmpeg's words, which repeat the address, without what may be a secret in it.
    pub(super) fn without_secrets(&self, words: &str) -> String {
        match self {
            Self::Stream { url, .. } => words.replace(url, &self.to_string()),
            Self::File(_) | Self::Camera(_) => words.to_owned(),
        }
    }

    /// Whether the sender connects to this program: when it leaves, the next one is waited for.
    #[must_use]
    pub fn is_waited_for(&self) -> bool {
        matches!(self, Self::Stream { listens: true, .. })
    }

    /// ffmpeg's arguments up to its input.
    pub(super) fn arguments(&self) -> Vec<OsString> {
        let words = |words: &[&str]| words.iter().map(OsString::from).collect::<Vec<_>>();
        let mut all;
        match self {
            Self::File(path) => {
                all = words(&["-protocol_whitelist", "file,pipe", "-noautorotate", "-re", "-i"]);
                all.push(name_of(path));
            }
            Self::Camera(path) => {
                all = words(&["-f", "v4l2", "-i"]);
                all.push(path.into());
            }
            Self::Stream { protocol, url, listens } => {
                // A second is enough to find the tracks of a stream.
                all = words(&["-fflags", "nobuffer", "-analyzeduration", "1000000"]);
                match protocol {
                    Protocol::Rtmp => {
                        all.extend(words(&["-protocol_whitelist", "rtmp,tcp", "-f", "live_flv"]));
                        if *listens {
                            all.extend(words(&["-listen", "1"]));
                        }
                    }
                    Protocol::Srt => all.extend(words(&["-protocol_whitelist", "srt", "-f", "mpegts"])),
                }
                all.extend(words(&["-i", url]));
            }
        }
        all
    }
}
