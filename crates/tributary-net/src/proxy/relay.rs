//! Carries bytes between one TCP connection and one stream until both directions have ended.

use std::os::fd::AsFd;

use tokio::io::copy_bidirectional_with_sizes;
use tokio::net::TcpStream;

use crate::sockopt;
use crate::stream::Stream;

/// Bytes held for one direction of one connection.
const BUFFER: usize = 64 * 1024;

/// Each end of input becomes an end of output; an error on one side becomes a reset on the other.
pub(super) async fn relay(mut tcp: TcpStream, mut stream: Stream) {
    let _ = sockopt::set_nodelay(tcp.as_fd());
    let outcome = copy_bidirectional_with_sizes(&mut tcp, &mut stream, BUFFER, BUFFER).await;
    if let Err(error) = outcome {
        tracing::debug!(%error, "connection reset");
        let _ = sockopt::set_abort_on_drop(tcp.as_fd());
        // Dropping the stream unfinished resets it.
    }
}
