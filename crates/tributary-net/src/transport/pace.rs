//! Keeps one direction of a stream below its client's rate: what was carried is paid for before more is carried.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use tokio::time::{Sleep, sleep_until};

use crate::clients::{Throttle, Way};

/// The limit of one direction. The default has none.
#[derive(Debug, Default)]
pub(super) struct Pace {
    limit: Option<(Arc<Throttle>, Way)>,
    /// When what was carried is paid for.
    paid: Option<Pin<Box<Sleep>>>,
}

impl Pace {
    pub(super) fn new(throttle: Arc<Throttle>, way: Way) -> Self {
        Self { limit: Some((throttle, way)), paid: None }
    }

    /// Counts bytes that were carried.
    pub(super) fn carried(&mut self, bytes: usize) {
        let Some((throttle, way)) = &self.limit else { return };
        self.paid = throttle.count(*way, bytes).map(|until| Box::pin(sleep_until(until)));
    }

    pub(super) fn poll(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        if let Some(paid) = &mut self.paid {
            ready!(paid.as_mut().poll(cx));
            self.paid = None;
        }
        Poll::Ready(())
    }

    /// Waits until more may be carried.
    pub(super) async fn wait(&mut self) {
        std::future::poll_fn(|cx| self.poll(cx)).await;
    }
}
