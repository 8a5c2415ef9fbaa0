//! Requests in pieces, refusals and answers; any bytes.

use proptest::prelude::*;

use super::*;

/// The steps for these bytes, cut into pieces, and what is left.
fn steps(bytes: &[u8], cut: usize) -> (Vec<Step>, Vec<u8>) {
    let (mut reader, mut steps) = (RequestReader::default(), Vec::new());
    let mut pieces = bytes.chunks(cut);
    loop {
        match reader.poll() {
            Step::Read => match pieces.next() {
                Some(piece) => reader.handle_bytes(piece),
                None => break,
            },
            step @ Step::Send(_) => steps.push(step),
            step => {
                steps.push(step);
                break;
            }
        }
    }
    pieces.for_each(|piece| reader.handle_bytes(piece));
    (steps, reader.into_rest())
}

fn last(bytes: &[u8]) -> Option<Step> {
    let (whole, rest) = steps(bytes, bytes.len().max(1));
    for cut in [1, 3] {
        assert_eq!(steps(bytes, cut), (whole.clone(), rest.clone()), "cut into pieces of {cut}");
    }
    whole.last().cloned()
}

fn socks(request: &[u8]) -> Vec<u8> {
    [&[5, 1, 0], request].concat()
}

#[test]
fn a_destination_is_an_address_or_a_name() {
    for (request, expected) in [
        (socks(&[5, 1, 0, 1, 1, 2, 3, 4, 0, 80]), "1.2.3.4:80"),
        (socks(&[&[5, 1, 0, 4][..], &[0; 15], &[1, 1, 187]].concat()), "[::1]:443"),
        (socks(b"\x05\x01\0\x03\x05a.org\x01\xbb"), "a.org:443"),
        (socks(b"\x05\x01\0\x03\x041234\x01\xbb"), "1234:443"),
        (socks(b"\x05\x01\0\x03\x07::ffff1\x01\xbb"), ""),
        (b"CONNECT a.org:443 HTTP/1.1\r\nHost: a.org\r\n\r\n".to_vec(), "a.org:443"),
        (b"CONNECT [2001:db8::1]:80 HTTP/1.0\r\n\r\n".to_vec(), "[2001:db8::1]:80"),
    ] {
        match last(&request) {
            Some(Step::Connect(destination)) => assert_eq!(destination.to_string(), expected),
            other => assert!(expected.is_empty(), "{other:?}"),
        }
    }
}

#[test]
fn bytes_after_the_request_belong_to_the_connection() {
    let (_, rest) = steps(&socks(b"\x05\x01\0\x01\x01\x02\x03\x04\0\x50early"), 7);
    assert_eq!(rest, b"early");
    let (_, rest) = steps(b"CONNECT a:1 HTTP/1.1\r\n\r\nearly", 100);
    assert_eq!(rest, b"early");
}

#[test]
fn a_half_request_is_waited_for() {
    for whole in [socks(b"\x05\x01\0\x03\x05a.org\x01\xbb"), b"CONNECT a.org:443 HTTP/1.1\r\n\r\n".to_vec()] {
        for length in 0..whole.len() {
            let last = last(&whole[..length]);
            assert!(matches!(last, None | Some(Step::Send(_))), "{length}: {last:?}");
        }
    }
}

