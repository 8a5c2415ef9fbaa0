//! Identifiers. Each has its own type, so the compiler rejects a path in place of a subflow.

use core::fmt;

/// A path: a pair of endpoints, one network interface on each side. Unique within a session.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct PathId(pub u8);

/// A subflow: one reliable, in-order, congestion-controlled flow on a path (RFC 8684 §1.3).
/// Never reused within a session; a path that is reconnected carries a new subflow.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct SubflowId(pub u32);

/// A stream: one ordered, bidirectional byte stream inside a session.
/// The client opens even numbers, the server odd ones.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct StreamId(pub u32);

/// Data sequence number of a segment: unique in one direction of a session, counted from zero.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct DataSeq(pub u64);

impl DataSeq {
    /// The next number.
    #[must_use]
    pub fn next(self) -> Self {
        Self(self.0 + 1)
    }

    /// Distance in segments from `earlier`; zero when `earlier` is not earlier.
    #[must_use]
    pub fn distance_from(self, earlier: Self) -> u64 {
        self.0.saturating_sub(earlier.0)
    }
}

macro_rules! show {
    ($($name:ident $text:literal),*) => {$(
        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, concat!($text, "{}"), self.0)
            }
        }
        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                fmt::Display::fmt(self, f)
            }
        }
    )*};
}
show!(PathId "path ", SubflowId "subflow ", StreamId "stream ", DataSeq "#");
