//! The play buffer: the playhead, the media buffered ahead of it, and the stalls.
//!
//! Media is counted as time from its start and is buffered without gaps; the caller keeps its bytes and
//! qualities. [`Underflow`] selects the kind of playback: a DASH player waits when the buffer runs
//! dry; a player of a progressive download lets its clock run on for a moment and then waits; a live player with
//! concealment continues and shows the tiles it has.

use core::time::Duration;

use tributary_types::Instant;

/// Maximum number of stalls listed; [`PlayBuffer::stalled`] counts all of them.
const MOST_LISTED: usize = 10_000;

/// What the playhead does when it reaches the end of the buffered media.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Underflow {
    /// It stops (a stall) until enough media is buffered.
    Wait {
        /// Media buffered before the first picture is shown.
        start_with: Duration,
        /// Media buffered before playback continues after a stall.
        resume_with: Duration,
    },
    /// It runs on for `patience`; media that arrives after its own play time is not shown. Then it stops (a stall)
    /// until enough media is buffered. Example with a patience of 1 s: the media from 10 s to 11 s is missing at 10
    /// s. If it arrives at 10.4 s, the part from 10.4 s to 11 s is still shown, and playback does not stop.
    RunOn {
        /// Media buffered before the first picture is shown.
        start_with: Duration,
        /// Media buffered before playback continues after a stall.
        resume_with: Duration,
        /// How far the playhead runs past the end of the buffered media.
        patience: Duration,
    },
    /// It continues: missing pictures are concealed. Playback begins with [`PlayBuffer::start_at`].
    Conceal,
}

/// State of the playhead.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PlayState {
    /// Before the first picture.
    Starting,
    /// It advances with time.
    Playing,
    /// The buffer ran dry; it waits for media.
    Stalled,
    /// The last picture has been shown.
    Ended,
}

/// One interruption of playback.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Stall {
    /// When the playhead stopped.
    pub at: Instant,
    /// Its length, up to the present for a stall that still lasts.
    pub length: Duration,
}

/// The playhead and the media ahead of it.
#[derive(Debug, Clone)]
pub struct PlayBuffer {
    underflow: Underflow,
    /// When the viewer requested the video.
    began: Instant,
    state: PlayState,
    /// Position of the playhead at `since`.
    position: Duration,
    /// When the present state began; while playing it may be in the future (a scheduled start).
    since: Instant,
    /// End of the buffered media.
    buffered: Duration,
    /// Whether the buffered media is the end of the video.
    complete: bool,
    first_picture: Option<Instant>,
    stalls: Vec<Stall>,
    stalled: Duration,
}

impl PlayBuffer {
    /// An empty buffer of a video requested at `now`.
    #[must_use]
    pub fn new(underflow: Underflow, now: Instant) -> Self {
        Self {
            underflow,
            began: now,
            state: PlayState::Starting,
            position: Duration::ZERO,
            since: now,
            buffered: Duration::ZERO,
            complete: false,
            first_picture: None,
            stalls: Vec::new(),
            stalled: Duration::ZERO,
        }
    }

    /// Schedules the first picture for `at`, which may be in the future. For [`Underflow::Conceal`]; with the others
    /// playback starts by itself.
    pub fn start_at(&mut self, at: Instant) {
        if self.state == PlayState::Starting {
            self.play(at);
        }
    }

    /// Pictures that have not been shown are shown this much later than planned. For [`Underflow::Conceal`].
    pub fn delay(&mut self, by: Duration) {
        if self.state == PlayState::Playing {
            self.since += by;
        }
    }

    /// Adds the next `media`.
    pub fn append(&mut self, now: Instant, media: Duration) {
        self.handle_timeout(now);
        self.buffered += media;
        self.start_if_enough(now);
    }

