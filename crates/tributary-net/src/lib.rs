//! Tributary sessions on real sockets: TCP and TLS subflows, public async API, proxy.

pub mod sockopt;

mod hello;
mod key;
mod tls;

pub use key::{KEY_PREFIX, Key, KeyError};
