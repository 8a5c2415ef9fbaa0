//! Encodes an untiled GoP at every QP with the same encoder, as the reference for the cost of tiling. Its
//! files are not kept.

use std::io::Write;
use std::process::Command;

use serde::{Deserialize, Serialize};
use tributary_video::metrics::mse;
use tributary_video::picture::Picture;

use super::IngestError;
use super::Job;
use super::work::Work;
use crate::decode::{DecodeError, Pictures};
use crate::mp4::{Timing, media_segment};
use crate::program;

/// The record of one GoP, one number per QP.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(super) struct Untiled {
    pub(super) bytes: Vec<u64>,
    pub(super) mse: Vec<f64>,
}

/// The record's name.
pub(super) fn note(gop: usize) -> String {
    format!("untiled-{gop:05}.json")
}

/// Whether GoP `gop` has been measured.
pub(super) fn is_made(work: &Work, gop: usize) -> bool {
    work.load::<Untiled>(&note(gop)).is_some()
}

/// Measures GoP `gop`.
pub(super) fn make(job: &Job<'_>, gop: usize) -> Result<(), IngestError> {
    let Job { recipe, work, .. } = job;
    let scratch = work.scratch()?;
    let mut command = Command::new("ffmpeg");
    command.args(["-nostdin", "-v", "error", "-protocol_whitelist", "file,pipe", "-threads", "1"]);
    command.args(["-r", &recipe.rate.to_string(), "-f", "h264", "-i", "pipe:0"]);
    let outputs = recipe.encoder().outputs(&mut command, &recipe.qps, scratch.path());
    let source = job.reference_bytes(gop)?;
    program::run_fed("ffmpeg", program::apart(&mut command), |input| {
        for part in source.chunks(1 << 16) {
            job.meter.tick(0)?;
            input.write_all(part)?;
        }
        Ok(())
    })?;
    job.meter.tick(0)?;
    let mut bytes = Vec::new();
    let mut shown = Vec::new();
    for path in outputs {
        let stream = std::fs::read(&path).map_err(|source| IngestError::Unreadable { path, source })?;
        bytes.push(media_segment(&stream, (1, 0), Timing::of(recipe.rate))?.len() as u64);
        shown.push(Pictures::of_stream(stream, recipe.size)?);
    }
    let mse = errors(job, Pictures::of_stream(source, recipe.size)?, shown)?;
    work.save(&note(gop), &Untiled { bytes, mse })
}

/// The mean luma error of each stream of `shown`, read in parallel, so that a GoP need not fit into memory.
fn errors(job: &Job<'_>, originals: Pictures, mut shown: Vec<Pictures>) -> Result<Vec<f64>, IngestError> {
    let Job { recipe, meter, .. } = job;
    let mut sums = vec![0.0; shown.len()];
    let mut picture = Picture::black(recipe.size.0, recipe.size.1).map_err(DecodeError::Size)?;
    for original in originals {
        let original = original?;
        for (sum, shown) in sums.iter_mut().zip(&mut shown) {
            if !shown.read_into(&mut picture)? {
                return Err(DecodeError::Cut.into());
            }
            *sum += mse(&original.luma(), &picture.luma()).map_err(DecodeError::Size)?;
        }
        meter.tick(meter.untiled_picture())?;
    }
    Ok(sums.into_iter().map(|sum| sum / recipe.pictures_per_gop as f64).collect())
}
