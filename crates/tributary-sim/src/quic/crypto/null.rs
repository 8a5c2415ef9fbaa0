//! A handshake without cryptography: the flights of TLS 1.3 (RFC 8446 §2, RFC 9001 §4) with the sizes that
//! rustls gives them here. They carry the transport parameters and padding.
//!
//! Independent of the QUIC crates: [`super::null_quinn`] and [`super::null_noq`] implement their traits with
//! it.

/// Bytes of a packet's authentication tag and of a header-protection sample (AES-128-GCM).
pub(in super::super) const TAG: usize = 16;

/// Generation of the keys of Initial packets; later levels and updates count up from it.
pub(in super::super) const INITIAL: u64 = 0;

/// Writes a key's tag at the end of a packet that has room for it.
pub(in super::super) fn seal(generation: u64, packet: &mut [u8]) {
    if let Some(tag) = packet.last_chunk_mut::<TAG>() {
        *tag = u128::from(generation).to_be_bytes();
    }
}

/// The bytes in front of the tag, if the tag belongs to this key. Like a real tag, it shows which of two keys
/// protects a packet around a key update (RFC 9001 §6.3).
pub(in super::super) fn opened(generation: u64, payload: &[u8]) -> Option<usize> {
    let tag = payload.last_chunk::<TAG>()?;
    (*tag == u128::from(generation).to_be_bytes()).then_some(payload.len() - TAG)
}

/// Packets that may be sealed with one key before it is updated (RFC 9001 §6.6, AES-GCM).
pub(in super::super) const SEALED_MOST: u64 = 1 << 23;

/// Packets that may fail to open (RFC 9001 §6.6, AES-GCM); none does here.
pub(in super::super) const OPENED_WRONG_MOST: u64 = 1 << 52;

/// A message's type and length (RFC 8446 §4) and the length of the parameters in it.
const HEAD: usize = 4 + 2;

// Bytes that rustls sends beside the transport parameters; a test compares them.
const CLIENT_HELLO: usize = 187;
const SERVER_HELLO: usize = 90;
const SERVER_FLIGHT: usize = 505;
const CLIENT_FINISHED: usize = 36;
const TICKETS: usize = 178;

/// Which end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in super::super) enum End {
    Client,
    Server,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Next {
    WriteClientHello,
    ReadServerHello,
    TakeHandshakeKeys,
    ReadServerFlight,
    WriteClientFinished,
    ReadClientHello,
    WriteServerHello,
    WriteServerFlight,
    ReadClientFinished,
    WriteTickets,
    ReadTickets,
    Nothing,
}

/// The peer's handshake is invalid.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in super::super) struct Malformed;

/// One end's handshake.
#[derive(Debug)]
pub(in super::super) struct Handshake {
    next: Next,
    own: Vec<u8>,
    peer: Option<Vec<u8>>,
    received: Vec<u8>,
}

impl Handshake {
    /// `own` are the encoded transport parameters of this end.
    pub fn new(end: End, own: Vec<u8>) -> Self {
        let next = match end {
            End::Client => Next::WriteClientHello,
            End::Server => Next::ReadClientHello,
        };
        Self { next, own, peer: None, received: Vec::new() }
    }

    /// The peer's encoded transport parameters, once known.
    pub fn peer_parameters(&self) -> Option<&[u8]> {
        self.peer.as_deref()
    }

    /// Whether the handshake is still in progress.
    pub fn is_handshaking(&self) -> bool {
        !matches!(
            self.next,
            Next::WriteClientFinished | Next::WriteTickets | Next::ReadTickets | Next::Nothing
        )
    }

    /// Takes bytes of CRYPTO frames, in order.
    pub fn read(&mut self, bytes: &[u8]) -> Result<(), Malformed> {
        self.received.extend_from_slice(bytes);
        while let Some(parameters) = self.take_message()? {
            self.next = match self.next {
                Next::ReadClientHello => Next::WriteServerHello,
                Next::ReadServerHello => Next::TakeHandshakeKeys,
                // The flight may arrive in the same read as the hello before it.
                Next::TakeHandshakeKeys | Next::ReadServerFlight => Next::WriteClientFinished,
                Next::ReadClientFinished => Next::WriteTickets,
                Next::WriteClientFinished | Next::ReadTickets => Next::Nothing,
                _ => return Err(Malformed),
            };
            if !parameters.is_empty() {
                self.peer = Some(parameters);
            }
        }
        Ok(())
    }

    /// Appends what is to be sent; returns `true` when the keys of the next level are due.
    pub fn write(&mut self, out: &mut Vec<u8>) -> bool {
        let (next, keys) = match self.next {
            Next::WriteClientHello => {
                message(out, &self.own, CLIENT_HELLO);
                (Next::ReadServerHello, false)
            }
            Next::WriteServerHello => {
                message(out, &[], SERVER_HELLO);
                (Next::WriteServerFlight, true)
            }
            Next::TakeHandshakeKeys => (Next::ReadServerFlight, true),
            Next::WriteServerFlight => {
                message(out, &self.own, SERVER_FLIGHT);
                (Next::ReadClientFinished, true)
            }
            Next::WriteClientFinished => {
                message(out, &[], CLIENT_FINISHED);
                (Next::ReadTickets, true)
            }
            Next::WriteTickets => {
                message(out, &[], TICKETS);
                (Next::Nothing, false)
            }
            other => (other, false),
        };
        self.next = next;
        keys
    }

    /// The parameters of the next complete message.
    fn take_message(&mut self) -> Result<Option<Vec<u8>>, Malformed> {
        let Some(head) = self.received.first_chunk::<HEAD>() else { return Ok(None) };
        let length = usize::from(u16::from_be_bytes([head[2], head[3]]));
        let parameters = usize::from(u16::from_be_bytes([head[4], head[5]]));
        if head[1] != 0 || length + 4 < HEAD + parameters {
            return Err(Malformed);
        }
        if self.received.len() < length + 4 {
            return Ok(None);
        }
        let message: Vec<u8> = self.received.drain(..length + 4).collect();
        Ok(Some(message[HEAD..HEAD + parameters].to_vec()))
    }
}

/// A message with `beside` bytes more than `parameters`.
fn message(out: &mut Vec<u8>, parameters: &[u8], beside: usize) {
    let size = beside + parameters.len();
    let length = u16::try_from(size - 4).expect("flights are shorter than 64 KiB");
    let carried = u16::try_from(parameters.len()).expect("shorter than their message");
    let end = out.len() + size;
    out.extend_from_slice(&[1, 0]);
    out.extend_from_slice(&length.to_be_bytes());
    out.extend_from_slice(&carried.to_be_bytes());
    out.extend_from_slice(parameters);
    out.resize(end, 0);
}

#[cfg(test)]
mod tests;
