//! The viewers: head movement from recordings, or generated.
//!
//! Recordings are of other videos than the clips: the head movement is real, but it is not a response to these clips.
//! The crowd is all other viewers of the recorded video.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::path::{Path, PathBuf};

use thiserror::Error;
use tributary_types::Rng;
use tributary_video::head::{Format, HeadSample, HeadTrace, ReadError, TraceError, read};
use tributary_video::prediction::{GopClock, TileView, Viewing};
use tributary_video::sphere::Orientation;
use tributary_video::tiles::TileGrid;
use tributary_video::viewport::{FieldOfView, Viewer};

/// Number of moments of a GoP at which the viewport is computed.
const MOMENTS: usize = 5;
/// Minimum length of a recording in seconds; only this much of it is used.
const RECORDED_S: f64 = 55.0;

/// Why the viewers cannot be made.
#[derive(Debug, Error)]
pub enum AudienceError {
    /// The folder cannot be read.
    #[error("{}: {source}", path.display())]
    Folder {
        /// The folder or file.
        path: PathBuf,
        /// The system's error message.
        source: std::io::Error,
    },
    /// A recording is invalid.
    #[error("{}: {source}", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        source: ReadError,
    },
    /// No video has enough recordings.
    #[error("{}: no video with two recordings of {RECORDED_S} s; give the folder with its .csv files", .0.display())]
    Nobody(PathBuf),
    /// The viewing is longer than the recordings.
    #[error("a viewing of {0} s; at most {most} s fit into the recordings", most = RECORDED_S - 2.0)]
    Long(f64),
    /// A recording is too short.
    #[error(transparent)]
    Trace(#[from] TraceError),
}

/// The viewers of one recorded video.
#[derive(Debug)]
pub struct Audience {
    /// The recorded video's name.
    pub video: String,
    traces: Vec<HeadTrace>,
}

/// One viewer of one clip.
#[derive(Clone, Debug)]
pub struct Watched {
    /// The head's movement from the first GoP on.
    pub trace: HeadTrace,
    /// Head movement of the other viewers.
    pub crowd: Vec<HeadTrace>,
    /// Head orientation in the middle of each GoP.
    pub heads: Vec<Orientation>,
    /// The clip's GoP that is shown first.
    pub first: usize,
    /// The tiles in the viewport, GoP by GoP.
    pub views: Vec<Vec<TileView>>,
}

impl Audience {
    /// The viewers recorded in a folder. Files that name the same video (`video<V>_user<U>` or `<USER>_<VIDEO>`) are
    /// grouped. Videos are sorted by name.
    ///
    /// # Errors
    /// [`AudienceError`].
    pub fn read(format: &Format, folder: &Path) -> Result<Vec<Self>, AudienceError> {
        let failed = |source| AudienceError::Folder { path: folder.to_owned(), source };
        let entries = fs::read_dir(folder).map_err(failed)?;
        let mut paths: Vec<PathBuf> = entries.filter_map(|entry| Some(entry.ok()?.path())).collect();
        paths.sort();
        let mut videos: BTreeMap<String, Vec<HeadTrace>> = BTreeMap::new();
        for path in paths.into_iter().filter(|path| path.extension().is_some_and(|ending| ending == "csv")) {
            let stem = path.file_stem().unwrap_or_default().to_string_lossy().into_owned();
            let (left, right) = stem.split_once('_').unwrap_or((&stem, "all"));
            let video = if left.starts_with("video") { left } else { right }.to_owned();
            let file =
                File::open(&path).map_err(|source| AudienceError::Folder { path: path.clone(), source })?;
            let trace = read(file, format.clone()).map_err(|source| AudienceError::Read { path, source })?;
            if trace.duration_s() >= RECORDED_S {
                videos.entry(video).or_default().push(trace);
            }
        }
        videos.retain(|_, traces| traces.len() > 1);
        if videos.is_empty() {
            return Err(AudienceError::Nobody(folder.to_owned()));
        }
        Ok(videos.into_iter().map(|(video, traces)| Self { video, traces }).collect())
    }

    /// Generated viewers, used without recordings. A head rests, with a tremor, on one of a few places that all
    /// viewers share, and turns to another place every few seconds.
    #[must_use]
    pub fn generated() -> Vec<Self> {
        (0..4).map(|video| Self { video: format!("generated-{video}"), traces: generate(video) }).collect()
    }

    /// Number of viewers.
    #[must_use]
    pub fn viewers(&self) -> usize {
        self.traces.len()
    }

    /// The audience of a video with this grid of tiles and GoPs of `gop_s` seconds.
    ///
    /// # Errors
    /// A recording is too short.
    pub fn before(&self, grid: TileGrid, gop_s: f64) -> Result<Stage<'_>, AudienceError> {
        let gops = (RECORDED_S / gop_s) as usize;
        let clock = GopClock { gop_duration_s: gop_s, gops, moments: MOMENTS };
        let eye = Viewer::new(FieldOfView::default(), grid);
        let viewings: Result<Vec<_>, _> =
            self.traces.iter().map(|trace| Viewing::of(trace, &eye, clock)).collect();
        Ok(Stage { traces: &self.traces, viewings: viewings?, clock })
    }
}

