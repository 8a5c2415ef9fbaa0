//! A player of one DASH title: when each segment is requested and in which quality, which downloads are abandoned,
//! and a record of the playback.
//!
//! One segment is downloaded at a time. The driver carries [`Command`]s out, reports their results with the
//! `handle_*` calls, and calls [`Player::handle_timeout`] at [`Player::poll_timeout`]. The driver keeps the bytes
//! and appends those of a resumed download to those it has ([`Request::from`]). Not here: addresses of
//! segments ([`super::mpd`]), the choice of a quality ([`crate::abr`]).

mod abandon;
mod download;
mod headers;
mod model;
mod record;

use core::time::Duration;
use std::collections::VecDeque;

use tributary_types::Instant;

use super::cmcd::{Cmcd, ObjectType};
use crate::abr::{Finished, Rule, ThroughputEstimate, View};
use crate::buffer::{PlayBuffer, PlayState, Underflow};
use download::Download;
pub use headers::{Header, MissingHeaders};
pub use model::{Command, Counting, Event, GivenUp, Request, Settings, Title};
use record::Recorder;
pub use record::{Loaded, Qoe, Second};

/// Least time between two checks of whether to abandon a download.
const CHECK_INTERVAL: Duration = Duration::from_millis(50);
/// Longest time between two checks while nothing arrives.
const IDLE_CHECK_INTERVAL: Duration = Duration::from_millis(250);

/// State: what the player waits for.
#[derive(Debug)]
enum State {
    /// Space in the buffer, waiting since this time.
    Space { since: Instant },
    /// The time to request the next segment in this quality.
    Until { at: Instant, request: (usize, u64) },
    /// A download.
    Loading(Download),
    /// The end of playback; all segments are loaded.
    Loaded,
    /// Playback has ended.
    GivenUp(GivenUp),
}

/// A player.
pub struct Player {
    settings: Settings,
    title: Title,
    rule: Box<dyn Rule>,
    estimate: ThroughputEstimate,
    buffer: PlayBuffer,
    shown: PlayState,
    state: State,
    next: usize,
    last_quality: Option<usize>,
    /// The quality to request after the segment was abandoned in another quality.
    instead: Option<usize>,
    failures: u32,
    /// The last segment for which a new ladder was logged.
    entered: Option<usize>,
    ids: u64,
    /// Playback stalled since the last request (CMCD `bs`).
    starved: bool,
    commands: VecDeque<Command>,
    events: VecDeque<Event>,
    record: Recorder,
}

impl Player {
    /// A player of `title`, requested by a viewer at `now`.
    #[must_use]
    pub fn new(settings: Settings, title: Title, rule: Box<dyn Rule>, now: Instant) -> Self {
        let longest = title.segments.iter().copied().max().unwrap_or_default();
        let capacity = settings.capacity.max(2 * longest);
        // The buffer cannot hold more than this.
        let most = capacity - longest;
        let (start_with, resume_with) = (settings.start_with.min(most), settings.resume_with.min(most));
        let settings = Settings { capacity, start_with, resume_with, ..settings };
        let buffer = PlayBuffer::new(Underflow::Wait { start_with, resume_with }, now);
        let mut player = Self {
            settings,
            rule,
            estimate: ThroughputEstimate::default(),
            buffer,
            shown: PlayState::Starting,
            state: State::Space { since: now },
            next: 0,
            last_quality: None,
            instead: None,
            failures: 0,
            entered: None,
            ids: 0,
            starved: false,
            commands: VecDeque::new(),
            events: VecDeque::new(),
            record: Recorder::new(now),
            title,
        };
        player.advance(now);
        player
    }

    /// The title.
    #[must_use]
    pub fn title(&self) -> &Title {
        &self.title
    }

    /// State of the playhead at `now`.
    #[must_use]
    pub fn state(&self, now: Instant) -> PlayState {
        self.buffer.state(now)
    }

    /// Media shown up to `now`.
    #[must_use]
    pub fn position(&self, now: Instant) -> Duration {
        self.buffer.position(now)
    }

    /// Media in the play buffer.
    #[must_use]
    pub fn level(&self, now: Instant) -> Duration {
        self.buffer.level(now)
    }

    /// Expected throughput of the next download, bit/s.
    #[must_use]
    pub fn throughput(&self) -> Option<f64> {
        self.estimate.estimate().map(|estimate| estimate.throughput)
    }

