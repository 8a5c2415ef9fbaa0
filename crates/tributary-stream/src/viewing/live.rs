//! A live source for a server: runs it on a thread of its own and keeps its newest GoPs. Not here: reading and encoding
//! (`tributary_tiles::live`).

use core::time::Duration;
use std::io;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Instant;

use bytes::Bytes;
use serde::Serialize;
use tokio::time::timeout;
use tributary_tiles::live::{Event, Live, LiveGop, LiveTiles, Shape, Stop};
use tributary_video::rd::{RdTable, TableError, TableLayout, TileCells};
use tributary_video::tiles::TileGrid;

use crate::tiled::{LIVE, LiveEnd, LiveGops, TileSource, Video};

/// Least time between two warnings that encoding is too slow.
const WARNING: Duration = Duration::from_secs(5);
/// Time without a GoP after which a source counts as silent: more than twice that of the longest GoP.
const SILENCE: Duration = Duration::from_secs(5);

/// A live video. Clones share it; with the last one, the source ends.
#[derive(Clone, Debug)]
pub struct LiveVideo {
    shared: Arc<Shared>,
    /// Whether this is its low-resolution stream.
    is_low: bool,
    _ends: Arc<Ends>,
}

#[derive(Debug)]
struct Shared {
    /// As many tiles and qualities as the video, and nothing else of it.
    table: RdTable,
    /// The same of the low-resolution stream.
    low_table: RdTable,
    shape: OnceLock<Shape>,
    gops: LiveGops,
    status: Mutex<LiveStatus>,
    stop: Stop,
}

/// Ends the source when it is dropped.
#[derive(Debug)]
struct Ends(Stop);

impl Drop for Ends {
    fn drop(&mut self) {
        self.0.stop();
    }
}

/// A live source as `docs/guide/status.md` describes it.
#[derive(Clone, Debug, Serialize)]
pub struct LiveStatus {
    /// The source.
    pub source: String,
    /// One of `waiting` (no picture yet), `live`, `silent` (it sends nothing), `away` (its sender has left, and
    /// another is waited for), `ended`, `failed`.
    pub state: &'static str,
    /// GoPs encoded.
    pub gops: u64,
    /// GoPs of the source that were left out, because encoding was slower than the source.
    pub gops_left_out: u64,
    /// Time that encoding the last GoP took, as a share of its duration.
    pub encoding_share: f64,
}

impl LiveVideo {
    /// A source that has not begun.
    ///
    /// # Errors
    /// Too many tiles or qualities.
    pub fn new(live: &Live) -> Result<Self, TableError> {
        let (low_grid, low_qps) = live.low();
        let status = LiveStatus {
            source: live.input().to_string(),
            state: "waiting",
            gops: 0,
            gops_left_out: 0,
            encoding_share: 0.0,
        };
        let stop = Stop::default();
        let shared = Shared {
            table: table(live.grid(), live.qps())?,
            low_table: table(low_grid, &low_qps)?,
            shape: OnceLock::new(),
            gops: LiveGops::default(),
            status: Mutex::new(status),
            stop: stop.clone(),
        };
        Ok(Self { shared: Arc::new(shared), is_low: false, _ends: Arc::new(Ends(stop)) })
    }

    /// Opens the source and waits for its first GoP.
    ///
    /// Cancellation: when the future is dropped, the source stays open until the last clone of `self` is dropped.
    ///
    /// # Errors
    /// The source's, as text.
    pub async fn begin(&self, live: Live) -> Result<(), String> {
        tracing::info!("waiting for the first pictures of {}", live.input());
        let shared = self.shared.clone();
        let run = move || {
            let warned = Mutex::new(None);
            let end = match live.run(&shared.stop, &|event| shared.take(event, &warned)) {
                Ok(()) => LiveEnd::Complete,
                Err(error) => LiveEnd::Failed(error.to_string()),
            };
            shared.status().state = if end == LiveEnd::Complete { "ended" } else { "failed" };
            shared.gops.end(end);
        };
        std::thread::Builder::new().name("live".to_owned()).spawn(run).map_err(|error| error.to_string())?;
        let mut changes = self.shared.gops.changes();
        while self.shared.gops.newest().is_none() {
            match self.shared.gops.ended() {
                Some(LiveEnd::Failed(reason)) => return Err(reason),
                Some(LiveEnd::Complete) => {
                    return Err(format!("the source {} has less than one GoP", self.status().source));
                }
                // The sender is in `self`.
                None => drop(changes.changed().await),
            }
        }
        Ok(())
    }

    /// Waits for the end of the source; meanwhile the log says when it sends nothing.
    ///
    /// Cancellation: safe, it only watches.
    pub async fn ended(&self) -> LiveEnd {
        let mut changes = self.shared.gops.changes();
        loop {
            if let Some(end) = self.shared.gops.ended() {
                return end;
            }
            if timeout(SILENCE, changes.changed()).await.is_err() {
                self.shared.miss();
            }
        }
    }

    /// The source's state.
    #[must_use]
    pub fn status(&self) -> LiveStatus {
        self.shared.status().clone()
    }

    fn part(
        &self,
        gop: Option<Arc<LiveGop>>,
        of: impl Fn(&LiveTiles) -> Option<&Vec<u8>>,
    ) -> io::Result<Bytes> {
        let tiles = gop.as_ref().and_then(|gop| gop.of(self.is_low));
        let bytes = tiles.and_then(of).map(|bytes| Bytes::copy_from_slice(bytes));
        bytes.ok_or_else(|| io::ErrorKind::NotFound.into())
    }
}

