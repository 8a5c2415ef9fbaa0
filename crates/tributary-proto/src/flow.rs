//! Flows of datagrams: how each is sent, and what its queue does with a datagram. Sans-IO; times and rates come in.
//!
//! A flow is a stream whose segments hold whole datagrams. This module decides: what kind of traffic it is
//! ([`Classifier`]), and from that its form, priority and lifetime ([`Treatment`]); whether a datagram is queued, marked or
//! dropped (`Gate`); which RTP packets are of key frames ([`KeyFrames`]). Not here: the queue itself (`send/datagrams.rs`) and
//! delivery (`receive/datagrams.rs`).

mod classifier;
mod gate;
mod rtp;

use core::time::Duration;

use bytes::Bytes;
use thiserror::Error;

use crate::wire::{Ecn, MAX_DATAGRAM};
pub use classifier::{Classifier, Traffic};
pub(crate) use gate::{BOUND, Gate, KEY_BOUND, Verdict};
pub use rtp::{KeyFrames, RtpFormat, UnknownFormat};

/// How a flow's datagrams are delivered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    /// As they arrive, on any path.
    AsTheyArrive,
    /// In the order in which they were sent. For transports that take a changed order for loss.
    InOrder,
}

/// How the datagrams of a flow are sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Treatment {
    /// Delivery.
    pub form: Form,
    /// Higher goes first; zero is bulk.
    pub priority: u8,
    /// A datagram that was not sent within this time is dropped.
    pub lifetime: Duration,
    /// Every datagram is sent on every subflow.
    pub redundant: bool,
}

impl Treatment {
    /// Time within which a datagram must be sent that belongs to a key frame, or to none.
    pub(crate) fn lifetime_of(&self, is_key: bool) -> Duration {
        if is_key { self.lifetime * KEY_LIVES } else { self.lifetime }
    }
}

/// Parts of a treatment that a rule fixes; `None`: the flow's behaviour decides.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FlowConfig {
    /// Delivery.
    pub form: Option<Form>,
    /// Higher goes first; zero is bulk.
    pub priority: Option<u8>,
    /// Time within which a datagram must be sent. Not zero.
    pub lifetime: Option<Duration>,
    /// Sends every datagram on every subflow that is not silent; the first copy counts, the others are dropped by the receiver. For
    /// little and urgent data: it costs its rate on every path. Unless `form` says otherwise, it is delivered as it arrives.
    pub redundant: bool,
    /// Payload format of the flow's RTP packets. Those of key frames are sent before the others and with the next higher priority, are
    /// dropped after them, and may wait four times as long. The flow is media, whatever its behaviour.
    pub rtp: Option<RtpFormat>,
}

/// Key frames live this many times as long as other packets.
const KEY_LIVES: u32 = 4;

/// Priorities of the flows that do not wait behind bulk.
const SPARSE: u8 = 6;
const CONSTANT_RATE: u8 = 5;

impl FlowConfig {
    /// How a flow with such traffic is sent.
    #[must_use]
    pub fn treat(&self, traffic: Traffic) -> Treatment {
        let ms = Duration::from_millis;
        let (form, priority, lifetime) = match traffic {
            _ if self.rtp.is_some() => (Form::AsTheyArrive, CONSTANT_RATE, ms(250)),
            Traffic::Sparse => (Form::AsTheyArrive, SPARSE, ms(1000)),
            // A picture that is a quarter of a second late is not shown any more.
            Traffic::ConstantRate => (Form::AsTheyArrive, CONSTANT_RATE, ms(250)),
            // After two seconds every transport has sent the data again.
            Traffic::Bulk => (Form::InOrder, 0, ms(2000)),
        };
        // In order, the copy that comes first could wait for one that does not come.
        let form = if self.redundant { Form::AsTheyArrive } else { form };
        Treatment {
            form: self.form.unwrap_or(form),
            priority: self.priority.unwrap_or(priority),
            lifetime: self.lifetime.unwrap_or(lifetime),
            redundant: self.redundant,
        }
    }
}

/// A received datagram.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Datagram {
    /// Its bytes; there may be none.
    pub bytes: Bytes,
    /// As it was sent, or [`Ecn::Congested`] if the sender's queue marked it.
    pub ecn: Ecn,
}

/// What became of a datagram that was given to a flow. Neither outcome promises that it arrives.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sent {
    /// It is in the queue; older datagrams of the flow may have been dropped for it.
    Queued,
    /// The same, and it was marked [`Ecn::Congested`].
    Marked,
    /// The queue is full, or shows congestion to a flow that is not capable of ECN.
    Dropped,
}

/// Counters of the datagrams that this side sends on a flow.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FlowStats {
    /// Given to the flow.
    pub offered: u64,
    /// Numbered, so that a subflow takes them next.
    pub sent: u64,
    /// Marked [`Ecn::Congested`].
    pub marked: u64,
    /// Dropped by the queue.
    pub dropped: u64,
    /// Dropped because their deadline had passed before they were sent.
    pub expired: u64,
}

/// Why a datagram was not accepted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum SendDatagramError {
    /// It is too long.
    #[error("the datagram has {0} bytes; at most {MAX_DATAGRAM} are allowed")]
    TooLong(usize),
    /// This side has ended the flow, or never opened it.
    #[error("the flow is not open for sending")]
    NotOpen,
    /// The peer no longer receives on this flow; its code.
    #[error("the peer stopped the flow with code {0}")]
    Stopped(u32),
    /// The session is over.
    #[error("the session is closed")]
    Closed,
}
