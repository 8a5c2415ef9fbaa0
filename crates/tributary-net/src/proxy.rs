//! The proxy: any unmodified TCP or UDP application uses several paths.
//!
//! A [`Forwarder`] beside the client accepts TCP connections and carries each as one stream of a session; a
//! [`Server`] beside the service connects each stream to the target that the stream's head names, or to the destination
//! that the application chose if [`AllowRules`] allow it. Half-close, resets
//! and back-pressure pass through in both directions. Flows carry datagrams (`udp`). When the session ends, the next connection opens a new one.

mod dns;
mod drain;
mod forward;
#[doc(hidden)]
pub mod fuzz;
mod intake;
mod names;
mod priority;
mod relay;
mod request;
mod requested;
mod serve;
mod sessions;
mod target;
mod udp;
mod watch;

use std::io;
use std::net::SocketAddr;

use thiserror::Error;

use crate::error::{ConnectError, ListenError};
use crate::event_log::EventLogError;

pub use crate::allow::{AllowRule, AllowRuleError, AllowRules};
pub use crate::budget::MemorySnapshot;
pub use crate::destination::{Destination, Host, HostError, HostName};
pub use crate::event_log::{EventLogConfig, EventLogForm};
pub use drain::{Drain, Drained, Ticket};
pub use forward::{ForwardConfig, ForwardControl, Forwarder, Redirected};
pub use priority::{Priority, PriorityRule, PriorityRuleError, PriorityRules};
pub use request::{Outcome, RequestError, RequestReader, Step};
pub use serve::{ServeConfig, ServeRules, Server, ServerControl};
pub use target::{Entrance, LeadsTo, Target, TargetError, TargetName};
pub use watch::{
    ClientPathSnapshot, ClientSnapshot, DestinationSnapshot, PathSnapshot, SessionSnapshot, Snapshot, Watch,
};

/// Why the proxy does not run.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum ProxyError {
    /// The server side cannot listen.
    #[error(transparent)]
    Listen(#[from] ListenError),
    /// The client side cannot connect.
    #[error(transparent)]
    Connect(std::sync::Arc<ConnectError>),
    /// No path came up in the time that was given.
    #[error("no path came up within {wait:?}: {said}")]
    NoPath {
        /// The time.
        wait: std::time::Duration,
        /// The last error of each path.
        said: String,
    },
    /// The local address cannot be listened on.
    #[error("cannot listen on {address}: {error}")]
    Bind {
        /// The address.
        address: SocketAddr,
        /// The system's reason.
        error: io::Error,
    },
    /// No target, or two targets with the same name.
    #[error("forward targets: {0}")]
    Targets(String),
    /// A priority rule that can match no connection.
    #[error("priority rules: {0}")]
    Priority(String),
    /// The event log cannot be written.
    #[error(transparent)]
    EventLog(#[from] EventLogError),
}
