//! Progressive download: one file over one HTTP connection, played while it arrives.
//!
//! Pictures become complete in file order. A clock starts when enough media is buffered; every picture has a time on
//! it, which is the decoder's deadline. A picture that is complete only after its time is discarded. The clock runs
//! on past missing pictures for a moment; then playback stops and buffers again. Source: the handoff paper (Fujiwara
//! et al., "Handoff Characterization of Multipath Video Streaming"), §III and §V. Details that the paper does not
//! give follow VLC, the player that it used; `docs/models/progressive-video.md` lists them. Not here: decoding, HTTP,
//! and reading from the socket.

use core::time::Duration;

use tributary_types::{Bitrate, Instant};

use crate::buffer::{PlayBuffer, PlayState, Underflow};

const NANOS: u128 = 1_000_000_000;

/// The file: pictures in groups, each of which begins with an intra picture.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Film {
    /// Bitrate of every whole group.
    pub bitrate: Bitrate,
    /// Pictures a second.
    pub pictures_per_second: u32,
    /// Pictures of a group, at least one.
    pub group: u32,
    /// Size of an intra picture, in other pictures.
    pub intra: u32,
    /// Pictures of the file.
    pub pictures: u64,
}

impl Film {
    /// The paper's file: 5.24 Mbit/s for 10 min 24 s, 409 MB. 25 pictures a second in groups of one second, and intra
    /// pictures as large as six others, are chosen here.
    #[must_use]
    pub const fn paper() -> Self {
        let (pictures_per_second, seconds) = (25, 624);
        Self {
            bitrate: Bitrate::from_bps(5_240_000),
            pictures_per_second,
            group: 25,
            intra: 6,
            pictures: pictures_per_second as u64 * seconds,
        }
    }

    /// Bytes of the file.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        self.bytes_of(self.pictures)
    }

    /// Bytes of the first `pictures` pictures.
    #[must_use]
    pub fn bytes_of(&self, pictures: u64) -> u64 {
        let pictures = pictures.min(self.pictures);
        let (group, rate) = (u64::from(self.group.max(1)), u128::from(self.pictures_per_second.max(1)));
        let whole = |groups: u64| u128::from(groups * group) * u128::from(self.bitrate.as_bps()) / (8 * rate);
        let (before, rest) = (pictures / group, pictures % group);
        let begun = whole(before);
        let shares = |pictures: u64| u128::from(pictures + u64::from(self.intra.max(1)) - 1);
        let part = if rest == 0 { 0 } else { (whole(before + 1) - begun) * shares(rest) / shares(group) };
        u64::try_from(begun + part).unwrap_or(u64::MAX)
    }

    /// Presentation time of picture `picture`, counted from the first picture.
    #[must_use]
    pub fn time_of(&self, picture: u64) -> Duration {
        let nanos = u128::from(picture) * NANOS / u128::from(self.pictures_per_second.max(1));
        Duration::from_nanos(u64::try_from(nanos).unwrap_or(u64::MAX))
    }

    /// Number of pictures whose time is before `position`.
    fn before(&self, position: Duration) -> u64 {
        let pictures = position.as_nanos() * u128::from(self.pictures_per_second.max(1));
        u64::try_from(pictures.div_ceil(NANOS)).unwrap_or(u64::MAX)
    }
}

/// How the file is played.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Settings {
    /// Media buffered before the first picture and after a stall. VLC's default for networks: 1 s.
    pub caching: Duration,
    /// How far the player reads ahead of the playhead, at least `caching`; `None` reads everything at once.
    pub ahead: Option<Duration>,
    /// How far the clock runs past missing pictures before playback stops.
    pub patience: Duration,
}

impl Default for Settings {
    fn default() -> Self {
        let second = Duration::from_secs(1);
        Self { caching: second, ahead: Some(second), patience: second }
    }
}

