//! Plays for pages that show the tiles while they arrive and whose viewer moves the head.
//!
//! A viewing begins when the first page is loaded and ends when the last one has been away for a while, so that nobody's data is
//! used for nothing. When the connection is lost, another one is opened and a new viewing begins. Measures no quality.

use core::time::Duration;
use std::collections::BTreeMap;
use std::io;
use std::sync::Arc;

use tokio::sync::watch::Receiver;
use tokio::time::{Instant as Clock, sleep, timeout};
use tributary_net::PathState;
use tributary_net::proxy::PathSnapshot;
use tributary_net::transport::Connection;
use tributary_tiles::TiledVideo;
use tributary_types::Instant;
use tributary_video::sphere::Orientation;

use super::feed::{Feed, News, SlotNews, VideoNews};
use super::play::open;
use super::sample::{Reference, Sampler};
use super::view::Viewpoint;
use super::{LEAVE, PlayConfig, PlayFailure};
use crate::tiled::{End, Player, TileArrived, Viewer, play_tiles};

/// Time without a page after which the viewing ends: longer than loading a page again takes.
const AWAY: Duration = Duration::from_secs(5);
/// Pause before the next attempt to connect.
const PAUSE: Duration = Duration::from_secs(1);
/// Time between two samples of the radios.
const SAMPLE: Duration = Duration::from_secs(1);

/// Plays for the pages of `feed`, until the viewer's number of seconds has been played; without such a number it does not end. `lost` gets the
/// cause of every failed or lost connection. With `reference`, the tiled video with the source's pictures, the quality of a sample of pictures is
/// measured.
///
/// Cancellation: dropping the future ends the viewing.
pub async fn watch(
    viewpoint: &Viewpoint,
    (config, reference): (&PlayConfig, Option<TiledVideo>),
    feed: &Feed,
    mut lost: impl FnMut(&str),
) {
    let settings = viewpoint.measure_settings();
    let reference = reference.map(|video| Arc::new(Reference { video, settings }));
    for viewing in 0.. {
        feed.watched(AWAY).await;
        feed.say(&News::State { state: "connecting", cause: None });
        let cause = match one(viewpoint, (config, &reference), (feed, viewing)).await {
            Ok(Outcome::Left) => {
                if feed.pages() == 0 {
                    // Another browser may be able to decode the tiles.
                    feed.low_resolution(false);
                }
                feed.say(&News::State { state: "waiting", cause: None });
                continue;
            }
            Ok(Outcome::Over) => return feed.say(&News::State { state: "ended", cause: None }),
            Ok(Outcome::Lost(cause)) => cause,
            Err(failure) => failure.to_string(),
        };
        lost(&cause);
        feed.say(&News::State { state: "lost", cause: Some(&cause) });
        sleep(PAUSE).await;
    }
}

enum Outcome {
    Left,
    Over,
    Lost(String),
}

async fn one(
    viewpoint: &Viewpoint,
    (config, reference): (&PlayConfig, &Option<Arc<Reference>>),
    to: (&Feed, u32),
) -> Result<Outcome, PlayFailure> {
    let radios = Radios::default();
    let (connection, streams) = open(config).await?;
    let mut watching = Watching::new((&connection, radios), to, viewpoint);
    watching.sampler = reference.clone().map(Sampler::new);
    let planner = viewpoint.planner().expect("the allocator was checked");
    let (video, record) =
        play_tiles(streams, viewpoint.endless(watching.low), planner, &mut watching).await?;
    let left = watching.has_left();
    let reason = connection.close_reason();
    // The viewing is over, so the result of closing does not matter.
    let _ = timeout(LEAVE, connection.close()).await;
    match (left, record.end, reason) {
        (true, ..) => Ok(Outcome::Left),
        (_, _, Some(reason)) if video.is_none() => Err(PlayFailure::Ended(reason)),
        (_, _, Some(reason)) => Ok(Outcome::Lost(reason.to_string())),
        (_, End::Complete, None) => Ok(Outcome::Over),
        (_, End::TimedOut, None) => Ok(Outcome::Lost("the server does not answer".to_owned())),
        (_, End::Failed(cause), None) => Ok(Outcome::Lost(cause)),
    }
}

/// One viewing.
struct Watching<'a> {
    connection: &'a Connection,
    feed: &'a Feed,
    viewing: u32,
    viewpoint: &'a Viewpoint,
    sampler: Option<Sampler>,
    head: Receiver<Option<Orientation>>,
    /// Whether it is the low-resolution stream.
    low: bool,
    /// The next slot to be shown.
    next: u32,
    /// Whether the video was announced.
    began: bool,
    /// Since when there is no page.
    away: Option<Clock>,
    radios: Radios,
}

