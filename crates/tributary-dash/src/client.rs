//! A headless DASH client: fetches a title over a transport, plays it in real time without a display, and records
//! playback events and a viewer's metrics.
//!
//! [`tributary_player::dash::play`] makes the decisions; this module connects it to sockets and the clock.
//! Media comes over HTTP/1.1 on streams of the transport, or over HTTP/3 on QUIC. The transport can be
//! replaced during playback. Not here: decoding, live presentations, sound.

mod load;
mod presentation;
mod sink;
mod steer;
mod transports;

use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use http::header::HeaderValue;
use serde::Serialize;
use thiserror::Error;
use tokio::sync::mpsc;
use tokio::task::JoinHandle;
use tributary_net::PathConfig;
use tributary_net::transport::{TransportConfig, TransportError};
use tributary_player::PlayState;
use tributary_player::abr::{self, Ladder, UnknownRule};
use tributary_player::dash::mpd::MAX_BYTES;
use tributary_player::dash::play::{Command, Event, GivenUp, Player, Qoe, Request, Settings, Title};
use tributary_player::engine::Conditions;
use tributary_types::Instant;

use crate::fetch::{BodyArrivals, Line, split};
pub use crate::fetch::{FetchError, Http3Error, HttpError};
use load::{Arrived, Job};
pub use presentation::PresentationError;
use presentation::{NO_RANGES, Presentation};
use sink::Sink;
pub use steer::{Decision, EnginePath, MeasuredPath, Steering};
pub(crate) use transports::{TransportChange, Transports};

/// Capacity of the channel from a download to the player, in messages.
const WAITING: usize = 8;

/// A transport with its paths.
#[derive(Clone, Debug)]
pub struct TransportPaths {
    /// The transport and its settings.
    pub config: TransportConfig,
    /// Its paths.
    pub paths: Vec<PathConfig>,
}

/// How requests are transported.
#[derive(Clone, Debug)]
pub enum TransportChoice {
    /// One transport.
    One(Box<TransportPaths>),
    /// The transports chosen by the decision engine.
    Engine(Box<Steering>),
}

/// Settings of a playback: the title, the transport and the rules.
#[derive(Clone, Debug)]
pub struct ClientConfig {
    /// URL of the manifest.
    pub url: String,
    /// Transport of the requests.
    pub transport: TransportChoice,
    /// The bitrate rule's name.
    pub rule: String,
    /// The player's settings.
    pub settings: Settings,
    /// Maximum media time to play; `None` plays all.
    pub most: Option<Duration>,
    /// File to which complete segments are written in order. The initialisation segment of a quality precedes
    /// its first segment after each change of quality.
    pub save: Option<PathBuf>,
}