    /// Whether the last picture has been shown or playback was given up.
    #[must_use]
    pub fn is_over(&self, now: Instant) -> bool {
        matches!(self.state, State::GivenUp(_)) || self.buffer.state(now) == PlayState::Ended
    }

    /// Why playback was given up.
    #[must_use]
    pub fn given_up(&self) -> Option<&GivenUp> {
        match &self.state {
            State::GivenUp(why) => Some(why),
            _ => None,
        }
    }

    /// Whether this download is running.
    #[must_use]
    pub fn is_loading(&self, id: u64) -> bool {
        matches!(&self.state, State::Loading(download) if download.request.id == id)
    }

    /// Number of segments that are complete, or missing and not needed.
    #[must_use]
    pub fn loaded(&self) -> usize {
        self.next
    }

    /// Record of the playback up to `now`.
    #[must_use]
    pub fn qoe(&self, now: Instant) -> Qoe {
        self.record.qoe(&self.buffer, &self.title, now)
    }

    /// Data sent to the server with a request (CTA-5004).
    #[must_use]
    pub fn cmcd(&self, request: &Request, now: Instant) -> Cmcd {
        let ladder = self.title.ladder_at(request.segment);
        let kbps = |quality: usize| (ladder.bitrate(quality) / 1000.0) as u64;
        let level = self.buffer.level(now);
        Cmcd {
            bitrate_kbps: Some(kbps(request.quality)),
            buffer: Some(level),
            starved: self.starved,
            duration: self.title.segments.get(request.segment).copied(),
            deadline: Some(level),
            throughput_kbps: self.throughput().map(|rate| (rate / 1000.0) as u64),
            dash: true,
            object: Some(ObjectType::Video),
            live: Some(false),
            urgent: self.buffer.state(now) != PlayState::Playing,
            top_kbps: Some(kbps(ladder.top())),
            ..Cmcd::default()
        }
    }

    /// The request has been sent, so data that CMCD reports once is cleared.
    pub fn handle_sent(&mut self) {
        self.starved = false;
    }

    /// The response to a request began; the whole segment has `size` bytes, if the server announced a size.
    pub fn handle_headers(&mut self, now: Instant, id: u64, size: Option<u64>) {
        self.settle(now);
        if let Some(download) = self.download(id) {
            download.first_byte = Some(now);
            download.moved = now;
            download.size = size;
        }
    }

    /// Bytes arrived.
    pub fn handle_data(&mut self, now: Instant, id: u64, bytes: u64) {
        self.settle(now);
        let Some(download) = self.download(id) else { return };
        download.arrived += bytes;
        download.moved = now;
        let due = now.saturating_since(download.looked) >= CHECK_INTERVAL;
        self.record.arrived(bytes);
        if due {
            self.look(now);
        }
    }

    /// Number of bytes of a running download that have arrived and that [`Self::handle_data`] has not reported: earlier
    /// ones are missing, or they have not been read yet. A driver that knows this number calls this before its other
    /// calls.
    pub fn handle_unread(&mut self, now: Instant, id: u64, bytes: u64) {
        if let Some(download) = self.download(id) {
            download.handle_unread(now, bytes);
        }
    }

    /// The response ended. A response with too few or too many bytes has failed.
    pub fn handle_end(&mut self, now: Instant, id: u64) {
        self.settle(now);
        let Some(download) = self.download(id) else { return };
        match download.size {
            Some(size) if download.arrived > size => {
                // It is unknown which bytes are correct, so the whole segment is fetched again.
                download.arrived = 0;
                self.fail(now, format!("more than the {size} bytes announced"));
            }
            Some(size) if download.arrived < size => {
                let why = format!("{} of {size} bytes", download.arrived);
                self.fail(now, why);
            }
            _ => self.finish(now),
        }
    }

    /// A download failed. `kept` says whether it can continue after the bytes that arrived.
    pub fn handle_failed(&mut self, now: Instant, id: u64, kept: bool, why: &str) {
        self.settle(now);
        let Some(download) = self.download(id) else { return };
        if !kept {
            download.arrived = 0;
        }
        self.fail(now, why.to_owned());
    }

