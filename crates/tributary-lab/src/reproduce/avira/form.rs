//! Readings of the paper: what it leaves open decides whether its order of round-trip times can come out.

use serde::Serialize;

/// A scheduler of the paper, and what the paper measured with it (table II).
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Compared {
    /// Its name in the registry.
    pub scheduler: &'static str,
    /// The paper's name for it.
    pub name: &'static str,
    /// The paper's mean RTT, ms.
    pub rtt_ms: f64,
    /// The paper's standard deviation of the RTT, ms.
    pub deviation_ms: f64,
}

const fn compared(scheduler: &'static str, name: &'static str, rtt_ms: f64, deviation_ms: f64) -> Compared {
    Compared { scheduler, name, rtt_ms, deviation_ms }
}

/// How the paper is read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Form {
    /// Where the forecast's choice has no room the default decides; Lowest waits for the least RTT; the
    /// pathways part at the source.
    Printed,
    /// The prioritised packet waits for the forecast's choice and the rest waits behind it; Lowest is the
    /// scheduler of multipath-tcp.org, the least RTT of those with room.
    Waiting,
    /// As printed, but the source and the sink have one link each, as in the paper's figure.
    SharedAccess,
    /// As printed, but the source offers nine tenths of what the pathways carry: windows have room.
    Limited,
}

impl Form {
    /// All, the faithful one first.
    pub const ALL: [Self; 4] = [Self::Printed, Self::Waiting, Self::SharedAccess, Self::Limited];

    /// Default, Random, Lowest and AVIRA.
    #[must_use]
    pub fn compared(self) -> [Compared; 4] {
        let (lowest, avira) = match self {
            Self::Waiting => ("min-rtt", "avira-waiting"),
            _ => ("lowest-rtt", "avira"),
        };
        [
            compared("round-robin", "Default", 927.0, 83.6),
            compared("random", "Random", 908.0, 91.0),
            compared(lowest, "Lowest", 915.0, 92.0),
            compared(avira, "AVIRA", 893.0, 89.2),
        ]
    }

    /// Its name in JSON and in the claims' names.
    #[must_use]
    pub fn id(self) -> &'static str {
        match self {
            Self::Printed => "printed",
            Self::Waiting => "waiting",
            Self::SharedAccess => "shared-access",
            Self::Limited => "limited",
        }
    }

    /// For tables.
    #[must_use]
    pub fn label(self) -> &'static str {
        match self {
            Self::Printed => "as printed",
            Self::Waiting => "waiting for the choice",
            Self::SharedAccess => "one access link",
            Self::Limited => "nine tenths offered",
        }
    }
}
