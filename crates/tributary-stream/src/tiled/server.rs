//! Drives a [`Pusher`] on real streams: reads plans, reads tiles from disk, pushes them.
//!
//! The server reads plans even while a tile waits for room, so a newer plan can replace everything except that tile.
//! Inactive clients are disconnected.

use core::time::Duration;
use std::io;
use std::sync::Arc;

use bytes::Bytes;
use thiserror::Error;
use tokio::io::{AsyncRead, AsyncReadExt};
use tokio::sync::watch;
use tokio::time::{Instant as Clock, timeout, timeout_at};
use tributary_player::tiled::{
    Account, PushCounters, PushError, Pusher, SOUND, SoundFormat, TileOrder, Transmit, Video,
};
use tributary_types::Instant;
use tributary_video::rd::RdTable;

use super::live::{LiveEnd, LiveGops};
use super::outlet::{Outlet, Pushed};

/// Time limit for a client to send a whole message, or to read one of the server's messages.
const PATIENCE: Duration = Duration::from_secs(30);
/// Time limit, after the client's end message, for reading the last tiles and sending the client's report.
pub(super) const FAREWELL: Duration = Duration::from_secs(3);
/// Bytes of plans read at once.
const READ: usize = 16 << 10;

/// A tiled video that can be served.
pub trait TileSource: Send + Sync + 'static {
    /// Sizes and errors of every tile; of a live video, any table with as many tiles and qualities.
    fn table(&self) -> &RdTable;

    /// The video's description.
    fn video(&self) -> Video {
        let table = self.table();
        let gops = u32::try_from(table.gops()).unwrap_or(u32::MAX - 1);
        let sound = self.sound().map(|(format, _)| format);
        Video { layout: table.layout().clone(), gops, sound, low_resolution: false }
    }

    /// The GoPs of a video that is made while it is served; a GoP that is no longer kept is not found.
    fn live(&self) -> Option<&LiveGops> {
        None
    }

    /// The initialisation segment of a tile in a quality.
    ///
    /// # Errors
    /// It cannot be read.
    fn init(&self, tile: usize, quality: usize) -> io::Result<Bytes>;

    /// The media segment of a tile of a GoP in a quality.
    ///
    /// # Errors
    /// It cannot be read.
    fn segment(&self, gop: usize, tile: usize, quality: usize) -> io::Result<Bytes>;

    /// The sound, and the bytes of each GoP's segment, 0 for a GoP without any; `None` for a video without sound.
    fn sound(&self) -> Option<(SoundFormat, Vec<u32>)> {
        None
    }

    /// The initialisation segment of the sound.
    ///
    /// # Errors
    /// There is none, or it cannot be read.
    fn sound_init(&self) -> io::Result<Bytes> {
        Err(io::ErrorKind::NotFound.into())
    }

    /// The media segment of a GoP's sound.
    ///
    /// # Errors
    /// There is none, or it cannot be read.
    fn sound_segment(&self, _gop: usize) -> io::Result<Bytes> {
        Err(io::ErrorKind::NotFound.into())
    }

    /// The low-resolution stream, as a video of its own with as many GoPs; `None` for a video without one.
    fn low_resolution(&self) -> Option<Arc<dyn TileSource>> {
        None
    }
}

