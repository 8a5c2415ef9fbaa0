//! What carries the flows and what happens to their packets at the gateway, by name.

use tributary_coding::cotag::Mode;

/// What a flow is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Carrier {
    /// One TCP connection.
    Tcp,
    /// One MPTCP connection with a subflow for each access point, and its scheduler.
    Mptcp(&'static str),
    /// One Tributary session with a subflow for each access point, and its scheduler.
    Session(&'static str),
}

/// What the gateway does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Gate {
    /// Sends packets over the access points in turn.
    InTurn,
    /// Sends each packet where it leaves the radio the earliest.
    Balanced,
    /// Routes subflow i over access point i.
    Routed,
    /// Holds the sending ends of the flows itself, and routes subflow i over access point i.
    Sends,
    /// Codes.
    Coded(Mode),
}

/// A carrier and a gateway.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Scheme {
    name: &'static str,
    pub(super) carrier: Carrier,
    pub(super) gate: Gate,
}

const KERNEL: Carrier = Carrier::Mptcp("linux-default");
const MUSHER: Carrier = Carrier::Mptcp("musher");
const FBDT: Carrier = Carrier::Session("fbdt");

/// All there are.
const SCHEMES: [Scheme; 12] = [
    scheme("cubic", Carrier::Tcp, Gate::InTurn),
    scheme("cubic-balanced", Carrier::Tcp, Gate::Balanced),
    scheme("mptcp", KERNEL, Gate::Routed),
    scheme("mptcp-in-turn", KERNEL, Gate::InTurn),
    scheme("mptcp-gateway", KERNEL, Gate::Sends),
    scheme("musher", MUSHER, Gate::Routed),
    scheme("musher-in-turn", MUSHER, Gate::InTurn),
    scheme("musher-gateway", MUSHER, Gate::Sends),
    scheme("fbdt", FBDT, Gate::Routed),
    scheme("cotag", Carrier::Tcp, Gate::Coded(Mode::Systematic)),
    scheme("cotag-paper", Carrier::Tcp, Gate::Coded(Mode::Paper)),
    scheme("fbdt+cotag", FBDT, Gate::Coded(Mode::Systematic)),
];

const fn scheme(name: &'static str, carrier: Carrier, gate: Gate) -> Scheme {
    Scheme { name, carrier, gate }
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
