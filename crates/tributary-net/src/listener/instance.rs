//! Which instance of a server has issued a session's identifier. Behind a load balancer a client's connections reach any of several.
//!
//! The last bytes of an identifier name the instance, as a server identifier in a connection identifier of QUIC does
//! (draft-ietf-quic-load-balancers). An instance is a machine and the addresses that it listens on, so that it is the same after a
//! restart. The name is no secret and proves nothing: replies are authenticated. Reasons: `docs/decisions/0018-several-servers.md`.

use std::net::SocketAddr;

use aws_lc_rs::hmac;

use crate::handshake::{HandshakeError, random};
use crate::hello::SessionTag;

/// Bytes of the name. As many bytes of an identifier are random.
const LENGTH: usize = 8;
/// What tells machines apart, and containers of one machine.
const MACHINE: [&str; 2] = ["/etc/machine-id", "/proc/sys/kernel/hostname"];

/// The name of an instance.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Instance([u8; LENGTH]);

impl Instance {
    /// This machine's instance that listens on these addresses.
    pub(super) fn here(addresses: &[SocketAddr]) -> Self {
        // One that cannot be read leaves the other, and the addresses.
        let machine = MACHINE.map(|file| std::fs::read(file).unwrap_or_default()).concat();
        Self::of(&machine, addresses)
    }

    /// The machine's identifier is shown to nobody (machine-id(5)), so it is the key of a hash.
    fn of(machine: &[u8], addresses: &[SocketAddr]) -> Self {
        let mut addresses: Vec<String> = addresses.iter().map(ToString::to_string).collect();
        addresses.sort_unstable();
        let key = hmac::Key::new(hmac::HMAC_SHA256, machine);
        let name = hmac::sign(&key, format!("tributary instance {}", addresses.join(" ")).as_bytes());
        Self(std::array::from_fn(|at| name.as_ref()[at]))
    }

    /// An identifier for a new session of this instance.
    pub(super) fn issue(self) -> Result<SessionTag, HandshakeError> {
        let mut tag: SessionTag = random()?;
        let named = tag.len() - LENGTH;
        tag[named..].copy_from_slice(&self.0);
        Ok(tag)
    }

    /// Whether this instance has issued the identifier, now or before it was started again.
    pub(super) fn has_issued(self, tag: &SessionTag) -> bool {
        tag.ends_with(&self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_instance_knows_its_identifiers_after_a_restart_and_no_other_instances() {
        let addresses =
            |texts: &[&str]| texts.iter().map(|t| t.parse().unwrap()).collect::<Vec<SocketAddr>>();
        let (one, two) = (addresses(&["10.0.0.1:7000", "[::1]:7000"]), addresses(&["10.0.0.1:7001"]));
        let first = Instance::of(b"machine", &one);
        let tag = first.issue().unwrap();
        assert_ne!(tag, first.issue().unwrap());
        let again: Vec<_> = one.iter().rev().copied().collect();
        assert!(Instance::of(b"machine", &again).has_issued(&tag), "started again");
        assert!(!Instance::of(b"machine", &two).has_issued(&tag), "on another port");
        assert!(!Instance::of(b"another machine", &one).has_issued(&tag), "on another machine");
    }
}
