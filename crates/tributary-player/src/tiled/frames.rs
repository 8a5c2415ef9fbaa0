//! Splits a byte stream into messages. Holds at most one incomplete message.

use bytes::{Buf, BytesMut};

use super::wire::{self, HEAD, Reader, TiledMessage, WireError};

/// Bytes of an incomplete message.
#[derive(Debug)]
pub(super) struct Frames {
    reader: Reader,
    buffer: BytesMut,
}

impl Frames {
    pub(super) fn new(reader: Reader) -> Self {
        Self { reader, buffer: BytesMut::new() }
    }

    /// Adds bytes that arrived. Take all messages with [`Self::next`] before adding more.
    pub(super) fn push(&mut self, bytes: &[u8]) {
        self.buffer.extend_from_slice(bytes);
    }

    /// The next complete message.
    pub(super) fn next(&mut self) -> Result<Option<TiledMessage>, WireError> {
        let Some((head, _)) = self.buffer.split_first_chunk::<HEAD>() else { return Ok(None) };
        // Check the length before reserving memory for it.
        let (kind, length) = wire::head(head, self.reader)?;
        if self.buffer.len() < HEAD + length {
            self.buffer.reserve(HEAD + length - self.buffer.len());
            return Ok(None);
        }
        self.buffer.advance(HEAD);
        wire::body(kind, self.buffer.split_to(length).freeze()).map(Some)
    }

    /// Whether the stream can end here: no message is incomplete.
    pub(super) fn is_between_messages(&self) -> bool {
        self.buffer.is_empty()
    }
}
