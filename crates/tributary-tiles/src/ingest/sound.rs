//! The sound: one track of Opus, cut at the GoPs' boundaries, whatever the source has.
//!
//! A packet of 100 ms belongs to the GoP in which its presentation begins. A page decodes a packet in each turn of its only thread, so
//! that shorter ones would be decoded too late on a busy machine. Opus is what WebCodecs of every browser decodes, and
//! needs the fewest bytes; Debian's ffmpeg encodes it with libopus.

use std::io;
use std::path::Path;
use std::process::{Command, Stdio};

use serde::{Deserialize, Serialize};

use super::IngestError;
use super::recipe::Recipe;
use super::track::Track;
use super::watch::Meter;
use super::work::{Note, Reference, Sums, Work};
use crate::layout;
use crate::mp4::sound::{PACKET, TIMESCALE, init_segment, media_segment};
use crate::ogg::{OpusHead, Packets};
use crate::program::{self, name_of};

const NOTE: &str = "sound.json";

/// What was made of it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(super) struct Heard {
    pub(super) channels: u8,
    /// Bytes of the longest segment.
    pub(super) longest: u32,
    pub(super) sums: Sums,
}

impl Note for Heard {
    fn sums(&self) -> &Sums {
        &self.sums
    }
}

/// Encodes and cuts the sound of as many GoPs as the pictures have, unless an earlier run has done so.
pub(super) fn make(
    source: &Path,
    recipe: &Recipe,
    work: &Work,
    (pictures, meter): (&Reference, &Meter<'_>),
) -> Result<Option<Heard>, IngestError> {
    let Some(track) = &recipe.sound else { return Ok(None) };
    if let Some(heard) = work.load_whole(NOTE) {
        return Ok(Some(heard));
    }
    let seconds = recipe.rate.seconds_of(recipe.pictures_per_gop) * pictures.gops as f64;
    let mut command = command(source, track, seconds);
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut running = program::start("ffmpeg", program::apart(&mut command))?;
    let complaints = program::hear(running.stderr.take());
    let gops = Gops { recipe, work, gops: pictures.gops, packets: Vec::new(), gop: 0, first: 0 };
    let cut = running.stdout.take().map(|output| gops.cut(io::BufReader::new(output), meter));
    let wrong = |reason| IngestError::Sound { path: source.to_owned(), reason };
    // ffmpeg says better than its output what is wrong.
    if !running.wait()?.success() {
        return Err(wrong(program::complaint(&complaints.join().unwrap_or_default())));
    }
    let heard = match cut {
        Some(Err(Fault::Output(error))) => return Err(wrong(error.to_string())),
        Some(Err(Fault::Ingest(error))) => return Err(error),
        Some(Ok(heard)) => heard,
        None => return Err(wrong("ffmpeg has no output".to_owned())),
    };
    work.save(NOTE, &heard)?;
    Ok(Some(heard))
}

fn command(source: &Path, track: &Track, seconds: f64) -> Command {
    let kbps = track.info().kbps;
    let mut command = Command::new("ffmpeg");
    command.args(["-nostdin", "-v", "error", "-protocol_whitelist", "file,pipe", "-i"]).arg(name_of(source));
    command.args(["-map", "0:a:0", "-vn", "-sn", "-dn", "-af", &track.filter(), "-t", &seconds.to_string()]);
    command.args(["-ac", &track.channels.to_string(), "-c:a", "libopus", "-b:a", &format!("{kbps}k")]);
    command.args([
        "-frame_duration",
        "100",
        "-map_metadata",
        "-1",
        "-fflags",
        "+bitexact",
        "-f",
        "ogg",
        "pipe:1",
    ]);
    command
}

enum Fault {
    /// ffmpeg's output is broken.
    Output(io::Error),
    Ingest(IngestError),
}

impl<E: Into<IngestError>> From<E> for Fault {
    fn from(error: E) -> Self {
        Self::Ingest(error.into())
    }
}

/// The packets of a GoP, until it is complete.
struct Gops<'a> {
    recipe: &'a Recipe,
    work: &'a Work,
    gops: usize,
    packets: Vec<Vec<u8>>,
    gop: usize,
    /// Number of the first of these packets.
    first: u64,
}

impl Gops<'_> {
    fn cut(mut self, output: impl io::Read, meter: &Meter<'_>) -> Result<Heard, Fault> {
        let (head, mut packets) = Packets::begin(output).map_err(Fault::Output)?;
        let mut heard = Heard { channels: head.channels, longest: 0, sums: Sums::new() };
        self.work.write(layout::SOUND_INIT.to_owned(), &init_segment(&head), &mut heard.sums)?;
        for number in 0.. {
            meter.tick(0)?;
            let Some(packet) = packets.next().map_err(Fault::Output)? else { break };
            let gop = self.gop_of(&head, number);
            if gop != self.gop {
                self.write(&mut heard)?;
                (self.gop, self.first) = (gop, number);
            }
            // The encoder's last packets go a little beyond the end.
            if gop < self.gops {
                self.packets.push(packet);
            }
        }
        self.write(&mut heard)?;
        Ok(heard)
    }

    /// The GoP in which a packet begins. The first one begins before the first picture, by what is not presented of it.
    fn gop_of(&self, head: &OpusHead, number: u64) -> usize {
        let begins = (number * u64::from(PACKET)).saturating_sub(u64::from(head.pre_skip));
        let (rate, pictures) = (self.recipe.rate, self.recipe.pictures_per_gop as u64);
        let gop = u64::from(rate.denominator()) * pictures * u64::from(TIMESCALE);
        (begins * u64::from(rate.numerator()) / gop) as usize
    }

    fn write(&mut self, heard: &mut Heard) -> Result<(), IngestError> {
        if !self.packets.is_empty() {
            let segment = media_segment(&self.packets, self.gop as u32 + 1, self.first);
            heard.longest = heard.longest.max(segment.len() as u32);
            self.work.write(layout::sound(self.gop), &segment, &mut heard.sums)?;
        }
        self.packets.clear();
        Ok(())
    }
}
