//! A running download: what has arrived of it, and what the bitrate rule is told.

use tributary_types::Instant;

use super::{Counting, Request};
use crate::abr::Progress;

/// A running download.
#[derive(Debug)]
pub(super) struct Download {
    pub request: Request,
    pub began: Instant,
    pub first_byte: Option<Instant>,
    /// Size of the whole segment in bytes, once it is known.
    pub size: Option<u64>,
    /// Bytes without a gap before them.
    pub arrived: u64,
    /// Bytes that have arrived and are not part of `arrived` yet.
    unread: u64,
    /// When bytes arrived last.
    pub moved: Instant,
    /// When the rule was asked last whether to abandon it.
    pub looked: Instant,
}

impl Download {
    pub fn new(request: Request, now: Instant) -> Self {
        Self {
            request,
            began: now,
            first_byte: None,
            size: None,
            arrived: request.from,
            unread: 0,
            moved: now,
            looked: now,
        }
    }

    pub fn handle_unread(&mut self, now: Instant, bytes: u64) {
        if bytes > self.unread {
            self.moved = now;
        }
        self.unread = bytes;
    }

    /// Bytes that have arrived in any order.
    pub fn received(&self) -> u64 {
        let whole = self.arrived + self.unread;
        self.size.map_or(whole, |size| whole.min(size))
    }

    /// What the rule is told; `None` before the response has begun.
    pub fn progress(&self, now: Instant, counting: Counting) -> Option<Progress> {
        let counted = match counting {
            Counting::Received => self.received(),
            Counting::InOrder => self.arrived,
        };
        Some(Progress {
            quality: self.request.quality,
            size: self.size? as f64 * 8.0,
            arrived: counted as f64 * 8.0,
            elapsed: now.saturating_since(self.began),
            first_byte: self.first_byte?.saturating_since(self.began),
        })
    }
}
