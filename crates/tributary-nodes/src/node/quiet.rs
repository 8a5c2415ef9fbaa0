//! Messages that strangers can cause are logged now and then only.

use core::time::Duration;
use tributary_types::Instant;

/// Time between two messages of one kind.
const INTERVAL: Duration = Duration::from_secs(10);

/// When one kind of message was last logged.
#[derive(Debug, Default)]
pub(super) struct Quiet {
    spoke: Option<Instant>,
    left_out: u64,
}

impl Quiet {
    /// Whether a message may be logged now; if so, how many were left out before it.
    pub(super) fn may_speak(&mut self, now: Instant) -> Option<u64> {
        if self.spoke.is_some_and(|at| now.saturating_since(at) < INTERVAL) {
            self.left_out += 1;
            return None;
        }
        self.spoke = Some(now);
        Some(core::mem::take(&mut self.left_out))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_message_in_an_interval_says_how_many_there_were() {
        let (mut quiet, now) = (Quiet::default(), Instant::from_millis(1));
        assert_eq!(quiet.may_speak(now), Some(0));
        assert_eq!((quiet.may_speak(now), quiet.may_speak(now)), (None, None));
        assert_eq!(quiet.may_speak(now + INTERVAL), Some(2));
    }
}
