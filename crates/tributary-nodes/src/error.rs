//! Why a node cannot run.

use std::io;
use std::net::{IpAddr, SocketAddr};
use thiserror::Error;
use tributary_net::KeyError;
use tributary_net::privileges::PrivilegeError;
use tributary_tun::TunError;

/// Why a node cannot run.
#[derive(Debug, Error)]
pub enum NodeError {
    /// The settings cannot be read.
    #[error("settings: {reason}")]
    Settings {
        /// What is wrong.
        reason: String,
    },
    /// A setting is invalid.
    #[error("`{key}` is {value}; it must be {expected}")]
    Setting {
        /// The key.
        key: &'static str,
        /// Its value.
        value: String,
        /// Valid values.
        expected: String,
    },
    /// A key file cannot be used.
    #[error(transparent)]
    Key(#[from] KeyError),
    /// The file of a key that is shared with a neighbour cannot be used.
    #[error("`{setting}`, shared key of `{name}`: {source}")]
    SharedKey {
        /// The setting.
        setting: &'static str,
        /// The neighbour.
        name: String,
        /// What is wrong.
        source: KeyError,
    },
    /// A shared key was given as the node's own.
    #[error(
        "`key` needs this node's private key, and {place} is a shared one: make a private one with `tributary keygen`, or name \
         the shared one at the neighbour that has it, as shared:FILE"
    )]
    OwnKeyIsShared {
        /// File and line.
        place: String,
    },
    /// A neighbour is named by its public key, and this node has no private one.
    #[error(
        "`{setting}` names `{name}` by its public key, and `key` is missing, the file of this node's private key: make one \
         with `tributary keygen --out node.key`"
    )]
    NoOwnKey {
        /// The setting.
        setting: &'static str,
        /// The neighbour.
        name: String,
    },
    /// A neighbour has this node's key.
    #[error(
        "`{setting}` gives `{name}` this node's own public key: give the one that `tributary pubkey` prints at `{name}`; \
         every node needs a key of its own"
    )]
    OwnKeyAsNeighbour {
        /// The setting.
        setting: &'static str,
        /// The neighbour.
        name: String,
    },
    /// Two neighbours have the same key, so they cannot be told apart.
    #[error(
        "`{setting}` gives `{name}` the same key as `{other}`: make a key for each, with `tributary keygen`"
    )]
    SameKey {
        /// The setting.
        setting: &'static str,
        /// The neighbour.
        name: String,
        /// The neighbour before it with that key.
        other: String,
    },
    /// The TUN device cannot be created.
    #[error(transparent)]
    Tun(#[from] TunError),
    /// A route through the tunnel is there already.
    #[error(
        "the route {route} exists already, through {interface}: remove it (`ip route del {route} dev {interface}`), or \
         leave it out of `route`"
    )]
    RouteExists {
        /// The route.
        route: String,
        /// Its interface.
        interface: String,
    },
    /// The kernel would drop what access points send.
    #[error(
        "the route to {address} leads through the tunnel, so the strict reverse path filter of {interface} drops its \
         packets: run `sysctl net.ipv4.conf.all.rp_filter=2`, or leave {address} out of `route`"
    )]
    ReversePathFilter {
        /// The interface towards the access point.
        interface: String,
        /// The access point.
        address: IpAddr,
    },
    /// An interface cannot be configured.
    #[error("configuring {what}: {source}{}", remedy(source))]
    Interface {
        /// Interface and address.
        what: String,
        /// The system's reason.
        source: io::Error,
    },
    /// The node cannot give up its privileges.
    #[error(transparent)]
    Privileges(#[from] PrivilegeError),
    /// A socket cannot be used.
    #[error("cannot use {address}: {source}; choose an address of this host and a free port")]
    Bind {
        /// The address.
        address: SocketAddr,
        /// The system's reason.
        source: io::Error,
    },
    /// Another system error.
    #[error("{doing}: {source}")]
    System {
        /// The failed action.
        doing: &'static str,
        /// The system's reason.
        source: io::Error,
    },
    /// The node's thread has ended.
    #[error("the node has ended")]
    Stopped,
}

/// What to do about a refusal of the kernel, where that is known.
fn remedy(error: &io::Error) -> &'static str {
    match error.kind() {
        io::ErrorKind::PermissionDenied => "; that needs root or CAP_NET_ADMIN",
        _ => "",
    }
}
