//! Sessions on real sockets over loopback, where 127.0.0.2, 127.0.0.3 … stand for different radios.

#[path = "net/common.rs"]
mod common;
#[path = "net/transfer.rs"]
mod transfer;