    /// Discards buffered media from `from` on, to be replaced in another quality. Media already played is not affected.
    pub fn discard_from(&mut self, now: Instant, from: Duration) {
        self.handle_timeout(now);
        self.buffered = self.buffered.min(from.max(self.position(now)));
        self.complete = false;
    }

    /// No media follows: playback starts with the buffered media and ends with its last picture.
    pub fn end_of_media(&mut self, now: Instant) {
        self.handle_timeout(now);
        self.complete = true;
        self.start_if_enough(now);
    }

    /// Updates the state to `now`.
    pub fn handle_timeout(&mut self, now: Instant) {
        let Some(dry) = self.poll_timeout().filter(|at| *at <= now) else { return };
        self.position = self.buffered + self.overrun();
        self.since = dry;
        self.state = if self.complete { PlayState::Ended } else { PlayState::Stalled };
    }

    /// When playback stops if nothing more arrives: a stall, or the end. `None` while it does not play, and
    /// with [`Underflow::Conceal`] before the last media is known.
    #[must_use]
    pub fn poll_timeout(&self) -> Option<Instant> {
        let waits = self.underflow != Underflow::Conceal || self.complete;
        let left = (self.buffered + self.overrun()).saturating_sub(self.position);
        (self.state == PlayState::Playing && waits).then(|| self.since + left)
    }

    /// How far the playhead runs past the end of the buffered media.
    fn overrun(&self) -> Duration {
        match self.underflow {
            Underflow::RunOn { patience, .. } if !self.complete => patience,
            _ => Duration::ZERO,
        }
    }

    /// State of the playhead at `now`.
    #[must_use]
    pub fn state(&self, now: Instant) -> PlayState {
        match self.poll_timeout() {
            Some(dry) if dry <= now && self.complete => PlayState::Ended,
            Some(dry) if dry <= now => PlayState::Stalled,
            _ => self.state,
        }
    }

    /// Position of the playhead at `now`.
    #[must_use]
    pub fn position(&self, now: Instant) -> Duration {
        match self.state {
            PlayState::Playing => {
                let position = self.position + now.saturating_since(self.since);
                if self.underflow == Underflow::Conceal && !self.complete {
                    position
                } else {
                    position.min(self.buffered + self.overrun())
                }
            }
            _ => self.position,
        }
    }

    /// Position of the playhead in seconds; negative before a scheduled start.
    #[must_use]
    pub fn position_s(&self, now: Instant) -> f64 {
        let ahead =
            if self.state == PlayState::Playing { self.since.saturating_since(now) } else { Duration::ZERO };
        self.position(now).as_secs_f64() - ahead.as_secs_f64()
    }

    /// Media buffered ahead of the playhead.
    #[must_use]
    pub fn level(&self, now: Instant) -> Duration {
        self.buffered.saturating_sub(self.position(now))
    }

    /// End of the buffered media.
    #[must_use]
    pub fn buffered(&self) -> Duration {
        self.buffered
    }

    /// When the picture at `media` is shown if no stall occurs; in the past for pictures already
    /// shown. `None` while the playhead does not move.
    #[must_use]
    pub fn shown_at(&self, media: Duration) -> Option<Instant> {
        let ahead = media.saturating_sub(self.position);
        let behind = self.position.saturating_sub(media);
        (self.state == PlayState::Playing).then(|| {
            let at = self.since + ahead;
            Instant::from_nanos(at.as_nanos().saturating_sub(behind.as_nanos() as u64))
        })
    }

    /// Time from the request for the video to its first picture; `None` before a start is known.
    #[must_use]
    pub fn start_up(&self) -> Option<Duration> {
        self.first_picture.map(|at| at.saturating_since(self.began))
    }

