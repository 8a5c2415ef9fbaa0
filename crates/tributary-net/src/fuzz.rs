//! Bodies of the fuzz targets `handshake`, `tls-record`, `client-hello` and `clients-file`. They are here because what they run is
//! private; not part of the public interface.

use std::future::Future;
use std::pin::pin;
use std::sync::OnceLock;
use std::task::{Context, Poll, Waker};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use rustls::ConnectionTrafficSecrets;
use rustls::crypto::cipher::{AeadKey, Iv};
use tributary_types::{PathId, SubflowId};

use crate::clients;
use crate::config::OwnAddress;
use crate::hello::{
    Answer, Auth, BINDING_LENGTH, Binding, HELLO_LENGTH, Hello, Intent, Mode, Reply, SessionSecret,
    SessionTag,
};
use crate::identity::PrivateKey;
use crate::key::Key;
use crate::ticket::{Ticket, Tickets, Worth};
use crate::tls::read_offer;
use crate::tls::record::{Opener, SEALED, Sealer, missing};

const SESSION: SessionTag = [5; 16];

/// The value of a future that reads from memory, and so never waits.
pub(crate) fn value<T>(future: impl Future<Output = T>) -> T {
    match pin!(future).poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(value) => value,
        Poll::Pending => panic!("a read from memory waits"),
    }
}

/// Adds bytes to a true message by exclusive or, so that mutations begin at valid messages. Returns whether it is still true.
fn change(message: &mut [u8], bytes: &[u8]) -> bool {
    message.iter_mut().zip(bytes).for_each(|(place, byte)| *place ^= byte);
    bytes.iter().take(message.len()).all(|byte| *byte == 0)
}

fn now() -> SystemTime {
    UNIX_EPOCH + Duration::from_secs(1_000_000)
}

/// Of the messages of a handshake only the true ones are accepted: tickets of both forms, hellos and replies.
///
/// Input: a byte for the message (bits 0–1) and the mode (bit 2), then what is added to the true one.
///
/// # Panics
/// If a changed one is accepted, or a true one refused.
pub fn handshake(data: &[u8]) {
    let Some((command, bytes)) = data.split_first() else { return };
    let mode = if command & 4 == 0 { Mode::Tls } else { Mode::Plaintext };
    match command & 3 {
        0 => ticket(mode, bytes),
        1 => sealed_ticket(bytes),
        2 => hello(mode, bytes),
        _ => reply(mode, bytes),
    }
}

fn key() -> Key {
    Key::from_bytes([7; 32])
}

fn ticket(mode: Mode, bytes: &[u8]) {
    let ticket = Ticket::new(now(), [9; 16], Some(SESSION));
    let mut sent = ticket.seal(&key(), mode);
    let is_true = change(&mut sent, bytes);
    let opened = Ticket::open(&key(), mode, &sent);
    assert_eq!(opened.ok(), is_true.then_some(ticket));
    let _ = Ticket::open(&key(), mode, bytes);
    let mut seen = Tickets::new(now());
    assert_eq!([seen.look(now(), &ticket), seen.look(now(), &ticket)], [Worth::Fresh, Worth::Seen]);
}

fn sealed_ticket(bytes: &[u8]) {
    // Made once: it takes a key exchange and a signature.
    static SEALED: OnceLock<Vec<u8>> = OnceLock::new();
    let [server, client] = [1, 2].map(|seed| PrivateKey::from_seed([seed; 32]));
    let ticket = Ticket::new(now(), [0; 16], Some(SESSION));
    let seal = || ticket.seal_for(&server.public(), &client).expect("a ticket can be sealed");
    let mut sent = SEALED.get_or_init(seal).clone();
    let is_true = change(&mut sent, bytes);
    let opened = Ticket::open_sealed(&server, |_| true, &sent);
    let opened = opened.ok().map(|(ticket, client)| (ticket.session, client));
    assert_eq!(opened, is_true.then(|| (Some(SESSION), client.public())));
    let _ = Ticket::open_sealed(&server, |_| true, bytes);
}

fn introduced(intent: Intent) -> Hello {
    let (path, subflow) = (PathId(3), SubflowId(77));
    Hello { intent, path, subflow, metered: true, takes_address: true, nonce: [9; 16] }
}

