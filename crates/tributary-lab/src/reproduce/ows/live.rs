//! A viewing on real sockets through the emulator, and the same viewing in the simulator: the same clip, head, other
//! viewers, network, player settings and allocator.
//!
//! Tiles that arrived in time are decoded and measured the same way on both sides (`tributary_stream::viewing::measure`), so
//! differences come from the transfer. The simulated viewing is also measured from the table, like the simulator's
//! own cells. Both ends are the program's own commands, `stream serve` and `stream play`.

use core::fmt::Write as _;
use core::time::Duration;
use std::path::{Path, PathBuf};

use tributary_stream::tiled::{TileArrived, TiledRecord};
use tributary_tiles::TiledVideo;
use tributary_video::head::HeadTrace;

use super::OwsError;
use super::scene;
use super::viewing::{Seen, Task, UPDATED, plans};
use crate::audits;
use crate::demo::{TiledDemoError, TiledSettings, play_emulated};
use crate::reproduce::sample::Sample;
use crate::result::AuditNote;
use tributary_stream::viewing::{Played, Spool, ViewerConfig, Viewpoint, measure};

/// Metrics that are measured on both viewings; those of the simulated one have the prefix `simulated_`.
const BOTH: [&str; 4] = ["quality", "late", "left_out", "in_time"];

impl Task {
    /// Plays live, up to `attempts` times until the emulator's audit is valid, and in the simulator.
    pub(super) fn live(&self, attempts: u32) -> Result<Sample, OwsError> {
        let Some(directory) = self.clip.directory() else {
            return Err(OwsError::NoTiles(self.clip.info.name.clone()));
        };
        let files = tempfile::tempdir().map_err(TiledDemoError::from)?;
        let settings = self.settings(directory, files.path())?;
        let viewpoint = Viewpoint::new(settings.viewer.clone()).map_err(TiledDemoError::from)?;
        let video = TiledVideo::open(directory).map_err(TiledDemoError::from)?;
        let (mut played, audit) = self.exact(&settings, files.path(), attempts)?;
        let record = &played.viewing.record;
        let mut sample = self.report(&looked_at(&video, record, &mut played.spool, &viewpoint)?)?;
        let start_up = record.start_up_ms.map(|start| (start - record.gop_ms) / record.rtt_ms.max(1e-3));
        sample.set("start_up", start_up);
        sample.audit = Some(audit);

        let simulated = self.outcome(Duration::ZERO)?.record;
        let mut spool = spooled(&video, &simulated)?;
        let decoded = self.report(&looked_at(&video, &simulated, &mut spool, &viewpoint)?)?;
        sample.add_simulated(&decoded, &BOTH);
        let composed: Vec<Seen> = self.composed(&simulated).iter().map(|shown| shown.seen).collect();
        let composed = self.report(&composed)?;
        sample.set("composed_quality", composed.first("quality"));
        Ok(sample)
    }

    fn settings(&self, directory: &Path, files: &Path) -> Result<TiledSettings, OwsError> {
        let gops = self.watched.views.len() as f64;
        let seconds = (gops * self.clip.gop_s()) as u32;
        let write = |(number, trace)| write_trace(&files.join(format!("viewer-{number}.csv")), trace);
        let traces = std::iter::once(&self.watched.trace).chain(&self.watched.crowd);
        let written: Result<Vec<PathBuf>, _> = traces.enumerate().map(write).collect();
        let mut written = written.map_err(TiledDemoError::from)?.into_iter();
        let viewer = ViewerConfig {
            allocator: product_name(&self.allocator).to_owned(),
            head: written.next().map(|head| (head, "plain".to_owned())),
            crowd: written.collect(),
            concealment: self.concealment,
            assumed: self.assumed,
            plans: Some(plans(&self.allocator)),
            ..ViewerConfig::default()
        };
        let scenario = self.scene.network(self.viewing, Duration::ZERO);
        let congestion = scene::CONGESTION.to_owned();
        let (directory, command) = (directory.to_owned(), String::new());
        Ok(TiledSettings { scenario, directory, viewer, seconds, congestion, command })
    }

