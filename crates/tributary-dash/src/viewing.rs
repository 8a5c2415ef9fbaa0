//! A title for a player in a browser: its requests go over the transport that was chosen, and go on when that changes.
//!
//! The transport is connected when the viewer begins, so that the start-up time contains the handshake. A download that is running when
//! the transport changes or fails continues behind the bytes that have arrived. Not here: the page, who may ask, and what is chosen
//! ([`crate::client`]).

mod carry;
mod log;

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use http::Response;
use http::header::HeaderMap;
use serde::{Deserialize, Serialize};
use tokio::sync::watch;
use tokio::time::Instant as Clock;
use tributary_net::transport::{Connection, Handshake};
use tributary_player::engine::Conditions;

use crate::client::{EnginePath, TransportChange, TransportChoice, Transports};
use crate::fetch::{HttpConnection, Line, split};
pub use carry::{Carried, CarryError};
pub use log::{EventLog, Logged, ViewingEvent};

/// Pause before the next attempt to connect.
const PAUSE: Duration = Duration::from_secs(1);
/// Time between two looks at the engine's paths.
const LOOK: Duration = Duration::from_millis(500);
/// Time without a report of the player after which the viewing ends. Browsers slow the timers of pages in the background down to one a
/// minute.
const AWAY: Duration = Duration::from_secs(90);
/// Connections of HTTP/1.1 that are kept for the next request.
const KEPT: usize = 6;

/// The title and its transport.
#[derive(Clone, Debug)]
pub struct ViewingConfig {
    /// URL of the manifest.
    pub url: String,
    /// Transport of the requests.
    pub transport: TransportChoice,
}

/// A viewing. Clones are handles to the same one.
#[derive(Clone)]
pub struct Viewing(Arc<Inner>);

struct Inner {
    config: ViewingConfig,
    /// `HOST:PORT` of the title's server.
    authority: String,
    /// Its path there.
    manifest: String,
    wanted: watch::Sender<Wanted>,
    link: watch::Sender<Link>,
    /// Number of the last link; those of different viewings differ, too.
    links: AtomicU64,
    /// Connections of HTTP/1.1 without a request, with the number of the link.
    lines: Mutex<Vec<(u64, Line)>>,
    present: Mutex<Present>,
    log: EventLog,
}

/// Whether a viewer wants to see the title, and how many times one has begun.
#[derive(Clone, Copy, Debug, Default)]
struct Wanted {
    number: u32,
    now: bool,
}

/// What requests go over.
#[derive(Clone, Debug)]
enum Link {
    /// Nothing: no viewer wants it, or it is being connected.
    None,
    /// This connection, with a number that is new after each change.
    Up(u64, HttpConnection),
    /// It could not be connected, for this reason.
    Down(String),
}

/// What the status shows.
#[derive(Debug, Default)]
struct Present {
    transports: Vec<String>,
    paths: Vec<EnginePath>,
    start_up: Option<StartUp>,
    player: Option<(Clock, PlayerReport)>,
    /// The handshake of the viewing's first connection, if its requests may be sent before it is over.
    first: Option<Handshake>,
    counters: Counters,
}

/// Sums over a viewing.
#[derive(Clone, Copy, Debug, Default, Serialize)]
struct Counters {
    requests: u64,
    /// Downloads that continued over another connection.
    continued: u64,
    failed: u64,
    /// Bytes of bodies that arrived.
    bytes: u64,
}

/// How long the viewer waited for the first picture.
#[derive(Clone, Debug, Serialize)]
pub struct StartUp {
    /// Time from the click to the first picture, ms.
    pub start_up_ms: f64,
    /// The transport at that time.
    pub transport: String,
    /// Whether the server accepted requests before the handshake was over.
    pub zero_rtt: bool,
}

/// What the player in the page is doing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum PlayerState {
    /// No picture was shown yet.
    Starting,
    /// The playhead moves.
    Playing,
    /// It waits for media.
    Stalled,
    /// The viewer has stopped it.
    Paused,
    /// All was played.
    Ended,
}