/// Why a client was disconnected.
#[derive(Debug, Error)]
pub enum ServeTilesError {
    /// The client broke the protocol.
    #[error(transparent)]
    Client(#[from] PushError),
    /// The stream broke.
    #[error("the stream to the client broke: {0}")]
    Stream(#[from] io::Error),
    /// The video on disk does not match its table.
    #[error("GoP {gop}, {} cannot be served: {source}", named(*tile, *quality))]
    Source {
        /// The GoP.
        gop: u32,
        /// The tile, or [`SOUND`].
        tile: u16,
        /// The quality.
        quality: u8,
        /// The cause.
        source: io::Error,
    },
    /// The live source failed.
    #[error("{0}")]
    Live(String),
    /// The client was inactive for too long.
    #[error("the client sent no request and read nothing for {} seconds", PATIENCE.as_secs())]
    Idle,
}

/// Result of serving one client.
#[derive(Debug)]
pub struct ServedTiles {
    /// Counters of the requested tiles.
    pub counters: PushCounters,
    /// Counters of both ends; `None` when the client left without a report.
    pub account: Option<Account>,
    /// Whether the client ended the viewing in order.
    pub outcome: Result<(), ServeTilesError>,
}

/// Serves one client until it reports what arrived or ends its stream. A client that breaks the protocol, or
/// requests a tile that cannot be read, gets an error message and is disconnected.
///
/// Cancellation: dropping the future drops both streams, perhaps within a message, and the counters are lost.
pub async fn serve_tiles<R, O, S>(mut plans: R, mut outlet: O, source: Arc<S>) -> ServedTiles
where
    R: AsyncRead + Unpin,
    O: Outlet,
    S: TileSource,
{
    let source: Arc<dyn TileSource> = source;
    let low = source.low_resolution();
    let (video, sound) = described(&*source);
    let pusher = Pusher::new(video).with_sound(sound);
    let mut serving = Serving {
        pusher: pusher.with_low_resolution(low.as_deref().map(described)),
        live: source.live().map(|live| Following {
            next: None,
            told: false,
            changes: live.changes(),
            at: None,
        }),
        origin: Clock::now(),
        pushed: None,
        ended: None,
        buffer: vec![0; READ],
    };
    let mut outcome = serving.run(&mut plans, &mut outlet, (&source, low.as_ref())).await;
    let has_ended = serving.pusher.has_ended();
    if has_ended && matches!(outcome, Err(ServeTilesError::Stream(_) | ServeTilesError::Idle)) {
        // The client has sent its end message; errors after it do not matter.
        outcome = Ok(());
    }
    use ServeTilesError as Error;
    if let Err(error @ (Error::Client(_) | Error::Source { .. } | Error::Live(_))) = &outcome {
        // A client that breaks the protocol may also not read, so the time is limited.
        let _ = timeout(Duration::from_secs(1), outlet.push(Pusher::refusal(&error.to_string()), None)).await;
    }
    let _ = timeout(if has_ended { FAREWELL } else { PATIENCE }, outlet.finish()).await;
    let (counters, account) = (serving.pusher.counters(), serving.pusher.account());
    ServedTiles { counters, account, outcome }
}

/// The description of a video, and the bytes of each GoP's sound.
fn described(source: &dyn TileSource) -> (Video, Vec<u32>) {
    (source.video(), source.sound().map(|(_, bytes)| bytes).unwrap_or_default())
}

/// How far a client follows a live source.
struct Following {
    /// The next GoP that it will hear of; `None` before the first.
    next: Option<u32>,
    /// Whether it was told that the source has ended.
    told: bool,
    changes: watch::Receiver<()>,
    /// When it heard of a GoP.
    at: Option<Instant>,
}

struct Serving {
    pusher: Pusher,
    live: Option<Following>,
    origin: Clock,
    /// When the transport last took a whole message.
    pushed: Option<Instant>,
    /// When the client sent its end message.
    ended: Option<Instant>,
    buffer: Vec<u8>,
}

impl Serving {
    fn now(&self) -> Instant {
        Instant::ZERO + self.origin.elapsed()
    }

    /// `low`: the low-resolution stream of `source`.
    async fn run<R, O>(
        &mut self,
        plans: &mut R,
        outlet: &mut O,
        (source, low): (&Arc<dyn TileSource>, Option<&Arc<dyn TileSource>>),
    ) -> Result<(), ServeTilesError>
    where
        R: AsyncRead + Unpin,
        O: Outlet,
    {
        while !self.pusher.is_over() {
            let source = low.filter(|_| self.pusher.is_low_resolution()).unwrap_or(source);
            self.follow(&**source)?;
            match self.pusher.poll_transmit(self.now(), source.table()) {
                Some(Transmit::Message { bytes, deadline }) => {
                    match self.push(plans, outlet, (bytes, deadline)).await? {
                        Pushed::Taken => self.pushed = Some(self.now()),
                        Pushed::Expired => self.pusher.handle_expired(),
                    }
                }
                Some(Transmit::Read(order)) => match read(order, source).await {
                    Ok((init, segment)) => self.pusher.handle_tile(init, segment)?,
                    Err(ServeTilesError::Source { source, .. })
                        if self.live.is_some() && source.kind() == io::ErrorKind::NotFound =>
                    {
                        self.pusher.handle_gone();
                    }
                    Err(error) => return Err(error),
                },
                None => {
                    let last = self.pusher.heard().max(self.pushed).unwrap_or(Instant::ZERO);
                    let until = self.until(last);
                    let count = tokio::select! {
                        count = timeout_at(until, plans.read(&mut self.buffer)) => count,
                        () = changed(self.live.as_mut()) => continue,
                    };
                    match count {
                        Ok(count) => self.heard(count?)?,
                        // A client has nothing to request while a live source sends nothing.
                        Err(_)
                            if self.ended.is_none()
                                && self.live.as_ref().is_some_and(|f| f.at <= Some(last)) =>
                        {
                            self.pushed = Some(self.now());
                        }
                        Err(_) => return Err(ServeTilesError::Idle),
                    }
                }
            }
        }
        Ok(())
    }

    /// Tells the client what is new of a live source.
    fn follow(&mut self, source: &dyn TileSource) -> Result<(), ServeTilesError> {
        let now = self.now();
        let Some((live, following)) = source.live().zip(self.live.as_mut()) else { return Ok(()) };
        if !self.pusher.has_started() || self.pusher.has_ended() {
            return Ok(());
        }
        following.changes.mark_unchanged();
        let news = live.since(following.next);
        for gop in news.gops {
            let tiles = gop.of(self.pusher.is_low_resolution());
            self.pusher.handle_gop((news.oldest, gop.number), tiles.map_or(&[], |tiles| &tiles.cells));
            (following.next, following.at) = (Some(gop.number + 1), Some(now));
        }
        match (news.end, following.next) {
            (Some(LiveEnd::Failed(reason)), _) => return Err(ServeTilesError::Live(reason)),
            (Some(LiveEnd::Complete), Some(next)) if !following.told => {
                following.told = true;
                self.pusher.handle_last(next - 1);
            }
            _ => {}
        }
        Ok(())
    }

    /// The time at which a client inactive since `last` is disconnected.
    fn until(&self, last: Instant) -> Clock {
        let at = self.ended.map_or(last + PATIENCE, |ended| ended + FAREWELL);
        self.origin + at.saturating_since(Instant::ZERO)
    }

    fn heard(&mut self, count: usize) -> Result<(), ServeTilesError> {
        let now = self.now();
        match count {
            0 => self.pusher.handle_end()?,
            count => self.pusher.handle_bytes(now, &self.buffer[..count])?,
        }
        if self.pusher.has_ended() {
            self.ended.get_or_insert(now);
        }
        Ok(())
    }

    /// Pushes one message and reads plans meanwhile.
    async fn push<R, O>(
        &mut self,
        plans: &mut R,
        outlet: &mut O,
        (message, deadline): (Bytes, Option<Instant>),
    ) -> Result<Pushed, ServeTilesError>
    where
        R: AsyncRead + Unpin,
        O: Outlet,
    {
        let within = deadline.map(|deadline| deadline.saturating_since(self.now()));
        if within.is_some_and(|within| within.is_zero()) {
            return Ok(Pushed::Expired);
        }
        let began = self.now();
        let push = outlet.push(message, within);
        tokio::pin!(push);
        loop {
            let until = self.until(began);
            tokio::select! {
                biased;
                pushed = timeout_at(until, &mut push) => {
                    return Ok(pushed.map_err(|_| ServeTilesError::Idle)??);
                }
                count = plans.read(&mut self.buffer), if !self.pusher.is_over() => {
                    let count = count?;
                    self.heard(count)?;
                }
            }
        }
    }
}

/// Waits until a live source has something new.
async fn changed(following: Option<&mut Following>) {
    let changed = match following {
        Some(following) => following.changes.changed().await.is_ok(),
        None => false,
    };
    if !changed {
        std::future::pending::<()>().await;
    }
}

/// A plan's entry in words.
fn named(tile: u16, quality: u8) -> String {
    match tile {
        SOUND => "the sound".to_owned(),
        tile => format!("tile {tile}, quality {quality}"),
    }
}

/// The media segment, and the initialisation segment if the plan requests it.
async fn read(
    order: TileOrder,
    source: &Arc<dyn TileSource>,
) -> Result<(Option<Bytes>, Bytes), ServeTilesError> {
    let (gop, tile, quality) = (order.gop, order.entry.tile, order.entry.quality);
    let failed = |source| ServeTilesError::Source { gop, tile, quality, source };
    let with_init = order.entry.with_init;
    let source = source.clone();
    // Files are read on other threads than the runtime's: a slow disk must not delay plans.
    let reading = tokio::task::spawn_blocking(move || {
        if tile == SOUND {
            let segment = source.sound_segment(gop as usize)?;
            return Ok((if with_init { Some(source.sound_init()?) } else { None }, segment));
        }
        let (tile, quality) = (usize::from(tile), usize::from(quality));
        let segment = source.segment(gop as usize, tile, quality)?;
        let init = if with_init { Some(source.init(tile, quality)?) } else { None };
        Ok::<_, io::Error>((init, segment))
    });
    reading.await.map_err(|error| failed(io::Error::other(error)))?.map_err(failed)
}
