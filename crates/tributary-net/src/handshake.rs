//! Opens one subflow on a connection: on TCP first TLS or challenge, then the authenticated hello and its reply.
//!
//! Source: `docs/wire-handshake.md`. Not here: which sessions exist ([`crate::listener`]) and
//! when to connect (the session decides).

use std::io;
use std::net::SocketAddr;
use std::os::fd::AsFd;
use std::sync::Arc;
use std::time::SystemTime;

use aws_lc_rs::rand::{SecureRandom, SystemRandom};
use rustls::ClientConfig;
use socket2::{Domain, Protocol, Socket, Type};
use thiserror::Error;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tributary_proto::handshakes::{Failure, Introduction};
use tributary_types::{PathId, SubflowId};

use crate::config::{Common, OwnAddress};
use crate::hello::{
    Answer, Auth, BINDING_LENGTH, Binding, HELLO_LENGTH, Hello, HelloError, Intent, LAST_UNNAMED, Mode, Peer,
    REPLY_LENGTH, Refusal, Reply, START, SessionSecret, SessionTag, check_start,
};
use crate::identity::PublicKey;
use crate::key::Key;
use crate::keys::Keys;
use crate::pipe::Pipe;
use crate::sockopt::{self, CongestionError};
use crate::ticket::{self, PROOF_LENGTH, TICKET_LENGTH, Ticket};
use crate::tls::record::{Opener, RecordError, Sealer};
use crate::tls::{self, Acceptor, Secured, TlsError};

/// Bytes of a challenge: magic, version, three zeros, 32 random bytes. The start of a ticket message has the same
/// length.
const CHALLENGE_LENGTH: usize = START_LENGTH + BINDING_LENGTH;
const START_LENGTH: usize = START.len();
/// Time in which a refusal must arrive.
const REFUSAL_TIME: std::time::Duration = std::time::Duration::from_secs(1);