/// What a viewer noticed.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Record {
    /// From the request to the first picture; `None` if there was none.
    pub start_up: Option<Duration>,
    /// Pictures that were complete at their time.
    pub shown: u64,
    /// Pictures that were not.
    pub discards: u64,
    /// Times that the clock reached a picture that was missing: runs of discarded pictures.
    pub underflows: u64,
    /// Times that playback stopped to buffer.
    pub stalls: u64,
    /// The time of all stalls.
    pub stalled: Duration,
    /// Whether the last picture has been shown.
    pub ended: bool,
}

/// The player.
#[derive(Debug, Clone)]
pub struct Player {
    film: Film,
    ahead: Option<Duration>,
    buffer: PlayBuffer,
    /// Bytes of the file that have arrived.
    received: u64,
    /// Pictures that are complete.
    complete: u64,
    discards: u64,
    underflows: u64,
    /// The newest complete picture was late.
    late: bool,
}

impl Player {
    /// A player that requested the file at `now`.
    #[must_use]
    pub fn new(film: Film, settings: Settings, now: Instant) -> Self {
        let Settings { caching, ahead, patience } = settings;
        let underflow = Underflow::RunOn { start_with: caching, resume_with: caching, patience };
        Self {
            film,
            ahead: ahead.map(|ahead| ahead.max(caching)),
            buffer: PlayBuffer::new(underflow, now),
            received: 0,
            complete: 0,
            discards: 0,
            underflows: 0,
            late: false,
        }
    }

    /// Takes the next `bytes` of the file. Bytes beyond [`Player::space`] are accepted, too.
    pub fn handle_data(&mut self, now: Instant, bytes: u64) {
        self.buffer.handle_timeout(now);
        self.received = self.received.saturating_add(bytes).min(self.film.bytes());
        while self.complete < self.film.pictures && self.film.bytes_of(self.complete + 1) <= self.received {
            let time = self.film.time_of(self.complete);
            let late = self.buffer.position(now) > time;
            self.discards += u64::from(late);
            self.underflows += u64::from(late && !self.late);
            self.late = late;
            self.complete += 1;
            self.buffer.append(now, self.film.time_of(self.complete) - time);
        }
        if self.complete == self.film.pictures {
            self.buffer.end_of_media(now);
        }
    }

    /// Updates the player to `now`.
    pub fn handle_timeout(&mut self, now: Instant) {
        self.buffer.handle_timeout(now);
    }

    /// Bytes that the player can accept now.
    #[must_use]
    pub fn space(&self, now: Instant) -> u64 {
        let wanted = match self.ahead {
            Some(ahead) => self.film.bytes_of(self.begun(now) + self.film.before(ahead)),
            None => self.film.bytes(),
        };
        wanted.saturating_sub(self.received)
    }

    /// When there is room again; `None` while there is some, or while playback is stopped.
    #[must_use]
    pub fn next_space(&self, now: Instant) -> Option<Instant> {
        if self.space(now) > 0 || self.is_complete() {
            return None;
        }
        self.buffer.shown_at(self.film.time_of(self.begun(now)))
    }

    /// Whether the whole file has arrived.
    #[must_use]
    pub fn is_complete(&self) -> bool {
        self.complete == self.film.pictures
    }

    /// Number of pictures whose time has come.
    fn begun(&self, now: Instant) -> u64 {
        let position = self.buffer.position(now);
        let before = self.film.before(position);
        let on_time = self.film.time_of(before) == position;
        before + u64::from(on_time && self.buffer.state(now) == PlayState::Playing)
    }

    /// The viewer's record up to `now`. Missing pictures whose time has passed count as discarded.
    #[must_use]
    pub fn record(&self, now: Instant) -> Record {
        let passed = self.film.before(self.buffer.position(now)).min(self.film.pictures);
        let missing = passed.saturating_sub(self.complete);
        let state = self.buffer.state(now);
        Record {
            start_up: self.buffer.start_up(),
            shown: passed.saturating_sub(self.discards + missing),
            discards: self.discards + missing,
            underflows: self.underflows + u64::from(missing > 0 && !self.late),
            stalls: self.buffer.stalls(now).count() as u64,
            stalled: self.buffer.stalled(now),
            ended: state == PlayState::Ended,
        }
    }
}

#[cfg(test)]
mod tests;
