//! Which inner packets a node takes from a tunnel and from its TUN device: by source address from the device, and
//! none of the tunnel's own.
//!
//! Not here: what the addresses are (`config`).

use super::quiet::Quiet;
use crate::config::Prefix;
use crate::packet::{is_datagram_to, source};
use std::net::{IpAddr, SocketAddr};
use tributary_types::Instant;

/// Addresses that packets from the device may come from, as WireGuard's AllowedIPs.
pub(super) struct Allowed {
    networks: Vec<Prefix>,
    except: Vec<IpAddr>,
    quiet: Quiet,
}

impl Allowed {
    /// These networks, but not the addresses `except`.
    pub(super) fn new(networks: Vec<Prefix>, except: Vec<IpAddr>) -> Self {
        Self { networks, except, quiet: Quiet::default() }
    }

    /// Whether the packet's source is allowed. If not, reports it now and then.
    pub(super) fn permits(&mut self, now: Instant, packet: &[u8]) -> bool {
        let Some(source) = source(packet) else { return false };
        if self.networks.iter().any(|network| network.contains(source)) && !self.except.contains(&source) {
            return true;
        }
        // Every host sends packets from link-local addresses to its neighbours. They are for no other network.
        let is_of_the_link =
            matches!(source, IpAddr::V6(v6) if v6.is_unicast_link_local() || v6.is_unspecified());
        if !is_of_the_link && let Some(others) = self.quiet.may_speak(now) {
            tracing::warn!(
                "dropped a packet of the device from {source}, which is not one of its networks, and {others} before: \
                 `allowed` lists them"
            );
        }
        false
    }
}

/// Recognises packets of the tunnel's own hops that were routed into the tunnel.
#[derive(Default)]
pub(super) struct LoopGuard {
    quiet: Quiet,
}

impl LoopGuard {
    /// Whether the packet goes to one of the hops' other ends. If so, reports it now and then.
    pub(super) fn is_own(
        &mut self,
        now: Instant,
        packet: &[u8],
        remotes: impl Iterator<Item = SocketAddr>,
    ) -> bool {
        let Some(remote) = is_datagram_to(packet, remotes) else { return false };
        if let Some(others) = self.quiet.may_speak(now) {
            tracing::warn!(
                "dropped a packet of the tunnel itself, to {remote}, that was routed into the tunnel, and {others} \
                 before: add a route to {} outside the tunnel",
                remote.ip()
            );
        }
        true
    }
}