/// A quality of the ladder.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Rung {
    /// Its index; 0 is the lowest bitrate.
    pub index: u32,
    /// Number of qualities.
    pub of: u32,
    /// Nominal bitrate, kbit/s.
    pub kbps: f64,
    /// Width of its pictures, pixels.
    pub width: u32,
    /// Height of its pictures, pixels.
    pub height: u32,
}

/// What the player in the page says of itself.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PlayerReport {
    /// The number that [`Viewing::begin`] returned.
    pub viewing: u32,
    /// Its state.
    pub state: PlayerState,
    /// Position of the playhead, s.
    pub position_s: f64,
    /// Duration of the title, s.
    pub duration_s: f64,
    /// Media ahead of the playhead, s.
    pub buffer_s: f64,
    /// Its estimate of the throughput, Mbit/s.
    pub throughput_mbps: Option<f64>,
    /// The quality that is shown.
    pub rung: Option<Rung>,
    /// Number of stalls.
    pub stalls: u32,
    /// Their time together, s.
    pub stalled_s: f64,
    /// Time from the click to the first picture, ms.
    pub start_up_ms: Option<f64>,
}

/// Why a report does not count.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ReportError {
    /// A number is none that a player can have.
    #[error("a number of the report is impossible")]
    Impossible,
    /// Another page has begun to play since.
    #[error("another page plays this title now")]
    Superseded,
}

/// A viewing as `docs/guide/status.md` describes it.
#[derive(Clone, Debug, Serialize)]
pub struct ViewingStatus {
    title: String,
    viewing: u32,
    state: String,
    cause: Option<String>,
    transport: Option<String>,
    transports: Vec<String>,
    start_up: Option<StartUp>,
    player: Option<PlayerReport>,
    paths: Vec<EnginePath>,
    #[serde(flatten)]
    counters: Counters,
    events: Vec<Logged>,
}

impl PlayerReport {
    fn is_possible(&self) -> bool {
        let numbers = [self.position_s, self.duration_s, self.buffer_s, self.stalled_s];
        let optional = [self.throughput_mbps, self.start_up_ms, self.rung.map(|rung| rung.kbps)];
        numbers.into_iter().chain(optional.into_iter().flatten()).all(|number| (0.0..=1e9).contains(&number))
    }
}

impl Viewing {
    /// A viewing that nobody has begun.
    ///
    /// # Errors
    /// The manifest's URL is none of HTTP.
    pub fn new(config: ViewingConfig, log: EventLog) -> Result<Self, crate::client::FetchError> {
        let (authority, manifest) = split(&config.url)?;
        Ok(Self(Arc::new(Inner {
            config,
            authority,
            manifest,
            wanted: watch::Sender::default(),
            link: watch::Sender::new(Link::None),
            links: AtomicU64::new(0),
            lines: Mutex::default(),
            present: Mutex::default(),
            log,
        })))
    }

    /// Path of the manifest on its server, with a query if it has one.
    #[must_use]
    pub fn manifest(&self) -> &str {
        &self.0.manifest
    }

    /// A viewer wants to see the title from now on. Returns the number of the viewing, for its reports.
    pub fn begin(&self) -> u32 {
        *self.present() = Present::default();
        // Requests of this viewing wait for its own connection.
        self.0.link.send_replace(Link::None);
        self.0.wanted.send_modify(|wanted| {
            *wanted = Wanted { number: wanted.number.wrapping_add(1), now: true };
        });
        let number = self.0.wanted.borrow().number;
        self.0.log.say(number, ViewingEvent::Begun);
        number
    }

    /// The viewer of this number leaves; of several, only the last one's leaving counts.
    pub fn end(&self, viewing: u32) {
        let left = |wanted: &mut Wanted| {
            let is_last = wanted.number == viewing && wanted.now;
            wanted.now &= !is_last;
            is_last
        };
        if self.0.wanted.send_if_modified(left) {
            self.0.log.say(viewing, ViewingEvent::Left);
        }
    }

