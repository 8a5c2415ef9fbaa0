//! What the application of a trial uses of a session, in virtual time or on real sockets. Not here: the application (`lines`).

use bytes::Bytes;
use tributary_proto::flow::{Datagram, FlowConfig};
use tributary_proto::wire::Ecn;
use tributary_proto::{ReadError, Session, WriteError};
use tributary_types::{Instant, StreamId};

/// The streams and flows of one end of a session, as an application uses them. Nothing waits: what has no room or nothing to give is
/// [`WriteError::Blocked`] or [`ReadError::Blocked`].
pub trait Streams {
    /// Opens a stream; `None`: not now.
    fn open_stream(&mut self, priority: u8) -> Option<StreamId>;
    /// Opens a flow of datagrams; `None`: not now.
    fn open_flow(&mut self, now: Instant) -> Option<StreamId>;
    /// Writes some of the bytes; returns how many.
    ///
    /// # Errors
    /// As of [`Session::write`].
    fn write(&mut self, id: StreamId, bytes: &'static [u8]) -> Result<usize, WriteError>;
    /// Ends this end's direction.
    ///
    /// # Errors
    /// As of [`Session::finish`].
    fn finish(&mut self, id: StreamId) -> Result<(), WriteError>;
    /// Abandons this end's direction.
    fn reset(&mut self, id: StreamId, code: u32);
    /// Stops reading.
    fn stop(&mut self, id: StreamId, code: u32);
    /// Priority of what is written from now on.
    fn set_priority(&mut self, id: StreamId, priority: u8);
    /// The next bytes, at most this many; `None` at the end.
    ///
    /// # Errors
    /// As of [`Session::read_most`].
    fn read_most(&mut self, id: StreamId, most: usize) -> Result<Option<Bytes>, ReadError>;
    /// Sends a datagram. It may be dropped.
    fn send_datagram(&mut self, now: Instant, id: StreamId, datagram: &[u8]);
    /// Adds at most `most` datagrams that have arrived to `out`; 0 at the end.
    ///
    /// # Errors
    /// As of [`Session::recv_datagrams`].
    fn recv_datagrams(
        &mut self,
        id: StreamId,
        most: usize,
        out: &mut Vec<Datagram>,
    ) -> Result<usize, ReadError>;
}

impl Streams for Session {
    fn open_stream(&mut self, priority: u8) -> Option<StreamId> {
        self.open_stream(priority).ok()
    }

    fn open_flow(&mut self, now: Instant) -> Option<StreamId> {
        self.open_flow(now, FlowConfig::default()).ok()
    }

    fn write(&mut self, id: StreamId, bytes: &'static [u8]) -> Result<usize, WriteError> {
        self.write(id, &mut Bytes::from_static(bytes))
    }

    fn finish(&mut self, id: StreamId) -> Result<(), WriteError> {
        self.finish(id)
    }

    fn reset(&mut self, id: StreamId, code: u32) {
        self.reset(id, code);
    }

    fn stop(&mut self, id: StreamId, code: u32) {
        self.stop(id, code);
    }

    fn set_priority(&mut self, id: StreamId, priority: u8) {
        self.set_priority(id, priority);
    }

    fn read_most(&mut self, id: StreamId, most: usize) -> Result<Option<Bytes>, ReadError> {
        self.read_most(id, most)
    }

    fn send_datagram(&mut self, now: Instant, id: StreamId, datagram: &[u8]) {
        // Refused once the peer receives no more; the queue drops what is too much.
        let _ = self.send_datagram(now, id, datagram, Ecn::NotCapable);
    }

    fn recv_datagrams(
        &mut self,
        id: StreamId,
        most: usize,
        out: &mut Vec<Datagram>,
    ) -> Result<usize, ReadError> {
        self.recv_datagrams(id, most, out)
    }
}
