//! Leads the traffic of this machine, or a part of it, to a TUN device and to sockets, and takes that back.
//!
//! One process, with CAP_NET_ADMIN, makes everything ([`Tunnel`]), waits for the end of another one, and takes everything back. The other
//! one gets the device and the sockets ([`tributary_exec::Sockets`]) and needs no privileges. Selection is routing alone: whatever leaves by the device is
//! carried, TCP and DNS by a redirection, everything else as packets. Packets with [`MARK`], those of the session itself, never do.
//!
//! Not here: what is done with the packets and connections (`tributary_net::proxy`). Sources: ip-rule(8), nft(8), resolv.conf(5),
//! resolvectl(1), `SO_MARK` in socket(7).

mod redirect;
mod resolver;
mod routes;
mod selection;
mod settings;
mod tunnel;

pub use selection::{Selection, SelectionError, parse_network, parse_users};
pub use settings::{MARK, Settings};
pub use tunnel::{Tunnel, TunnelError, clean};
