//! The nodes of COTAG on real sockets: TUN at the ends, authenticated UDP between.
//!
//! ```no_run
//! use tributary_nodes::{GatewayConfig, Role, load};
//!
//! # fn main() -> Result<(), tributary_nodes::NodeError> {
//! let settings = "listen = '192.0.2.1:7100'\naccess_point = ['ap1=shared:ap1.key']\ntun = 'cotag0'\naddress = ['10.99.0.1/24']";
//! let config: GatewayConfig = load(settings.parse().expect("TOML"))?;
//! let gateway = config.start()?; // a thread of its own, in this network namespace
//! println!("{}", gateway.status()?.summary());
//! # Ok(())
//! # }
//! ```
//!
//! Not here: what is coded and what may be sent when (`tributary_cotag`), devices and datagrams (`tributary_tun`).
//! Linux only. Bytes on the wire: the envelope of `hop` around the packets of
//! `docs/models/cotag.md`.

mod asker;
mod config;
mod error;
#[doc(hidden)]
pub mod fuzz;
mod hop;
mod keys;
mod node;
mod packet;
mod status;

pub use config::{
    AccessPointConfig, Coding, DeviceConfig, GatewayConfig, Inner, KnownPoint, Mode, Prefix, ReachedPoint,
    Settings, load,
};
pub use error::NodeError;
pub use hop::Refusals;
pub use keys::{Neighbour, NeighbourKey};
pub use node::{Neighbourhood, Role, Running};
pub use status::{InnerStatus, LinkStatus, Status};
