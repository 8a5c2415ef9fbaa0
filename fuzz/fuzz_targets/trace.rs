//! Any text as a trace, in both formats: refused or understood, never a panic.

#![no_main]

use libfuzzer_sys::fuzz_target;
use tributary_link::{MAX_RATE, Trace};

fuzz_target!(|text: &str| {
    for trace in [Trace::parse_csv(text), Trace::parse_mahimahi(text)].into_iter().flatten() {
        assert!(trace.max() <= MAX_RATE);
        assert!(!trace.period().is_zero());
    }
});