fn hello(mode: Mode, bytes: &[u8]) {
    let binding = Binding { mode, bytes: [2; BINDING_LENGTH] };
    let secret = SessionSecret::derive(&key(), &binding, &introduced(Intent::New), &SESSION);
    let auth = Auth::joining(&key(), &binding).of_session(&secret);
    let joining = introduced(Intent::Join(SESSION));
    let mut sent = auth.seal_hello(&joining);
    let is_true = change(&mut sent, bytes);
    let read = Hello::decode(&sent);
    let verified = auth.verify_hello(&sent).and_then(|()| auth.verify_join(&sent));
    assert_eq!(verified.is_ok(), is_true);
    assert!(!is_true || read == Ok(joining));
    if let Some(raw) = bytes.first_chunk::<HELLO_LENGTH>() {
        let _ = Hello::decode(raw);
    }
}

fn reply(mode: Mode, bytes: &[u8]) {
    let binding = Binding { mode, bytes: [2; BINDING_LENGTH] };
    let auth = Auth::opening(&key(), &binding);
    let hello = auth.seal_hello(&introduced(Intent::New));
    let address = "203.0.113.5:7000".parse().ok();
    let told = |address: Option<_>| {
        let obeys_caps = address.is_some();
        Reply { answer: Answer::Accepted, session: SESSION, address, obeys_caps }
    };
    for told in [None, address].map(told) {
        let mut sent = auth.seal_reply_with(&hello, &told);
        let is_true = change(&mut sent, bytes);
        assert_eq!(auth.open_reply(&hello, &sent).ok(), is_true.then_some(told));
    }
    assert!(auth.open_reply(&hello, bytes).is_err());
    let _ = core::str::from_utf8(bytes).map(str::parse::<OwnAddress>);
}

/// Records that were changed on the way are refused; what is opened before is the beginning of what was sealed, in pieces of any size.
///
/// Input: a byte with the sizes of four records, one with the size of the pieces, then two with the place from which the rest is
/// added to the records.
///
/// # Panics
/// If other bytes are opened than were sealed, or true records are refused.
pub fn tls_record(data: &[u8]) {
    let [sizes, piece, high, low, bytes @ ..] = data else { return };
    let secrets = || {
        let (key, iv) = (AeadKey::from([7; 32]), Iv::from([3; 12]));
        (0, ConnectionTrafficSecrets::Chacha20Poly1305 { key, iv })
    };
    let mut sealer = Sealer::new(secrets(), &[5; 32]).expect("the key has its length");
    let mut opener = Opener::new(secrets(), &[5; 32]).expect("the key has its length");
    let mut plain = Vec::new();
    for number in 0..4_u8 {
        let length = [0, 1, 100, 17_000][usize::from(sizes >> (2 * number) & 3)];
        plain.extend(std::iter::repeat_n(number, length));
        sealer.push(&plain[plain.len() - length..]);
        sealer.finish();
    }
    let mut wire = sealer.pending().to_vec();
    assert!(wire.len() <= SEALED);
    let from = usize::from(u16::from_be_bytes([*high, *low])).min(wire.len());
    let is_true = change(&mut wire[from..], bytes);
    let (mut buffer, mut got) = (Vec::new(), Vec::new());
    let mut outcome = Ok(());
    for piece in wire.chunks(1 + 16 * usize::from(*piece)) {
        buffer.extend_from_slice(piece);
        match opener.open(&mut buffer) {
            Ok(opened) => {
                got.extend_from_slice(&buffer[..opened.plaintext]);
                buffer.drain(..opened.consumed);
                assert!(opened.closed || buffer.len() < 5 || missing(&buffer) > 0, "a whole record is left");
            }
            Err(error) => outcome = Err(error),
        }
        if outcome.is_err() {
            break;
        }
    }
    assert!(plain.starts_with(&got), "other bytes were opened than sealed");
    assert!(
        !is_true || outcome.is_ok() && got.len() == plain.len(),
        "true records were refused: {outcome:?}"
    );
}

/// The first message of an unknown client is refused, or has a ticket.
///
/// # Panics
/// If more is read than a ClientHello may have.
pub fn client_hello(data: &[u8]) {
    let mut rest = data;
    if let Ok(offer) = value(read_offer(&mut rest)) {
        assert!(offer.ticket.len() < data.len() - rest.len(), "the ticket is a part of the message");
    }
}

/// A list of clients is refused with a place in the text, or names each client and each key once.
///
/// # Panics
/// If one of these properties does not hold.
pub fn clients_file(data: &[u8]) {
    let Ok(text) = core::str::from_utf8(data) else { return };
    match clients::parse(text) {
        Ok(clients) => {
            for (at, client) in clients.iter().enumerate() {
                let others = &clients[..at];
                assert!(others.iter().all(|other| other.name != client.name && other.key != client.key));
            }
        }
        Err((at, problem)) => assert!(at.start <= text.len() && !problem.is_empty()),
    }
}