impl<'a> Watching<'a> {
    fn new(
        (connection, radios): (&'a Connection, Radios),
        (feed, viewing): (&'a Feed, u32),
        viewpoint: &'a Viewpoint,
    ) -> Self {
        let mut head = feed.head();
        // Where the viewer looks already counts, too.
        head.mark_changed();
        let sampler = None;
        Self {
            connection,
            feed,
            viewing,
            viewpoint,
            sampler,
            head,
            low: feed.is_low_resolution() || viewpoint.player().low_resolution,
            next: 0,
            began: false,
            away: None,
            radios,
        }
    }
}

impl Viewer for Watching<'_> {
    fn tile(&mut self, tile: TileArrived) -> io::Result<()> {
        self.feed.tile(&tile);
        if let Some(sampler) = &mut self.sampler {
            sampler.tile(&tile);
        }
        Ok(())
    }

    async fn head(&mut self) -> Orientation {
        loop {
            if self.head.changed().await.is_err() {
                std::future::pending::<()>().await;
            }
            if let Some(orientation) = *self.head.borrow_and_update() {
                return orientation;
            }
        }
    }

    fn turn(&mut self, player: &Player, now: Instant) -> Option<Instant> {
        self.away = if self.feed.pages() > 0 { None } else { self.away.or(Some(Clock::now())) };
        self.radios.tell(self.connection, self.feed);
        let (video, position_s) = (player.video()?, player.playback_s(now)?);
        if !self.began {
            self.began = true;
            let field = self.viewpoint.field_degrees();
            self.feed.say(&News::Video(VideoNews::new((self.viewing, self.low), video, field)));
            self.sampler.take_if(|sampler| {
                let other = self.viewpoint.same(sampler.video(), video).err();
                other.inspect(|error| tracing::warn!("the viewport is not measured: {error}")).is_some()
            });
            self.feed.say(&News::State { state: "playing", cause: None });
        }
        let gop_s = video.layout.gop_duration_s;
        let ahead_s = |slot: u32| f64::from(slot) * gop_s - position_s;
        while ahead_s(self.next) <= 0.0 {
            let tiles = video.layout.grid.tiles();
            // Without a record of the slot, a live source is late.
            let Some(record) = player.slot(self.next) else { return Some(now + SAMPLE) };
            let before = self.next.checked_sub(1).and_then(|before| player.slot(before));
            let waited_s = player.waited().as_secs_f64();
            self.feed
                .say(&News::Slot(SlotNews { waited_s, ..SlotNews::new(record, before, position_s, tiles) }));
            if let Some(sampler) = &mut self.sampler {
                let pose = self.head.borrow().unwrap_or_default();
                sampler.begin((self.next, record.gop), pose, self.feed);
            }
            self.next += 1;
        }
        Some(now + Duration::from_secs_f64(ahead_s(self.next).max(1e-3)))
    }

    fn has_left(&self) -> bool {
        // Another viewing has the low-resolution stream.
        self.away.is_some_and(|since| since.elapsed() >= AWAY) || self.feed.is_low_resolution() && !self.low
    }
}

/// The paths of a connection as `docs/guide/status.md` describes them, with their rates since the last look.
#[derive(Debug)]
pub struct Radios {
    /// When the connection was opened.
    began: Clock,
    sampled: Option<Clock>,
    /// Bytes sent and received, by name.
    counters: BTreeMap<String, (u64, u64)>,
}

impl Default for Radios {
    fn default() -> Self {
        Self { began: Clock::now(), sampled: None, counters: BTreeMap::new() }
    }
}

impl Radios {
    /// Looks at the paths, at most once a second; `None` before a second is over.
    pub fn look(&mut self, connection: &Connection) -> Option<Vec<PathSnapshot>> {
        let now = Clock::now();
        let seconds = self.sampled.map(|last| (now - last).as_secs_f64());
        if seconds.is_some_and(|seconds| seconds < SAMPLE.as_secs_f64()) {
            return None;
        }
        self.sampled = Some(now);
        let mut radios = snapshots(connection, now - self.began);
        let mut counters = BTreeMap::new();
        for radio in &mut radios {
            let before = self.counters.get(&radio.radio).copied().zip(seconds);
            if let Some(((sent, received), seconds)) = before {
                let mbps = |bytes: u64| bytes as f64 * 8e-6 / seconds;
                radio.send_mbps = mbps(radio.sent.saturating_sub(sent));
                radio.receive_mbps = mbps(radio.received.saturating_sub(received));
            }
            counters.insert(radio.radio.clone(), (radio.sent, radio.received));
        }
        self.counters = counters;
        Some(radios)
    }

    fn tell(&mut self, connection: &Connection, feed: &Feed) {
        if let Some(radios) = self.look(connection) {
            feed.say(&News::Radios { radios: &radios });
        }
    }
}

/// The paths of a connection of this age, without rates.
fn snapshots(connection: &Connection, age: Duration) -> Vec<PathSnapshot> {
    let blank = |path: u8, radio: String| PathSnapshot {
        path,
        radio,
        state: PathState::Up,
        cause: None,
        since_s: 0.0,
        protocol: None,
        rtt_ms: None,
        loss: None,
        send_mbps: 0.0,
        receive_mbps: 0.0,
        sent: 0,
        received: 0,
        cap_mbps: None,
    };
    let Some(session) = connection.session() else {
        let path = |(number, path): (usize, tributary_net::transport::PathStats)| PathSnapshot {
            rtt_ms: Some(path.rtt.as_secs_f64() * 1e3),
            sent: path.delivered,
            received: path.received,
            ..blank(number as u8, path.name)
        };
        return connection.stats().paths.into_iter().enumerate().map(path).collect();
    };
    let stats = session.stats();
    let path = |path: tributary_net::PathStatus| {
        let newest = stats.kernel.iter().rfind(|subflow| subflow.path == path.path);
        PathSnapshot {
            state: path.state,
            cause: path.cause,
            since_s: age.saturating_sub(path.since).as_secs_f64(),
            protocol: newest.map(|subflow| subflow.protocol),
            rtt_ms: newest.map(|subflow| subflow.tcp.rtt.as_secs_f64() * 1e3),
            sent: path.sent,
            received: path.received,
            cap_mbps: path.cap.map(tributary_net::Bitrate::as_mbps_f64),
            ..blank(path.path.0, path.name)
        }
    };
    stats.paths.clone().into_iter().map(path).collect()
}
