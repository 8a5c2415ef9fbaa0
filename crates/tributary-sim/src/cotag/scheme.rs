//! Schemes by name: the transport of the flows and the rule of the gateway.

use tributary_cotag::Mode;

/// The transport of a flow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum FlowKind {
    /// One TCP connection.
    Tcp,
    /// One MPTCP connection with this scheduler and a subflow per access point.
    Mptcp(&'static str),
    /// One Tributary session with this scheduler and a subflow per access point.
    Session(&'static str),
}

/// What the gateway does with packets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Gate {
    /// Sends packets over the access points alternately.
    InTurn,
    /// Sends each packet over the access point whose radio finishes it first.
    Balanced,
    /// Routes subflow i over access point i; a flow without subflows over one of them, in turn.
    Routed,
    /// Holds the sending ends of the flows itself, and routes subflow i over access point i.
    Sends,
    /// Codes the packets.
    Coded(Mode),
}

/// A transport and a gateway rule.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Scheme {
    name: &'static str,
    pub(super) flow: FlowKind,
    pub(super) gate: Gate,
}

const KERNEL: FlowKind = FlowKind::Mptcp("linux-default");
const MUSHER: FlowKind = FlowKind::Mptcp("musher");
const FBDT: FlowKind = FlowKind::Session("fbdt");

/// All schemes.
const SCHEMES: [Scheme; 13] = [
    scheme("cubic", FlowKind::Tcp, Gate::InTurn),
    scheme("cubic-balanced", FlowKind::Tcp, Gate::Balanced),
    scheme("cubic-split", FlowKind::Tcp, Gate::Routed),
    scheme("mptcp", KERNEL, Gate::Routed),
    scheme("mptcp-in-turn", KERNEL, Gate::InTurn),
    scheme("mptcp-gateway", KERNEL, Gate::Sends),
    scheme("musher", MUSHER, Gate::Routed),
    scheme("musher-in-turn", MUSHER, Gate::InTurn),
    scheme("musher-gateway", MUSHER, Gate::Sends),
    scheme("fbdt", FBDT, Gate::Routed),
    scheme("cotag", FlowKind::Tcp, Gate::Coded(Mode::Systematic)),
    scheme("cotag-paper", FlowKind::Tcp, Gate::Coded(Mode::Paper)),
    scheme("fbdt+cotag", FBDT, Gate::Coded(Mode::Systematic)),
];

const fn scheme(name: &'static str, flow: FlowKind, gate: Gate) -> Scheme {
    Scheme { name, flow, gate }
}

impl Scheme {
    /// The scheme of this name.
    #[must_use]
    pub fn find(name: &str) -> Option<Self> {
        SCHEMES.into_iter().find(|scheme| scheme.name == name)
    }

    /// All names.
    pub fn names() -> impl Iterator<Item = &'static str> {
        SCHEMES.iter().map(|scheme| scheme.name)
    }

    /// Its name.
    #[must_use]
    pub fn name(&self) -> &'static str {
        self.name
    }
}