    /// What the page says of its player, from which the engine knows the play buffer.
    ///
    /// # Errors
    /// [`ReportError`]; then nothing changes.
    pub fn report(&self, report: PlayerReport) -> Result<(), ReportError> {
        if !report.is_possible() {
            return Err(ReportError::Impossible);
        }
        let wanted = *self.0.wanted.borrow();
        if wanted.number != report.viewing || !wanted.now {
            return Err(ReportError::Superseded);
        }
        let mut present = self.present();
        let before = present.player.take().map(|(_, report)| report);
        let mut events = Vec::new();
        if let Some(start_up_ms) = report.start_up_ms.filter(|_| present.start_up.is_none()) {
            let zero_rtt = present.first.as_ref().and_then(Handshake::outcome) == Some(true);
            let transport = present.transports.last().cloned().unwrap_or_default();
            let start_up = StartUp { start_up_ms, transport, zero_rtt };
            present.start_up = Some(start_up.clone());
            events.push(ViewingEvent::FirstPicture(start_up));
        }
        if let Some(rung) = report.rung.filter(|_| before.as_ref().is_none_or(|b| b.rung != report.rung)) {
            events.push(ViewingEvent::Quality(rung));
        }
        let stalled = |state| state == PlayerState::Stalled;
        match (before.is_some_and(|before| stalled(before.state)), stalled(report.state)) {
            (false, true) => events.push(ViewingEvent::Stalled { position_s: report.position_s }),
            (true, false) => events.push(ViewingEvent::Resumed { stalled_s: report.stalled_s }),
            _ => {}
        }
        present.player = Some((Clock::now(), report));
        drop(present);
        events.into_iter().for_each(|event| self.0.log.say(wanted.number, event));
        Ok(())
    }

    /// What it is doing.
    #[must_use]
    pub fn status(&self) -> ViewingStatus {
        let Wanted { number, now } = *self.0.wanted.borrow();
        let link = self.0.link.borrow().clone();
        let present = self.present();
        let player = present.player.as_ref().map(|(_, report)| report.clone());
        let (state, cause) = match (now, link, &player) {
            (false, ..) => ("waiting".to_owned(), None),
            (true, Link::None, _) => ("connecting".to_owned(), None),
            (true, Link::Down(cause), _) => ("lost".to_owned(), Some(cause)),
            (true, Link::Up(..), None) => ("starting".to_owned(), None),
            (true, Link::Up(..), Some(report)) => (format!("{:?}", report.state).to_lowercase(), None),
        };
        ViewingStatus {
            title: self.0.config.url.clone(),
            viewing: number,
            state,
            cause,
            transport: present.transports.last().cloned(),
            transports: present.transports.clone(),
            start_up: present.start_up.clone(),
            player,
            paths: present.paths.clone(),
            counters: present.counters,
            events: self.0.log.newest(),
        }
    }

    /// The connection in use.
    #[must_use]
    pub fn connection(&self) -> Option<Connection> {
        match &*self.0.link.borrow() {
            Link::Up(_, connection) => Some(connection.connection().clone()),
            _ => None,
        }
    }

    /// Requests a file of the title's server, by its path there, and passes the range of `headers` on. A redirect is returned with the path
    /// that it leads to as `Location`.
    ///
    /// Cancellation: dropping the future abandons the request, which is not counted.
    ///
    /// # Errors
    /// [`CarryError`] when there is no answer. A body that cannot be continued ends with an error, too.
    pub async fn get(&self, path: &str, headers: &HeaderMap) -> Result<Response<Carried>, CarryError> {
        let got = carry::get(self, path, headers).await;
        self.count(|counters| match &got {
            Ok(_) => counters.requests += 1,
            Err(_) => (counters.requests, counters.failed) = (counters.requests + 1, counters.failed + 1),
        });
        got
    }

