//! Tests of attempts: failures, waits, and a server that has lost the session.

use super::*;
use crate::{Config, Side};

const WIFI: PathId = PathId(0);
const LTE: PathId = PathId(1);

/// An [`Handshakes`] with its session, and a clock in milliseconds.
struct Rig {
    session: Session,
    handshakes: Handshakes,
    now: Instant,
    actions: Vec<Action>,
}

impl Rig {
    fn new(paths: &[PathId]) -> Self {
        let now = Instant::ZERO;
        let session = Session::new(Side::Client, Config::default(), 1, now).unwrap();
        let mut rig = Self { session, handshakes: Handshakes::new(true), now, actions: Vec::new() };
        paths.iter().for_each(|path| rig.session.add_path(now, *path));
        rig.drain();
        rig
    }

    fn drain(&mut self) {
        while let Some(event) = self.session.poll_event() {
            self.handshakes.handle_event(self.now, &event);
        }
        while let Some(action) = self.handshakes.poll_action() {
            self.actions.push(action);
        }
    }

    fn report(&mut self, subflow: SubflowId, progress: Progress) {
        self.handshakes.handle(self.now, &mut self.session, subflow, progress);
        self.drain();
    }

    /// Takes an attempt through all steps, up to the server's acceptance.
    fn accept(&mut self, subflow: SubflowId) {
        for progress in [Progress::Connected, Progress::Ready, Progress::Introduced, Progress::Accepted] {
            self.report(subflow, progress);
        }
    }

    /// Lets time pass in steps of one millisecond.
    fn pass(&mut self, milliseconds: u64) {
        for _ in 0..milliseconds {
            self.now += Duration::from_millis(1);
            self.session.handle_timeout(self.now);
            self.handshakes.handle_timeout(self.now, &mut self.session);
            self.drain();
        }
    }

    /// The attempts dialled since the last call.
    fn dialled(&mut self) -> Vec<(PathId, SubflowId)> {
        let dialled = |action: &Action| match action {
            Action::Dial { path, subflow } => Some((*path, *subflow)),
            _ => None,
        };
        std::mem::take(&mut self.actions).iter().filter_map(dialled).collect()
    }
}

#[test]
fn a_path_with_a_captive_portal_backs_off_and_the_other_opens_the_session() {
    let mut rig = Rig::new(&[WIFI, LTE]);
    let first = rig.dialled();
    let (portal, slow) = (first[0].1, first[1].1);
    rig.report(portal, Progress::Failed(Failure::Unauthenticated));
    rig.pass(200);
    rig.accept(slow);
    let mut tries = 0;
    for _ in 0..600 {
        rig.pass(100);
        for (path, subflow) in rig.dialled() {
            assert_eq!(path, WIFI);
            tries += 1;
            rig.report(subflow, Progress::Failed(Failure::Unauthenticated));
        }
        rig.session.handle_input(rig.now, slow, bytes::Bytes::new()).unwrap();
    }
    // Waits of 250 ms that double up to 10 s, for 60 s.
    assert!((9..=12).contains(&tries), "{tries} attempts");
    assert!(!rig.session.is_closed());
}

#[test]
fn a_subflow_that_is_refused_after_its_hello_is_not_tried_again_at_once() {
    let mut rig = Rig::new(&[WIFI]);
    let (_, subflow) = rig.dialled()[0];
    rig.report(subflow, Progress::Ready);
    rig.report(subflow, Progress::Introduced);
    rig.report(subflow, Progress::Failed(Failure::Unauthenticated));
    assert_eq!(rig.dialled(), []);
    rig.pass(249);
    assert_eq!(rig.dialled(), []);
    rig.pass(1);
    assert_eq!(rig.dialled().len(), 1);
}

/// Nobody needs the key to send resets: for 10 s every subflow and every attempt is reset on one path, while the other
/// one is down. Then the other one recovers.
#[test]
fn resets_do_not_end_a_session() {
    for forged in [Failure::Broken, Failure::NobodyListens, Failure::Unauthenticated, Failure::Unreachable] {
        let mut rig = Rig::new(&[WIFI, LTE]);
        for (_, subflow) in rig.dialled() {
            rig.accept(subflow);
        }
        let open: Vec<_> = rig.session.subflow_stats().map(|stats| stats.subflow).collect();
        assert_eq!(open.len(), 2);
        open.into_iter().for_each(|subflow| rig.report(subflow, Progress::Failed(Failure::Broken)));
        let mut last = Vec::new();
        for _ in 0..10_000 {
            rig.pass(1);
            for (path, subflow) in rig.dialled() {
                if path == WIFI {
                    rig.report(subflow, Progress::Failed(forged));
                } else {
                    last.push(subflow);
                }
            }
            assert!(!rig.session.is_closed(), "{forged:?} ended the session at {}", rig.now);
        }
        rig.accept(*last.last().expect("the path that is down is tried"));
        assert_eq!(rig.session.subflow_stats().count(), 1, "{forged:?}");
    }
}

