//! Handshakes, restarts, and attacks on the path.

use super::*;

const NOW: Instant = Instant::from_millis(5000);

fn key(byte: u8) -> Key {
    Key::from_bytes([byte; 32])
}

fn ends() -> (Hop, Hop) {
    (Hop::initiator(key(7), 0), Hop::responder(key(7), 3))
}

/// The answer to an `init`.
fn answer(above: &mut Hop, now: Instant, init: &[u8]) -> Vec<u8> {
    match above.handle_datagram(now, &mut init.to_vec()) {
        Received::Handshake(Some(answer)) => answer,
        other => panic!("an answer, not {other:?}"),
    }
}

/// Carries out a handshake and confirms it with a message.
fn establish(below: &mut Hop, above: &mut Hop, now: Instant) {
    let init = below.poll_handshake(now).expect("an initiator without a session begins one");
    let mut reply = answer(above, now, &init);
    assert_eq!(below.handle_datagram(now, &mut reply), Received::Handshake(None));
    let mut first = sealed(below, b"ping");
    assert!(matches!(above.handle_datagram(now, &mut first), Received::Message(_, b"ping")));
}

fn sealed(hop: &mut Hop, message: &[u8]) -> Vec<u8> {
    let mut out = Vec::new();
    hop.seal(&mut out, |out| out.extend_from_slice(message)).expect("a session");
    assert_eq!(out.len(), message.len() + OVERHEAD);
    out
}

#[test]
fn messages_pass_both_ways_once() {
    let (mut below, mut above) = ends();
    establish(&mut below, &mut above, NOW);
    for (from, to) in [(true, "up"), (false, "down")] {
        let (from, into) = if from { (&mut below, &mut above) } else { (&mut above, &mut below) };
        let datagram = sealed(from, to.as_bytes());
        assert!(
            matches!(into.handle_datagram(NOW, &mut datagram.clone()), Received::Message(_, m) if m == to.as_bytes())
        );
        let before = into.refusals();
        assert_eq!(into.handle_datagram(NOW, &mut datagram.clone()), Received::Refused);
        assert_eq!(into.refusals(), Refusals { replayed: before.replayed + 1, ..before });
    }
    assert_eq!(below.poll_handshake(NOW), None, "a session that works is kept");
}

#[test]
fn an_init_that_arrives_twice_is_answered_once_and_leads_to_one_session() {
    let (mut below, mut above) = ends();
    let init = below.poll_handshake(NOW).expect("an init");
    let mut reply = answer(&mut above, NOW, &init);
    assert_eq!(above.handle_datagram(NOW, &mut init.clone()), Received::Refused);
    assert_eq!(above.refusals(), Refusals { replayed: 1, ..Refusals::default() });
    below.handle_datagram(NOW, &mut reply);
    let mut data = sealed(&mut below, b"data");
    assert!(matches!(above.handle_datagram(NOW, &mut data), Received::Message(_, b"data")));
}

#[test]
fn an_attempt_sent_again_gets_the_same_reply() {
    let (mut below, mut above) = ends();
    let first = below.poll_handshake(NOW).expect("an init");
    let lost = answer(&mut above, NOW, &first);
    let second = below.poll_handshake(NOW + RETRY).expect("it is sent again");
    assert_ne!(first, second);
    assert_eq!(answer(&mut above, NOW + RETRY, &second), lost);
}

/// Handshakes over a path with 20 ms each way, while an observer sends its oldest recorded `init` once a millisecond.
/// Returns how many of them needed one round trip only.
fn handshakes_under_replays(count: usize) -> usize {
    let (mut below, mut above) = ends();
    let (mut recorded, mut quick, delay) = (None, 0, Duration::from_millis(20));
    for round in 1..=count as u32 {
        let begin = NOW + SILENCE * 2 * round;
        let init = below.poll_handshake(begin).expect("a silent hop begins again");
        let recorded: &Vec<u8> = recorded.get_or_insert_with(|| init.clone());
        let (mut reply, mut first) = (None, None);
        for ms in 0..100 {
            let now = begin + Duration::from_millis(ms);
            if now == begin + delay {
                reply = Some(answer(&mut above, now, &init));
            }
            if now == begin + delay * 2
                && let Some(mut reply) = reply.take()
            {
                below.handle_datagram(now, &mut reply);
                first = Some(sealed(&mut below, b"ping"));
            }
            if now == begin + delay * 3
                && let Some(mut first) = first.take()
            {
                quick += usize::from(matches!(above.handle_datagram(now, &mut first), Received::Message(..)));
            }
            if round > 1 || ms > 20 {
                above.handle_datagram(now, &mut recorded.clone());
            }
        }
    }
    quick
}