    /// The segment of a running download does not exist, and is not needed: it would only have been the rounding of a
    /// duration in the manifest. Playback goes on with the next one.
    pub fn handle_missing(&mut self, now: Instant, id: u64, why: &str) {
        self.settle(now);
        let Some(download) = self.download(id) else { return };
        let segment = download.request.segment;
        let duration_s = self.title.segments[segment].as_secs_f64();
        self.events.push_back(Event::Missing { segment, duration_s, why: why.to_owned() });
        self.failures = 0;
        self.state = State::Space { since: now };
        self.go_on();
        self.advance(now);
    }

    /// The server is sending, but not yet the bytes that were asked for.
    pub fn handle_alive(&mut self, now: Instant, id: u64) {
        if let Some(download) = self.download(id) {
            download.moved = now;
        }
    }

    /// The transport is replaced: the running download is aborted and continued after the bytes that arrived.
    pub fn handle_moved(&mut self, now: Instant) {
        self.settle(now);
        let State::Loading(download) = &self.state else { return };
        let Request { id, segment, quality, .. } = download.request;
        let from = download.arrived;
        self.commands.push_back(Command::Abort(id));
        if download.size == Some(from) {
            return self.finish(now);
        }
        self.events.push_back(Event::Moved { segment, from });
        self.request(now, quality, from);
    }

    /// The network changed: calls the rule at once to decide whether to continue the download.
    pub fn handle_network_change(&mut self, now: Instant) {
        self.settle(now);
        self.look(now);
    }

    /// Handles the timeout.
    pub fn handle_timeout(&mut self, now: Instant) {
        self.settle(now);
        if let State::Loading(download) = &self.state {
            if now.saturating_since(download.moved) >= self.settings.silence {
                let why = format!("no byte for {:?}", self.settings.silence);
                self.commands.push_back(Command::Abort(download.request.id));
                self.fail(now, why);
            } else if now.saturating_since(download.looked) >= IDLE_CHECK_INTERVAL {
                self.look(now);
            }
        }
        self.advance(now);
    }

    /// When [`Self::handle_timeout`] is due.
    #[must_use]
    pub fn poll_timeout(&self) -> Option<Instant> {
        let mine = match &self.state {
            State::Space { .. } => self.space_at(),
            State::Until { at, .. } => Some(*at),
            State::Loading(download) => {
                Some((download.moved + self.settings.silence).min(download.looked + IDLE_CHECK_INTERVAL))
            }
            State::Loaded => None,
            State::GivenUp(_) => return None,
        };
        [mine, self.buffer.poll_timeout(), Some(self.record.due())].into_iter().flatten().min()
    }

    /// The next command.
    pub fn poll_command(&mut self) -> Option<Command> {
        self.commands.pop_front()
    }

    /// The next event for the log.
    pub fn poll_event(&mut self) -> Option<Event> {
        self.events.pop_front()
    }

    fn download(&mut self, id: u64) -> Option<&mut Download> {
        match &mut self.state {
            State::Loading(download) if download.request.id == id => Some(download),
            _ => None,
        }
    }

    /// Updates the playhead and the record to `now`, and logs the playhead's events.
    fn settle(&mut self, now: Instant) {
        self.record.up_to(now, &self.buffer, self.last_quality);
        self.buffer.handle_timeout(now);
        let shown = self.buffer.state(now);
        if shown == self.shown {
            return;
        }
        self.events.push_back(match (self.shown, shown) {
            (_, PlayState::Ended) => Event::Ended,
            (_, PlayState::Stalled) => Event::Stalled,
            (PlayState::Stalled, _) => Event::Resumed,
            _ => Event::Started,
        });
        self.starved |= shown == PlayState::Stalled;
        self.shown = shown;
    }

    /// When the buffer has space for the next segment.
    fn space_at(&self) -> Option<Instant> {
        let State::Space { since } = self.state else { return None };
        let segment = self.title.segments.get(self.next)?;
        let excess = self.buffer.buffered() + *segment;
        let shown = excess.saturating_sub(self.settings.capacity);
        // Also during a stall: the playhead does not move, but what it has passed is no longer in the buffer.
        if self.buffer.position(since) >= shown {
            return Some(since);
        }
        // A nearly full buffer always plays.
        self.buffer.shown_at(shown).map(|at| at.max(since))
    }

