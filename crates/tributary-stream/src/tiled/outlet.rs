//! Where the server's messages go: one ordered stream of bytes, or something that knows deadlines itself.
//!
//! A transport with priorities and deadlines implements [`Outlet`] over its own messages; everything else is
//! an [`OrderedOutlet`], whose socket should keep little unsent (TCP_NOTSENT_LOWAT), because what is in its
//! buffer has begun.

use core::time::Duration;
use std::future::Future;
use std::io;

use bytes::Bytes;
use tokio::io::{AsyncWrite, AsyncWriteExt};

/// What became of a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Pushed {
    /// It is on its way, or will be dropped as a whole.
    Taken,
    /// Its deadline came before there was room.
    Expired,
}

/// Takes messages in the order they are to be sent.
pub trait Outlet: Send {
    /// Sends a message, waiting for room; `within` is the time it may begin in.
    ///
    /// # Errors
    /// The transport's; the client is gone then.
    fn push(
        &mut self,
        message: Bytes,
        within: Option<Duration>,
    ) -> impl Future<Output = io::Result<Pushed>> + Send;

    /// Nothing more will be pushed.
    fn finish(&mut self) -> impl Future<Output = ()> + Send;
}

/// One ordered stream. Deadlines are the pusher's: what is given to it has begun.
#[derive(Debug)]
pub struct OrderedOutlet<W>(pub W);

impl<W: AsyncWrite + Unpin + Send> Outlet for OrderedOutlet<W> {
    async fn push(&mut self, message: Bytes, _within: Option<Duration>) -> io::Result<Pushed> {
        self.0.write_all(&message).await?;
        self.0.flush().await?;
        Ok(Pushed::Taken)
    }

    async fn finish(&mut self) {
        // A client that has gone needs no orderly end.
        let _ = self.0.shutdown().await;
    }
}
