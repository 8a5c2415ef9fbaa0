//! The reading half of a driver's turn: collects input, errors and room of the subflows before the session is locked.
//! Not here: passing it to the session.

use std::collections::VecDeque;
use std::task::{Context, Poll};

use bytes::Bytes;
use tributary_proto::SubflowInfo;
use tributary_types::{Instant, SubflowId};

use super::slice::Slice;
use crate::handshake::{Credentials, HandshakeError};
use crate::shared::Command;
use crate::subflow::{Input, Subflow};

/// Reads of one subflow in one turn.
const READS_PER_TURN: usize = 4;

/// How bytes follow the last ones of their subflow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Order {
    /// In order, the first of a receive block.
    Begins,
    /// In order, of the same block.
    Continues,
    /// Whole frames that have overtaken others.
    Overtaking,
}

/// Input that a turn has read from the sockets before it locks the session.
#[derive(Default)]
pub(super) struct Gathered {
    pub commands: Vec<Command>,
    /// What the session did not take in its turn stays here.
    pub inputs: VecDeque<(SubflowId, Bytes, Order)>,
    /// Subflows that broke or ended, and how.
    pub ended: Vec<(SubflowId, String)>,
    pub accepted: Vec<(SubflowId, Credentials)>,
    pub refused: Vec<(SubflowId, HandshakeError)>,
    pub infos: Vec<(SubflowId, SubflowInfo)>,
    pub rooms: Vec<(SubflowId, usize)>,
}

/// Reads one subflow and updates its room. Returns whether everything was read that may be read in one turn; after
/// `false` the driver must take another turn, because no wake-up is registered.
pub(super) fn gather_subflow(
    gathered: &mut Gathered,
    subflow: &mut Subflow,
    now: Instant,
    (cx, slice): (&mut Context<'_>, &Slice),
) -> bool {
    let id = subflow.id;
    let mut whole = !gathered.inputs.iter().any(|(of, ..)| *of == id);
    for _ in 0..READS_PER_TURN {
        whole &= !slice.is_over();
        if !whole {
            break;
        }
        match subflow.poll_read(cx) {
            Poll::Ready(Ok(Input::Data(data, begins))) => {
                let order = if begins { Order::Begins } else { Order::Continues };
                gathered.inputs.push_back((id, data, order));
            }
            Poll::Ready(Ok(Input::Overtaking(frames))) => {
                gathered.inputs.push_back((id, frames, Order::Overtaking));
            }
            Poll::Ready(Ok(Input::Accepted(credentials))) => gathered.accepted.push((id, *credentials)),
            Poll::Ready(Ok(Input::Refused(error))) => {
                gathered.refused.push((id, error));
                return true;
            }
            Poll::Ready(Ok(Input::End)) => {
                gathered.ended.push((id, "the other end closed the connection".to_owned()));
                return true;
            }
            Poll::Ready(Err(error)) => {
                gathered.ended.push((id, error.to_string()));
                return true;
            }
            Poll::Pending => break,
        }
    }
    if let Some(info) = subflow.refresh(now) {
        gathered.infos.push((id, info));
    }
    match subflow.poll_room(cx) {
        Ok(room) => gathered.rooms.push((id, room)),
        Err(error) => {
            gathered.ended.push((id, error.to_string()));
        }
    }
    whole
}
