//! The live source of `tributary stream serve`: its flags, and how the server begins and ends with it.

use std::time::Duration;

use anyhow::{Result, bail};
use clap::Args;
use tributary_stream::tiled::LiveEnd;
use tributary_stream::viewing::{LiveVideo, Viewers};
use tributary_tiles::FrameRate;
use tributary_tiles::ingest::{self, Settings};
use tributary_tiles::live::{Input, Live};
use tributary_tiles::source::Eyes;
use tributary_video::tiles::TileGrid;

use crate::commands::ingest::{grid, size};

/// Time for viewers to play what they have when the source has ended.
const LAST_GOPS: Duration = Duration::from_secs(30);
/// Time for viewers to learn that the source has failed.
const FAREWELL: Duration = Duration::from_secs(3);

/// A live source, in place of a directory.
#[derive(Debug, Args)]
pub(crate) struct LiveArguments {
    /// Live source: rtmp://HOST:PORT/APP/NAME, srt://HOST:PORT, a camera such as /dev/video0, or a video file at its own speed
    ///
    /// With ?mode=listener a stream is not fetched but waited for, and when its sender leaves, the next one is.
    #[arg(long, value_name = "INPUT", conflicts_with = "directory")]
    pub(crate) source: Option<String>,
    /// Tiles across and down, of the live source
    #[arg(long, default_value = "4x2", value_parser = grid, conflicts_with = "directory")]
    grid: TileGrid,
    /// Quantisation parameters of the live source, from 1 (finest) to 51; each costs an encoder
    #[arg(long, value_delimiter = ',', default_value = "27,37", conflicts_with = "directory")]
    qps: Vec<u8>,
    /// Seconds of a GoP of the live source, 0.1 to 2, to the nearest whole picture
    #[arg(long, value_name = "SECONDS", default_value = "0.5", value_parser = gop, conflicts_with = "directory")]
    gop: f64,
    /// Scale the live source's pictures to this size [default: as they are]
    #[arg(long, value_name = "WxH", value_parser = size, conflicts_with = "directory")]
    size: Option<(usize, usize)>,
    /// Pictures a second of the live source, as 30 or 30000/1001; others are dropped or repeated [default: the source's]
    #[arg(long, conflicts_with = "directory")]
    rate: Option<FrameRate>,
    /// Accept a live source whose picture is not twice as wide as high
    #[arg(long, conflicts_with = "directory")]
    any_aspect: bool,
    /// libx264's preset for the live source
    #[arg(long, default_value = "ultrafast", value_parser = ingest::PRESETS, conflicts_with = "directory")]
    preset: String,
    /// Leave the live source's low-resolution stream out: 640 pixels wide, for browsers that cannot decode the tiles
    #[arg(long, conflicts_with = "directory")]
    no_low_resolution: bool,
}

fn gop(text: &str) -> Result<f64, String> {
    let seconds = text.parse().ok().filter(|seconds| (0.1..=2.0).contains(seconds));
    seconds.ok_or_else(|| format!("`{text}` is not the duration of a GoP; write 0.1 to 2 seconds"))
}

impl LiveArguments {
    /// The source, checked as far as it can be before it is opened; `None` without one.
    pub(super) fn live(&self) -> Result<Option<Live>> {
        let Some(source) = &self.source else { return Ok(None) };
        let input: Input = source.parse()?;
        let mut qps = self.qps.clone();
        qps.sort_unstable();
        let settings = Settings {
            grid: self.grid,
            eyes: Eyes::Left,
            qps,
            size: self.size,
            seconds: None,
            rate: self.rate,
            any_aspect: self.any_aspect,
            preset: self.preset.clone(),
            sound: false,
            jobs: None,
        };
        let live = Live::new(input, settings, self.gop)?;
        Ok(Some(if self.no_low_resolution { live.without_low_resolution() } else { live }))
    }
}

/// Runs until the source has ended and the viewers have seen it.
pub(super) async fn follow(video: &LiveVideo, viewers: &Viewers) -> Result<()> {
    match video.ended().await {
        LiveEnd::Complete => {
            tracing::info!("the source has ended; the server ends when its viewers have seen it");
            let _ = tokio::time::timeout(LAST_GOPS, viewers.empty()).await;
            Ok(())
        }
        LiveEnd::Failed(reason) => {
            let _ = tokio::time::timeout(FAREWELL, viewers.empty()).await;
            bail!(reason)
        }
    }
}
