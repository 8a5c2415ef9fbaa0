//! Whether data that was arriving on a subflow has stopped because the peer pauses, or because nothing arrives any more.
//!
//! A sender notices a silent path because its segments are not acknowledged; a receiver has no such sign. So when
//! data that was arriving stops before its stream ends, the receiver sends a PING. A peer that only pauses answers it, and
//! the pause costs that one PING; pauses that come again are awaited longer. When neither an answer nor anything else
//! arrives, the path is silent. Without data that was arriving there is no timer: an idle session is not probed.
//! Not here: what is done about the silence.

use core::time::Duration;

use tributary_types::{Instant, StreamId};

use super::SubflowInfo;

/// Bytes that must arrive without a pause before a pause is worth a PING.
const MOVING: u64 = 64 << 10;
/// Shortest pause that is worth a PING. A radio's usual gaps are shorter.
const LEAST_PAUSE: Duration = Duration::from_millis(200);
/// Least part of the time for the answer beyond the round trip: it may wait behind a retransmission timeout of the peer's
/// transport (200 ms in Linux), twice.
const LEAST_ANSWER: Duration = Duration::from_millis(400);
/// A pause that was only a pause doubles the time until the next PING, at most so many times.
const MOST_DOUBLINGS: u32 = 4;
/// So many bytes without such a pause, and the time is the shortest again.
const STEADY: u64 = 4 << 20;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    /// Nothing is awaited.
    Resting,
    /// Data was arriving.
    Moving,
    /// Nothing has arrived since this PING.
    Asked(Instant),
    /// The PING was not answered.
    Silent,
}

/// What to do when a time has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// Nothing.
    Wait,
    /// Send a PING, unless the stream whose data was arriving has ended.
    Ask(StreamId),
    /// Nothing arrives any more: the time since the last data.
    Silent(Duration),
}

/// The receiving side of a subflow.
#[derive(Debug)]
pub(crate) struct Listening {
    state: State,
    /// When data last arrived.
    data_at: Instant,
    /// Bytes that have arrived without a pause.
    run: u64,
    /// Bytes since the last pause that was only a pause.
    steady: u64,
    doublings: u32,
    /// The stream of the newest data that was not complete with it.
    stream: Option<StreamId>,
}

impl Default for Listening {
    fn default() -> Self {
        let (state, data_at) = (State::Resting, Instant::ZERO);
        Self { state, data_at, run: 0, steady: 0, doublings: 0, stream: None }
    }
}

impl Listening {
    /// Time without data after which a PING is sent.
    fn pause(&self, info: &SubflowInfo) -> Duration {
        (info.srtt * 3 + info.rttvar * 4).max(LEAST_PAUSE) * (1 << self.doublings)
    }

    fn answer(info: &SubflowInfo) -> Duration {
        info.srtt * 2 + (info.rttvar * 8).max(LEAST_ANSWER)
    }

    /// Payload arrived; `unfinished`: of this stream, which has not arrived completely.
    pub fn data(&mut self, now: Instant, bytes: u64, unfinished: Option<StreamId>, info: &SubflowInfo) {
        if now.saturating_since(self.data_at) >= self.pause(info) {
            self.run = 0;
        }
        self.data_at = now;
        self.run += bytes;
        self.steady += bytes;
        if self.steady >= STEADY {
            self.doublings = 0;
        }
        self.stream = unfinished.or(self.stream);
        self.state = if self.run >= MOVING { State::Moving } else { State::Resting };
    }

    /// Anything arrived. Returns whether the subflow was silent.
    pub fn heard(&mut self) -> bool {
        let was = self.state;
        if matches!(was, State::Asked(_)) {
            // The peer only pauses.
            self.doublings = (self.doublings + 1).min(MOST_DOUBLINGS);
            self.steady = 0;
        }
        if matches!(was, State::Asked(_) | State::Silent) {
            (self.state, self.run) = (State::Resting, 0);
        }
        was == State::Silent
    }

    /// Nothing has arrived although an answer was due.
    pub fn is_silent(&self) -> bool {
        self.state == State::Silent
    }

    /// When [`Self::handle_timeout`] must be called.
    pub fn poll_timeout(&self, info: &SubflowInfo) -> Option<Instant> {
        match self.state {
            State::Moving => Some(self.data_at + self.pause(info)),
            State::Asked(at) => Some(at + Self::answer(info)),
            State::Resting | State::Silent => None,
        }
    }

    /// Time has passed.
    pub fn handle_timeout(&mut self, now: Instant, info: &SubflowInfo) -> Verdict {
        if self.poll_timeout(info).is_none_or(|at| now < at) {
            return Verdict::Wait;
        }
        match (self.state, self.stream) {
            (State::Moving, Some(stream)) => {
                self.state = State::Asked(now);
                Verdict::Ask(stream)
            }
            (State::Asked(_), _) => {
                self.state = State::Silent;
                Verdict::Silent(now.saturating_since(self.data_at))
            }
            _ => {
                self.rest();
                Verdict::Wait
            }
        }
    }

    /// The stream has ended: nothing is awaited.
    pub fn rest(&mut self) {
        (self.state, self.run, self.stream) = (State::Resting, 0, None);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const STREAM: StreamId = StreamId(1);

    fn info() -> SubflowInfo {
        let rtt = Duration::from_millis(20);
        SubflowInfo { srtt: rtt, rttvar: rtt / 8, ..SubflowInfo::default() }
    }

    fn at(ms: u64) -> Instant {
        Instant::from_millis(ms)
    }

    #[test]
    fn a_peer_that_pauses_again_and_again_is_asked_ever_more_seldom() {
        let (mut listening, mut now, mut waits) = (Listening::default(), 1000, Vec::new());
        for _ in 0..7 {
            listening.data(at(now), 100_000, Some(STREAM), &info());
            let due = listening.poll_timeout(&info()).unwrap();
            waits.push(due.saturating_since(at(now)).as_millis() as u64);
            assert_eq!(listening.handle_timeout(due, &info()), Verdict::Ask(STREAM));
            assert!(!listening.heard());
            // Nothing more is asked in the same pause.
            assert_eq!(listening.poll_timeout(&info()), None);
            now += 10_000;
        }
        assert_eq!(waits, [200, 400, 800, 1600, 3200, 3200, 3200]);
        (0..50).for_each(|i| listening.data(at(now + i), 100_000, Some(STREAM), &info()));
        assert_eq!(listening.poll_timeout(&info()), Some(at(now + 49 + 200)), "it moves steadily again");
    }

    #[test]
    fn little_data_is_not_followed_by_a_question() {
        let mut listening = Listening::default();
        for second in 1..100 {
            // An interactive session: a few bytes now and then.
            listening.data(at(second * 1000), 5000, Some(STREAM), &info());
            assert_eq!(listening.poll_timeout(&info()), None);
        }
    }

    #[test]
    fn without_an_answer_the_subflow_is_silent_until_something_arrives() {
        let mut listening = Listening::default();
        listening.data(at(0), 100_000, Some(STREAM), &info());
        assert_eq!(listening.handle_timeout(at(199), &info()), Verdict::Wait);
        assert_eq!(listening.handle_timeout(at(200), &info()), Verdict::Ask(STREAM));
        assert_eq!(listening.handle_timeout(at(639), &info()), Verdict::Wait);
        assert_eq!(listening.handle_timeout(at(640), &info()), Verdict::Silent(Duration::from_millis(640)));
        assert!(listening.is_silent() && listening.poll_timeout(&info()).is_none());
        assert!(listening.heard() && !listening.is_silent());
    }
}