/// Why nothing was played.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum ClientError {
    /// The bitrate rule is unknown.
    #[error(transparent)]
    Rule(#[from] UnknownRule),
    /// A request failed.
    #[error(transparent)]
    Fetch(#[from] FetchError),
    /// The title cannot be played.
    #[error(transparent)]
    Presentation(#[from] PresentationError),
    /// The transport cannot be set up.
    #[error(transparent)]
    Transport(#[from] TransportError),
    /// The media cannot be saved.
    #[error("cannot write {}: {source}", .path.display())]
    Save {
        /// The file.
        path: PathBuf,
        /// The system's reason.
        source: io::Error,
    },
}

/// A line of the log.
#[derive(Clone, Debug, Serialize)]
pub struct Entry {
    /// Time since the title was requested.
    pub at_s: f64,
    /// What happened.
    #[serde(flatten)]
    pub what: LogEvent,
}

/// What happened.
#[derive(Clone, Debug, Serialize)]
#[serde(untagged)]
pub enum LogEvent {
    /// An event of the player.
    Player(Event),
    /// A decision of the engine.
    Decision(Decision),
    /// Playback continues over another transport.
    Moved {
        /// The new transport.
        moved_to: &'static str,
        /// Whether its server accepts requests before the handshake has finished.
        zero_rtt: bool,
    },
    /// Something failed; how playback continues.
    Notice {
        /// Text for the user.
        notice: String,
    },
}

/// The state of playback, for display.
#[derive(Clone, Debug)]
pub struct PlaybackState<'a> {
    /// State of the playhead.
    pub state: PlayState,
    /// Position of the playhead.
    pub position: Duration,
    /// Duration of the played media.
    pub duration: Duration,
    /// Media in the play buffer.
    pub level: Duration,
    /// Expected throughput, bit/s.
    pub throughput: Option<f64>,
    /// The transports used so far, in order.
    pub transports: &'a [String],
    /// The engine's paths as it saw them last.
    pub paths: Vec<EnginePath>,
    /// The log so far.
    pub events: &'a [Entry],
}

/// The result of a playback.
#[derive(Clone, Debug, Serialize)]
pub struct Outcome {
    /// The transports used, in order.
    pub transports: Vec<String>,
    /// The bitrate rule.
    pub rule: String,
    /// Bitrates of the first period's ladder, bit/s.
    pub ladder_bps: Vec<u64>,
    /// Ladders of later periods, where they differ.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub later_ladders: Vec<LaterLadder>,
    /// Quality of experience.
    pub qoe: Qoe,
    /// The log.
    pub events: Vec<Entry>,
    /// Why playback stopped before the end.
    pub given_up: Option<String>,
}

/// Another ladder from a segment on.
#[derive(Clone, Debug, Serialize)]
pub struct LaterLadder {
    /// The first segment.
    pub from: usize,
    /// Bitrates, bit/s.
    pub bps: Vec<u64>,
}

impl Outcome {
    /// Nominal bitrate of a segment in one of its qualities, bit/s.
    #[must_use]
    pub fn bitrate_bps(&self, segment: usize, quality: usize) -> Option<u64> {
        let later = self.later_ladders.iter().rev().find(|ladder| ladder.from <= segment);
        later.map_or(&self.ladder_bps, |ladder| &ladder.bps).get(quality).copied()
    }
}

fn rates(ladder: &Ladder) -> Vec<u64> {
    (0..ladder.len()).map(|quality| ladder.bitrate(quality) as u64).collect()
}

fn later_ladders(title: &Title) -> Vec<LaterLadder> {
    title.later.iter().map(|(from, ladder)| LaterLadder { from: *from, bps: rates(ladder) }).collect()
}

/// The segment being downloaded.
#[derive(Debug, Default)]
struct Partial {
    segment: usize,
    quality: usize,
    bytes: Vec<u8>,
    tag: Option<HeaderValue>,
    /// Length of `bytes` before the running download.
    from: usize,
    /// The running download, and a counter of its bytes.
    arrivals: Option<(u64, BodyArrivals)>,
}

/// A playback in progress.
struct Playback {
    /// Length of the title.
    duration: Duration,
    began: tokio::time::Instant,
    player: Player,
    presentation: Arc<Presentation>,
    transports: Transports,
    authority: String,
    /// The connection of the last download, when no download is running.
    line: Option<Line>,
    download: Option<JoinHandle<Line>>,
    partial: Partial,
    sink: Sink,
    events: Vec<Entry>,
    tell: mpsc::Sender<(u64, Arrived)>,
}

/// Plays a title to its end. `watch` is called at every event and about once a second.
///
/// Cancellation: dropping the future ends playback without an outcome; a running download ends with its next bytes.
///
/// # Errors
/// [`ClientError`] when playback cannot begin. Later failures are part of the outcome.
pub async fn play(
    config: ClientConfig,
    watch: &mut (dyn FnMut(&PlaybackState<'_>) + Send),
) -> Result<Outcome, ClientError> {
    let began = tokio::time::Instant::now();
    let rule = abr::rule(&config.rule)?;
    let sink = Sink::create(config.save)?;
    let (authority, _) = split(&config.url)?;
    let mut log = Vec::new();
    let transports = Transports::start(config.transport, &mut log).await?;
    let mut line = Line::new(transports.connection().clone(), &authority);
    // Relative URLs are relative to where the manifest is in the end.
    let (text, url) = line.fetch_located(&config.url, MAX_BYTES).await?;
    let presentation = Presentation::read(&mut line, (&text, &url), config.most).await?;
    log.extend(presentation.notes.iter().cloned().map(LogEvent::notice));
    let at_s = began.elapsed().as_secs_f64();
    let events = log.into_iter().map(|what| Entry { at_s, what }).collect();
    let title = presentation.title.clone();
    let (ladder_bps, later_ladders) = (rates(&title.ladder), later_ladders(&title));
    let duration = title.segments.iter().sum();
    let (tell, told) = mpsc::channel(WAITING);
    let mut playback = Playback {
        began,
        duration,
        // The viewer has been waiting since the manifest was requested.
        player: Player::new(config.settings, title, rule, Instant::ZERO),
        presentation: Arc::new(presentation),
        transports,
        authority,
        line: Some(line),
        download: None,
        partial: Partial::default(),
        sink,
        events,
        tell,
    };
    playback.run(told, watch).await?;
    playback.transports.connection().close().await;
    let now = playback.now();
    Ok(Outcome {
        transports: playback.transports.names().to_vec(),
        rule: config.rule,
        ladder_bps,
        later_ladders,
        qoe: playback.player.qoe(now),
        events: playback.events,
        given_up: playback.player.given_up().map(GivenUp::to_string),
    })
}

impl Playback {
    fn now(&self) -> Instant {
        Instant::from_nanos(u64::try_from(self.began.elapsed().as_nanos()).unwrap_or(u64::MAX))
    }

    async fn run(
        &mut self,
        mut told: mpsc::Receiver<(u64, Arrived)>,
        watch: &mut (dyn FnMut(&PlaybackState<'_>) + Send),
    ) -> Result<(), ClientError> {
        loop {
            self.deliver()?;
            self.carry_out().await;
            watch(&self.playback());
            let now = self.now();
            if self.player.is_over(now) {
                return Ok(());
            }
            let (level, throughput) = (self.player.level(now), self.player.throughput());
            let conditions = Conditions { level, throughput, udp: false };
            let due = self.player.poll_timeout().map(|at| self.began + Duration::from_nanos(at.as_nanos()));
            tokio::select! {
                Some((id, arrived)) = told.recv() => self.arrived(id, arrived).await,
                () = tokio::time::sleep_until(due.unwrap_or(self.began)), if due.is_some() => {
                    let now = self.now();
                    self.count_unread(now);
                    self.player.handle_timeout(now);
                }
                (change, log) = self.transports.next(conditions) => {
                    let at_s = now.as_secs_f64();
                    self.events.extend(log.into_iter().map(|what| Entry { at_s, what }));
                    self.transport_changed(change);
                }
            }
        }
    }

    fn transport_changed(&mut self, change: TransportChange) {
        let now = self.now();
        match change {
            TransportChange::Stayed => self.player.handle_network_change(now),
            TransportChange::Moved => {
                self.player.handle_moved(now);
                if self.download.is_none() {
                    // No download is running, so the next one opens a new connection.
                    self.line = None;
                }
            }
            TransportChange::Settled => {}
        }
    }

    fn playback(&self) -> PlaybackState<'_> {
        let now = self.now();
        PlaybackState {
            state: self.player.state(now),
            position: self.player.position(now),
            duration: self.duration,
            level: self.player.level(now),
            throughput: self.player.throughput(),
            transports: self.transports.names(),
            paths: self.transports.paths(),
            events: &self.events,
        }
    }

    /// Carries out the player's actions and logs its events.
    async fn carry_out(&mut self) {
        while let Some(command) = self.player.poll_command() {
            match command {
                Command::Abort(_) => self.abort(),
                Command::Request(request) => self.request(&request).await,
            }
        }
        let at_s = self.now().as_secs_f64();
        while let Some(event) = self.player.poll_event() {
            tracing::debug!(?event);
            self.events.push(Entry { at_s, what: LogEvent::Player(event) });
        }
    }

    /// Aborts the download and resets its stream.
    fn abort(&mut self) {
        if let Some(download) = self.download.take() {
            download.abort();
        }
        self.line = None;
    }

    async fn request(&mut self, request: &Request) {
        let Request { id, segment, quality, from } = *request;
        let partial = &mut self.partial;
        if from == 0 || (partial.segment, partial.quality) != (segment, quality) {
            *partial = Partial { segment, quality, ..Partial::default() };
        }
        (partial.from, partial.arrivals) = (partial.bytes.len(), None);
        debug_assert_eq!(
            partial.bytes.len() as u64,
            from,
            "the player's byte count must match the received bytes"
        );
        // The task of a failed download has ended, or will end soon.
        if let Some(download) = self.download.take() {
            self.line = download.await.ok();
        }
        let line = self
            .line
            .take()
            .unwrap_or_else(|| Line::new(self.transports.connection().clone(), &self.authority));
        let said = self.player.cmcd(request, self.now()).headers();
        self.player.handle_sent();
        let job = Job { id, segment, quality, from, tag: self.partial.tag.clone(), said };
        self.download =
            Some(tokio::spawn(load::load(line, self.presentation.clone(), job, self.tell.clone())));
    }

    async fn arrived(&mut self, id: u64, arrived: Arrived) {
        let now = self.now();
        // The channel may still contain messages of an aborted download.
        if !self.player.is_loading(id) {
            return;
        }
        self.count_unread(now);
        match arrived {
            Arrived::Headers(size, tag, arrivals) => {
                self.partial.tag = tag;
                self.partial.arrivals = arrivals.map(|counter| (id, counter));
                self.player.handle_headers(now, id, size);
            }
            Arrived::Data(bytes) => {
                self.partial.bytes.extend_from_slice(&bytes);
                self.player.handle_data(now, id, bytes.len() as u64);
            }
            Arrived::Whole => {
                let noted =
                    |entry: &Entry| matches!(&entry.what, LogEvent::Notice { notice } if notice == NO_RANGES);
                if !self.events.iter().any(noted) {
                    let what = LogEvent::notice(NO_RANGES.to_owned());
                    self.events.push(Entry { at_s: now.as_secs_f64(), what });
                }
            }
            Arrived::Skipped => self.player.handle_alive(now, id),
            Arrived::Missing(why) => {
                self.end_download().await;
                self.player.handle_missing(now, id, &why);
                self.partial = Partial::default();
                self.sink.count = self.player.loaded();
            }
            Arrived::End => {
                self.end_download().await;
                self.player.handle_end(now, id);
            }
            Arrived::Failed(kept, why) => {
                self.end_download().await;
                self.player.handle_failed(now, id, kept, &why);
            }
        }
    }

    /// Tells the player what has arrived and has not reached it yet: bytes after a gap, and bytes on their way through
    /// the reading tasks.
    fn count_unread(&mut self, now: Instant) {
        let Partial { bytes, from, arrivals, .. } = &self.partial;
        if let Some((id, counter)) = arrivals {
            let taken = (bytes.len() - from) as u64;
            self.player.handle_unread(now, *id, counter.bytes().saturating_sub(taken));
        }
    }

    /// Takes the connection back from a finished download.
    async fn end_download(&mut self) {
        if let Some(download) = self.download.take() {
            self.line = download.await.ok();
        }
    }

    /// Writes a segment once it is complete.
    fn deliver(&mut self) -> Result<(), ClientError> {
        if self.player.loaded() == self.sink.count {
            return Ok(());
        }
        let Partial { segment, quality, bytes, .. } = std::mem::take(&mut self.partial);
        let initialization = self.presentation.initialization((segment, quality));
        self.sink.take(quality, initialization.as_deref().unwrap_or_default(), &bytes)
    }
}
