//! Handshake messages and their authentication. Pure: bytes in, bytes out.
//!
//! Source: `docs/wire-format.md`, section Handshake. Both messages carry a MAC over the connection's
//! *binding* (TLS exporter, RFC 8446 §7.5, or the server's random challenge), so that neither can be
//! replayed on another connection or relayed by somebody in the middle.

use ring::{hkdf, hmac};
use thiserror::Error;
use tributary_types::{PathId, SubflowId};

use crate::key::Key;

const MAGIC: [u8; 4] = *b"TRIB";
/// Version of the handshake and of the frames that follow.
pub(crate) const VERSION: u8 = tributary_proto::wire::VERSION;
/// Bytes of a client hello.
pub(crate) const HELLO_LENGTH: usize = 80;
/// Bytes of a server reply.
pub(crate) const REPLY_LENGTH: usize = 56;
/// Bytes of a binding: exporter output or challenge.
pub(crate) const BINDING_LENGTH: usize = 32;
const MAC_LENGTH: usize = 32;
const KIND_NEW: u8 = 0;
const KIND_JOIN: u8 = 1;

/// Identifier of a session, chosen by the server at random.
pub(crate) type SessionTag = [u8; 16];
/// What identifies one connection: the TLS exporter's output or the server's challenge.
pub(crate) type Binding = [u8; BINDING_LENGTH];

/// What a client asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Intent {
    /// Open a session.
    New,
    /// Add a subflow to this session.
    Join(SessionTag),
}

/// A client hello without its MAC.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Hello {
    pub intent: Intent,
    pub path: PathId,
    pub subflow: SubflowId,
    pub nonce: [u8; 16],
}

/// The server's answer to an authenticated hello.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Answer {
    Accepted,
    Refused(Refusal),
}

/// Why a server that knows the key refuses. Told only to clients that know it too.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum Refusal {
    /// The server has as many sessions as it may.
    #[error("the server has as many sessions as it may; try later")]
    TooManySessions,
    /// The session has as many subflows as it may.
    #[error("the session has as many subflows as it may")]
    TooManySubflows,
    /// The subflow identifier was used before.
    #[error("the subflow identifier was used before in this session")]
    SubflowReused,
    /// The session has ended.
    #[error("the session has ended")]
    SessionEnded,
    /// The path has a subflow that moves; this attempt was started before that was known.
    #[error("the path has a subflow that moves")]
    Superfluous,
    /// A reason this version does not know.
    #[error("refused with code {0}, which this version does not know")]
    Other(u8),
}

impl Refusal {
    fn code(self) -> u8 {
        match self {
            Self::TooManySessions => 1,
            Self::TooManySubflows => 2,
            Self::SubflowReused => 3,
            Self::SessionEnded => 4,
            Self::Superfluous => 5,
            Self::Other(code) => code,
        }
    }
}

/// Why a handshake message is not accepted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum HelloError {
    /// The bytes are not a handshake message.
    #[error("the peer does not speak the Tributary protocol")]
    Garbage,
    /// The peer speaks another version.
    #[error("the peer speaks protocol version {0}, this program version {VERSION}")]
    Version(u8),
    /// The MAC does not verify.
    #[error("the peer does not know the key")]
    WrongKey,
}

/// Authentication of one connection: the secret it runs under and its binding.
pub(crate) struct Auth<'a> {
    secret: hmac::Key,
    binding: &'a Binding,
}

/// Secret of a session, which its later subflows must prove to know.
#[derive(Clone)]
pub(crate) struct SessionSecret(hmac::Key);

struct Length(usize);
impl hkdf::KeyType for Length {
    fn len(&self) -> usize {
        self.0
    }
}

/// HKDF-SHA256 of RFC 5869 to 32 bytes.
pub(crate) fn derive(salt: &[u8], secret: &[u8], info: &[&[u8]]) -> [u8; 32] {
    let mut out = [0; 32];
    hkdf::Salt::new(hkdf::HKDF_SHA256, salt)
        .extract(secret)
        .expand(info, Length(32))
        .and_then(|okm| okm.fill(&mut out))
        .expect("32 bytes are less than HKDF's limit of 255 hashes");
    out
}

