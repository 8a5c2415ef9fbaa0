//! Output of the server: one ordered byte stream, or a transport with deadlines.
//!
//! A transport with priorities and deadlines implements [`Outlet`] over its own messages. For any other transport use
//! [`OrderedOutlet`]. Its socket should keep little unsent data (TCP_NOTSENT_LOWAT), because a message in the
//! socket's buffer cannot be dropped.

use core::time::Duration;
use std::future::Future;
use std::io;

use bytes::Bytes;
use tokio::io::{AsyncWrite, AsyncWriteExt};

/// Result of sending a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Pushed {
    /// It was queued; the transport may still drop it entirely at its deadline.
    Taken,
    /// Its deadline passed while it waited for room.
    Expired,
}

/// Accepts messages in sending order.
pub trait Outlet: Send {
    /// Sends a message and waits for room; sending must begin within `within`.
    ///
    /// # Errors
    /// The transport's error; the client is disconnected.
    fn push(
        &mut self,
        message: Bytes,
        within: Option<Duration>,
    ) -> impl Future<Output = io::Result<Pushed>> + Send;

    /// Ends the output: no more messages follow.
    fn finish(&mut self) -> impl Future<Output = ()> + Send;
}

/// One ordered stream. It ignores deadlines; the pusher checks them before it sends a message.
#[derive(Debug)]
pub struct OrderedOutlet<W>(pub W);

impl<W: AsyncWrite + Unpin + Send> Outlet for OrderedOutlet<W> {
    async fn push(&mut self, message: Bytes, _within: Option<Duration>) -> io::Result<Pushed> {
        self.0.write_all(&message).await?;
        self.0.flush().await?;
        Ok(Pushed::Taken)
    }

    async fn finish(&mut self) {
        // A client that has disconnected needs no orderly end.
        let _ = self.0.shutdown().await;
    }
}
