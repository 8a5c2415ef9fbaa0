//! Cuts a stream of bytes into messages. Holds at most one message that has not come whole.

use bytes::{Buf, BytesMut};

use super::wire::{self, HEAD, Message, Reader, WireError};

/// Bytes of a stream that are no whole message yet.
#[derive(Debug)]
pub(super) struct Frames {
    reader: Reader,
    buffer: BytesMut,
}

impl Frames {
    pub(super) fn new(reader: Reader) -> Self {
        Self { reader, buffer: BytesMut::new() }
    }

    /// Adds what arrived. Messages are to be taken with [`Self::next`] before more is added.
    pub(super) fn push(&mut self, bytes: &[u8]) {
        self.buffer.extend_from_slice(bytes);
    }

    /// The next message that is there as a whole.
    pub(super) fn next(&mut self) -> Result<Option<Message>, WireError> {
        let Some((head, _)) = self.buffer.split_first_chunk::<HEAD>() else { return Ok(None) };
        // The length is judged before anything is kept for it.
        let (kind, length) = wire::head(head, self.reader)?;
        if self.buffer.len() < HEAD + length {
            self.buffer.reserve(HEAD + length - self.buffer.len());
            return Ok(None);
        }
        self.buffer.advance(HEAD);
        wire::body(kind, self.buffer.split_to(length).freeze()).map(Some)
    }

    /// Whether the stream may end here.
    pub(super) fn is_between_messages(&self) -> bool {
        self.buffer.is_empty()
    }
}
