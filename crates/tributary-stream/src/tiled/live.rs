//! The newest GoPs of a live video, shared by the source that makes them and all clients. Older ones are forgotten, so memory
//! is bounded whatever clients do.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::watch;
use tributary_tiles::live::LiveGop;

/// GoPs that are kept: a player is at most three behind the newest, and sends the plan of one for one GoP's time.
pub const KEPT: usize = 8;

/// How a live source ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum LiveEnd {
    /// In order.
    Complete,
    /// It failed, for this reason.
    Failed(String),
}

/// The newest GoPs.
#[derive(Debug)]
pub struct LiveGops {
    window: Mutex<Window>,
    changed: watch::Sender<()>,
}

#[derive(Debug, Default)]
struct Window {
    gops: VecDeque<Arc<LiveGop>>,
    end: Option<LiveEnd>,
}

/// What a client has not heard of.
#[derive(Debug)]
pub(super) struct LiveNews {
    /// New GoPs, oldest first; to begin with, only the newest.
    pub(super) gops: Vec<Arc<LiveGop>>,
    /// The oldest GoP that is kept.
    pub(super) oldest: u32,
    pub(super) end: Option<LiveEnd>,
}

impl Default for LiveGops {
    fn default() -> Self {
        Self { window: Mutex::default(), changed: watch::Sender::new(()) }
    }
}

impl LiveGops {
    fn lock(&self) -> MutexGuard<'_, Window> {
        self.window.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A GoP has been made.
    pub fn push(&self, gop: LiveGop) {
        let mut window = self.lock();
        window.gops.push_back(Arc::new(gop));
        while window.gops.len() > KEPT {
            window.gops.pop_front();
        }
        drop(window);
        self.changed.send_replace(());
    }

    /// No GoP follows.
    pub fn end(&self, end: LiveEnd) {
        self.lock().end = Some(end);
        self.changed.send_replace(());
    }

    /// How it ended, if it has.
    #[must_use]
    pub fn ended(&self) -> Option<LiveEnd> {
        self.lock().end.clone()
    }

    /// The number of the newest GoP.
    #[must_use]
    pub fn newest(&self) -> Option<u32> {
        self.lock().gops.back().map(|gop| gop.number)
    }

    /// A GoP that is kept.
    #[must_use]
    pub fn gop(&self, number: u32) -> Option<Arc<LiveGop>> {
        self.lock().gops.iter().find(|gop| gop.number == number).cloned()
    }

    /// Any GoP; all have the same initialisation segments.
    pub(crate) fn any(&self) -> Option<Arc<LiveGop>> {
        self.lock().gops.back().cloned()
    }

    /// Changes whenever a GoP has been made, and at the end.
    #[must_use]
    pub fn changes(&self) -> watch::Receiver<()> {
        self.changed.subscribe()
    }

    /// What a client does not know that expects GoP `next`, or has not begun.
    pub(super) fn since(&self, next: Option<u32>) -> LiveNews {
        let window = self.lock();
        let from = next.or_else(|| window.gops.back().map(|gop| gop.number)).unwrap_or(0);
        LiveNews {
            gops: window.gops.iter().filter(|gop| gop.number >= from).cloned().collect(),
            oldest: window.gops.front().map_or(0, |gop| gop.number),
            end: window.end.clone(),
        }
    }
}