    /// The stalls so far, including one that still lasts. The wait before the first picture does not count.
    pub fn stalls(&self, now: Instant) -> impl Iterator<Item = Stall> + '_ {
        self.stalls.iter().copied().chain(self.present_stall(now))
    }

    /// The time of all stalls so far.
    #[must_use]
    pub fn stalled(&self, now: Instant) -> Duration {
        self.stalled + self.present_stall(now).map_or(Duration::ZERO, |stall| stall.length)
    }

    fn present_stall(&self, now: Instant) -> Option<Stall> {
        let at = match self.state {
            PlayState::Stalled => self.since,
            PlayState::Playing => self.poll_timeout().filter(|dry| *dry < now && !self.complete)?,
            PlayState::Starting | PlayState::Ended => return None,
        };
        Some(Stall { at, length: now.saturating_since(at) })
    }

    fn start_if_enough(&mut self, now: Instant) {
        let (start_with, resume_with) = match self.underflow {
            Underflow::Wait { start_with, resume_with }
            | Underflow::RunOn { start_with, resume_with, .. } => (start_with, resume_with),
            Underflow::Conceal => return,
        };
        let needed = match self.state {
            PlayState::Starting => start_with,
            PlayState::Stalled => resume_with,
            PlayState::Playing | PlayState::Ended => return,
        };
        let level = self.buffered.saturating_sub(self.position);
        if level > Duration::ZERO && (level >= needed || self.complete) {
            if let Some(stall) = self.present_stall(now) {
                self.stalled += stall.length;
                if self.stalls.len() < MOST_LISTED {
                    self.stalls.push(stall);
                }
            }
            self.play(now);
        } else if self.complete && level == Duration::ZERO {
            self.state = PlayState::Ended;
        }
    }

    fn play(&mut self, at: Instant) {
        self.first_picture.get_or_insert(at);
        self.state = PlayState::Playing;
        self.since = at;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    fn at(millis: u64) -> Instant {
        Instant::from_millis(1000 + millis)
    }

    fn millis(millis: u64) -> Duration {
        Duration::from_millis(millis)
    }

    fn waiting() -> PlayBuffer {
        let underflow = Underflow::Wait { start_with: 2 * SECOND, resume_with: SECOND };
        PlayBuffer::new(underflow, at(0))
    }

    #[test]
    fn playback_starts_stalls_resumes_and_ends() {
        let mut buffer = waiting();
        buffer.append(at(500), SECOND);
        assert_eq!((buffer.state(at(900)), buffer.level(at(900))), (PlayState::Starting, SECOND));
        buffer.append(at(1000), SECOND);
        assert_eq!((buffer.state(at(1000)), buffer.start_up()), (PlayState::Playing, Some(SECOND)));
        assert_eq!(buffer.poll_timeout(), Some(at(3000)));
        assert_eq!(buffer.level(at(1400)), millis(1600));
        // The stall is known although the state was not queried in between.
        assert_eq!((buffer.state(at(3300)), buffer.stalled(at(3300))), (PlayState::Stalled, millis(300)));
        buffer.append(at(3500), SECOND);
        assert_eq!(buffer.state(at(3500)), PlayState::Playing);
        let stalls: Vec<Stall> = buffer.stalls(at(3600)).collect();
        assert_eq!(stalls, [Stall { at: at(3000), length: millis(500) }]);
        buffer.append(at(3600), millis(400));
        buffer.end_of_media(at(3700));
        assert_eq!((buffer.state(at(4899)), buffer.state(at(4900))), (PlayState::Playing, PlayState::Ended));
        assert_eq!((buffer.position(at(9000)), buffer.stalled(at(9000))), (millis(3400), millis(500)));
    }

    #[test]
    fn a_short_video_starts_with_less_and_an_empty_one_ends() {
        let mut buffer = waiting();
        buffer.append(at(100), millis(300));
        buffer.end_of_media(at(200));
        assert_eq!((buffer.state(at(200)), buffer.state(at(500))), (PlayState::Playing, PlayState::Ended));
        let mut buffer = waiting();
        buffer.end_of_media(at(200));
        assert_eq!((buffer.state(at(200)), buffer.start_up()), (PlayState::Ended, None));
    }

    #[test]
    fn buffered_media_can_be_replaced_but_not_what_was_played() {
        let mut buffer = waiting();
        buffer.append(at(0), 4 * SECOND);
        buffer.discard_from(at(1500), 3 * SECOND);
        assert_eq!(buffer.level(at(1500)), millis(1500));
        buffer.discard_from(at(1600), SECOND);
        assert_eq!((buffer.level(at(1600)), buffer.state(at(1600))), (Duration::ZERO, PlayState::Stalled));
        buffer.append(at(1700), SECOND);
        assert_eq!((buffer.position(at(1700)), buffer.stalled(at(1700))), (millis(1600), millis(100)));
    }

    #[test]
    fn a_running_clock_skips_late_media_and_stops_after_its_patience() {
        let underflow = Underflow::RunOn { start_with: SECOND, resume_with: SECOND, patience: millis(500) };
        let mut buffer = PlayBuffer::new(underflow, at(0));
        buffer.append(at(0), SECOND);
        assert_eq!((buffer.state(at(0)), buffer.poll_timeout()), (PlayState::Playing, Some(at(1500))));
        // Dry at 1000; the playhead is at 1.3 s of media when two more seconds come.
        assert_eq!((buffer.position(at(1300)), buffer.level(at(1300))), (millis(1300), Duration::ZERO));
        buffer.append(at(1300), 2 * SECOND);
        assert_eq!((buffer.level(at(1300)), buffer.stalled(at(1300))), (millis(1700), Duration::ZERO));
        // Empty at 3000, stopped at 3500. The first media to arrive is already late.
        assert_eq!(
            (buffer.state(at(3499)), buffer.state(at(3500))),
            (PlayState::Playing, PlayState::Stalled)
        );
        buffer.append(at(4000), SECOND);
        assert_eq!((buffer.state(at(4000)), buffer.level(at(4000))), (PlayState::Stalled, millis(500)));
        buffer.append(at(4200), millis(500));
        assert_eq!((buffer.state(at(4200)), buffer.position(at(4200))), (PlayState::Playing, millis(3500)));
        let stalls: Vec<Stall> = buffer.stalls(at(4300)).collect();
        assert_eq!(stalls, [Stall { at: at(3500), length: millis(700) }]);
        buffer.end_of_media(at(4300));
        assert_eq!((buffer.poll_timeout(), buffer.state(at(5200))), (Some(at(5200)), PlayState::Ended));
    }

    #[test]
    fn an_end_that_is_known_late_ends_playback_at_once() {
        let underflow = Underflow::RunOn { start_with: SECOND, resume_with: SECOND, patience: millis(500) };
        let mut buffer = PlayBuffer::new(underflow, at(0));
        buffer.append(at(0), SECOND);
        buffer.end_of_media(at(1200));
        assert_eq!((buffer.state(at(1200)), buffer.position(at(1200))), (PlayState::Ended, SECOND));
    }

    #[test]
    fn concealed_playback_never_waits_for_late_media() {
        let mut buffer = PlayBuffer::new(Underflow::Conceal, at(0));
        assert_eq!(buffer.shown_at(SECOND), None);
        buffer.start_at(at(1000));
        assert_eq!(buffer.shown_at(2 * SECOND), Some(at(3000)));
        assert!((buffer.position_s(at(400)) + 0.6).abs() < 1e-9);
        assert_eq!((buffer.position(at(2500)), buffer.state(at(2500))), (millis(1500), PlayState::Playing));
        assert_eq!((buffer.stalled(at(2500)), buffer.start_up()), (Duration::ZERO, Some(SECOND)));
        buffer.append(at(2600), 3 * SECOND);
        buffer.end_of_media(at(2600));
        assert_eq!((buffer.poll_timeout(), buffer.state(at(4000))), (Some(at(4000)), PlayState::Ended));
    }
}
