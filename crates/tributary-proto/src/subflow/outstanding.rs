//! Segments that were sent on a subflow and that the peer has not counted yet.

use std::collections::VecDeque;

use tributary_types::{DataSeq, Instant};

/// A segment that was sent.
#[derive(Clone, Copy, Debug)]
pub(super) struct Sent {
    pub seq: DataSeq,
    pub bytes: u32,
    pub at: Instant,
    /// When it was expected to be acknowledged.
    pub due: Instant,
}

/// Those that the peer counts together, in the order they were sent.
#[derive(Debug, Default)]
pub(super) struct Outstanding {
    segments: VecDeque<Sent>,
    /// The peer's count so far.
    counted: u64,
}

impl Outstanding {
    pub fn is_empty(&self) -> bool {
        self.segments.is_empty()
    }

    pub fn push(&mut self, sent: Sent) {
        self.segments.push_back(sent);
    }

    pub fn iter(&self) -> impl Iterator<Item = &Sent> {
        self.segments.iter()
    }

    pub fn oldest(&self) -> Option<&Sent> {
        self.segments.front()
    }

    /// The peer has counted `total` of them so far. Removes as many of the oldest, and returns their bytes and the newest of them; `None` if
    /// none are new. Segments that arrive in order are exactly these. If segments overtake one another, the number is right, but others
    /// may have arrived.
    pub fn count(&mut self, total: u64) -> Option<(u64, Sent)> {
        let new = total.saturating_sub(self.counted).min(self.segments.len() as u64);
        self.counted += new;
        let counted = self.segments.drain(..new as usize);
        counted.fold(None, |sum, sent| {
            let bytes = sum.map_or(0, |(bytes, _)| bytes);
            Some((bytes + u64::from(sent.bytes), sent))
        })
    }
}