/// An audience of a video with a grid of tiles.
#[derive(Debug)]
pub struct Stage<'a> {
    traces: &'a [HeadTrace],
    viewings: Vec<Viewing>,
    clock: GopClock,
}

impl Stage<'_> {
    /// Number of viewers.
    #[must_use]
    pub fn viewers(&self) -> usize {
        self.traces.len()
    }

    /// What viewer `viewer` sees of `gops` GoPs.
    ///
    /// # Errors
    /// The recordings are too short.
    ///
    /// # Panics
    /// The viewer does not exist.
    pub fn watch(&self, viewer: usize, gops: usize) -> Result<Watched, AudienceError> {
        let GopClock { gop_duration_s, gops: recorded, .. } = self.clock;
        if gops + 2 > recorded {
            return Err(AudienceError::Long(gop_duration_s * gops as f64));
        }
        // Each viewer gets another part of the recording.
        let from = 1 + (viewer * 7) % (recorded - gops - 1);
        let cut = |trace: &HeadTrace| trace.starting_at(from as f64 * gop_duration_s);
        let others = self.traces.iter().enumerate().filter(|(other, _)| *other != viewer);
        let trace = cut(&self.traces[viewer])?;
        Ok(Watched {
            crowd: others.map(|(_, trace)| cut(trace)).collect::<Result<_, _>>()?,
            heads: (0..gops).map(|gop| trace.at((gop as f64 + 0.5) * gop_duration_s)).collect(),
            trace,
            first: 0,
            views: (from..from + gops).map(|gop| self.viewings[viewer].gop(gop).to_vec()).collect(),
        })
    }
}

fn generate(video: u64) -> Vec<HeadTrace> {
    const RATE: usize = 10;
    const VIEWERS: u64 = 30;
    let mut places = Rng::new(video + 1).child("places");
    let attractive: Vec<(f64, f64)> =
        (0..4).map(|_| (360.0 * places.uniform() - 180.0, 40.0 * places.uniform() - 25.0)).collect();
    let one = |viewer: u64| {
        let mut rng = Rng::new(video + 1).child(&format!("viewer {viewer}"));
        let (mut yaw, mut pitch, mut target) = (0.0f64, 0.0f64, (0.0, 0.0));
        let samples = (0..60 * RATE).map(|at| {
            if rng.chance(1.0 / (4.0 * RATE as f64)) {
                target = attractive[rng.below(attractive.len() as u64) as usize];
            }
            let left = (target.0 - yaw + 540.0).rem_euclid(360.0) - 180.0;
            // At most 90 degrees per second, slower near the target.
            yaw += (0.15 * left).clamp(-9.0, 9.0) + rng.normal(0.0, 1.2);
            pitch = (pitch + (0.15 * (target.1 - pitch)).clamp(-5.0, 5.0) + rng.normal(0.0, 0.6))
                .clamp(-80.0, 80.0);
            let orientation = Orientation::from_degrees(yaw, pitch, 0.0);
            HeadSample { time_s: at as f64 / RATE as f64, orientation }
        });
        HeadTrace::from_samples(samples.collect()).expect("times rise and angles are finite")
    };
    (0..VIEWERS).map(one).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use tributary_video::projection::Projection;

    #[test]
    fn viewers_get_equal_excerpts_and_view_shares_add_up() {
        let grid = TileGrid::new(6, 4, Projection::Equirectangular).unwrap();
        let audience = &Audience::generated()[0];
        let stage = audience.before(grid, 1.0).unwrap();
        for viewer in 0..3 {
            let one = stage.watch(viewer, 4).unwrap();
            assert_eq!((one.crowd.len(), one.heads.len(), one.views.len()), (audience.viewers() - 1, 4, 4));
            assert_eq!(one.heads[0], one.trace.at(0.5));
            for view in &one.views {
                assert!((view.iter().map(|tile| tile.share).sum::<f64>() - 1.0).abs() < 1e-9);
            }
        }
        assert_eq!(stage.viewers(), audience.viewers());
        assert!(matches!(stage.watch(0, 54), Err(AudienceError::Long(_))));
    }

    #[test]
    fn recordings_are_grouped_by_video_and_empty_folders_are_refused() {
        let folder = tempfile::tempdir().unwrap();
        let error = Audience::read(&Format::Plain, folder.path()).unwrap_err();
        assert!(error.to_string().contains("two recordings"), "{error}");
        let lines: String = (0..60).map(|s| format!("{s},{},0\n", s * 3 % 90)).collect();
        for name in ["video1_user1", "video1_user2", "video2_user1"] {
            let text = format!("time_s,yaw_deg,pitch_deg\n{lines}");
            fs::write(folder.path().join(format!("{name}.csv")), text).unwrap();
        }
        let found = Audience::read(&Format::Plain, folder.path()).unwrap();
        assert_eq!(
            found.iter().map(|a| (a.video.as_str(), a.viewers())).collect::<Vec<_>>(),
            [("video1", 2)]
        );
    }
}
