//! Multipath streams on real sockets, and the proxy that is built on them.
//!
//! A server makes an [`Acceptor`], a client a [`Connection`]; its [`TransportStream`]s are `AsyncRead + AsyncWrite`, and a
//! session has [`Flow`]s of datagrams too. The transport is chosen by name: `session` for streams over all radios at once, or
//! TCP, kernel MPTCP, QUIC and multipath QUIC behind the same interface ([`transport`]).
//!
//! ```
//! use tokio::io::{AsyncReadExt, AsyncWriteExt};
//! use tributary_net::{Acceptor, Connection, Key, Local, PathConfig};
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let key = Key::generate()?;
//! let mut acceptor = Acceptor::server("session").key(key.clone()).listen("127.0.0.1:0".parse()?).bind().await?;
//! let server = acceptor.addresses()[0];
//! let answering = tokio::spawn(async move {
//!     let (connection, _) = acceptor.accept().await.ok_or("the listener ended")?;
//!     let (mut recv, mut send) = connection.accept_stream().await?.into_split();
//!     while let Some(chunk) = recv.read_chunk().await? {
//!         send.write_chunk(chunk).await?;
//!     }
//!     send.shutdown().await?;
//!     Ok::<_, Box<dyn std::error::Error + Send + Sync>>(connection.closed().await)
//! });
//!
//! // A path for each radio: an interface, a local address, or `Local::Auto` for all there are.
//! let radio = |address: &str| Ok::<_, Box<dyn std::error::Error>>(Local::Address(address.parse()?));
//! let connection = Connection::client("session")
//!     .key(key)
//!     .path(PathConfig::new(radio("127.0.0.2")?, server))
//!     .path(PathConfig::new(radio("127.0.0.3")?, server))
//!     .connect()
//!     .await?;
//! let mut stream = connection.open_stream(0).await?;
//! stream.write_all(b"over all radios at once").await?;
//! stream.shutdown().await?;
//! let mut answer = String::new();
//! stream.read_to_string(&mut answer).await?;
//! assert_eq!(answer, "over all radios at once");
//! connection.close().await;
//! assert!(answering.await?.map_err(|error| error.to_string())?.is_orderly());
//! # Ok(())
//! # }
//! ```
//!
//! What only sessions have (events, paths that are added and removed, statistics) is on [`Connection::session`]. [`connect`]
//! and [`Listener`] give such [`Session`]s without the names, as the proxy uses them.
//!
//! The protocol itself is `tributary-proto`, a state machine without sockets; this crate gives it subflows, a clock and a task.
//! Every async method says what happens when its future is dropped (*cancellation*).

pub mod clients;
pub mod event_log;
pub mod flow;
#[doc(hidden)]
pub mod fuzz;
pub mod passed;
pub mod places;
pub mod privileges;
pub mod proxy;
pub mod sockopt;
pub mod transport;

mod allow;
mod budget;
mod config;
mod connector;
mod destination;
mod dial;
mod driver;
mod error;
mod events;
mod first;
mod follow;
mod handshake;
mod hello;
mod identity;
mod key;
mod keys;
mod listener;
mod paths;
mod pipe;
#[cfg(feature = "quic")]
mod quic;
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
    Common, ConnectConfig, Limits, ListenConfig, Local, MarkError, OwnAddress, OwnAddressError, PathConfig,
    PathError, ServerAddress, SettingsError, Siblings,
};
#[cfg(feature = "script")]
pub use driver::script;
pub use error::{ConnectError, ListenError, SessionClosed};
pub use events::{SessionEvent, SessionEventKind};
pub use flow::{Flow, FlowConfig, RtpFormat};
pub use handshake::HandshakeError;
pub use hello::{Form, HelloError, Peer, Refusal};
pub use identity::{PrivateKey, PublicKey};
pub use key::{KEY_PREFIX, Key, KeyError, read_secret};
pub use keys::Keys;
pub use listener::Listener;
pub use paths::{PathState, PathStatus};
pub use pipe::SubflowProtocol;
pub use rate_limited::RateLimited;
pub use session::{Session, connect, connect_early};
pub use stats::{Stats, SubflowReport};
pub use stream::{Stream, StreamError};
pub use tls::record::RecordError;
pub use tls::{TlsError, proof_verifier, proved_certificate};
pub use transport::{
    Acceptor, ClientBuilder, Connection, ConnectionClosed, RecvHalf, SendHalf, Sent, ServerBuilder,
    TransportConfig, TransportError, TransportName, TransportStream,
};
pub use tributary_proto::{
    Config as SessionConfig, ContentClass, Event, SessionStats, SubflowStats, UnknownPath,
};
pub use tributary_types::{Bitrate, PathId, StreamId, SubflowId};
