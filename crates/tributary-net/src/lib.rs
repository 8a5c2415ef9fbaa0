//! Tributary sessions on real sockets: TCP and TLS subflows, public async API, proxy.

pub mod sockopt;
