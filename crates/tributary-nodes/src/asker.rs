//! Orders to a running node, from any thread. The node reads them between two turns of its loop.

use crate::error::NodeError;
use crate::status::Status;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;
use std::sync::mpsc::{Sender, channel};
use tributary_tun::fd;

/// An order to a node.
pub(crate) enum Order {
    /// Send the status to this channel.
    Report(Sender<Status>),
    /// End the hops to these neighbours.
    Forget(Vec<String>),
    /// Stop.
    Stop,
}

/// Asks a running node, from any thread.
#[derive(Clone, Debug)]
pub(crate) struct Asker {
    orders: Sender<Order>,
    wake: Arc<OwnedFd>,
}

impl Asker {
    /// The node reads `orders` after `wake` has woken it.
    pub(crate) fn new(orders: Sender<Order>, wake: Arc<OwnedFd>) -> Self {
        Self { orders, wake }
    }

    pub(crate) fn status(&self) -> Result<Status, NodeError> {
        let (answer, result) = channel();
        self.send(Order::Report(answer))?;
        result.recv().map_err(|_| NodeError::Stopped)
    }

    /// Sends the order and wakes the node.
    pub(crate) fn send(&self, order: Order) -> Result<(), NodeError> {
        self.orders.send(order).map_err(|_| NodeError::Stopped)?;
        // Fails only when the counter is full, and then the thread is awake anyway.
        let _ = fd::write_two(self.wake.as_fd(), &1_u64.to_ne_bytes(), &[]);
        Ok(())
    }
}