    /// Connects whenever a viewer begins, and follows the engine. Does not return.
    ///
    /// Cancellation: dropping the future ends the viewing.
    pub async fn run(&self) {
        let mut wanted = self.0.wanted.subscribe();
        loop {
            let now = wanted.borrow_and_update().now;
            tokio::select! {
                () = self.view(), if now => {}
                // The sender is in `self`, so it is not gone.
                _ = wanted.changed() => {}
            }
            self.0.link.send_replace(Link::None);
            self.lines().clear();
        }
    }

    /// One viewer, from the first connection on.
    async fn view(&self) {
        let number = self.0.wanted.borrow().number;
        let began = Clock::now();
        loop {
            let mut log = Vec::new();
            let started = Transports::start(self.0.config.transport.clone(), &mut log).await;
            log.into_iter().for_each(|event| self.0.log.take(number, event));
            match started {
                Ok(transports) => {
                    let why = self.follow(transports, number, began).await;
                    self.0.log.notice(number, format!("{why}; connecting again"));
                    self.0.link.send_replace(Link::None);
                }
                Err(error) => {
                    self.0.log.notice(number, format!("no connection: {error}; trying again"));
                    self.0.link.send_replace(Link::Down(error.to_string()));
                }
            }
            if !self.is_watched(began) {
                return self.end(number);
            }
            tokio::time::sleep(PAUSE).await;
        }
    }

    /// Follows the engine until the connection ends; returns why it did.
    async fn follow(&self, mut transports: Transports, number: u32, began: Clock) -> String {
        let name = self.connected(&transports);
        self.0.log.say(number, ViewingEvent::Transport { transport: name, zero_rtt: None });
        self.use_link(&transports);
        let mut look = tokio::time::interval(LOOK);
        loop {
            let connection = transports.connection().connection().clone();
            let settling = transports.is_settling();
            tokio::select! {
                (change, log) = transports.next(self.conditions()) => {
                    if change == TransportChange::Moved {
                        self.present().transports.extend(transports.names().last().cloned());
                        self.use_link(&transports);
                    }
                    log.into_iter().for_each(|event| self.0.log.take(number, event));
                }
                why = connection.closed(), if !settling => return why.to_string(),
                _ = look.tick() => {
                    if !self.is_watched(began) {
                        self.end(number);
                    }
                }
            }
            self.present().paths = transports.paths();
        }
    }

    /// The viewing has a connection; returns the name of its transport.
    fn connected(&self, transports: &Transports) -> String {
        let mut present = self.present();
        if present.transports.is_empty() {
            present.first = transports.connection().handshake().cloned();
        }
        present.transports.extend_from_slice(transports.names());
        transports.names().last().cloned().unwrap_or_default()
    }

    fn use_link(&self, transports: &Transports) {
        let number = self.0.links.fetch_add(1, Ordering::Relaxed);
        self.0.link.send_replace(Link::Up(number, transports.connection().clone()));
        self.lines().clear();
    }

    /// Playback as the page reported it last.
    fn conditions(&self) -> Conditions {
        let present = self.present();
        let report = present.player.as_ref().map(|(_, report)| report);
        Conditions {
            level: report.map_or(Duration::ZERO, |report| Duration::from_secs_f64(report.buffer_s)),
            throughput: report.and_then(|report| report.throughput_mbps).map(|mbps| mbps * 1e6),
            udp: false,
        }
    }

    /// Whether a page has said something lately.
    fn is_watched(&self, began: Clock) -> bool {
        self.present().player.as_ref().map_or(began, |(at, _)| *at).elapsed() < AWAY
    }

    fn count(&self, add: impl FnOnce(&mut Counters)) {
        add(&mut self.present().counters);
    }

    fn present(&self) -> MutexGuard<'_, Present> {
        self.0.present.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn lines(&self) -> MutexGuard<'_, Vec<(u64, Line)>> {
        self.0.lines.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests;
