//! COTAG (coded taking and giving): the nodes and the hops between them, sans-IO.
//!
#![doc = include_str!("../README.md")]

mod access_point;
mod buffer;
mod device;
mod flows;
mod gateway;
mod hop;
mod loss;
mod message;
mod node;
mod pace;
mod packet;
mod queue;

pub use access_point::AccessPoint;
pub use buffer::PacketBuffer;
pub use device::Device;
pub use flows::FlowTable;
pub use gateway::Gateway;
pub use hop::{HopControl, Offer};
pub use loss::LossMeter;
pub use message::{Feedback, HopMessage, Loss};
pub use node::{AccessPointNode, DeviceNode, GatewayNode, HopEnd, Passed};
pub use pace::Pace;
pub use packet::{Header, Need, PacketError, Payload, decode, encode, encode_report, is_original};

use core::time::Duration;
use serde::Serialize;
use tributary_coding::CoefficientKey;
use tributary_coding::rlnc::{Basis, Generation};

/// The default interval T: a lost packet is repaired within a few milliseconds, and at 100 Mbit/s a cohort has 18 packets of
/// 1400 bytes. Faster systematic cohorts end when they are full.
pub const INTERVAL: Duration = Duration::from_millis(2);
/// The default longest wait of the device for a cohort: above T and the usual difference of two radios' delays.
pub const PATIENCE: Duration = Duration::from_millis(30);
/// The default limit of redundant packets per 1000 packets.
pub const REDUNDANCY: u32 = 100;
/// Shortest time between the beginnings of two turns of a node. At high rates a turn then serves many packets, so that they
/// share wake-ups, system calls and super-frames (a network card's interrupt moderation).
pub const MODERATION: Duration = Duration::from_micros(150);
/// Most packets of one generation in systematic mode.
pub const GENERATION: usize = 192;
/// Largest packet that a cohort accepts.
pub const MAX_PACKET: usize = 65_000;
/// How far ahead of the oldest open cohort a label may be.
const WINDOW: i32 = 64;

/// What is sent for a cohort.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Mode {
    /// As in the paper: random combinations only, one generation per flow, when the interval has ended.
    Paper,
    /// Originals at once, Cauchy rows when the interval has ended. One generation for all flows.
    #[default]
    Systematic,
}

impl Mode {
    fn basis(self) -> Basis {
        match self {
            Self::Paper => Basis::Random,
            Self::Systematic => Basis::Systematic,
        }
    }
}

/// Settings that the nodes must agree on, and their limits.
#[derive(Clone, Debug)]
pub struct Config {
    /// What is sent for a cohort.
    pub mode: Mode,
    /// The interval T. A systematic cohort ends earlier when it is full.
    pub interval: Duration,
    /// How long after its first packet the device ends a cohort that the label rule has not ended. Must
    /// exceed T and the difference of the links' delays.
    pub patience: Duration,
    /// Most redundant packets of a cohort per 1000 packets.
    pub redundancy: u32,
    /// Most packets that a node holds.
    pub buffer: usize,
    /// Key of the coefficients.
    pub key: CoefficientKey,
}

impl Config {
    /// The defaults of real nodes and of simulated ones: systematic, [`INTERVAL`], [`PATIENCE`], [`REDUNDANCY`], 8192 packets.
    #[must_use]
    pub fn new(key: CoefficientKey) -> Self {
        let (interval, patience, redundancy) = (INTERVAL, PATIENCE, REDUNDANCY);
        Self { mode: Mode::default(), interval, patience, redundancy, buffer: 8192, key }
    }

    /// Redundant packets for a generation of `symbols`: at least one if redundancy is not zero.
    fn extra(&self, symbols: usize) -> usize {
        let wanted = (symbols * self.redundancy as usize).div_ceil(1000);
        match self.mode {
            Mode::Systematic => wanted.min(63).min(255 - symbols),
            Mode::Paper => wanted.min(symbols),
        }
    }

    /// As [`extra`](Self::extra), and no more than repair this loss: the mean and three standard deviations of the
    /// number of lost packets, and one more. For example 3 for 140 packets and a loss of 0.1 %.
    fn extra_for(&self, symbols: usize, loss: Option<f64>) -> usize {
        let most = self.extra(symbols);
        let Some(loss) = loss else { return most };
        let mean = symbols as f64 * loss.clamp(0.0, 1.0);
        most.min((mean + 3.0 * mean.sqrt()).ceil() as usize + 1)
    }

    fn generation(&self, epoch: u32, label: u32, generation: u8, symbols: usize) -> Option<Generation> {
        let number = u64::from(label) | u64::from(generation) << 32 | u64::from(epoch & 0x7f_ffff) << 40;
        Generation::new(self.key.clone(), number, symbols, self.mode.basis())
    }
}

/// Counters of a node: packets processed, and packets dropped by reason.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Counters {
    /// Packets received.
    pub received: u64,
    /// Packets sent or delivered.
    pub sent: u64,
    /// Redundant packets among those sent.
    pub taken: u64,
    /// Dropped by the giving rule, because a later cohort needed the link.
    pub given: u64,
    /// Dropped because the buffer was full.
    pub full: u64,
    /// Not a packet of this protocol, truncated, or of another version.
    pub malformed: u64,
    /// Contradicts earlier packets of its cohort, or has the other mode.
    pub mislabelled: u64,
    /// Belongs to a cohort that is over.
    pub late: u64,
    /// Belongs to a cohort too far ahead.
    pub ahead: u64,
    /// From an earlier start of the gateway.
    pub stale: u64,
    /// Too large for a cohort.
    pub oversize: u64,
    /// Packets delivered that were decoded, not received (device).
    pub recovered: u64,
    /// Packets of finished cohorts that could not be decoded (device).
    pub lost: u64,
}

/// How far `label` is ahead of `of`, with wrap-around. RFC 1982.
fn ahead(label: u32, of: u32) -> i32 {
    label.wrapping_sub(of).cast_signed()
}

/// What to do with a label.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Verdict {
    Take,
    /// Too far ahead to be accepted.
    Ahead,
    /// So many in a row were ahead that the receiver must have been cut off: continue here.
    Begin,
}

/// Checks labels that are ahead of what a node expects, and epochs that are older. A single wrong packet must
/// not move the node. But a node that was cut off for long, or whose gateway was restarted after its clock
/// had been set back, must recover.
#[derive(Debug, Default)]
struct Strays {
    ahead: u32,
    stale: u32,
}

impl Strays {
    /// Consecutive packets ahead after which the node accepts them.
    const BELIEVED: u32 = 32;
    /// Consecutive packets of an older epoch after which the node accepts them: more than an access point
    /// holds of a cohort when the gateway is restarted normally.
    const BELIEVED_STALE: u32 = 256;

    /// What to do with a packet whose epoch is `distance` ahead of the node's. `Ahead` is also returned for
    /// an older one, which the caller drops and counts as stale.
    fn judge_epoch(&mut self, distance: i32) -> Verdict {
        if distance >= 0 {
            self.stale = 0;
            return if distance == 0 { Verdict::Take } else { Verdict::Begin };
        }
        self.stale += 1;
        if self.stale < Self::BELIEVED_STALE {
            return Verdict::Ahead;
        }
        self.stale = 0;
        Verdict::Begin
    }

    fn judge(&mut self, distance: i32) -> Verdict {
        if distance <= WINDOW {
            self.ahead = 0;
            return Verdict::Take;
        }
        self.ahead += 1;
        if self.ahead < Self::BELIEVED {
            return Verdict::Ahead;
        }
        self.ahead = 0;
        Verdict::Begin
    }
}

#[cfg(test)]
mod tests;
