//! Limits a repeated log message to one in ten seconds, with the number of messages left out.

use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

const INTERVAL: Duration = Duration::from_secs(10);

/// One kind of message.
#[derive(Debug, Default)]
pub struct RateLimited(Mutex<(Option<Instant>, u64)>);

impl RateLimited {
    /// Calls `log` unless it was called within the last ten seconds. The argument is a suffix for the message: empty,
    /// or the number of messages left out.
    pub fn tell(&self, log: impl FnOnce(&str)) {
        self.tell_at(Instant::now(), |left_out| match left_out {
            0 => log(""),
            _ => log(&format!(" ({left_out} more like it)")),
        });
    }

    fn tell_at(&self, now: Instant, log: impl FnOnce(u64)) {
        let left_out = {
            let mut state = self.0.lock().unwrap_or_else(PoisonError::into_inner);
            if state.0.is_some_and(|last| now.duration_since(last) < INTERVAL) {
                state.1 += 1;
                return;
            }
            state.0 = Some(now);
            std::mem::take(&mut state.1)
        };
        log(left_out);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_message_in_ten_seconds_is_logged_and_the_others_are_counted() {
        let (limited, start) = (RateLimited::default(), Instant::now());
        let mut told = Vec::new();
        for millis in [0, 10, 9_999, 10_000, 10_001, 30_000, 50_000] {
            limited.tell_at(start + Duration::from_millis(millis), |left_out| told.push((millis, left_out)));
        }
        assert_eq!(told, [(0, 0), (10_000, 2), (30_000, 1), (50_000, 0)]);
    }
}