    /// Plays until the emulator's audit is valid, or keeps the last attempt.
    fn exact(
        &self,
        settings: &TiledSettings,
        files: &Path,
        attempts: u32,
    ) -> Result<(Played, AuditNote), OwsError> {
        let chain = (settings.viewer.allocator.as_str(), product_transport(&self.transport));
        audits::exact(attempts, || Ok(play_emulated(settings, chain, files)?))
    }
}

/// The allocator's name in the product's player, where the number of plans is a separate setting.
pub(super) fn product_name(allocator: &str) -> &str {
    if allocator == UPDATED { "ows" } else { allocator }
}

/// The transport's name in `stream serve` and `stream play`: `fbdt` is the default scheduler of a session.
fn product_transport(transport: &str) -> &str {
    if transport == "fbdt" { "session" } else { transport }
}

/// Writes the head movement in the plain format, with full precision.
fn write_trace(path: &Path, trace: &HeadTrace) -> std::io::Result<PathBuf> {
    let mut text = "time_s,yaw_deg,pitch_deg,roll_deg\n".to_owned();
    for sample in trace.samples() {
        let [yaw, pitch, roll] =
            [sample.orientation.yaw, sample.orientation.pitch, sample.orientation.roll].map(f64::to_degrees);
        // Writing into a string cannot fail.
        let _ = writeln!(text, "{},{yaw},{pitch},{roll}", sample.time_s);
    }
    std::fs::write(path, text)?;
    Ok(path.to_owned())
}

/// The tiles that were in time in a simulated viewing, with their bytes on disk.
fn spooled(video: &TiledVideo, record: &TiledRecord) -> Result<Spool, TiledDemoError> {
    let mut spool = Spool::temporary()?;
    for slot in &record.slots {
        for arrived in slot.arrived.iter().filter(|arrived| arrived.in_time) {
            let (tile, quality) = (usize::from(arrived.tile), usize::from(arrived.quality));
            spool.push(&TileArrived {
                slot: slot.slot,
                gop: slot.gop,
                tile: arrived.tile,
                quality: arrived.quality,
                in_time: true,
                init: Some(video.init(tile, quality)?.to_vec().into()),
                segment: video.segment(slot.gop as usize, tile, quality)?.into(),
            })?;
        }
    }
    Ok(spool)
}

/// The viewer's quality of each GoP, from decoded pictures.
fn looked_at(
    video: &TiledVideo,
    record: &TiledRecord,
    spool: &mut Spool,
    viewpoint: &Viewpoint,
) -> Result<Vec<Seen>, TiledDemoError> {
    let (trace, settings) = (viewpoint.trace(), viewpoint.measure_settings());
    let measured = measure((video, record), spool, trace, settings, &mut |_| ())
        .map_err(tributary_stream::viewing::ViewError::from)?;
    let seen = measured.gops.iter().zip(&record.slots).map(|(gop, slot)| Seen {
        mse: gop.viewport_mse,
        late: gop.late_share,
        left_out: gop.left_out_share,
        bytes_in_time: slot.bytes_in_time(),
    });
    Ok(seen.collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use tributary_video::head::{Format, HeadSample, read};
    use tributary_video::sphere::Orientation;

    #[test]
    fn a_written_trace_is_read_back_as_it_was() {
        let directory = tempfile::tempdir().unwrap();
        let samples = (0..20).map(|at| HeadSample {
            time_s: f64::from(at) / 7.0,
            orientation: Orientation::from_degrees(
                f64::from(at) * 17.3 - 150.0,
                f64::from(at) / 3.0,
                -f64::from(at) / 9.0,
            ),
        });
        let trace = HeadTrace::from_samples(samples.collect()).unwrap();
        let path = write_trace(&directory.path().join("viewer.csv"), &trace).unwrap();
        let again = read(std::fs::File::open(path).unwrap(), Format::Plain).unwrap();
        assert_eq!(again.samples().len(), trace.samples().len());
        for step in 0..60 {
            let at = f64::from(step) * 0.05;
            assert!(again.at(at).ahead().angle_to(trace.at(at).ahead()) < 1e-12);
        }
    }
}
