//! Handshakes, restarts, and attacks on the path.

use super::*;

const NOW: Instant = Instant::from_millis(5000);

fn ends() -> (Hop, Hop) {
    (Hop::initiator([7; 32]), Hop::responder([7; 32]))
}

/// Carries out a handshake and confirms it with a message.
fn establish(below: &mut Hop, above: &mut Hop, now: Instant) {
    let mut init = below.poll_handshake(now).expect("an initiator without a session begins one");
    let Received::Handshake(Some(mut reply)) = above.handle_datagram(now, &mut init) else {
        panic!("a reply")
    };
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
fn an_init_that_arrives_twice_leads_to_one_session() {
    let (mut below, mut above) = ends();
    let init = below.poll_handshake(NOW).expect("an init");
    let Received::Handshake(Some(mut first)) = above.handle_datagram(NOW, &mut init.clone()) else {
        panic!()
    };
    let Received::Handshake(Some(second)) = above.handle_datagram(NOW, &mut init.clone()) else { panic!() };
    assert_eq!(first, second);
    below.handle_datagram(NOW, &mut first);
    let mut data = sealed(&mut below, b"data");
    assert!(matches!(above.handle_datagram(NOW, &mut data), Received::Message(_, b"data")));
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
    let mut stranger = Hop::responder([8; 32]);
    let mut init = below.poll_handshake(NOW).expect("an init");
    assert_eq!(stranger.handle_datagram(NOW, &mut init), Received::Foreign);
    let mut reply = vec![2, VERSION, 0, 0];
    reply.resize(REPLY, 1);
    assert_eq!(below.handle_datagram(NOW, &mut reply), Received::Foreign);
}

#[test]
fn a_forged_reply_is_counted_and_the_true_one_still_fits() {
    let (mut below, mut above) = ends();
    let mut init = below.poll_handshake(NOW).expect("an init");
    let Received::Handshake(Some(mut reply)) = above.handle_datagram(NOW, &mut init) else {
        panic!("a reply")
    };
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
    let mut init = below.poll_handshake(NOW).expect("an init");
    let recorded_init = init.clone();
    let Received::Handshake(Some(mut reply)) = above.handle_datagram(NOW, &mut init) else { panic!() };
    let recorded_reply = reply.clone();
    below.handle_datagram(NOW, &mut reply);
    let recorded_data = sealed(&mut below, b"old");
    above.handle_datagram(NOW, &mut recorded_data.clone());
    // The device's side restarts: a new session.
    let mut below = Hop::initiator([7; 32]);
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
    let mut above = Hop::responder([7; 32]);
    let mut lost = sealed(&mut below, b"lost");
    assert_eq!(above.handle_datagram(NOW, &mut lost), Received::Foreign);
    assert_eq!(below.poll_handshake(NOW + SILENCE / 2), None);
    establish(&mut below, &mut above, NOW + SILENCE);
    assert!(below.is_up(NOW + SILENCE));
    assert!(!below.is_up(NOW + SILENCE * 3));
}

#[test]
fn nothing_is_sealed_without_a_session() {
    let mut out = Vec::new();
    assert_eq!(ends().0.seal(&mut out, |out| out.push(1)), None);
    assert!(out.is_empty());
}
