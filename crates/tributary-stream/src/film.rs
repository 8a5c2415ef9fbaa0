//! A video file of one bitrate for progressive playback: H.264 in an MPEG transport stream, made by ffmpeg from any input.
//!
//! A transport stream is read from its beginning to its end; other containers make players seek first. Not here: the server
//! and the players.

use std::path::Path;
use std::process::Command;
use thiserror::Error;
use tributary_tiles::program::{ProgramError, apart, name_of, run};
use tributary_types::Bitrate;

/// Pictures a second, and in a group.
pub const PICTURES_PER_SECOND: u32 = 25;
/// Initial guess of the encoder's output as a part of the file. The rest is the packets and tables of the transport
/// stream, and the encoder's overshoot at the beginning.
const ENCODED: f64 = 0.91;
/// Maximum number of attempts. Each corrects the encoder's rate by the measured bitrate of the file.
const ATTEMPTS: u32 = 4;
/// Largest relative error of the file's bitrate.
const TOLERANCE: f64 = 0.03;
/// The synthetic picture is encoded for this many seconds and then repeated.
const SYNTHETIC_SECONDS: u32 = 5;

/// Content of the film.
#[derive(Clone, Copy, Debug)]
pub enum Source<'a> {
    /// A moving test picture with noise.
    Synthetic,
    /// Any file that ffmpeg reads; it is repeated when it is too short.
    File(&'a Path),
}

/// A film's settings.
#[derive(Clone, Copy, Debug)]
pub struct Film {
    /// Bitrate of the file.
    pub bitrate: Bitrate,
    /// Length.
    pub seconds: u32,
    /// Width and height of the picture.
    pub picture: (u32, u32),
}

impl Default for Film {
    /// The handoff paper's bitrate, with a picture that is cheap to decode.
    fn default() -> Self {
        Self { bitrate: Bitrate::from_bps(5_240_000), seconds: 60, picture: (960, 540) }
    }
}

/// Why no film was made.
#[derive(Debug, Error)]
pub enum FilmError {
    /// ffmpeg failed.
    #[error(transparent)]
    Program(#[from] ProgramError),
    /// The file's size cannot be read.
    #[error("the film: {0}")]
    System(#[from] std::io::Error),
    /// The encoder missed the bitrate.
    #[error(
        "the film has {found:.2} Mbit/s instead of {wanted:.2}: choose a bitrate that suits the picture's size"
    )]
    Rate {
        /// Bitrate of the file, Mbit/s.
        found: f64,
        /// Requested bitrate, Mbit/s.
        wanted: f64,
    },
}

/// Makes the film; returns the file's bitrate. An existing file is replaced.
///
/// # Errors
/// [`FilmError`]: ffmpeg is missing or cannot read the source, or the bitrate was missed.
pub fn make(source: Source<'_>, film: &Film, to: &Path) -> Result<Bitrate, FilmError> {
    let wanted = film.bitrate.as_mbps_f64();
    let (mut encoded, mut found) = (ENCODED * wanted, 0.0);
    for _ in 0..ATTEMPTS {
        encode(source, film, encoded, to)?;
        let bits = 8.0 * std::fs::metadata(to)?.len() as f64;
        found = bits / f64::from(film.seconds.max(1)) * 1e-6;
        if (found / wanted - 1.0).abs() <= TOLERANCE {
            return Ok(Bitrate::from_bps((found * 1e6) as u64));
        }
        encoded *= wanted / found;
    }
    Err(FilmError::Rate { found, wanted })
}

/// Makes the file with this bitrate of the encoder, Mbit/s.
fn encode(source: Source<'_>, film: &Film, mbps: f64, to: &Path) -> Result<(), FilmError> {
    let seconds = film.seconds.max(1);
    match source {
        Source::File(_) => _ = run("ffmpeg", apart(&mut encoder(source, film, (seconds, mbps), to)), b"")?,
        Source::Synthetic => {
            let part = to.with_extension("part");
            run("ffmpeg", apart(&mut encoder(source, film, (SYNTHETIC_SECONDS, mbps), &part)), b"")?;
            let mut repeat = command();
            repeat.args(["-stream_loop", "-1", "-i"]).arg(name_of(&part));
            repeat.args(["-t", &seconds.to_string(), "-c", "copy", "-f", "mpegts"]).arg(name_of(to));
            let repeated = run("ffmpeg", apart(&mut repeat), b"");
            std::fs::remove_file(&part)?;
            repeated?;
        }
    }
    Ok(())
}

fn command() -> Command {
    let mut command = Command::new("ffmpeg");
    command.args(["-nostdin", "-v", "error", "-y", "-protocol_whitelist", "file,pipe"]);
    command
}

/// Encodes with a constant bitrate: the encoder pads pictures that need fewer bytes.
fn encoder(source: Source<'_>, film: &Film, (seconds, mbps): (u32, f64), to: &Path) -> Command {
    let (width, height) = film.picture;
    let mut command = command();
    match source {
        Source::Synthetic => {
            let picture =
                format!("testsrc2=size={width}x{height}:rate={PICTURES_PER_SECOND},noise=alls=20:allf=t");
            command.args(["-f", "lavfi", "-i", &picture]);
        }
        Source::File(file) => _ = command.args(["-stream_loop", "-1", "-i"]).arg(name_of(file)),
    }
    let filter = format!(
        "scale={width}:{height}:force_original_aspect_ratio=decrease,pad={width}:{height}:-1:-1,\
         fps={PICTURES_PER_SECOND},format=yuv420p"
    );
    command.args(["-t", &seconds.to_string(), "-map", "0:v:0", "-vf", &filter]);
    let bps = ((mbps * 1e6) as u64).to_string();
    let group = PICTURES_PER_SECOND.to_string();
    command.args(["-c:v", "libx264", "-preset", "ultrafast", "-bf", "0", "-x264-params", "nal-hrd=cbr"]);
    command.args(["-b:v", &bps, "-minrate", &bps, "-maxrate", &bps, "-bufsize", &bps]);
    command.args(["-g", &group, "-keyint_min", &group, "-sc_threshold", "0", "-f", "mpegts"]);
    command.arg(name_of(to));
    command
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_film_of_any_input_has_the_requested_bitrate() {
        let directory = tempfile::tempdir().unwrap();
        let at = |name: &str| directory.path().join(name);
        let film = Film { seconds: 8, picture: (320, 180), ..Film::default() };
        make(Source::Synthetic, &film, &at("first.ts")).unwrap();
        // A file that is shorter than the film.
        let film = Film { bitrate: Bitrate::from_mbps(2), seconds: 10, picture: (160, 120) };
        let rate = make(Source::File(&at("first.ts")), &film, &at("second.ts")).unwrap();
        assert!((rate.as_mbps_f64() - 2.0).abs() < 0.06, "{rate:?}");
        let mut names: Vec<_> =
            std::fs::read_dir(directory.path()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
        names.sort();
        assert_eq!(names, ["first.ts", "second.ts"], "temporary files were left");
        let error = make(Source::File(&at("none.ts")), &film, &at("third.ts")).unwrap_err().to_string();
        assert!(error.contains("none.ts"), "{error}");
    }
}
