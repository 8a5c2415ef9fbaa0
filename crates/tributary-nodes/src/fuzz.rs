//! Body of the fuzz target `cotag-hop`. It is here because the hop's state machine is private; not part of
//! the public interface.
//!
//! Input: records of a command byte, a length byte, and that many bytes. Command bit 0 is the receiver, bits 1–2 the time that
//! passes in steps of 100 ms, bits 3–4 the datagram: 0 the bytes themselves, 1 a true `init`, 2 a true `init` whose reply is
//! changed, 3 a true message. The bytes are added to a true datagram by exclusive or, so that mutations begin at valid ones.

use crate::hop::{Hop, Received, SILENCE};
use core::time::Duration;
use tributary_cotag::HopMessage;
use tributary_net::Key;
use tributary_types::Instant;

const KEY: [u8; 32] = [7; 32];
const WORDS: &[u8] = b"\x45 a true message of a peer";
/// Unit of bits 1 and 2 of a command.
const STEP: Duration = Duration::from_millis(100);

/// Adds `bytes` to a datagram; returns whether that changed it.
fn change(datagram: &mut [u8], bytes: &[u8]) -> bool {
    datagram.iter_mut().zip(bytes).for_each(|(place, byte)| *place ^= byte);
    bytes[..bytes.len().min(datagram.len())].iter().any(|byte| *byte != 0)
}

/// Delivers a datagram and checks the result.
fn deliver<'a>(hop: &mut Hop, now: Instant, datagram: &'a mut [u8], is_true: bool) -> Received<'a> {
    let (before, owned) = (hop.refusals().total(), hop.owns(datagram));
    let received = hop.handle_datagram(now, datagram);
    let counted = hop.refusals().total() - before;
    match &received {
        Received::Message(_, plain) => assert!(is_true && *plain == WORDS, "a changed message was accepted"),
        Received::Handshake(_) => assert!(is_true, "a changed handshake was accepted"),
        Received::Refused => assert_eq!(counted, 1, "a refusal is counted once"),
        Received::Foreign => assert!(!owned, "what belongs to a hop is accepted or counted"),
    }
    received
}

/// Two ends accept anything from the network: only true datagrams pass, a message once, every refusal is
/// counted, and afterwards the ends can still establish a session.
///
/// # Panics
/// If one of these properties does not hold.
pub fn hop(mut data: &[u8]) {
    let (mut below, mut above) =
        (Hop::initiator(Key::from_bytes(KEY), 0), Hop::responder(Key::from_bytes(KEY), 0));
    let mut now = Instant::from_millis(1);
    while let [command, length, rest @ ..] = data {
        let (bytes, rest) = rest.split_at(usize::from(*length).min(rest.len()));
        data = rest;
        now += STEP * u32::from(command >> 1 & 3);
        let _ = HopMessage::read(bytes);
        let up = command & 1 == 0;
        match command >> 3 & 3 {
            0 => _ = deliver(if up { &mut below } else { &mut above }, now, &mut bytes.to_vec(), false),
            3 => message((&mut below, &mut above), now, up, bytes),
            kind => handshake((&mut below, &mut above), now, kind == 2, bytes),
        }
    }
    now += SILENCE * 2;
    handshake((&mut below, &mut above), now, false, &[]);
    message((&mut below, &mut above), now, true, &[]);
    assert!(below.is_up(now) && above.is_up(now), "two honest ends did not find each other");
}

/// A handshake whose `init` or reply is changed by `bytes`.
fn handshake((below, above): (&mut Hop, &mut Hop), now: Instant, in_reply: bool, bytes: &[u8]) {
    let Some(mut init) = below.poll_handshake(now) else { return };
    let is_true = in_reply || !change(&mut init, bytes);
    let Received::Handshake(reply) = deliver(above, now, &mut init, is_true) else { return };
    let mut reply = reply.expect("a responder answers");
    let is_true = !(in_reply && change(&mut reply, bytes));
    let received = deliver(below, now, &mut reply, is_true);
    assert!(!is_true || matches!(received, Received::Handshake(None)), "a true reply was not accepted");
}

/// A message that is changed by `bytes`, twice.
fn message((below, above): (&mut Hop, &mut Hop), now: Instant, up: bool, bytes: &[u8]) {
    let (from, to) = if up { (below, above) } else { (above, below) };
    let mut datagram = Vec::new();
    if from.seal(&mut datagram, |out| out.extend_from_slice(WORDS)).is_none() {
        return;
    }
    let is_true = !change(&mut datagram, bytes);
    deliver(to, now, &mut datagram.clone(), is_true);
    let again = deliver(to, now, &mut datagram, is_true);
    assert!(!matches!(again, Received::Message(..)), "a message was accepted twice");
}

#[cfg(test)]
mod tests {
    #[test]
    fn valid_and_mutated_datagrams_of_every_kind_are_handled() {
        super::hop(b"");
        // An init changed, a reply changed, a true handshake, messages both ways: true and changed.
        super::hop(&[
            0x0e, 1, 9, 0x16, 12, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 9, 0x0e, 0, 0x18, 0, 0x19, 0, 0x18, 1, 9,
        ]);
    }
}
