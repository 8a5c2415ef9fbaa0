//! Handshake messages and their authentication. Pure: bytes in, bytes out.
//!
//! Source: `docs/wire-handshake.md`. Both messages carry a MAC over the connection's *binding* (TLS exporter, RFC
//! 8446 §7.5, or the server's random challenge), so that neither can be replayed on another connection or relayed
//! by an attacker in the middle. The secret of every MAC depends on the mode, TLS or plaintext: an attacker can
//! choose the challenge of plaintext mode, and a MAC over it must not be valid on a TLS connection. Not here:
//! sockets, and which sessions exist.

mod form;

use aws_lc_rs::{hkdf, hmac};
use thiserror::Error;
use tributary_proto::handshakes::Introduction;
use tributary_types::{PathId, SubflowId};

use crate::config::OwnAddress;
use crate::identity::PublicKey;
use crate::key::Key;

pub use form::Form;

const MAGIC: [u8; 4] = *b"TRIB";
/// Version of the handshake and of the frames that follow.
pub(crate) const VERSION: u8 = tributary_proto::wire::VERSION;
/// The newest version that does not name itself in the TLS handshake.
pub(crate) const LAST_UNNAMED: u8 = 4;
/// Bytes of a client hello.
pub(crate) const HELLO_LENGTH: usize = 112;
/// Bytes of a client hello before its proof of the session and its MAC.
const HELLO_FIELDS: usize = 48;
/// Bytes of a server reply without an address.
pub(crate) const REPLY_LENGTH: usize = 56;
/// Bytes of a reply before its address and its MAC.
const REPLY_FIELDS: usize = 24;
/// Where a reply has the length of its address.
const ADDRESS_LENGTH: usize = 6;
/// Bytes of a binding: exporter output or challenge.
pub(crate) const BINDING_LENGTH: usize = 32;
const MAC_LENGTH: usize = 32;
const KIND_NEW: u8 = 0;
const KIND_JOIN: u8 = 1;
const FLAG_METERED: u8 = 1;
const FLAG_TAKES_ADDRESS: u8 = 2;
/// In a reply.
const FLAG_OBEYS_CAPS: u8 = 1;
const CODE_UNKNOWN_SESSION: u8 = 6;
const CODE_OTHER_INSTANCE: u8 = 9;

/// Identifier of a session, chosen randomly by the server.
pub(crate) type SessionTag = [u8; 16];

/// How a connection is protected.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Mode {
    Tls,
    Plaintext,
}

impl Mode {
    /// Input to the derivation of every secret.
    pub(crate) fn label(self) -> &'static [u8] {
        match self {
            Self::Tls => b" tls",
            Self::Plaintext => b" plaintext",
        }
    }
}

/// What identifies one connection: its mode, and the TLS exporter's output or the server's challenge.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Binding {
    pub mode: Mode,
    pub bytes: [u8; BINDING_LENGTH],
}

/// Request of a client.
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
    /// The path's bytes cost money.
    pub metered: bool,
    /// The client understands an address in the reply.
    pub takes_address: bool,
    pub nonce: [u8; 16],
}

/// The server's answer to an authenticated hello.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Answer {
    Accepted,
    Refused(Refusal),
    /// There is no such session: it has ended, or the server has been restarted.
    UnknownSession,
}

/// What a reply tells a client.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Reply {
    pub answer: Answer,
    pub session: SessionTag,
    /// Where the instance that has the session can be reached itself, past a load balancer.
    pub address: Option<OwnAddress>,
    /// The server understands the caps of paths, and sends no more than they allow.
    pub obeys_caps: bool,
}