#[test]
fn a_recorded_init_sent_a_thousand_times_a_second_delays_no_handshake() {
    assert_eq!(handshakes_under_replays(1000), 1000);
}

#[test]
fn several_offers_are_open_so_that_no_other_attempt_spoils_one() {
    let (mut below, mut above) = ends();
    let init = below.poll_handshake(NOW).expect("an init");
    let mut reply = answer(&mut above, NOW, &init);
    // Initiators with the same key whose first data never comes.
    for i in 1..OFFERS as u32 {
        let now = NOW + RETRY * i;
        let other = Hop::initiator(key(7), 0).poll_handshake(now).expect("an init");
        answer(&mut above, now, &other);
    }
    below.handle_datagram(NOW, &mut reply);
    let mut data = sealed(&mut below, b"data");
    assert!(matches!(above.handle_datagram(NOW, &mut data), Received::Message(_, b"data")));
}

#[test]
fn an_initiator_whose_clock_was_set_back_is_heard_after_one_more_round_trip() {
    let year = 365 * 86_400 * 1_000_000_000;
    let (_, mut above) = ends();
    let mut below = Hop::initiator(key(7), year);
    let recorded = below.poll_handshake(NOW).expect("an init");
    answer(&mut above, NOW, &recorded);
    let mut below = Hop::initiator(key(7), 0);
    let init = below.poll_handshake(NOW).expect("an init");
    let mut stale = answer(&mut above, NOW, &init);
    assert_eq!(below.handle_datagram(NOW, &mut stale), Received::Handshake(None));
    establish(&mut below, &mut above, NOW);
    // What a copy of an old one causes tells the initiator nothing.
    let mut stale = answer(&mut above, NOW, &init);
    assert_eq!(below.handle_datagram(NOW, &mut stale), Received::Foreign);
}

#[test]
fn an_attempt_with_a_cookie_follows_at_once_and_once() {
    let (mut below, mut above) = ends();
    let init = below.poll_handshake(NOW).expect("an init");
    let mut asked = above.give_cookie(&init, [5; COOKIE]);
    let mut forged = asked.clone();
    forged[9] ^= 1;
    assert_eq!(below.handle_datagram(NOW, &mut forged), Received::Refused);
    assert_eq!(below.poll_handshake(NOW), None);
    assert_eq!(below.handle_datagram(NOW, &mut asked.clone()), Received::Handshake(None));
    let again = below.poll_handshake(NOW).expect("at once");
    assert_eq!(Hop::cookie_in(&again), [5; COOKIE]);
    assert_eq!(below.handle_datagram(NOW, &mut asked), Received::Handshake(None));
    assert_eq!(below.poll_handshake(NOW), None, "a cookie that does not help makes no loop");
    let mut reply = answer(&mut above, NOW, &again);
    assert_eq!(below.handle_datagram(NOW, &mut reply), Received::Handshake(None));
}

#[test]
fn the_hop_of_a_datagram_is_found_without_its_keys() {
    let (mut below, mut above) = ends();
    let other = Hop::responder(key(8), 3);
    let init = below.poll_handshake(NOW).expect("an init");
    assert!(above.owns(&init) && !other.owns(&init) && !below.owns(&init));
    let mut reply = answer(&mut above, NOW, &init);
    assert!(below.owns(&reply) && Hop::slot(&reply) == 0);
    below.handle_datagram(NOW, &mut reply);
    let data = sealed(&mut below, b"data");
    assert!(above.owns(&data) && Hop::slot(&data) == 3);
}

#[test]
fn another_version_is_named_and_counted_at_both_ends() {
    let (mut below, mut above) = ends();
    let mut init = below.poll_handshake(NOW).expect("an init");
    init[1] = VERSION + 1;
    assert_eq!(Kind::of(&init), Err(Fault::Version(VERSION + 1)));
    assert_eq!(above.handle_datagram(NOW, &mut init), Received::Refused);
    let mut notice = version_notice(&init).expect("it is an init");
    notice[1] = VERSION + 1;
    assert!(below.owns(&notice), "it names the attempt");
    assert_eq!(below.handle_datagram(NOW, &mut notice), Received::Refused);
    assert_eq!((above.refusals().version, below.refusals().version), (1, 1));
    assert!(!below.is_established());
}

#[test]
fn no_changed_or_truncated_datagram_is_accepted() {
    let (mut below, mut above) = ends();
    establish(&mut below, &mut above, NOW);
    let good = sealed(&mut below, b"payload");
    for at in 0..good.len() {
        let mut bad = good.clone();
        bad[at] ^= 1;
        let got = above.handle_datagram(NOW, &mut bad);
        assert!(matches!(got, Received::Refused | Received::Foreign), "byte {at}: {got:?}");
        let mut short = good[..at].to_vec();
        let got = above.handle_datagram(NOW, &mut short);
        assert!(matches!(got, Received::Refused | Received::Foreign), "{at} bytes: {got:?}");
    }
    assert!(above.refusals().forged > 0 && above.refusals().malformed > 0);
    assert!(matches!(above.handle_datagram(NOW, &mut good.clone()), Received::Message(_, b"payload")));
}

