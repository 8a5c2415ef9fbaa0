//! Lines from standard input, read by a thread so that the runtime never blocks on them.

use std::io::BufRead;
use tokio::sync::mpsc::{UnboundedReceiver, unbounded_channel};

/// A channel with the remaining lines; it closes at the end of the input.
pub(crate) fn lines() -> UnboundedReceiver<String> {
    let (sender, receiver) = unbounded_channel();
    std::thread::spawn(move || {
        for line in std::io::stdin().lock().lines() {
            let Ok(line) = line else { break };
            if sender.send(line).is_err() {
                break;
            }
        }
    });
    receiver
}
