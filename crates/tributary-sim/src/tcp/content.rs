//! Real bytes beside the packets: TCP is reliable and in order, so contents need not cross the links.
//!
//! Both ends hold the pipe of one direction. The sender pushes what it writes, the receiver takes as many
//! bytes as TCP has delivered. Knows neither time nor loss.

use std::cell::RefCell;
use std::collections::VecDeque;
use std::rc::Rc;

use bytes::Bytes;

#[derive(Debug, Default)]
struct Inner {
    chunks: VecDeque<Bytes>,
    bytes: u64,
}

/// A first-in first-out queue of bytes, shared by two ends.
#[derive(Clone, Debug, Default)]
pub struct Pipe {
    inner: Rc<RefCell<Inner>>,
}

impl Pipe {
    /// An empty pipe; clone it for the other end.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds what is written; an empty chunk is dropped.
    pub fn push(&self, bytes: Bytes) {
        if !bytes.is_empty() {
            let mut inner = self.inner.borrow_mut();
            inner.bytes += bytes.len() as u64;
            inner.chunks.push_back(bytes);
        }
    }

    /// Takes up to `most` bytes, at most one pushed chunk; `None` when there are none.
    #[must_use]
    pub fn pop(&self, most: u64) -> Option<Bytes> {
        let mut inner = self.inner.borrow_mut();
        let most = usize::try_from(most).unwrap_or(usize::MAX);
        let front = inner.chunks.front_mut().filter(|_| most > 0)?;
        let taken = if front.len() <= most { inner.chunks.pop_front()? } else { front.split_to(most) };
        inner.bytes -= taken.len() as u64;
        Some(taken)
    }

    /// Bytes pushed and not taken yet.
    #[must_use]
    pub fn len(&self) -> u64 {
        self.inner.borrow().bytes
    }

    /// Whether it is empty.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_come_out_in_order_in_pieces_no_larger_than_asked_for() {
        let pipe = Pipe::new();
        let other = pipe.clone();
        pipe.push(Bytes::from_static(b"abcdef"));
        pipe.push(Bytes::new());
        pipe.push(Bytes::from_static(b"gh"));
        assert_eq!((other.pop(0), other.len()), (None, 8));
        assert_eq!(other.pop(4).unwrap(), "abcd");
        assert_eq!(other.pop(100).unwrap(), "ef");
        assert_eq!(other.pop(2).unwrap(), "gh");
        assert!(other.is_empty() && pipe.pop(1).is_none());
    }
}