/// Why a server refuses a connection. Sent only to clients that have proved their key.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum Refusal {
    /// The server has reached its limit of sessions.
    #[error("the server has reached its limit of sessions; try later")]
    TooManySessions,
    /// The session has reached its limit of subflows.
    #[error("the session has reached its limit of subflows")]
    TooManySubflows,
    /// The subflow identifier was used before.
    #[error("the subflow identifier was used before in this session")]
    SubflowReused,
    /// The session has ended.
    #[error("the session has ended")]
    SessionEnded,
    /// The path already has a subflow that carries data; the client started this attempt before it knew that.
    #[error("the path already has a subflow that carries data")]
    Superfluous,
    /// The client's own key is not in the server's list.
    #[error(
        "the server does not know this client's key: it was never in the server's list of clients, or was revoked; give its \
         operator the key that `tributary pubkey` prints"
    )]
    UnknownClient,
    /// The client has as many sessions as the server's list allows it.
    #[error("this client has as many sessions as the server allows it; end another one, or try later")]
    ClientSessions,
    /// The connection reached another instance of the server than the one that has the session.
    #[error(
        "another instance of the server answered than the one that has the session; the load balancer is asked again, and the \
         session ends if that instance does not come back"
    )]
    OtherInstance,
    /// A reason that is unknown in this version.
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
            Self::UnknownClient => 7,
            Self::ClientSessions => 8,
            Self::OtherInstance => CODE_OTHER_INSTANCE,
            Self::Other(code) => code,
        }
    }
}

/// The other end of a handshake.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Peer {
    /// It connects.
    Client,
    /// It listens.
    Server,
}

impl Peer {
    /// The error for a peer that speaks this version, if it is another one than ours.
    pub(crate) fn check(self, version: u8) -> Result<(), HelloError> {
        if version == VERSION { Ok(()) } else { Err(HelloError::Version { peer: self, version }) }
    }
}

impl core::fmt::Display for Peer {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.write_str(match self {
            Self::Client => "client",
            Self::Server => "server",
        })
    }
}

/// Why a handshake message is rejected.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum HelloError {
    /// The bytes are not a handshake message.
    #[error("the peer does not speak the Tributary protocol")]
    Garbage,
    /// The peer speaks another version of the wire format; one of the programs is older and must be replaced.
    #[error(
        "the {peer} speaks wire format {version}, this program {VERSION}; install the same release on both"
    )]
    Version {
        /// Which end the peer is.
        peer: Peer,
        /// Its version. [`Peer::Server`] with `LAST_UNNAMED`: this or an older one.
        version: u8,
    },
    /// The peer's keys have another form.
    #[error("{}", .form.explained(*.peer))]
    OtherForm {
        /// Which end the peer is.
        peer: Peer,
        /// Its form.
        form: Form,
    },
    /// The server has another key than the client expects.
    #[error(
        "the server is not the expected one: its public key is {shown}, not {expected}; if its operator has replaced the key, \
         give the new one as --server-key"
    )]
    WrongServer {
        /// The key that the client expects.
        expected: PublicKey,
        /// The key that the server has.
        shown: PublicKey,
    },
    /// A ticket that was used before.
    #[error("a ticket was used twice: this is a replay of an overheard connection")]
    Replayed,
    /// The MAC does not verify.
    #[error("wrong key: the peer does not know the key")]
    WrongKey,
}

/// Authentication of one connection: the secret derived from the key, the binding, and the session that it joins.
pub(crate) struct Auth<'a> {
    secret: hmac::Key,
    session: Option<&'a SessionSecret>,
    binding: &'a Binding,
}

/// Secret of the session. Every further subflow must prove that it knows the secret.
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
        let salt = [binding.bytes.as_slice(), &hello.nonce].concat();
        let info: [&[u8]; 3] = [b"tributary session", binding.mode.label(), session];
        let secret = derive(&salt, key.bytes(), &info);
        Self(hmac::Key::new(hmac::HMAC_SHA256, &secret))
    }
}

/// The fields of a hello, its proof of the session, its MAC.
fn split_hello(bytes: &[u8; HELLO_LENGTH]) -> (&[u8], &[u8], &[u8]) {
    let (body, mac) = bytes.split_at(HELLO_LENGTH - MAC_LENGTH);
    let (fields, proof) = body.split_at(HELLO_FIELDS);
    (fields, proof, mac)
}

impl<'a> Auth<'a> {
    /// For a connection that opens a session.
    pub(crate) fn opening(key: &Key, binding: &'a Binding) -> Self {
        Self::new(key, binding, b"tributary new")
    }

    /// For a connection that asks to join a session.
    pub(crate) fn joining(key: &Key, binding: &'a Binding) -> Self {
        Self::new(key, binding, b"tributary join")
    }

