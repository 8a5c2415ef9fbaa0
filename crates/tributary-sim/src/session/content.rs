//! Contents of streams: one block of zeros, or bytes that encode their position and are checked when read.

use std::collections::BTreeMap;

use bytes::Bytes;

use crate::transport::StreamKey;

/// Most bytes written at once.
const BLOCK: usize = 256 * 1024;
static ZEROS: [u8; BLOCK] = [0; BLOCK];

/// Contents that this end writes and expects to read.
#[derive(Debug)]
pub(super) struct Content {
    checked: bool,
    written: BTreeMap<StreamKey, u64>,
    read: BTreeMap<StreamKey, u64>,
}

fn byte(key: StreamKey, offset: u64) -> u8 {
    ((offset ^ key << 40).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 56) as u8
}

impl Content {
    pub fn new(checked: bool) -> Self {
        Self { checked, written: BTreeMap::new(), read: BTreeMap::new() }
    }

    /// Up to `most` bytes to write next.
    pub fn next(&self, key: StreamKey, most: u64) -> Bytes {
        let length = most.min(BLOCK as u64) as usize;
        if !self.checked {
            return Bytes::from_static(&ZEROS[..length]);
        }
        let from = self.written.get(&key).copied().unwrap_or(0);
        (from..from + length as u64).map(|offset| byte(key, offset)).collect::<Vec<u8>>().into()
    }

    /// This many bytes of a stream were written.
    pub fn written(&mut self, key: StreamKey, bytes: u64) {
        if self.checked {
            *self.written.entry(key).or_default() += bytes;
        }
    }

    /// Checks these bytes, which were read from a stream.
    ///
    /// # Panics
    /// If checking is on and a byte differs from the one written at its position.
    pub fn read(&mut self, key: StreamKey, bytes: &[u8]) {
        if !self.checked {
            return;
        }
        let at = self.read.entry(key).or_default();
        for &found in bytes {
            assert_eq!(found, byte(key, *at), "stream {key} is damaged at byte {at}");
            *at += 1;
        }
    }
}
