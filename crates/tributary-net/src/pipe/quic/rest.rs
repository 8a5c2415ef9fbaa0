//! A pause between two calls that would each do little.

use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use tokio::time::{Instant, Sleep, sleep_until};

/// Shorter than the 4 ms for which the unsent bytes of [`Room`](tributary_proto::room::Room) last, so that a path does not run empty.
const REST: Duration = Duration::from_millis(1);

/// The pause.
#[derive(Default)]
pub(super) struct Rest {
    timer: Option<Pin<Box<Sleep>>>,
    resting: bool,
}

impl Rest {
    pub fn begin(&mut self) {
        let until = Instant::now() + REST;
        match &mut self.timer {
            Some(timer) => timer.as_mut().reset(until),
            None => self.timer = Some(Box::pin(sleep_until(until))),
        }
        self.resting = true;
    }

    /// Ready when there is no pause.
    pub fn poll(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        if let Some(timer) = self.timer.as_mut().filter(|_| self.resting)
            && timer.as_mut().poll(cx).is_pending()
        {
            return Poll::Pending;
        }
        self.resting = false;
        Poll::Ready(())
    }
}
