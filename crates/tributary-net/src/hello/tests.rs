//! Handshake messages: round trips, and that a changed one, one of another connection, key, session or mode is refused.

use super::*;

fn hello(intent: Intent) -> Hello {
    Hello {
        intent,
        path: PathId(3),
        subflow: SubflowId(77),
        metered: true,
        takes_address: false,
        nonce: [9; 16],
    }
}

fn tls(byte: u8) -> Binding {
    Binding { mode: Mode::Tls, bytes: [byte; BINDING_LENGTH] }
}

#[test]
fn messages_round_trip_and_every_bit_is_authenticated() {
    let key = Key::from_bytes([1; 32]);
    let binding = tls(2);
    let session = SessionSecret::derive(&key, &tls(3), &hello(Intent::New), &[5; 16]);
    let auth = Auth::joining(&key, &binding).of_session(&session);
    let sent = auth.seal_hello(&hello(Intent::Join([5; 16])));
    assert_eq!(Hello::decode(&sent).unwrap(), hello(Intent::Join([5; 16])));
    auth.verify_hello(&sent).unwrap();
    auth.verify_join(&sent).unwrap();
    for bit in 0..HELLO_LENGTH * 8 {
        let mut bad = sent;
        bad[bit / 8] ^= 1 << (bit % 8);
        assert_eq!(auth.verify_hello(&bad), Err(HelloError::WrongKey), "bit {bit}");
    }
    for answer in [Answer::Accepted, Answer::UnknownSession, Answer::Refused(Refusal::SubflowReused)] {
        for (address, obeys_caps) in [(None, true), (Some("one.example.org:7000".parse().unwrap()), false)] {
            let told = Reply { answer, session: [6; 16], address, obeys_caps };
            let reply = auth.seal_reply_with(&sent, &told);
            assert_eq!(reply.len(), reply_length(&reply[..8]));
            assert_eq!(auth.open_reply(&sent, &reply), Ok(told));
            for bit in 0..reply.len() * 8 {
                let mut bad = reply.clone();
                bad[bit / 8] ^= 1 << (bit % 8);
                assert!(auth.open_reply(&sent, &bad).is_err(), "{answer:?}, bit {bit}");
            }
            for length in 0..reply.len() {
                assert!(auth.open_reply(&sent, &reply[..length]).is_err(), "{answer:?}, {length} bytes");
            }
        }
    }
}

/// Programs from before there were addresses look at bit 0 only.
#[test]
fn a_client_that_takes_an_address_says_metered_as_before() {
    let (key, binding) = (Key::from_bytes([1; 32]), tls(2));
    for (metered, takes_address, byte) in
        [(false, false, 0), (true, false, 1), (false, true, 2), (true, true, 3)]
    {
        let hello = Hello { metered, takes_address, ..hello(Intent::New) };
        let sent = Auth::opening(&key, &binding).seal_hello(&hello);
        assert_eq!(sent[7], byte);
        assert_eq!(Hello::decode(&sent), Ok(hello));
    }
}

#[test]
fn a_hello_is_invalid_for_another_connection_key_or_session() {
    let (key, here, there) = (Key::from_bytes([1; 32]), tls(2), tls(3));
    let sent = Auth::opening(&key, &here).seal_hello(&hello(Intent::New));
    assert!(Auth::opening(&key, &there).verify_hello(&sent).is_err());
    assert!(Auth::opening(&Key::from_bytes([4; 32]), &here).verify_hello(&sent).is_err());
    assert!(Auth::joining(&key, &here).verify_hello(&sent).is_err());
    let secret = SessionSecret::derive(&key, &here, &hello(Intent::New), &[5; 16]);
    let other = SessionSecret::derive(&key, &here, &hello(Intent::New), &[6; 16]);
    let joining = |binding| Auth::joining(&key, binding);
    let join = joining(&there).of_session(&secret).seal_hello(&hello(Intent::Join([5; 16])));
    joining(&there).of_session(&secret).verify_join(&join).unwrap();
    assert!(joining(&there).of_session(&other).verify_join(&join).is_err());
    assert!(joining(&here).of_session(&secret).verify_join(&join).is_err());
    assert!(joining(&there).verify_join(&join).is_err());
}

/// An attacker in the middle chooses the challenge of a plaintext client: the exporter value of the attacker's
/// own TLS connection. The client's MAC over it must not be valid on that TLS connection.
#[test]
fn a_mac_of_one_mode_is_invalid_in_the_other() {
    let key = Key::from_bytes([1; 32]);
    let tls = tls(2);
    let plaintext = Binding { mode: Mode::Plaintext, ..tls };
    let sent = Auth::opening(&key, &plaintext).seal_hello(&hello(Intent::New));
    Auth::opening(&key, &plaintext).verify_hello(&sent).unwrap();
    assert_eq!(Auth::opening(&key, &tls).verify_hello(&sent), Err(HelloError::WrongKey));
    let reply = Auth::opening(&key, &tls).seal_reply(&sent, Answer::Accepted, &[5; 16]);
    assert!(Auth::opening(&key, &plaintext).open_reply(&sent, &reply).is_err());
    let of = |binding| SessionSecret::derive(&key, binding, &hello(Intent::New), &[5; 16]);
    let (in_tls, in_plaintext) = (of(&tls), of(&plaintext));
    let joining = |session| Auth::joining(&key, &tls).of_session(session);
    let join = joining(&in_plaintext).seal_hello(&hello(Intent::Join([5; 16])));
    assert!(joining(&in_tls).verify_join(&join).is_err());
}

/// A restarted server has the key but not the session. It reports this, and only to peers with the key.
#[test]
fn an_unknown_session_is_reported_only_to_peers_that_know_the_key() {
    let (key, binding) = (Key::from_bytes([1; 32]), tls(2));
    let session = SessionSecret::derive(&key, &tls(3), &hello(Intent::New), &[5; 16]);
    let client = Auth::joining(&key, &binding).of_session(&session);
    let sent = client.seal_hello(&hello(Intent::Join([5; 16])));
    let server = Auth::joining(&key, &binding);
    let reply = server.seal_reply(&sent, Answer::UnknownSession, &[5; 16]);
    assert_eq!(client.open_reply(&sent, &reply).map(|reply| reply.answer), Ok(Answer::UnknownSession));
    // So does another instance of the server.
    let elsewhere = Answer::Refused(Refusal::OtherInstance);
    let reply = server.seal_reply(&sent, elsewhere, &[5; 16]);
    assert_eq!(client.open_reply(&sent, &reply).map(|reply| reply.answer), Ok(elsewhere));
    let forger = Key::from_bytes([7; 32]);
    let forged = Auth::joining(&forger, &binding).seal_reply(&sent, Answer::UnknownSession, &[5; 16]);
    assert_eq!(client.open_reply(&sent, &forged), Err(HelloError::WrongKey));
    // The key alone is not enough to accept a join; that needs the session's secret.
    let accepted = server.seal_reply(&sent, Answer::Accepted, &[5; 16]);
    assert_eq!(client.open_reply(&sent, &accepted), Err(HelloError::WrongKey));
}
