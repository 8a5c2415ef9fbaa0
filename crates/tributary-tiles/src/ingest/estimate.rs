//! Estimates duration and size of an ingest: encodes a few untiled pictures from the middle of the video with
//! the settings of the tiles.
//!
//! Only an estimate: video content changes, and the machine may have other load. Factors that are not
//! measured are constants here.

use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use super::recipe::Recipe;
use super::reference;
use super::watch::Estimate;
use crate::gop;
use crate::program::{self, name_of};

/// Pictures of the sample: one I-picture, the rest P-pictures.
const PICTURES: usize = 4;
/// Duration of an ingest relative to decoding and encoding its pictures once. The rest is decoding the
/// reference and the tiles, measuring, and one untiled GoP in ten. Measured with 2K and 4K video.
const MORE_TIME: f64 = 1.35;
/// Bytes of tiles relative to the same untiled pictures, without containers.
const MORE_BYTES: f64 = 1.1;
/// H.264 NAL types: slices of an I-picture that begins a GoP.
const IDR_SLICE: u8 = 5;
const OTHER_SLICE: u8 = 1;

/// Encodes the sample; `None` if the file has no pictures there.
pub(super) fn estimate(source: &std::path::Path, recipe: &Recipe, jobs: usize) -> Option<Estimate> {
    let scratch = tempfile::tempdir().ok()?;
    let names: Vec<_> = (0..=recipe.qps.len()).map(|n| scratch.path().join(format!("{n}.h264"))).collect();
    let mut command = Command::new("ffmpeg");
    command.args(["-nostdin", "-v", "error", "-protocol_whitelist", "file,pipe", "-threads", "1"]);
    let middle = recipe.rate.seconds_of(recipe.gops / 2 * recipe.pictures_per_gop);
    command
        .args(["-noaccurate_seek", "-ss", &middle.to_string(), "-noautorotate", "-i"])
        .arg(name_of(source));
    let ends: String = (0..names.len()).map(|n| format!("[o{n}]")).collect();
    let graph = format!("[0:V:0]{},split={}{ends}", reference::filter(recipe), names.len());
    command.args(["-filter_complex_threads", "1", "-filter_complex", &graph]);
    for (n, name) in names.iter().enumerate() {
        command.args(["-map", &format!("[o{n}]"), "-frames:v", &PICTURES.to_string()]);
        command.args(["-fps_mode", "passthrough"]);
        match n.checked_sub(1).map(|index| recipe.qps[index]) {
            Some(qp) => command.args(recipe.encoder().arguments(qp)),
            None => command.args(reference::encoder(recipe, 1)),
        };
        command.arg(name_of(name));
    }
    command.stdin(Stdio::null());
    let began = Instant::now();
    program::run("ffmpeg", &mut command, b"").ok()?;
    let took = began.elapsed().as_secs_f64();
    let mut bytes = 0.0;
    let mut pictures = 0;
    for (n, name) in names.iter().enumerate() {
        let stream = std::fs::read(name).ok()?;
        let more = if n == 0 { 1.0 } else { MORE_BYTES };
        bytes += more * bytes_of_gop(&stream, recipe.pictures_per_gop)?;
        pictures = gop::split(&stream).iter().map(|gop| gop.pictures as usize).sum();
    }
    // Container overhead per segment: 100 bytes plus 4 per picture.
    let boxes = recipe.grid.tiles() * recipe.qps.len() * (100 + 4 * recipe.pictures_per_gop);
    let all = recipe.gops * recipe.pictures_per_gop;
    let seconds = took / pictures.max(1) as f64 * all as f64 * MORE_TIME / jobs as f64;
    Some(Estimate {
        pictures: all,
        size: recipe.size,
        jobs,
        time: Duration::try_from_secs_f64(seconds).ok()?,
        bytes: ((bytes + boxes as f64) * recipe.gops as f64) as u64,
    })
}

/// Estimated bytes of a GoP of `pictures` pictures like those of `stream`, which has one I-picture.
fn bytes_of_gop(stream: &[u8], pictures: usize) -> Option<f64> {
    let (mut first, mut others, mut count) = (0, 0, 0);
    for unit in gop::units(stream) {
        match unit[0] & 0x1f {
            IDR_SLICE => first += unit.len(),
            OTHER_SLICE => (others, count) = (others + unit.len(), count + 1),
            _ => {}
        }
    }
    let each = if count > 0 { others as f64 / f64::from(count) } else { first as f64 };
    (first > 0).then(|| first as f64 + each * (pictures - 1) as f64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_gop_is_one_i_picture_and_the_mean_of_the_others() {
        let unit = |kind: u8, length: usize| [&[0, 0, 1, kind][..], &vec![7; length - 1]].concat();
        let stream = [unit(0x67, 9), unit(0x65, 100), unit(0x41, 10), unit(0x41, 30)].concat();
        assert_eq!(bytes_of_gop(&stream, 5), Some(100.0 + 4.0 * 20.0));
        assert_eq!(bytes_of_gop(&unit(0x65, 100), 3), Some(300.0));
        assert_eq!(bytes_of_gop(&unit(0x41, 100), 3), None);
    }
}
