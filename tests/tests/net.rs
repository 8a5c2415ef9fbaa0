//! Sessions on real sockets over loopback; 127.0.0.2, 127.0.0.3 … represent different radios.

#[path = "net/common.rs"]
mod common;
#[path = "net/early.rs"]
mod early;
#[path = "net/fairness.rs"]
mod fairness;
#[path = "net/flood.rs"]
mod flood;
#[path = "net/keys.rs"]
mod keys;
#[path = "net/memory.rs"]
mod memory;
#[path = "net/paths.rs"]
mod paths;
#[path = "net/priorities.rs"]
mod priorities;
#[path = "net/proxy.rs"]
mod proxy;
#[path = "net/proxy_end.rs"]
mod proxy_end;
#[path = "net/proxy_targets.rs"]
mod proxy_targets;
#[path = "net/reconnect.rs"]
mod reconnect;
#[path = "net/refusal.rs"]
mod refusal;
#[path = "net/requested.rs"]
mod requested;
#[path = "net/stalled.rs"]
mod stalled;
#[path = "net/transfer.rs"]
mod transfer;
#[path = "net/udp.rs"]
mod udp;