#[test]
fn other_requests_are_refused_in_their_protocol() {
    for (request, answer, error) in [
        (b"\x04\x01\0\x50".to_vec(), &b"\0\x5b"[..], RequestError::Socks4),
        (b"\x05\x01\x02".to_vec(), b"\x05\xff", RequestError::Password),
        (b"\x05\0".to_vec(), b"\x05\xff", RequestError::Password),
        (socks(b"\x05\x02\0\x01"), b"\x05\x07", RequestError::Command(2)),
        (socks(b"\x05\x04\0\x01"), b"\x05\x07", RequestError::Command(4)),
        (socks(b"\x05\x03\0\x05"), b"\x05\x08", RequestError::AddressType(5)),
        (socks(b"\x05\x01\0\x02"), b"\x05\x08", RequestError::AddressType(2)),
        (socks(b"\x04\x01\0\x01"), b"", RequestError::Protocol),
        (socks(b"\x05\x01\0\x01\x01\x02\x03\x04\0\0"), b"\x05\x01", RequestError::Destination),
        (socks(b"\x05\x01\0\x03\0\0\x50"), b"\x05\x01", RequestError::Destination),
        (b"GET http://a/ HTTP/1.1\r\n\r\n".to_vec(), b"HTTP/1.1 405", RequestError::Method),
        (b"CONNECT a HTTP/1.1\r\n\r\n".to_vec(), b"HTTP/1.1 400", RequestError::Destination),
        (b"CONNECT ::1:80 HTTP/1.1\r\n\r\n".to_vec(), b"HTTP/1.1 400", RequestError::Destination),
        (b"CONNECT a:80 HTTP/2\r\n\r\n".to_vec(), b"HTTP/1.1 400", RequestError::Destination),
        (
            [b"CONNECT a:80 HTTP/1.1\r\n", &[b'a'; MAX_HEAD][..]].concat(),
            b"HTTP/1.1 431",
            RequestError::TooLong,
        ),
        (b"\x16\x03\x01".to_vec(), b"", RequestError::Protocol),
    ] {
        let Some(Step::Refuse(said, why)) = last(&request) else { panic!("{}", request.escape_ascii()) };
        assert!(said.starts_with(answer), "{}: {}", request.escape_ascii(), said.escape_ascii());
        assert_eq!(why, error);
    }
}

#[test]
fn datagrams_are_relayed_with_their_destination_in_front() {
    assert_eq!(last(&socks(&[5, 3, 0, 1, 0, 0, 0, 0, 0, 0])), Some(Step::Associate));
    assert_eq!(associated("127.0.0.1:258".parse().unwrap()), [5, 0, 0, 1, 127, 0, 0, 1, 1, 2]);
    let named = |host: &str| Destination { host: host.parse().unwrap(), port: 443 };
    for destination in [named("a.org"), named("192.0.2.1"), named("2001:db8::1")] {
        for payload in [&b""[..], b"text"] {
            let mut datagram = Vec::new();
            write_datagram(&mut datagram, &destination, payload);
            assert_eq!(read_datagram(&datagram), Some((destination.clone(), payload)));
            let head = datagram.len() - payload.len();
            assert!((0..head).all(|length| read_datagram(&datagram[..length]).is_none()));
            let fragment = [&datagram[..2], &[1], &datagram[3..]].concat();
            assert_eq!(read_datagram(&fragment), None, "a fragment");
        }
    }
    assert_eq!(read_datagram(b"\0\0\0\x01\x01\x02\x03\x04\0\0text"), None, "no port");
    assert_eq!(read_datagram(b"\0\0\0\x03\x01 \0\x50text"), None, "no host");
}

#[test]
fn answers_tell_outcomes_apart() {
    let outcomes = [
        (Outcome::Connected, 0, "200"),
        (Outcome::Failed, 1, "503"),
        (Outcome::NotAllowed, 2, "403"),
        (Outcome::NoName, 4, "502"),
        (Outcome::Unreachable, 4, "504"),
        (Outcome::Refused, 5, "502"),
    ];
    for (outcome, code, status) in outcomes {
        let answered = |bytes: &[u8]| {
            let mut reader = RequestReader::default();
            reader.handle_bytes(bytes);
            while matches!(reader.poll(), Step::Send(_)) {}
            reader.answer(outcome)
        };
        assert_eq!(answered(&socks(&[5, 1, 0, 1, 1, 2, 3, 4, 0, 80]))[..2], [5, code]);
        let http = String::from_utf8(answered(b"CONNECT a:80 HTTP/1.1\r\n\r\n")).unwrap();
        assert!(http.starts_with(&format!("HTTP/1.1 {status} ")) && http.ends_with("\r\n\r\n"), "{http}");
    }
}

proptest! {
    #[test]
    fn any_bytes_are_read_alike_for_any_cut(bytes in prop::collection::vec(any::<u8>(), 0..300), first in 0..4_usize) {
        let starts = [&b"\x05\x01\0\x05\x01\0\x03"[..], b"CONNECT ", b"\x05", b""];
        let bytes = [starts[first], &bytes].concat();
        last(&bytes);
        if let Some((_, payload)) = read_datagram(&bytes) {
            prop_assert!(bytes.ends_with(payload));
        }
    }
}
