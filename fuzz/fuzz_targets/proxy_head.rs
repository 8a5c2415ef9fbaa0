//! Fuzz target `proxy-head`, implemented in `tributary_net::proxy::fuzz`.
#![no_main]
#![allow(dead_code, reason = "each target runs one of the shared entries")]

#[path = "../entry.rs"]
mod entry;

libfuzzer_sys::fuzz_target!(|data: &[u8]| entry::proxy_head(data));
