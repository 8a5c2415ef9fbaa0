//! Fuzz target `http-request`, implemented in `tributary_dash::server::fuzz`.
#![no_main]
#![allow(dead_code, reason = "each target runs one of the shared entries")]

#[path = "../entry.rs"]
mod entry;

libfuzzer_sys::fuzz_target!(|data: &[u8]| entry::http_request(data));
