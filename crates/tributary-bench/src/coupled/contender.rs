//! Who shares a bottleneck with a stranger's TCP connection, or has two links alone. The same contenders run on real
//! sockets and in the simulator.

use super::UNCOUPLED;
use crate::Expectation;
use crate::end::Contestant;
use core::ops::Range;
use serde::Serialize;
use tributary_proto::transport::{MPTCP_DEFAULT, SESSION_DEFAULT, TransportName};

/// Largest ratio to the stranger's rate with coupled control.
const FAIR: f64 = 1.2;

/// A contender's connections.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Transport {
    /// One TCP connection. Its ratio to the stranger must be near 1, or the bottleneck is not the same for both.
    OneTcp,
    /// Two independent TCP connections. Their ratio must be near 2. If it is, and the ratio of two uncoupled subflows
    /// is below it, the reason is in the multipath transport and not in the bottleneck.
    TwoTcp,
    /// A Tributary session with two subflows.
    Session,
    /// A multipath TCP connection with two subflows.
    Mptcp,
}

impl Transport {
    /// Those with two subflows.
    pub(super) const MULTIPATH: [Self; 2] = [Self::Session, Self::Mptcp];

    /// Name for tables.
    pub(super) fn label(self) -> &'static str {
        match self {
            Self::OneTcp => "one TCP",
            Self::TwoTcp => "two TCP",
            Self::Session => "session",
            Self::Mptcp => "MPTCP",
        }
    }

    /// Number of TCP connections, subflows included.
    pub(super) fn flows(self) -> usize {
        if self == Self::OneTcp { 1 } else { 2 }
    }

    /// The connections on real sockets, each with the indices of its addresses.
    pub(super) fn connections(self) -> Vec<(Contestant, Range<usize>)> {
        match self {
            Self::OneTcp => vec![(Contestant::of("tcp"), 0..1)],
            Self::TwoTcp => vec![(Contestant::of("tcp"), 0..1), (Contestant::of("tcp"), 1..2)],
            Self::Session => vec![(Contestant::of("session"), 0..2)],
            Self::Mptcp => vec![(Contestant::of("mptcp"), 0..2)],
        }
    }

    /// The transport by the name of the registry. TCP is on the path called `first`.
    pub(super) fn registered(self, first: &str) -> TransportName {
        match self {
            Self::OneTcp | Self::TwoTcp => TransportName::Tcp(Some(first.to_owned())),
            Self::Session => TransportName::session(SESSION_DEFAULT),
            Self::Mptcp => TransportName::Mptcp { scheduler: MPTCP_DEFAULT.to_owned() },
        }
    }
}

/// Connections under a congestion control.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Contender {
    /// The connections.
    pub transport: Transport,
    /// Congestion control of each of their subflows, without the prefix of its name in the kernel.
    pub control: &'static str,
}

impl Contender {
    /// At a bottleneck: the two yardsticks of plain TCP, then both transports uncoupled and with each of `coupled`.
    pub(super) fn at_bottleneck(coupled: &[&'static str]) -> Vec<Self> {
        let yardsticks = [Transport::OneTcp, Transport::TwoTcp].map(Self::uncoupled);
        let multipath = Transport::MULTIPATH.into_iter().flat_map(|transport| Self::each(transport, coupled));
        yardsticks.into_iter().chain(multipath).collect()
    }

    /// One transport: uncoupled, then with each of `coupled`.
    pub(super) fn each(transport: Transport, coupled: &[&'static str]) -> Vec<Self> {
        let controls = [UNCOUPLED].into_iter().chain(coupled.iter().copied());
        controls.map(|control| Self { transport, control }).collect()
    }

    fn uncoupled(transport: Transport) -> Self {
        Self { transport, control: UNCOUPLED }
    }

    /// The bound on its rate over the stranger's.
    pub(super) fn wanted(self) -> Expectation {
        match (self.transport, self.control) {
            (Transport::OneTcp, _) => Expectation::about(1.0),
            (_, UNCOUPLED) => Expectation::about(2.0),
            _ => Expectation::AtMost(FAIR),
        }
    }
}

impl core::fmt::Display for Contender {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        write!(f, "{}, {}", self.transport.label(), self.control)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn yardsticks_come_first_and_only_coupled_subflows_must_share() {
        let all = Contender::at_bottleneck(&["lia"]);
        let wanted: Vec<(String, Expectation)> =
            all.iter().map(|one| (one.to_string(), one.wanted())).collect();
        let expected = [
            ("one TCP, reno", Expectation::about(1.0)),
            ("two TCP, reno", Expectation::about(2.0)),
            ("session, reno", Expectation::about(2.0)),
            ("session, lia", Expectation::AtMost(1.2)),
            ("MPTCP, reno", Expectation::about(2.0)),
            ("MPTCP, lia", Expectation::AtMost(1.2)),
        ];
        assert_eq!(wanted, expected.map(|(name, wanted)| (name.to_owned(), wanted)));
    }

    #[test]
    fn every_transport_is_in_the_registry() {
        for transport in [Transport::OneTcp, Transport::TwoTcp, Transport::Session, Transport::Mptcp] {
            assert!(transport.registered("wifi").check(&["wifi", "lte"]).is_ok(), "{transport:?}");
            let paths: usize = transport.connections().iter().map(|(_, paths)| paths.len()).sum();
            assert_eq!(paths, transport.flows(), "{transport:?}");
        }
    }
}