impl SessionSecret {
    /// The secret of the session that `hello` opened on the connection bound by `binding`.
    pub(crate) fn derive(key: &Key, binding: &Binding, hello: &Hello, session: &SessionTag) -> Self {
        let salt = [binding.as_slice(), &hello.nonce].concat();
        let secret = derive(&salt, key.bytes(), &[b"tributary session", session]);
        Self(hmac::Key::new(hmac::HMAC_SHA256, &secret))
    }
}

impl<'a> Auth<'a> {
    /// For a connection that opens a session.
    pub(crate) fn new_session(key: &Key, binding: &'a Binding) -> Self {
        let secret = derive(binding, key.bytes(), &[b"tributary new"]);
        Self { secret: hmac::Key::new(hmac::HMAC_SHA256, &secret), binding }
    }

    /// For a connection that joins a session.
    pub(crate) fn join(secret: &SessionSecret, binding: &'a Binding) -> Self {
        Self { secret: secret.0.clone(), binding }
    }

    fn context(&self, role: &[u8], parts: [&[u8]; 2]) -> Vec<u8> {
        [role, self.binding.as_slice(), parts[0], parts[1]].concat()
    }

    /// Client: the bytes of a hello.
    pub(crate) fn seal_hello(&self, hello: &Hello) -> [u8; HELLO_LENGTH] {
        let mut out = hello.encode();
        let body = HELLO_LENGTH - MAC_LENGTH;
        let mac = hmac::sign(&self.secret, &self.context(b"client", [&out[..body], &[]]));
        out[body..].copy_from_slice(mac.as_ref());
        out
    }

    /// Server: checks the MAC of a hello in constant time.
    pub(crate) fn verify_hello(&self, bytes: &[u8; HELLO_LENGTH]) -> Result<(), HelloError> {
        let (body, mac) = bytes.split_at(HELLO_LENGTH - MAC_LENGTH);
        hmac::verify(&self.secret, &self.context(b"client", [body, &[]]), mac)
            .map_err(|_| HelloError::WrongKey)
    }

    /// Server: the bytes of a reply to `hello`.
    pub(crate) fn seal_reply(
        &self,
        hello: &[u8; HELLO_LENGTH],
        answer: Answer,
        session: &SessionTag,
    ) -> [u8; REPLY_LENGTH] {
        let mut out = [0; REPLY_LENGTH];
        out[..4].copy_from_slice(&MAGIC);
        out[4] = VERSION;
        out[5] = match answer {
            Answer::Accepted => 0,
            Answer::Refused(refusal) => refusal.code(),
        };
        out[8..24].copy_from_slice(session);
        let mac = hmac::sign(&self.secret, &self.context(b"server", [hello, &out[..24]]));
        out[24..].copy_from_slice(mac.as_ref());
        out
    }

    /// Client: checks a reply to `hello`.
    pub(crate) fn open_reply(
        &self,
        hello: &[u8; HELLO_LENGTH],
        bytes: &[u8; REPLY_LENGTH],
    ) -> Result<(Answer, SessionTag), HelloError> {
        check_start(bytes)?;
        let (body, mac) = bytes.split_at(24);
        hmac::verify(&self.secret, &self.context(b"server", [hello, body]), mac)
            .map_err(|_| HelloError::WrongKey)?;
        let answer = match body[5] {
            0 => Answer::Accepted,
            1 => Answer::Refused(Refusal::TooManySessions),
            2 => Answer::Refused(Refusal::TooManySubflows),
            3 => Answer::Refused(Refusal::SubflowReused),
            4 => Answer::Refused(Refusal::SessionEnded),
            5 => Answer::Refused(Refusal::Superfluous),
            code => Answer::Refused(Refusal::Other(code)),
        };
        let mut session = [0; 16];
        session.copy_from_slice(&body[8..24]);
        Ok((answer, session))
    }
}