    fn new(key: &Key, binding: &'a Binding, purpose: &[u8]) -> Self {
        let secret = derive(&binding.bytes, key.bytes(), &[purpose, binding.mode.label()]);
        Self { secret: hmac::Key::new(hmac::HMAC_SHA256, &secret), session: None, binding }
    }

    /// For a connection to a session whose secret is known.
    pub(crate) fn of_session(self, session: &'a SessionSecret) -> Self {
        Self { session: Some(session), ..self }
    }

    fn context(&self, role: &[u8], parts: [&[u8]; 2]) -> Vec<u8> {
        [role, &self.binding.bytes, parts[0], parts[1]].concat()
    }

    /// Client: the bytes of a hello.
    pub(crate) fn seal_hello(&self, hello: &Hello) -> [u8; HELLO_LENGTH] {
        let mut out = hello.encode();
        if let Some(session) = self.session {
            let proof = hmac::sign(&session.0, &self.context(b"join", [&out[..HELLO_FIELDS], &[]]));
            out[HELLO_FIELDS..][..MAC_LENGTH].copy_from_slice(proof.as_ref());
        }
        let body = HELLO_LENGTH - MAC_LENGTH;
        let mac = hmac::sign(&self.secret, &self.context(b"client", [&out[..body], &[]]));
        out[body..].copy_from_slice(mac.as_ref());
        out
    }

    /// Server: checks in constant time that the sender of a hello knows the key.
    pub(crate) fn verify_hello(&self, bytes: &[u8; HELLO_LENGTH]) -> Result<(), HelloError> {
        let (fields, proof, mac) = split_hello(bytes);
        hmac::verify(&self.secret, &self.context(b"client", [fields, proof]), mac)
            .map_err(|_| HelloError::WrongKey)
    }

    /// Server: checks in constant time that the sender of a hello that joins knows the session's secret.
    pub(crate) fn verify_join(&self, bytes: &[u8; HELLO_LENGTH]) -> Result<(), HelloError> {
        let (fields, proof, _) = split_hello(bytes);
        let session = self.session.ok_or(HelloError::WrongKey)?;
        hmac::verify(&session.0, &self.context(b"join", [fields, &[]]), proof)
            .map_err(|_| HelloError::WrongKey)
    }

    /// Key of a reply's MAC: the session's secret if both ends know it.
    fn reply_secret(&self, code: u8) -> &hmac::Key {
        match self.session {
            Some(session) if !matches!(code, CODE_UNKNOWN_SESSION | CODE_OTHER_INSTANCE) => &session.0,
            _ => &self.secret,
        }
    }

    /// Server: the bytes of a reply to `hello`, without an address.
    pub(crate) fn seal_reply(
        &self,
        hello: &[u8; HELLO_LENGTH],
        answer: Answer,
        session: &SessionTag,
    ) -> Vec<u8> {
        self.seal_reply_with(hello, &Reply { answer, session: *session, address: None, obeys_caps: false })
    }

    /// Server: the bytes of a reply to `hello`.
    pub(crate) fn seal_reply_with(&self, hello: &[u8; HELLO_LENGTH], reply: &Reply) -> Vec<u8> {
        let mut out = vec![0; REPLY_FIELDS];
        out[..4].copy_from_slice(&MAGIC);
        out[4] = VERSION;
        out[5] = match reply.answer {
            Answer::Accepted => 0,
            Answer::Refused(refusal) => refusal.code(),
            Answer::UnknownSession => CODE_UNKNOWN_SESSION,
        };
        out[7] = if reply.obeys_caps { FLAG_OBEYS_CAPS } else { 0 };
        out[8..24].copy_from_slice(&reply.session);
        if let Some(address) = &reply.address {
            let address = address.to_string();
            out[ADDRESS_LENGTH] = u8::try_from(address.len()).expect("longer addresses are refused");
            out.extend_from_slice(address.as_bytes());
        }
        let mac = hmac::sign(self.reply_secret(out[5]), &self.context(b"server", [hello, &out]));
        out.extend_from_slice(mac.as_ref());
        out
    }