#[test]
fn another_key_gives_no_session() {
    let (mut below, _) = ends();
    let mut stranger = Hop::responder(key(8), 0);
    let mut init = below.poll_handshake(NOW).expect("an init");
    assert_eq!(stranger.handle_datagram(NOW, &mut init), Received::Foreign);
    let mut reply = vec![2, VERSION, 0, 0];
    reply.resize(wire::REPLY, 1);
    assert_eq!(below.handle_datagram(NOW, &mut reply), Received::Foreign);
}

#[test]
fn a_forged_reply_is_counted_and_the_true_one_still_fits() {
    let (mut below, mut above) = ends();
    let init = below.poll_handshake(NOW).expect("an init");
    let mut reply = answer(&mut above, NOW, &init);
    for at in 8..reply.len() {
        let mut forged = reply.clone();
        forged[at] ^= 1;
        assert!(below.owns(&forged), "it names the attempt");
        assert_eq!(below.handle_datagram(NOW, &mut forged), Received::Refused, "byte {at}");
    }
    let expected = Refusals { forged: reply.len() as u64 - 8, ..Refusals::default() };
    assert_eq!((below.refusals(), below.is_established()), (expected, false));
    assert_eq!(below.handle_datagram(NOW, &mut reply), Received::Handshake(None));
}

#[test]
fn recorded_handshakes_and_data_of_an_earlier_session_change_nothing() {
    let (mut below, mut above) = ends();
    let recorded_init = below.poll_handshake(NOW).expect("an init");
    let mut reply = answer(&mut above, NOW, &recorded_init);
    let recorded_reply = reply.clone();
    below.handle_datagram(NOW, &mut reply);
    let recorded_data = sealed(&mut below, b"old");
    above.handle_datagram(NOW, &mut recorded_data.clone());
    // The device's side restarts: a new session.
    let mut below = Hop::initiator(key(7), 0);
    let later = NOW + Duration::from_secs(3);
    establish(&mut below, &mut above, later);
    assert!(matches!(above.handle_datagram(later, &mut recorded_init.clone()), Received::Handshake(Some(_))));
    assert_eq!(below.handle_datagram(later, &mut recorded_reply.clone()), Received::Foreign);
    assert_eq!(above.handle_datagram(later, &mut recorded_data.clone()), Received::Foreign);
    // The session still works both ways.
    let mut up = sealed(&mut below, b"up");
    assert!(matches!(above.handle_datagram(later, &mut up), Received::Message(_, b"up")));
    let mut down = sealed(&mut above, b"down");
    assert!(matches!(below.handle_datagram(later, &mut down), Received::Message(_, b"down")));
    assert_eq!(above.sessions(), 2);
}

#[test]
fn an_initiator_without_answers_starts_over_and_reaches_a_restarted_responder() {
    let (mut below, mut above) = ends();
    establish(&mut below, &mut above, NOW);
    let mut above = Hop::responder(key(7), 0);
    let mut lost = sealed(&mut below, b"lost");
    assert_eq!(above.handle_datagram(NOW, &mut lost), Received::Foreign);
    assert_eq!(below.poll_handshake(NOW + SILENCE / 2), None);
    establish(&mut below, &mut above, NOW + SILENCE);
    assert!(below.is_up(NOW + SILENCE));
    assert!(!below.is_up(NOW + SILENCE * 3));
}

#[test]
fn a_hop_that_was_closed_sends_and_takes_nothing() {
    let (mut below, mut above) = ends();
    establish(&mut below, &mut above, NOW);
    let (mut up, mut down) = (sealed(&mut below, b"up"), sealed(&mut above, b"down"));
    above.close();
    assert_eq!(above.handle_datagram(NOW, &mut up), Received::Foreign);
    assert_eq!(above.seal(&mut Vec::new(), |out| out.push(1)), None);
    let later = NOW + SILENCE * 2;
    let mut init = below.poll_handshake(later).expect("a silent hop begins again");
    assert!(!above.owns(&init));
    assert_eq!(above.handle_datagram(later, &mut init), Received::Foreign);
    below.close();
    assert_eq!((below.poll_handshake(later + SILENCE), below.poll_timeout()), (None, None));
    assert_eq!(below.handle_datagram(later, &mut down), Received::Foreign);
}

#[test]
fn nothing_is_sealed_without_a_session() {
    let mut out = Vec::new();
    assert_eq!(ends().0.seal(&mut out, |out| out.push(1)), None);
    assert!(out.is_empty());
}
