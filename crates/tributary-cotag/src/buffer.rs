//! Memory for packets: many share one allocation, because a node takes hundreds of thousands in a second.
//!
//! A chunk is freed with the last of its packets. Packets that follow each other leave a node at about the same time, so
//! few chunks are kept by a single packet.

use bytes::{BufMut, Bytes, BytesMut};

/// Bytes of a chunk: 23 packets of 1400 bytes.
const CHUNK: usize = 32 << 10;

/// The chunk that is being filled.
#[derive(Debug, Default)]
pub struct PacketBuffer(BytesMut);

impl PacketBuffer {
    /// A copy of a packet.
    pub fn copy(&mut self, packet: &[u8]) -> Bytes {
        self.write(packet.len(), |bytes| bytes.put_slice(packet))
    }

    /// The packet of at most `length` bytes that `write` appends.
    pub(super) fn write(&mut self, length: usize, write: impl FnOnce(&mut BytesMut)) -> Bytes {
        if self.0.capacity() < length {
            self.0 = BytesMut::with_capacity(CHUNK.max(length));
        }
        write(&mut self.0);
        self.0.split().freeze()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn packets_of_any_size_stay_as_they_were_written() {
        let mut buffer = PacketBuffer::default();
        let content = |at: usize| vec![at as u8; [0, 1, 40, 1400, CHUNK, CHUNK + 1][at % 6]];
        let kept: Vec<Bytes> = (0..200).map(|at| buffer.copy(&content(at))).collect();
        assert!(kept.iter().enumerate().all(|(at, packet)| **packet == content(at)));
    }
}