fn table(grid: TileGrid, qps: &[u8]) -> Result<RdTable, TableError> {
    let qps = qps.to_vec();
    let zeros =
        TileCells { bytes: vec![0; qps.len()], mse: vec![0.0; qps.len()], freeze_mse: 0.0, black_mse: 0.0 };
    let layout = TableLayout { grid, width: grid.columns(), height: grid.rows(), gop_duration_s: 1.0, qps };
    RdTable::new(layout, vec![zeros; grid.tiles()])
}

impl Shared {
    fn status(&self) -> MutexGuard<'_, LiveStatus> {
        self.status.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Nothing has come for a while.
    fn miss(&self) {
        let mut status = self.status();
        if status.state == "live" {
            status.state = "silent";
            tracing::warn!(
                "{} has sent nothing for {} s; viewers see its last picture. Look at its sender; if that is gone, start this server again",
                status.source,
                SILENCE.as_secs()
            );
        }
    }

    fn take(&self, event: Event, warned: &Mutex<Option<Instant>>) {
        let mut status = self.status();
        match event {
            Event::Began(shape) => {
                // It is the same for all senders.
                let _ = self.shape.set(shape);
                let (width, height) = shape.size;
                tracing::info!("{}: {width}×{height}, {} pictures a second", status.source, shape.rate);
            }
            Event::Gop(gop) => {
                status.state = "live";
                status.gops += 1;
                let gop_s = self.shape.get().map_or(1.0, Shape::gop_s);
                status.encoding_share = gop.encoding_s / gop_s;
                drop(status);
                self.gops.push(gop);
            }
            Event::LeftOut => {
                status.gops_left_out += 1;
                let mut warned = warned.lock().unwrap_or_else(PoisonError::into_inner);
                if warned.is_none_or(|at| at.elapsed() >= WARNING) {
                    *warned = Some(Instant::now());
                    tracing::warn!(
                        "encoding is slower than {}: {} GoPs of it were left out so far; give fewer --qps, a smaller --size or a \
                         lower --rate",
                        status.source,
                        status.gops_left_out
                    );
                }
            }
            Event::Away(reason) => {
                status.state = "away";
                let reason = reason.map(|reason| format!(" ({reason})")).unwrap_or_default();
                tracing::warn!("the sender of {} has left{reason}; waiting for the next", status.source);
            }
        }
    }
}

impl TileSource for LiveVideo {
    fn table(&self) -> &RdTable {
        if self.is_low { &self.shared.low_table } else { &self.shared.table }
    }

    fn video(&self) -> Video {
        let mut layout = self.table().layout().clone();
        if let Some(shape) = self.shared.shape.get() {
            (layout.width, layout.height) = shape.low.filter(|_| self.is_low).unwrap_or(shape.size);
            layout.gop_duration_s = shape.gop_s();
        }
        Video { layout, gops: LIVE, sound: None, low_resolution: false }
    }

    fn live(&self) -> Option<&LiveGops> {
        Some(&self.shared.gops)
    }

    fn init(&self, tile: usize, quality: usize) -> io::Result<Bytes> {
        self.part(self.shared.gops.any(), |gop| gop.inits.get(tile)?.get(quality))
    }

    fn segment(&self, gop: usize, tile: usize, quality: usize) -> io::Result<Bytes> {
        let kept = u32::try_from(gop).ok().and_then(|gop| self.shared.gops.gop(gop));
        self.part(kept, |gop| gop.segments.get(tile)?.get(quality))
    }

    fn low_resolution(&self) -> Option<Arc<dyn TileSource>> {
        self.shared.shape.get()?.low.filter(|_| !self.is_low)?;
        Some(Arc::new(Self { is_low: true, ..self.clone() }))
    }
}

#[cfg(test)]
mod tests {
    use tributary_tiles::ingest::Settings;
    use tributary_tiles::source::Eyes;
    use tributary_video::projection::Projection;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_source_that_sends_nothing_is_silent_until_its_next_gop() {
        let settings = Settings {
            grid: TileGrid::new(1, 1, Projection::Equirectangular).unwrap(),
            qps: vec![30],
            size: None,
            seconds: None,
            rate: None,
            eyes: Eyes::Left,
            any_aspect: false,
            preset: "ultrafast".to_owned(),
            sound: false,
            jobs: None,
        };
        let live = Live::new("rtmp://127.0.0.1/live/a".parse().unwrap(), settings, 0.5).unwrap();
        let video = LiveVideo::new(&live).unwrap();
        let gop = |number| {
            let tiles = LiveTiles { cells: Vec::new(), inits: Vec::new(), segments: Vec::new() };
            let gop = LiveGop { number, tiles, low: None, encoding_s: 0.1 };
            video.shared.take(Event::Gop(gop), &Mutex::default());
        };
        // Before its first picture it is waited for.
        assert!(timeout(2 * SILENCE, video.ended()).await.is_err());
        assert_eq!(video.status().state, "waiting");
        gop(0);
        assert!(timeout(SILENCE / 2, video.ended()).await.is_err());
        assert_eq!(video.status().state, "live");
        assert!(timeout(2 * SILENCE, video.ended()).await.is_err());
        assert_eq!(video.status().state, "silent");
        gop(1);
        assert_eq!((video.status().state, video.status().gops), ("live", 2));
        // Only the newest are kept.
        (2..100).for_each(gop);
        let kept: Vec<u32> = (0..100).filter(|number| video.shared.gops.gop(*number).is_some()).collect();
        assert_eq!(kept, (92..100).collect::<Vec<u32>>());
    }
}
