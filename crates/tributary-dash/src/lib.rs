//! MPEG-DASH on real sockets: a packager, the HTTP server of a directory with manifests and segments, a headless client, and viewings by
//! a player in a browser.
//!
//! HTTP/1.1 and HTTP/2 come from `hyper`, HTTP/3 from `h3`, the transports from [`tributary_net::transport`].
//! The player's decisions are in `tributary-player`. Source: ISO/IEC 23009-1:2022, RFC 9110, RFC 9112 to RFC
//! 9114.

pub mod client;
pub mod controller;
mod fetch;
pub mod package;
pub mod server;
pub mod tls;
pub mod viewing;
