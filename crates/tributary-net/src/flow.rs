//! One flow of datagrams of a session, with quinn's semantics: sending never waits, and what the queue cannot hold is dropped.

use std::future::poll_fn;
use std::task::{Context, Poll};

use tributary_proto::ReadError;
pub use tributary_proto::flow::{
    Datagram, FlowConfig, FlowStats, Form, RtpFormat, SendDatagramError, Sent, Traffic,
};
pub use tributary_proto::wire::{Ecn, MAX_DATAGRAM};
use tributary_types::StreamId;

use crate::shared::Handle;
use crate::stream::{CarriedOn, StreamError};

/// A flow of datagrams in both directions. Each arrives once, or not at all; whether in order, with which priority and how late it may be
/// sent follows from the flow's traffic, unless its [`FlowConfig`] says otherwise.
///
/// A flow may be used from several tasks. Dropping it ends both directions: what is queued is still sent, what arrives is discarded.
pub struct Flow {
    handle: Handle,
    id: StreamId,
}

impl Flow {
    pub(crate) fn new(handle: Handle, id: StreamId) -> Self {
        Self { handle, id }
    }

    /// Its identifier, the same on both sides.
    #[must_use]
    pub fn id(&self) -> StreamId {
        self.id
    }

    /// Changes how this side sends on the flow.
    pub fn configure(&self, config: FlowConfig) {
        self.handle.0.change(|state, _| state.session.configure_flow(self.id, config));
    }

    /// Sends a datagram of at most [`MAX_DATAGRAM`] bytes, perhaps none, that is not capable of ECN. Never waits. The first datagram of a
    /// flow, if it arrives, is received before all others.
    ///
    /// # Errors
    /// [`SendDatagramError`].
    pub fn send_datagram(&self, datagram: &[u8]) -> Result<Sent, SendDatagramError> {
        self.handle
            .0
            .change(|state, now| state.session.send_datagram(now, self.id, datagram, Ecn::NotCapable))
    }

    /// Sends many with one lock and one wake-up, so that they share segments, TLS records and system calls. Returns how many were not
    /// dropped.
    ///
    /// # Errors
    /// [`SendDatagramError`] of the first that is refused; those before it are sent, those after it are not.
    pub fn send_datagrams<'a>(
        &self,
        datagrams: impl IntoIterator<Item = (&'a [u8], Ecn)>,
    ) -> Result<usize, SendDatagramError> {
        self.handle.0.change(|state, now| {
            let mut queued = 0;
            for (datagram, ecn) in datagrams {
                let sent = state.session.send_datagram(now, self.id, datagram, ecn)?;
                queued += usize::from(sent != Sent::Dropped);
            }
            Ok(queued)
        })
    }

    /// The next datagram; `None` once the peer has ended the flow and all were received.
    ///
    /// Cancel safe: a future that is dropped has taken nothing. One task at a time may wait.
    ///
    /// # Errors
    /// [`StreamError`].
    pub async fn recv_datagram(&self) -> Result<Option<Datagram>, StreamError> {
        let mut one = Vec::with_capacity(1);
        self.recv_datagrams(&mut one, 1).await?;
        Ok(one.pop())
    }

    /// Waits for a datagram, and adds it and all that follow without a wait to `out`, `most` at most. Returns how many; 0 once the peer
    /// has ended the flow.
    ///
    /// Cancel safe, and one task at a time, as [`Self::recv_datagram`].
    ///
    /// # Errors
    /// [`StreamError`].
    pub async fn recv_datagrams(&self, out: &mut Vec<Datagram>, most: usize) -> Result<usize, StreamError> {
        poll_fn(|cx| self.poll_recv(cx, out, most)).await
    }

    /// As [`Self::recv_datagrams`], for hand-written futures.
    pub fn poll_recv(
        &self,
        cx: &mut Context<'_>,
        out: &mut Vec<Datagram>,
        most: usize,
    ) -> Poll<Result<usize, StreamError>> {
        let mut state = self.handle.0.lock();
        let result = state.session.recv_datagrams(self.id, most, out);
        if let Err(ReadError::Blocked) = result {
            state.readers.insert(self.id, cx.waker().clone());
        }
        // The session decides when enough has been read to send the peer more credit.
        let driver = if state.session.is_urgent() { state.driver.take() } else { None };
        drop(state);
        if let Some(driver) = driver {
            driver.wake();
        }
        Poll::Ready(match result {
            Ok(count) => Ok(count),
            Err(ReadError::Blocked) => return Poll::Pending,
            Err(ReadError::Reset(code)) => Err(StreamError::Abandoned(code)),
            Err(ReadError::NotOpen) => Err(StreamError::Finished),
            Err(ReadError::Closed) => Err(StreamError::SessionClosed),
        })
    }

    /// Takes memory for this flow's socket to a target. `None` when the session has no memory left for it.
    pub(crate) fn carried_on(&self) -> Option<CarriedOn> {
        CarriedOn::take(&self.handle)
    }

    /// Counters of what this side sends; `None` once both directions have ended.
    #[must_use]
    pub fn stats(&self) -> Option<FlowStats> {
        self.handle.0.lock().session.flow_stats(self.id)
    }

    /// What kind of traffic this side sends; `None` once both directions have ended.
    #[must_use]
    pub fn traffic(&self) -> Option<Traffic> {
        self.handle.0.lock().session.flow_traffic(self.id)
    }

    /// Ends this side's direction. The peer receives the end after everything that was sent.
    pub fn finish(&self) {
        // Nothing is left to end if it has ended.
        let _ = self.handle.0.change(|state, _| state.session.finish(self.id));
    }

    /// Abandons both directions with an application code: what is queued is not sent.
    pub fn reset(&self, code: u32) {
        self.handle.0.change(|state, _| {
            state.session.reset(self.id, code);
            state.session.stop(self.id, code);
        });
    }
}

impl std::fmt::Debug for Flow {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("Flow").field(&self.id).finish()
    }
}

impl Drop for Flow {
    fn drop(&mut self) {
        self.handle.0.change(|state, _| {
            let _ = state.session.finish(self.id);
            state.session.stop(self.id, 0);
        });
    }
}
