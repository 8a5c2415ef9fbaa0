//! A driver's turn: what it does with a session's deadlines, frames, connection attempts and events, and in which order.
//! Used both on sockets and in the simulator.
//!
//! The driver first passes on what has arrived: input, rooms, the state of the transports. Then it begins a [`Turn`], carries
//! out each [`Output`] until there is none, writes, and sets its timer ([`deadline`], [`wake_at`]). Not here: reading and
//! writing, a subflow's room ([`crate::room`]), the rules of attempts ([`crate::handshakes`]).

use core::time::Duration;

use tributary_types::Instant;

use crate::event::{Event, Transmit};
use crate::handshakes::{Action, Handshakes};
use crate::session::Session;

/// Resolution of a driver's timer.
pub const TICK: Duration = Duration::from_millis(1);

/// What the driver does next.
#[derive(Debug)]
pub enum Output {
    /// Queue these bytes on their subflow. If the subflow has just broken, they are dropped.
    Frame(Transmit),
    /// Carry out a decision about an attempt or a subflow.
    Action(Action),
    /// Close a subflow, or pass the event on to the application.
    Event(Event),
}

/// One turn.
#[derive(Debug)]
pub struct Turn {
    /// The session may have more frames, and the driver takes them.
    sending: bool,
    /// A session that has ended has said so on every subflow.
    announced: bool,
}

impl Turn {
    /// Begins a turn: handles the deadlines that have passed. A server has no attempts.
    pub fn begin(now: Instant, session: &mut Session, handshakes: Option<&mut Handshakes>) -> Self {
        if session.poll_timeout().is_some_and(|at| at <= now) {
            session.handle_timeout(now);
        }
        if let Some(handshakes) = handshakes {
            handshakes.handle_timeout(now, session);
        }
        Self { sending: true, announced: false }
    }

    /// The next output, until `None`: frames, then events. Actions come first, because a subflow that is admitted may be in the
    /// next frame. The closing frames of a session that ends come before the events that close its subflows.
    pub fn poll(
        &mut self,
        now: Instant,
        session: &mut Session,
        mut handshakes: Option<&mut Handshakes>,
    ) -> Option<Output> {
        if let Some(action) = handshakes.as_mut().and_then(|handshakes| handshakes.poll_action()) {
            return Some(Output::Action(action));
        }
        if self.sending || session.is_closed() && !self.announced {
            if let Some(transmit) = session.poll_transmit(now) {
                return Some(Output::Frame(transmit));
            }
            self.sending = false;
            self.announced = session.is_closed();
        }
        let event = session.poll_event()?;
        if let Some(handshakes) = handshakes {
            handshakes.handle_event(now, &event);
        }
        Some(Output::Event(event))
    }

    /// Leaves the session's other frames to the next turn. Closing frames are not left.
    pub fn pause(&mut self) {
        self.sending = false;
    }
}

/// When the next turn is due although nothing has arrived.
#[must_use]
pub fn deadline(session: &Session, handshakes: Option<&Handshakes>) -> Option<Instant> {
    session.poll_timeout().into_iter().chain(handshakes.and_then(Handshakes::poll_timeout)).min()
}

/// When a driver's timer fires for a deadline. One that has passed was handled: it waits for a tick, so that the driver does
/// not spin.
#[must_use]
pub fn wake_at(now: Instant, deadline: Instant) -> Instant {
    deadline.max(now + TICK)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::Config;
    use crate::session::Side;
    use tributary_types::{PathId, SubflowId};

    const NOW: Instant = Instant::ZERO;

    fn server() -> Session {
        let mut session = Session::new(Side::Server, Config::default(), 1, NOW).unwrap();
        for id in [1, 2] {
            session.handle_subflow_open(NOW, SubflowId(id), PathId(id as u8)).unwrap();
        }
        session
    }

    /// What a whole turn gives: `F` for a frame and `E` for an event, `C` for one that closes a subflow.
    fn turn(session: &mut Session, mut act: impl FnMut(&mut Turn, &mut Session)) -> String {
        let mut turn = Turn::begin(NOW, session, None);
        let mut given = String::new();
        while let Some(output) = turn.poll(NOW, session, None) {
            given.push(match output {
                Output::Frame(_) => 'F',
                Output::Action(_) => 'A',
                Output::Event(Event::CloseSubflow { .. }) => 'C',
                Output::Event(_) => 'E',
            });
            act(&mut turn, session);
        }
        given
    }

    #[test]
    fn a_session_that_an_event_ends_says_so_on_every_subflow_before_they_are_closed() {
        let mut session = server();
        let mut ended = false;
        let given = turn(&mut session, |_, session| {
            if !std::mem::replace(&mut ended, true) {
                session.abort(7, "the first event");
            }
        });
        // Two subflows came up; neither has room for anything but the closing frame.
        assert_eq!(given, "EFFECCE");
        assert_eq!(turn(&mut session, |_, _| {}), "");
    }

    #[test]
    fn a_pause_leaves_frames_to_the_next_queued_and_no_events() {
        let mut session = server();
        assert_eq!(turn(&mut session, |_, _| {}), "EE");
        for id in [1, 2] {
            session.handle_room(SubflowId(id), 1 << 20);
        }
        let stream = session.open_stream(0).unwrap();
        session.write_slice(stream, &[0; 300_000]).unwrap();
        let paused = turn(&mut session, |turn, _| turn.pause());
        assert!(paused.starts_with('F') && !paused[1..].contains('F'), "{paused}");
        let rest = turn(&mut session, |_, _| {});
        assert!(rest.starts_with("FF"), "{rest}");
    }

    #[test]
    fn a_pause_does_not_keep_a_session_from_announcing_its_end() {
        let mut session = server();
        session.abort(7, "done");
        assert_eq!(turn(&mut session, |turn, _| turn.pause()), "FFEECCE");
    }

    #[test]
    fn an_admitted_subflow_is_known_before_frames_go_on_it() {
        let mut session = Session::new(Side::Client, Config::default(), 1, NOW).unwrap();
        let mut handshakes = Handshakes::new(false);
        session.add_path(NOW, PathId(0));
        let mut turn = Turn::begin(NOW, &mut session, Some(&mut handshakes));
        let Some(Output::Event(Event::OpenSubflow { subflow, .. })) =
            turn.poll(NOW, &mut session, Some(&mut handshakes))
        else {
            panic!("the session asks for a subflow");
        };
        let dial = turn.poll(NOW, &mut session, Some(&mut handshakes));
        assert!(matches!(dial, Some(Output::Action(Action::Dial { .. }))), "{dial:?}");
        use crate::handshakes::Progress;
        for progress in [Progress::Connected, Progress::Ready, Progress::Introduced, Progress::Accepted] {
            handshakes.handle(NOW, &mut session, subflow, progress);
        }
        session.handle_room(subflow, 1 << 20);
        let mut turn = Turn::begin(NOW, &mut session, Some(&mut handshakes));
        let mut next = || turn.poll(NOW, &mut session, Some(&mut handshakes));
        assert!(matches!(next(), Some(Output::Action(Action::Introduce { .. }))));
        assert!(matches!(next(), Some(Output::Action(Action::Admit { .. }))));
        assert!(matches!(next(), Some(Output::Frame(_))));
    }

    #[test]
    fn a_deadline_that_has_passed_waits_for_a_tick() {
        let at = Instant::from_millis;
        assert_eq!([wake_at(at(5), at(3)), wake_at(at(5), at(9))], [at(6), at(9)]);
    }
}
