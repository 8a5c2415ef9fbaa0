//! Tributary sessions on real sockets: TCP and TLS subflows, a public async API, and the proxy.
//!
//! A server makes a [`Listener`], a client calls [`connect`]; both get a [`Session`], whose [`Stream`]s are
//! `AsyncRead + AsyncWrite`, and [`Flow`]s of datagrams. The protocol itself is `tributary-proto`, a state machine without sockets;
//! this crate gives it subflows, a clock and a task.

pub mod flow;
pub mod places;
pub mod privileges;
pub mod proxy;
pub mod sockopt;
pub mod transport;

mod budget;
mod config;
mod connector;
mod dial;
mod driver;
mod error;
mod events;
mod follow;
mod handshake;
mod hello;
mod key;
mod listener;
mod paths;
mod rate_limited;
mod reach;
mod session;
mod shared;
mod stats;
mod stream;
mod subflow;
mod ticket;
mod tls;

pub use config::{
    Common, ConnectConfig, Limits, ListenConfig, Local, MarkError, PathConfig, PathError, ServerAddress,
    Siblings,
};
pub use error::{ConnectError, ListenError, SessionClosed};
pub use events::{SessionEvent, SessionEventKind};
pub use flow::{Flow, FlowConfig};
pub use handshake::HandshakeError;
pub use hello::{HelloError, Peer, Refusal};
pub use key::{KEY_PREFIX, Key, KeyError};
pub use listener::Listener;
pub use paths::{PathState, PathStatus};
pub use rate_limited::RateLimited;
pub use session::{Session, connect, connect_early};
pub use stats::{Stats, SubflowReport};
pub use stream::{Stream, StreamError};
pub use tls::record::RecordError;
pub use tls::{TlsError, proof_verifier, proved_certificate};
pub use tributary_proto::{Config as SessionConfig, Event, SessionStats, SubflowStats};
pub use tributary_types::{PathId, StreamId, SubflowId};