    /// Client: checks a reply to `hello`.
    pub(crate) fn open_reply(&self, hello: &[u8; HELLO_LENGTH], bytes: &[u8]) -> Result<Reply, HelloError> {
        if bytes.len() != reply_length(bytes) {
            return Err(HelloError::Garbage);
        }
        check_start(bytes, Peer::Server)?;
        let (body, mac) = bytes.split_at(bytes.len() - MAC_LENGTH);
        hmac::verify(self.reply_secret(body[5]), &self.context(b"server", [hello, body]), mac)
            .map_err(|_| HelloError::WrongKey)?;
        let answer = match body[5] {
            0 => Answer::Accepted,
            1 => Answer::Refused(Refusal::TooManySessions),
            2 => Answer::Refused(Refusal::TooManySubflows),
            3 => Answer::Refused(Refusal::SubflowReused),
            4 => Answer::Refused(Refusal::SessionEnded),
            5 => Answer::Refused(Refusal::Superfluous),
            CODE_UNKNOWN_SESSION => Answer::UnknownSession,
            7 => Answer::Refused(Refusal::UnknownClient),
            8 => Answer::Refused(Refusal::ClientSessions),
            CODE_OTHER_INSTANCE => Answer::Refused(Refusal::OtherInstance),
            code => Answer::Refused(Refusal::Other(code)),
        };
        let mut session = [0; 16];
        session.copy_from_slice(&body[8..REPLY_FIELDS]);
        let address = match &body[REPLY_FIELDS..] {
            [] => None,
            text => {
                let text = core::str::from_utf8(text).map_err(|_| HelloError::Garbage)?;
                Some(text.parse().map_err(|_| HelloError::Garbage)?)
            }
        };
        Ok(Reply { answer, session, address, obeys_caps: body[7] & FLAG_OBEYS_CAPS != 0 })
    }
}

/// Bytes of the reply that begins with these, as far as they show it. Of another version's, only the beginning is known.
pub(crate) fn reply_length(begin: &[u8]) -> usize {
    match begin.get(4) {
        Some(&VERSION) => REPLY_LENGTH + begin.get(ADDRESS_LENGTH).map_or(0, |length| usize::from(*length)),
        _ => REPLY_LENGTH,
    }
}

/// The first bytes of a message in plaintext mode, and of the answer to a client of another version.
pub(crate) const START: [u8; 8] = [MAGIC[0], MAGIC[1], MAGIC[2], MAGIC[3], VERSION, 0, 0, 0];

/// Checks the first bytes of a message from `peer`: five or more.
pub(crate) fn check_start(bytes: &[u8], peer: Peer) -> Result<(), HelloError> {
    if bytes[..4] != MAGIC {
        return Err(HelloError::Garbage);
    }
    peer.check(bytes[4])
}

impl Hello {
    /// What it says about its connection.
    pub(crate) fn introduction(&self) -> Introduction {
        Introduction { path: self.path, subflow: self.subflow, metered: self.metered }
    }

    fn encode(&self) -> [u8; HELLO_LENGTH] {
        let mut out = [0; HELLO_LENGTH];
        out[..4].copy_from_slice(&MAGIC);
        out[4] = VERSION;
        out[6] = self.path.0;
        out[7] |= if self.metered { FLAG_METERED } else { 0 };
        out[7] |= if self.takes_address { FLAG_TAKES_ADDRESS } else { 0 };
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

    /// Parses a hello without checking its MAC.
    pub(crate) fn decode(bytes: &[u8; HELLO_LENGTH]) -> Result<Self, HelloError> {
        check_start(bytes, Peer::Client)?;
        let array = |at: usize| -> [u8; 16] { std::array::from_fn(|i| bytes[at + i]) };
        let intent = match bytes[5] {
            KIND_NEW => Intent::New,
            KIND_JOIN => Intent::Join(array(12)),
            _ => return Err(HelloError::Garbage),
        };
        let subflow = SubflowId(u32::from_be_bytes(std::array::from_fn(|i| bytes[8 + i])));
        let [metered, takes_address] = [FLAG_METERED, FLAG_TAKES_ADDRESS].map(|flag| bytes[7] & flag != 0);
        Ok(Self { intent, path: PathId(bytes[6]), subflow, metered, takes_address, nonce: array(28) })
    }
}

#[cfg(test)]
mod tests;
