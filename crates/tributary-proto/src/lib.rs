//! Multipath session: wire format, windows, reassembly, schedulers and path health, sans-IO.
