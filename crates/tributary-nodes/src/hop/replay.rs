//! Replay window: which packet numbers of a session have been seen, as in RFC 6479.

/// How far behind the newest a number may be.
const WINDOW: u64 = 8192;
const WORDS: usize = (WINDOW / 64) as usize;

/// The window. Each number is accepted once; numbers older than the window are refused.
#[derive(Debug)]
pub(crate) struct ReplayWindow {
    /// One above the newest number seen.
    end: u64,
    /// One bit for each number, at its place modulo the window.
    seen: Box<[u64; WORDS]>,
}

impl ReplayWindow {
    pub(crate) fn new() -> Self {
        Self { end: 0, seen: Box::new([0; WORDS]) }
    }

    /// One above the newest number seen.
    pub(crate) fn end(&self) -> u64 {
        self.end
    }

    /// Whether the number is new; marks it as seen.
    pub(crate) fn accept(&mut self, number: u64) -> bool {
        // The word with the newest numbers also begins the window, so the window is one word shorter.
        if number == u64::MAX || number < self.end.saturating_sub(WINDOW - 64) {
            return false;
        }
        if number >= self.end {
            let (from, to) = (self.end.div_ceil(64), number / 64 + 1);
            for word in from..to.min(from + WORDS as u64) {
                self.seen[word as usize % WORDS] = 0;
            }
            self.end = number + 1;
        }
        let (word, bit) = ((number / 64) as usize % WORDS, 1 << (number % 64));
        let is_new = self.seen[word] & bit == 0;
        self.seen[word] |= bit;
        is_new
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::HashSet;

    proptest! {
        #[test]
        fn no_number_passes_twice_and_recent_ones_pass_once(
            steps in prop::collection::vec((any::<bool>(), 0..9000_u64), 1..400),
        ) {
            let (mut window, mut passed, mut newest) = (ReplayWindow::new(), HashSet::new(), 0_u64);
            for (back, by) in steps {
                let number = if back { newest.saturating_sub(by) } else { newest + by };
                newest = newest.max(number);
                let accepted = window.accept(number);
                let is_new = passed.insert(number);
                prop_assert!(!accepted || is_new, "{} passed twice", number);
                if newest - number < WINDOW - 128 {
                    prop_assert_eq!(accepted, is_new, "{} of {}", number, newest);
                } else if !accepted && is_new {
                    // Too old: whether it would have been new is forgotten.
                    passed.remove(&number);
                }
            }
        }
    }

    #[test]
    fn the_largest_numbers_do_not_overflow() {
        let mut window = ReplayWindow::new();
        assert!(window.accept(u64::MAX - 1));
        assert!(!window.accept(u64::MAX - 1));
        assert!(!window.accept(u64::MAX));
        assert!(!window.accept(0));
    }
}
