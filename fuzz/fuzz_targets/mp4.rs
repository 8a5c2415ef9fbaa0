//! Fuzz target `mp4`, implemented in `entry.rs`.
#![no_main]
#![allow(dead_code, reason = "each target runs one of the shared entries")]

#[path = "../entry.rs"]
mod entry;

libfuzzer_sys::fuzz_target!(|data: &[u8]| entry::mp4(data));
