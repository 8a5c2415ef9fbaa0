//! The simulator: runs scenarios in virtual time, in one thread. The same seed gives the same events.
//!
//! A [`World`] carries [`Packet`]s over routes of [`tributary_link::Link`]s between [`Host`]s, sans-IO
//! machines that react to packets and timers and answer with packets. Links, schedulers, congestion
//! controllers and the session come from the crates that also run on sockets. TCP and MPTCP, which the kernel
//! provides there, are modelled here. Nothing reads a clock or the operating system's entropy.

pub mod cotag;
mod event_log;
mod event_queue;
mod host;
mod id;
mod mptcp;
mod multipath;
mod network;
pub mod own;
mod packet;
pub mod pcap;
pub mod qlog;
mod quic;
mod quic_in_session;
mod receive_autotune;
pub mod run;
mod session;
mod tcp;
mod transport;
pub mod trial;
pub mod workload;
mod world;

pub use event_log::{EventLog, LogRecord, LogSink, What};
pub use host::{Host, Outbox};
pub use id::{HostId, LinkId, RouteId};
pub use mptcp::{MptcpConfig, MptcpTransport, SubflowReport};
pub use multipath::{MOST_SUBFLOW_PATHS, MultipathError, SubflowPath};
pub use packet::{Body, HEADER, MAX_SACK_BLOCKS, Packet, SackBlock, TcpSegment};
pub use quic::{
    MultipathQuicTransport, Protection, QuicConfig, QuicEnd, QuicError, QuicPath, QuicTransport,
    quic_controllers,
};
pub use quic_in_session::{InnerError, QuicInSession};
pub use session::{SessionConfig, SessionTransport, script};
pub use tcp::{LossDetection, Pipe, TcpConfig, TcpError, TcpInfo, TcpSocket, TcpState, TcpTransport};
pub use transport::{Application, Counters, Endpoint, Notice, PathSample, StreamKey, Transport};
pub use world::{World, WorldError};
