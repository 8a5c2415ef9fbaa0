//! The first of several futures.

use std::future::poll_fn;
use std::pin::Pin;
use std::task::Poll;

/// The output of the first future that has one; that future is removed. Never, if there are none.
pub(crate) async fn first_of<F: Future>(tries: &mut Vec<Pin<Box<F>>>) -> F::Output {
    poll_fn(|cx| {
        for at in 0..tries.len() {
            if let Poll::Ready(output) = tries[at].as_mut().poll(cx) {
                drop(tries.remove(at));
                return Poll::Ready(output);
            }
        }
        Poll::Pending
    })
    .await
}
