//! Fuzz target `rtp`, implemented in `network.rs`.
#![no_main]
#![allow(dead_code, reason = "each target runs one of the shared entries")]

#[path = "../entry.rs"]
mod entry;

libfuzzer_sys::fuzz_target!(|data: &[u8]| entry::rtp(data));
