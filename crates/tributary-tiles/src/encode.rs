//! Encodes pictures into H.264 with ffmpeg and libx264: closed GoPs, no B-pictures, a constant QP.
//!
//! All tiles have the same size, so the GoPs of many tiles go through one encoder, one after the other: every
//! GoP begins with an IDR picture and does not depend on the tile before it. Otherwise each tile would need
//! its own process. All qualities of these tiles are outputs of the same process, which reads the pictures once.

use std::io;
use std::path::{Path, PathBuf};
use std::process::{ChildStdin, Command};

use thiserror::Error;

use crate::gop;
use crate::program::{self, ProgramError, name_of};
use crate::rate::FrameRate;

/// Settings of the encoder.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Encoder {
    /// libx264's preset, such as `medium`.
    pub preset: String,
    /// Pictures a second.
    pub rate: FrameRate,
    /// Pictures in a GoP.
    pub pictures_per_gop: usize,
}

/// Why encoding failed.
#[derive(Debug, Error)]
pub enum EncodeError {
    /// The encoder is missing or failed.
    #[error(transparent)]
    Program(#[from] ProgramError),
    /// The output cannot be read.
    #[error("cannot read the encoder's output {path}: {source}")]
    Scratch {
        /// The file.
        path: PathBuf,
        /// The system's message.
        source: io::Error,
    },
    /// The output does not match the settings.
    #[error("the encoder's output is broken: GoP {gop} of {found}: {reason}")]
    Output {
        /// Index of the GoP.
        gop: usize,
        /// Number of GoPs in the output.
        found: usize,
        /// What is wrong with it.
        reason: String,
    },
}

impl Encoder {
    /// Description for records: the options that decide the output.
    #[must_use]
    pub fn description(&self) -> String {
        format!("libx264 {} {} constant QP", self.preset, self.options())
    }

    fn options(&self) -> String {
        // No look-ahead, no scene cuts, no B-pictures: I P P P … at a constant QP (x264's I-picture is 3
        // lower, the default ratio). Psychovisual decisions are off because they raise the measured error;
        // the chroma QP keeps the offset that they would give it. One reference picture and a small motion
        // search take less time for the same bytes: docs/models/tiled-video.md has the comparison.
        let gop = self.pictures_per_gop;
        format!(
            "keyint={gop}:min-keyint={gop}:scenecut=0:open-gop=0:bframes=0:rc-lookahead=0:sync-lookahead=0:\
             sliced-threads=0:psy=0:chroma-qp-offset=-2:ref=1:me=dia:repeat-headers=1"
        )
    }

    /// Arguments of an output at `qp`, without its name.
    #[must_use]
    pub fn arguments(&self, qp: u8) -> Vec<String> {
        let qp = qp.to_string();
        let all = ["-c:v", "libx264", "-preset", &self.preset, "-qp", &qp, "-threads", "1"];
        let rest = ["-x264-params", &self.options(), "-f", "h264"];
        all.iter().chain(&rest).map(ToString::to_string).collect()
    }

    /// Encodes raw 4:2:0 pictures of `width` × `height` pixels written by `feed`; returns one byte stream per
    /// GoP.
    ///
    /// # Errors
    /// ffmpeg is missing or fails, or the output is not `gops` closed GoPs.
    pub fn encode(
        &self,
        size: (usize, usize),
        (qp, gops): (u8, usize),
        feed: impl FnOnce(&mut ChildStdin) -> io::Result<()> + Send,
    ) -> Result<Vec<Vec<u8>>, EncodeError> {
        let mut command = self.command(size);
        command.args(self.arguments(qp)).arg("pipe:1");
        let stream = program::run_fed("ffmpeg", program::apart(&mut command), feed)?;
        self.closed(&stream, gops)
    }

    /// The same at each of `qps`, in one process, which reads the pictures once; returns the GoPs of each QP.
    /// The output of each goes through a file in `scratch`.
    ///
    /// # Errors
    /// As [`Self::encode`], or `scratch` is full.
    pub fn encode_all(
        &self,
        size: (usize, usize),
        (qps, gops): (&[u8], usize),
        scratch: &Path,
        feed: impl FnOnce(&mut ChildStdin) -> io::Result<()> + Send,
    ) -> Result<Vec<Vec<Vec<u8>>>, EncodeError> {
        let mut command = self.command(size);
        let names = self.outputs(&mut command, qps, scratch);
        program::run_fed("ffmpeg", program::apart(&mut command), feed)?;
        let read = |path: &PathBuf| {
            let stream =
                std::fs::read(path).map_err(|source| EncodeError::Scratch { path: path.clone(), source })?;
            self.closed(&stream, gops)
        };
        names.iter().map(read).collect()
    }

    /// Adds an output at each of `qps` to `command`, whose first input has the pictures; returns the outputs' files, which are in `scratch`.
    pub(crate) fn outputs(&self, command: &mut Command, qps: &[u8], scratch: &Path) -> Vec<PathBuf> {
        let add = |qp: &u8| {
            let path = scratch.join(format!("{qp}.h264"));
            command
                .args(["-map", "0:v:0", "-fps_mode", "passthrough"])
                .args(self.arguments(*qp))
                .arg(name_of(&path));
            path
        };
        qps.iter().map(add).collect()
    }

    /// ffmpeg with raw pictures as its input.
    fn command(&self, (width, height): (usize, usize)) -> Command {
        let mut command = Command::new("ffmpeg");
        command.args(["-nostdin", "-v", "error", "-protocol_whitelist", "file,pipe", "-f", "rawvideo"]);
        command.args(["-pix_fmt", "yuv420p", "-s", &format!("{width}x{height}")]);
        command.args(["-r", &self.rate.to_string(), "-i", "pipe:0"]);
        command
    }

    /// The closed GoPs of `stream`.
    fn closed(&self, stream: &[u8], gops: usize) -> Result<Vec<Vec<u8>>, EncodeError> {
        let found = gop::split(stream);
        let broken = |gop, reason| Err(EncodeError::Output { gop, found: found.len(), reason });
        for (number, gop) in found.iter().enumerate() {
            if !gop.closed || gop.pictures as usize != self.pictures_per_gop {
                let expected = self.pictures_per_gop;
                let closed = gop.closed;
                return broken(number, format!("{} of {expected} pictures, closed: {closed}", gop.pictures));
            }
        }
        if found.len() != gops {
            return broken(found.len(), format!("{gops} GoPs expected"));
        }
        Ok(found.into_iter().map(|gop| stream[gop.bytes].to_vec()).collect())
    }
}