/// Why a subflow did not come up.
#[derive(Debug, Error)]
pub enum HandshakeError {
    /// The socket cannot be made, bound or connected.
    #[error("{path}: {error}")]
    Connect {
        /// The path.
        path: String,
        /// The system's reason.
        error: io::Error,
    },
    /// The connection broke.
    #[error("the connection broke during the handshake: {0}")]
    Io(#[from] io::Error),
    /// The server, or something on the path, closed the connection before it proved that it has the key, or instead of an
    /// answer.
    #[error(
        "the connection was closed without an answer: wrong key, a plaintext/TLS mismatch, a server that is busy, or \
         something else than a Tributary server (a load balancer without a server, a network with a login page)"
    )]
    HungUp,
    /// TLS failed.
    #[error(transparent)]
    Tls(#[from] TlsError),
    /// An invalid TLS record.
    #[error(transparent)]
    Record(#[from] RecordError),
    /// An invalid handshake message.
    #[error(transparent)]
    Hello(#[from] HelloError),
    /// The server has proved its key but refuses the connection.
    #[error(transparent)]
    Refused(#[from] Refusal),
    /// The server has proved its key but has no session with the identifier that the connection wants to join.
    #[error(
        "the server does not know the session: it has ended, or the server was started again; open a new one"
    )]
    UnknownSession,
    /// The congestion controller is not available.
    #[error(transparent)]
    Congestion(#[from] CongestionError),
    /// The time limit passed.
    #[error("no answer")]
    Timeout,
    /// There is no path: no interface has a route to the server.
    #[error("no network interface leads to the server; see ip address, ip route and ip rule")]
    NoInterface,
    /// The operating system gave no random bytes.
    #[error("the operating system gives no random bytes")]
    NoEntropy,
}

impl HandshakeError {
    /// Whether the session to be joined no longer exists, so that a new session is needed.
    #[must_use]
    pub fn is_session_gone(&self) -> bool {
        matches!(self, Self::UnknownSession | Self::Refused(Refusal::SessionEnded))
    }

    /// Whether trying again is useless until the configuration changes: this machine's own errors, and refusals by a server
    /// that has proved the key, for a reason that does not pass. Anything else can be forged by a device on the path, or
    /// passes: a network with a login page, a load balancer without a server, a server that is being updated.
    #[must_use]
    pub fn is_fatal(&self) -> bool {
        matches!(self, Self::Congestion(_) | Self::Refused(Refusal::UnknownClient | Refusal::Other(_)))
    }

    /// What the error means for the path and the session.
    pub(crate) fn failure(&self) -> Failure {
        match self {
            Self::Connect { error, .. } if error.kind() == io::ErrorKind::ConnectionRefused => {
                Failure::NobodyListens
            }
            Self::Connect { .. } | Self::Congestion(_) | Self::NoInterface | Self::NoEntropy => {
                Failure::Unreachable
            }
            Self::Io(_) | Self::Tls(TlsError::Io(_)) => Failure::Broken,
            Self::HungUp | Self::Tls(_) | Self::Record(_) | Self::Hello(_) => Failure::Unauthenticated,
            Self::UnknownSession | Self::Refused(Refusal::SessionEnded) => Failure::UnknownSession,
            Self::Refused(Refusal::OtherInstance) => Failure::OtherInstance,
            Self::Refused(_) => Failure::TurnedDown,
            Self::Timeout => Failure::TimedOut,
        }
    }
}

/// TLS settings of one role, or none in plaintext mode.
#[derive(Clone)]
pub(crate) enum Tls<C> {
    On(Arc<C>),
    Off,
}

/// A connection before or after its handshake: its protection, unless it has its own or none, and its binding.
pub(crate) struct Channel {
    pub stream: Pipe,
    pub security: Option<(Sealer, Opener)>,
    pub binding: Binding,
    /// What both ends authenticate further messages with: the shared key, or a secret of this connection.
    pub secret: Key,
    /// The peer's own key, unless the ends have a shared one.
    pub peer: Option<PublicKey>,
}

/// A subflow that is up.
pub(crate) struct Established {
    pub path: PathId,
    pub subflow: SubflowId,
    pub channel: Channel,
    /// Client: the reply to the hello has not arrived. It will be the first data to arrive.
    pub reply: Option<AwaitedReply>,
}

/// Checks the reply to the hello that opens a session.
pub(crate) struct AwaitedReply {
    key: Key,
    binding: Binding,
    hello: Hello,
    bytes: [u8; HELLO_LENGTH],
}

impl AwaitedReply {
    /// Checks the reply and returns what it tells the client.
    pub(crate) fn check(&self, reply: &[u8]) -> Result<Credentials, HandshakeError> {
        let auth = Auth::opening(&self.key, &self.binding);
        let Reply { answer, session: tag, address, obeys_caps } = auth.open_reply(&self.bytes, reply)?;
        match answer {
            Answer::Refused(refusal) => Err(refusal.into()),
            Answer::UnknownSession => Err(HandshakeError::UnknownSession),
            Answer::Accepted => {
                let secret = SessionSecret::derive(&self.key, &self.binding, &self.hello, &tag);
                Ok(Credentials { tag, secret, address, obeys_caps })
            }
        }
    }
}

/// Credentials of a client after its first subflow is up.
#[derive(Clone)]
pub(crate) struct Credentials {
    pub tag: SessionTag,
    pub secret: SessionSecret,
    /// Where the instance that has the session can be reached itself.
    pub address: Option<OwnAddress>,
    /// The server understands the caps of paths.
    pub obeys_caps: bool,
}

pub(crate) fn random<const N: usize>() -> Result<[u8; N], HandshakeError> {
    let mut bytes = [0; N];
    SystemRandom::new().fill(&mut bytes).map_err(|_| HandshakeError::NoEntropy)?;
    Ok(bytes)
}

/// A TCP socket with the options that must be set before `connect` or `listen`.
pub(crate) fn prepared_socket(address: SocketAddr, common: &Common) -> Result<Socket, HandshakeError> {
    let socket = Socket::new(Domain::for_address(address), Type::STREAM, Some(Protocol::TCP))?;
    socket.set_nonblocking(true)?;
    prepare(&socket, common)?;
    Ok(socket)
}

/// Sets these options.
pub(crate) fn prepare(socket: &Socket, common: &Common) -> Result<(), HandshakeError> {
    if let Some(name) = &common.congestion {
        sockopt::set_congestion(socket.as_fd(), name)?;
    }
    socket.set_tcp_nodelay(true)?;
    if let Some(cap) = common.rto_max {
        let _ = sockopt::set_timers(socket.as_fd(), cap, std::time::Duration::from_millis(5));
    }
    Ok(())
}

/// Client: sends a ticket on a fresh connection, for the session that it will join if there is one, and does the TLS
/// or plaintext handshake. When this returns, the server has proved that it has the key.
pub(crate) async fn protect(
    mut stream: TcpStream,
    tls: &Tls<ClientConfig>,
    common: &Common,
    session: Option<SessionTag>,
) -> Result<Channel, HandshakeError> {
    let ticket = Ticket::new(SystemTime::now(), random()?, session);
    match tls {
        Tls::On(config) => {
            let ticket = match &common.keys {
                Keys::Client { own, server } => ticket.seal_for(server, own)?,
                keys => ticket.seal(shared(keys)?, Mode::Tls).to_vec(),
            };
            let shaken = tls::connect(&mut stream, config.clone(), ticket).await;
            let done = shaken.map_err(|error| match error {
                TlsError::Io(error) => hung_up(error),
                TlsError::Unauthenticated(error) => error.into(),
                other => other.into(),
            })?;
            let names_version = done.names_version;
            let mut channel = done.into_channel(stream, &common.keys)?;
            if !names_version {
                // The start of a hello tells an old server this program's version; it answers nothing.
                let mut hello = [0; HELLO_LENGTH];
                hello[..START_LENGTH].copy_from_slice(&START);
                channel.send(&hello).await?;
                return Err(HelloError::Version { peer: Peer::Server, version: LAST_UNNAMED }.into());
            }
            Ok(channel)
        }
        Tls::Off => {
            let key = shared(&common.keys)?;
            let ticket = ticket.seal(key, Mode::Plaintext);
            stream.write_all(&[&START[..], &ticket].concat()).await.map_err(hung_up)?;
            let mut challenge = [0; CHALLENGE_LENGTH + PROOF_LENGTH];
            // An answer in another protocol may be shorter than a challenge, so its beginning is checked first.
            let (first, rest) = challenge.split_at_mut(START_LENGTH);
            stream.read_exact(first).await.map_err(hung_up)?;
            check_start(first, Peer::Server)?;
            stream.read_exact(rest).await.map_err(hung_up)?;
            let (challenge, proof) = challenge.split_at(CHALLENGE_LENGTH);
            ticket::verify_challenge(key, &ticket, challenge, proof)?;
            let bytes = std::array::from_fn(|i| challenge[START_LENGTH + i]);
            let binding = Binding { mode: Mode::Plaintext, bytes };
            let stream = Pipe::from(stream);
            Ok(Channel { stream, security: None, binding, secret: key.clone(), peer: None })
        }
    }
}

/// The shared key. Keys of one end were refused before, where only a shared one is used.
fn shared(keys: &Keys) -> Result<&Key, HelloError> {
    keys.shared().ok_or(HelloError::WrongKey)
}

/// Server: checks the ticket of a fresh connection, and carries out its TLS or plaintext handshake if `admit`
/// allows it. `admit` gets the ticket, and the key of the client that signed it, if clients have keys of their own. A ticket of
/// an unknown client counts for nothing, but its connection goes on, so that the client gets the reason.
pub(crate) async fn protect_accepted(
    mut stream: TcpStream,
    tls: &Tls<Acceptor>,
    keys: &Keys,
    admit: impl FnOnce(Ticket, Option<PublicKey>) -> Result<(), HelloError>,
) -> Result<Channel, HandshakeError> {
    match tls {
        Tls::On(config) => {
            let open = |bytes: &[u8]| match keys {
                Keys::Server { own, clients } => {
                    match Ticket::open_sealed(own, |client| clients.find(client).is_some(), bytes) {
                        Ok((ticket, client)) => admit(ticket, Some(client)),
                        Err(_) => Ok(()),
                    }
                }
                keys => admit(Ticket::open(shared(keys)?, Mode::Tls, bytes)?, None),
            };
            let done = tls::accept(&mut stream, config, open).await.map_err(|error| match error {
                TlsError::Unauthenticated(error) => error.into(),
                other => HandshakeError::from(other),
            })?;
            let names_version = done.names_version;
            let mut channel = done.into_channel(stream, keys)?;
            if !names_version {
                let error = tell_version(&mut channel).await?;
                channel.let_go().await;
                return Err(error.into());
            }
            Ok(channel)
        }
        Tls::Off => {
            // The ticket of another version may have another length.
            let mut start = [0; START_LENGTH];
            stream.read_exact(&mut start).await?;
            if let Err(error) = check_start(&start, Peer::Client) {
                if error != HelloError::Garbage {
                    stream.write_all(&START).await?;
                    Pipe::from(stream).let_go(REFUSAL_TIME).await;
                }
                return Err(error.into());
            }
            let mut ticket = [0; TICKET_LENGTH];
            stream.read_exact(&mut ticket).await?;
            let key = shared(keys)?;
            admit(Ticket::open(key, Mode::Plaintext, &ticket)?, None)?;
            let binding = Binding { mode: Mode::Plaintext, bytes: random()? };
            let challenge = [&START[..], &binding.bytes].concat();
            let proof = ticket::challenge_proof(key, &ticket, &challenge);
            stream.write_all(&[&challenge[..], &proof].concat()).await?;
            let stream = Pipe::from(stream);
            Ok(Channel { stream, security: None, binding, secret: key.clone(), peer: None })
        }
    }
}

/// Server: answers the hello of a client that has the key and an older version with the start of a reply, which tells it
/// this program's version. Returns the error that names the client's version.
async fn tell_version(channel: &mut Channel) -> Result<HelloError, HandshakeError> {
    let hello: [u8; HELLO_LENGTH] = channel.receive().await?;
    let named = check_start(&hello, Peer::Client).err();
    let mut reply = [0; REPLY_LENGTH];
    reply[..START_LENGTH].copy_from_slice(&START);
    channel.send(&reply).await?;
    Ok(named.unwrap_or(HelloError::Garbage))
}

impl Secured {
    pub(crate) fn into_channel(self, stream: TcpStream, keys: &Keys) -> Result<Channel, HelloError> {
        let (secret, peer) = match self.own {
            Some((peer, secret)) => (secret, Some(peer)),
            None => (shared(keys)?.clone(), None),
        };
        let security = Some((self.sealer, self.opener));
        Ok(Channel { stream: stream.into(), security, binding: self.binding, secret, peer })
    }
}

pub(crate) fn hung_up(error: io::Error) -> HandshakeError {
    match error.kind() {
        io::ErrorKind::UnexpectedEof
        | io::ErrorKind::ConnectionReset
        | io::ErrorKind::BrokenPipe
        | io::ErrorKind::NotConnected => HandshakeError::HungUp,
        _ => HandshakeError::Io(error),
    }
}

impl Channel {
    /// Writes one handshake message.
    pub(crate) async fn send(&mut self, message: &[u8]) -> Result<(), HandshakeError> {
        match &mut self.security {
            None => self.stream.write_all(message).await?,
            Some((sealer, _)) => {
                sealer.push(message);
                sealer.finish();
                let bytes = sealer.pending().to_vec();
                self.stream.write_all(&bytes).await?;
                sealer.advance(bytes.len());
            }
        }
        Ok(())
    }

    /// Ends a refused connection so that the refusal arrives.
    pub(crate) async fn let_go(self) {
        self.stream.let_go(REFUSAL_TIME).await;
    }

    /// Reads one handshake message of exactly `N` bytes.
    pub(crate) async fn receive<const N: usize>(&mut self) -> Result<[u8; N], HandshakeError> {
        let mut message = [0; N];
        match &mut self.security {
            None => {
                self.stream.read_exact(&mut message).await.map_err(hung_up)?;
            }
            Some((_, opener)) => {
                let mut record = vec![0; 5];
                self.stream.read_exact(&mut record).await.map_err(hung_up)?;
                let length = usize::from(u16::from_be_bytes([record[3], record[4]]));
                // An alert is shorter than any message; padding is not used.
                if length > N + 17 {
                    return Err(HelloError::Garbage.into());
                }
                record.resize(5 + length, 0);
                self.stream.read_exact(&mut record[5..]).await.map_err(hung_up)?;
                let opened = opener.open(&mut record)?;
                if opened.plaintext != N {
                    return Err(HelloError::Garbage.into());
                }
                message.copy_from_slice(&record[..N]);
            }
        }
        Ok(message)
    }
}

fn hello(intent: Intent, introduction: Introduction) -> Result<Hello, HandshakeError> {
    let Introduction { path, subflow, metered } = introduction;
    Ok(Hello { intent, path, subflow, metered, takes_address: true, nonce: random()? })
}

/// Client: sends the hello that opens a session. Frames may follow it at once.
pub(crate) async fn open_session(
    channel: &mut Channel,
    introduction: Introduction,
) -> Result<AwaitedReply, HandshakeError> {
    let hello = hello(Intent::New, introduction)?;
    let (key, binding) = (channel.secret.clone(), channel.binding);
    let bytes = Auth::opening(&key, &binding).seal_hello(&hello);
    channel.send(&bytes).await?;
    Ok(AwaitedReply { key, binding, hello, bytes })
}

/// Client: joins a session, and waits for the reply.
pub(crate) async fn join(
    channel: &mut Channel,
    credentials: &Credentials,
    introduction: Introduction,
) -> Result<(), HandshakeError> {
    let hello = hello(Intent::Join(credentials.tag), introduction)?;
    let binding = channel.binding;
    let secret = channel.secret.clone();
    let auth = Auth::joining(&secret, &binding).of_session(&credentials.secret);
    let bytes: [u8; HELLO_LENGTH] = auth.seal_hello(&hello);
    channel.send(&bytes).await?;
    let reply: [u8; REPLY_LENGTH] = channel.receive().await?;
    match auth.open_reply(&bytes, &reply)?.answer {
        Answer::Accepted => Ok(()),
        Answer::Refused(refusal) => Err(refusal.into()),
        Answer::UnknownSession => Err(HandshakeError::UnknownSession),
    }
}