#[test]
fn only_the_servers_own_answer_ends_a_session() {
    let mut rig = Rig::new(&[WIFI]);
    let (_, subflow) = rig.dialled()[0];
    rig.report(subflow, Progress::Failed(Failure::UnknownSession));
    assert!(!rig.session.is_closed(), "there is no session yet");
    rig.pass(1000);
    let (_, subflow) = rig.dialled()[0];
    rig.accept(subflow);
    rig.report(subflow, Progress::Failed(Failure::Broken));
    let (_, again) = rig.dialled()[0];
    rig.report(again, Progress::Failed(Failure::NobodyListens));
    assert!(!rig.session.is_closed());
    rig.pass(1000);
    let (_, again) = rig.dialled()[0];
    rig.report(again, Progress::Failed(Failure::UnknownSession));
    assert!(rig.session.is_closed());
}

/// Behind a load balancer another instance of the server answers: the path is tried again. Only when no subflow is left, and none
/// of several answers is that of the right instance, the session ends.
#[test]
fn a_session_whose_instance_is_not_reached_ends_only_without_a_subflow() {
    let mut rig = Rig::new(&[WIFI, LTE]);
    let attempts = rig.dialled();
    rig.accept(attempts[0].1);
    rig.report(attempts[1].1, Progress::Failed(Failure::OtherInstance));
    let mut tries = 0;
    for _ in 0..10_000 {
        rig.pass(1);
        for (path, subflow) in rig.dialled() {
            assert_eq!(path, LTE);
            tries += 1;
            rig.report(subflow, Progress::Failed(Failure::OtherInstance));
        }
    }
    assert!((10..=14).contains(&tries), "{tries} attempts in 10 s");
    assert!(!rig.session.is_closed(), "the other path is up");
    rig.report(attempts[0].1, Progress::Failed(Failure::Broken));
    let mut elsewhere = 0;
    while !rig.session.is_closed() {
        assert!(elsewhere < MOST_ELSEWHERE);
        for (_, subflow) in rig.dialled() {
            // Nobody but the server's instances counts.
            rig.report(subflow, Progress::Failed(Failure::NobodyListens));
        }
        rig.pass(1000);
        let Some((_, subflow)) = rig.dialled().pop() else { continue };
        rig.report(subflow, Progress::Failed(Failure::OtherInstance));
        elsewhere += 1;
    }
    assert_eq!(elsewhere, MOST_ELSEWHERE);
}

#[test]
fn a_refused_path_is_tried_at_short_intervals_while_an_application_waits() {
    let (gone, full) = (Failure::NobodyListens, Failure::TurnedDown);
    for (failure, hurry, least, most) in
        [(gone, false, 11, 14), (full, false, 11, 14), (gone, true, 380, 401), (full, true, 90, 101)]
    {
        let mut rig = Rig::new(&[WIFI]);
        rig.handshakes.set_hurry(rig.now, &mut rig.session, hurry);
        rig.drain();
        let mut tries = 0;
        for _ in 0..10_000 {
            for (_, subflow) in rig.dialled() {
                tries += 1;
                rig.report(subflow, Progress::Failed(failure));
            }
            rig.pass(1);
        }
        assert!((least..=most).contains(&tries), "{failure:?}: {tries} attempts in 10 s");
    }
}

#[test]
fn each_step_has_its_own_deadline_and_a_more_advanced_attempt_is_kept() {
    let mut rig = Rig::new(&[WIFI]);
    let (_, first) = rig.dialled()[0];
    for progress in [Progress::Connected, Progress::Ready, Progress::Introduced] {
        rig.pass(2500);
        assert!(!rig.actions.contains(&Action::Drop { subflow: first, abort: true }), "before {progress:?}");
        rig.report(first, progress);
    }
    rig.pass(2500);
    rig.report(first, Progress::Accepted);
    assert_eq!(rig.session.subflow_stats().next().map(|stats| stats.subflow), Some(first));
    let mut rig = Rig::new(&[WIFI]);
    let (_, first) = rig.dialled()[0];
    rig.pass(3000);
    assert!(rig.actions.contains(&Action::Failed { path: WIFI, failure: Failure::TimedOut }));
    assert!(rig.actions.contains(&Action::Drop { subflow: first, abort: true }));
}

#[test]
fn a_hello_that_is_refused_changes_nothing() {
    let settings = Config { max_subflows: 2, ..Config::default() };
    let now = Instant::ZERO;
    let mut session = Session::new(Side::Server, settings, 1, now).unwrap();
    let first = Introduction { path: WIFI, subflow: SubflowId(1), metered: false };
    accept(now, &mut session, first).unwrap();
    let refusal = accept(now, &mut session, Introduction { metered: true, ..first }).unwrap_err();
    assert_eq!(Failure::from(refusal), Failure::TurnedDown);
    assert!(!session.is_metered(WIFI));
    accept(now, &mut session, Introduction { path: LTE, subflow: SubflowId(2), metered: true }).unwrap();
    assert!(session.is_metered(LTE) && !session.is_metered(WIFI));
}

#[test]
fn a_session_that_has_ended_is_unknown_to_its_client() {
    let mut session = Session::new(Side::Server, Config::default(), 1, Instant::ZERO).unwrap();
    session.abort(0, "the end");
    let hello = Introduction { path: WIFI, subflow: SubflowId(1), metered: false };
    let refusal = accept(Instant::ZERO, &mut session, hello).unwrap_err();
    assert_eq!(Failure::from(refusal), Failure::UnknownSession);
}