fn check_start(bytes: &[u8]) -> Result<(), HelloError> {
    if bytes[..4] != MAGIC {
        return Err(HelloError::Garbage);
    }
    if bytes[4] == VERSION { Ok(()) } else { Err(HelloError::Version(bytes[4])) }
}

impl Hello {
    fn encode(&self) -> [u8; HELLO_LENGTH] {
        let mut out = [0; HELLO_LENGTH];
        out[..4].copy_from_slice(&MAGIC);
        out[4] = VERSION;
        out[6] = self.path.0;
        out[8..12].copy_from_slice(&self.subflow.0.to_be_bytes());
        match self.intent {
            Intent::New => out[5] = KIND_NEW,
            Intent::Join(session) => {
                out[5] = KIND_JOIN;
                out[12..28].copy_from_slice(&session);
            }
        }
        out[28..44].copy_from_slice(&self.nonce);
        out
    }

    /// Reads a hello. Its MAC is still to be checked.
    pub(crate) fn decode(bytes: &[u8; HELLO_LENGTH]) -> Result<Self, HelloError> {
        check_start(bytes)?;
        let array = |at: usize| -> [u8; 16] { std::array::from_fn(|i| bytes[at + i]) };
        let intent = match bytes[5] {
            KIND_NEW => Intent::New,
            KIND_JOIN => Intent::Join(array(12)),
            _ => return Err(HelloError::Garbage),
        };
        let subflow = SubflowId(u32::from_be_bytes(std::array::from_fn(|i| bytes[8 + i])));
        Ok(Self { intent, path: PathId(bytes[6]), subflow, nonce: array(28) })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hello(intent: Intent) -> Hello {
        Hello { intent, path: PathId(3), subflow: SubflowId(77), nonce: [9; 16] }
    }

    #[test]
    fn messages_round_trip_and_every_bit_is_authenticated() {
        let key = Key::from_bytes([1; 32]);
        let binding = [2; 32];
        let auth = Auth::new_session(&key, &binding);
        let sent = auth.seal_hello(&hello(Intent::Join([5; 16])));
        assert_eq!(Hello::decode(&sent).unwrap(), hello(Intent::Join([5; 16])));
        auth.verify_hello(&sent).unwrap();
        for bit in 0..HELLO_LENGTH * 8 {
            let mut bad = sent;
            bad[bit / 8] ^= 1 << (bit % 8);
            assert_eq!(auth.verify_hello(&bad), Err(HelloError::WrongKey), "bit {bit}");
        }
        let reply = auth.seal_reply(&sent, Answer::Refused(Refusal::SubflowReused), &[6; 16]);
        let opened = auth.open_reply(&sent, &reply).unwrap();
        assert_eq!(opened, (Answer::Refused(Refusal::SubflowReused), [6; 16]));
        for bit in 0..REPLY_LENGTH * 8 {
            let mut bad = reply;
            bad[bit / 8] ^= 1 << (bit % 8);
            assert!(auth.open_reply(&sent, &bad).is_err(), "bit {bit}");
        }
    }

    #[test]
    fn a_hello_is_worth_nothing_on_another_connection_key_or_session() {
        let key = Key::from_bytes([1; 32]);
        let sent = Auth::new_session(&key, &[2; 32]).seal_hello(&hello(Intent::New));
        assert!(Auth::new_session(&key, &[3; 32]).verify_hello(&sent).is_err());
        assert!(Auth::new_session(&Key::from_bytes([4; 32]), &[2; 32]).verify_hello(&sent).is_err());
        let secret = SessionSecret::derive(&key, &[2; 32], &hello(Intent::New), &[5; 16]);
        let join = Auth::join(&secret, &[8; 32]).seal_hello(&hello(Intent::Join([5; 16])));
        let other = SessionSecret::derive(&key, &[2; 32], &hello(Intent::New), &[6; 16]);
        Auth::join(&secret, &[8; 32]).verify_hello(&join).unwrap();
        assert!(Auth::join(&other, &[8; 32]).verify_hello(&join).is_err());
        assert!(Auth::join(&secret, &[7; 32]).verify_hello(&join).is_err());
    }
}
