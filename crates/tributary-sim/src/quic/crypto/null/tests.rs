//! The flights have the sizes of TLS's, and malformed input is refused.

use std::sync::Arc;

use rustls::pki_types::ServerName;
use rustls::quic::{ClientConnection, Connection, ServerConnection, Version};
use tributary_types::Rng;

use super::super::super::random::lending;
use super::super::tls;
use super::*;

/// What both kinds of handshake can do.
trait Flights {
    fn read(&mut self, bytes: &[u8]);
    /// Returns whether keys came with it.
    fn write(&mut self, out: &mut Vec<u8>) -> bool;
    fn is_over(&self) -> bool;
}

impl Flights for Handshake {
    fn read(&mut self, bytes: &[u8]) {
        self.read(bytes).unwrap();
    }
    fn write(&mut self, out: &mut Vec<u8>) -> bool {
        self.write(out)
    }
    fn is_over(&self) -> bool {
        !self.is_handshaking()
    }
}

impl Flights for Connection {
    fn read(&mut self, bytes: &[u8]) {
        self.read_hs(bytes).unwrap();
    }
    fn write(&mut self, out: &mut Vec<u8>) -> bool {
        self.write_hs(out).is_some()
    }
    fn is_over(&self) -> bool {
        !self.is_handshaking()
    }
}

/// Everything both ends write, alternately, until no level is left: (end, bytes, whether keys came with it).
fn flights<F: Flights>(mut ends: [F; 2]) -> Vec<(usize, usize, bool)> {
    let mut flights = Vec::new();
    for turn in 0..16 {
        let from = turn % 2;
        let mut bytes = Vec::new();
        let keys = ends[from].write(&mut bytes);
        // In pieces, as in CRYPTO frames.
        for piece in bytes.chunks(50) {
            ends[1 - from].read(piece);
        }
        if keys || !bytes.is_empty() {
            flights.push((from, bytes.len(), keys));
        }
    }
    assert!(ends.iter().all(Flights::is_over));
    flights
}

const CLIENT: [u8; 60] = [1; 60];
const SERVER: [u8; 70] = [2; 70];

#[test]
fn the_flights_have_the_sizes_of_tls() {
    let null =
        flights([Handshake::new(End::Client, CLIENT.to_vec()), Handshake::new(End::Server, SERVER.to_vec())]);
    let tls = lending(&mut Rng::new(1), || {
        let name = ServerName::try_from(tls::SERVER_NAME).unwrap();
        let client = ClientConnection::new(Arc::new(tls::client()), Version::V1, name, CLIENT.to_vec());
        let server = ServerConnection::new(Arc::new(tls::server()), Version::V1, SERVER.to_vec());
        flights([Connection::Client(client.unwrap()), Connection::Server(server.unwrap())])
    });
    assert_eq!(null, tls);
}

#[test]
fn the_parameters_arrive() {
    let mut client = Handshake::new(End::Client, CLIENT.to_vec());
    let mut server = Handshake::new(End::Server, SERVER.to_vec());
    let mut bytes = Vec::new();
    client.write(&mut bytes);
    server.read(&bytes).unwrap();
    assert_eq!(server.peer_parameters(), Some(&CLIENT[..]));
    bytes.clear();
    while server.write(&mut bytes) {}
    client.read(&bytes).unwrap();
    assert_eq!(client.peer_parameters(), Some(&SERVER[..]));
}

#[test]
fn nonsense_is_refused() {
    let server = || Handshake::new(End::Server, Vec::new());
    assert_eq!(server().read(&[1, 1, 0, 0, 0, 0]), Err(Malformed), "longer than 64 KiB");
    assert_eq!(server().read(&[1, 0, 0, 4, 0, 9]), Err(Malformed), "parameters longer than their message");
    assert_eq!(server().read(&[1, 0, 0]), Ok(()), "not yet a message");
}