    /// Proceeds until the player must wait.
    fn advance(&mut self, now: Instant) {
        if let State::Space { since } = self.state {
            if self.next >= self.title.segments.len() {
                self.state = State::Loaded;
                self.buffer.end_of_media(now);
                self.settle(now);
                return;
            }
            if self.space_at().is_none_or(|at| at > now) {
                return;
            }
            let waited = now.saturating_since(since);
            if !waited.is_zero() {
                self.rule.waited(waited);
            }
            let (quality, delay) = self.choose(now);
            self.state = State::Until { at: now + delay.min(self.settings.capacity), request: (quality, 0) };
        }
        if let State::Until { at, request: (quality, from) } = self.state
            && at <= now
        {
            self.request(now, quality, from);
        }
    }

    /// The quality of the next segment, and the wait before its request.
    fn choose(&mut self, now: Instant) -> (usize, Duration) {
        if let Some(quality) = self.instead.take() {
            return (quality, Duration::ZERO);
        }
        // Nothing is known about the network before the first segment.
        if self.next == 0 {
            return (0, Duration::ZERO);
        }
        let decision = self.ask(now, |rule, view| rule.choose(view));
        (decision.quality.min(self.title.ladder_at(self.next).top()), decision.delay)
    }

    /// Calls the rule with the present view.
    fn ask<T>(&mut self, now: Instant, question: impl FnOnce(&mut dyn Rule, &View<'_>) -> T) -> T {
        let view = View {
            ladder: self.title.ladder_at(self.next),
            level: self.buffer.level(now),
            capacity: self.settings.capacity,
            next: self.next,
            remaining: Some(self.title.segments.len() - self.next),
            estimate: self.estimate.estimate(),
        };
        question(self.rule.as_mut(), &view)
    }

    fn request(&mut self, now: Instant, quality: usize, from: u64) {
        if self.begins_ladder() && self.entered.replace(self.next) != Some(self.next) {
            let qualities = self.title.ladder_at(self.next).len();
            self.events.push_back(Event::NewLadder { segment: self.next, qualities });
        } else if let Some(last) = self.last_quality.filter(|last| *last != quality) {
            self.events.push_back(Event::Switched { segment: self.next, from: last, to: quality });
        }
        self.last_quality = Some(quality);
        self.ids += 1;
        let request = Request { id: self.ids, segment: self.next, quality, from };
        self.commands.push_back(Command::Request(request));
        self.state = State::Loading(Download::new(request, now));
    }

    /// Whether the next segment is the first with another ladder.
    fn begins_ladder(&self) -> bool {
        self.title.later.iter().any(|(from, _)| *from == self.next)
    }

    /// The segment is complete.
    fn finish(&mut self, now: Instant) {
        let since = State::Space { since: now };
        let State::Loading(download) = core::mem::replace(&mut self.state, since) else { return };
        let Request { segment, quality, from, .. } = download.request;
        let first_byte = download.first_byte.unwrap_or(now);
        let duration = self.title.segments[segment];
        let latency = first_byte.saturating_since(download.began);
        let bits = (download.arrived - from) as f64 * 8.0;
        self.estimate.add(bits, now.saturating_since(first_byte), latency, duration);
        self.buffer.append(now, duration);
        self.record.loaded(&download.request, (download.began, first_byte, now), download.arrived);
        self.failures = 0;
        let elapsed = now.saturating_since(download.began);
        let finished = Finished { quality, elapsed, abandoned_to: None };
        if segment > 0 {
            self.ask(now, |rule, view| rule.finished(view, &finished));
        }
        self.go_on();
        self.settle(now);
        self.advance(now);
    }

    /// Moves on to the next segment.
    fn go_on(&mut self) {
        self.next += 1;
        if self.begins_ladder() {
            self.instead = None;
            self.rule.new_ladder();
        }
    }

    /// The running download failed: continues it after a pause, or gives playback up.
    fn fail(&mut self, now: Instant, why: String) {
        let State::Loading(download) = &self.state else { return };
        let Request { segment, quality, .. } = download.request;
        let from = download.arrived;
        self.failures += 1;
        let times = self.failures;
        if times >= self.settings.tries {
            self.state = State::GivenUp(GivenUp { segment, times, why });
            return;
        }
        self.events.push_back(Event::Failed { segment, times, why });
        self.record.failed();
        let rest = self.settings.rest * (1 << (times - 1).min(10));
        self.state = State::Until { at: now + rest, request: (quality, from) };
    }
}

#[cfg(test)]
mod tests;
