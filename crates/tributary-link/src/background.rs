//! Background traffic on a link: its description, and generators for traffic that needs no endpoint.
//!
//! A generator is sans-IO: it returns when the next packet is due and how large it is. TCP flows are only
//! described here; the simulator runs them.

use crate::name::Name;
use crate::spec::{Direction, Moment};
use core::time::Duration;
use tributary_types::{Bitrate, DataSize, Instant, Rng};

#[cfg(test)]
mod tests;

/// One source of background traffic.
#[derive(Clone, Debug, PartialEq)]
pub struct BackgroundSpec {
    /// Name of the path or shared link that carries it.
    pub on: String,
    /// Direction of the traffic.
    pub direction: Direction,
    /// Start of the traffic.
    pub from: Moment,
    /// End of the traffic.
    pub to: Moment,
    /// Kind of traffic.
    pub kind: BackgroundKind,
}

/// The kind of a source of background traffic.
#[derive(Clone, Debug, PartialEq)]
pub enum BackgroundKind {
    /// Packets at equal intervals.
    Constant {
        /// Rate, headers included.
        rate: Bitrate,
        /// Size of a packet, headers included.
        packet: DataSize,
    },
    /// Packets at equal intervals while on; on and off for exponential times. Begins on.
    OnOff {
        /// Rate while on, headers included.
        rate: Bitrate,
        /// Size of a packet, headers included.
        packet: DataSize,
        /// Mean time on.
        on_mean: Duration,
        /// Mean time off.
        off_mean: Duration,
    },
    /// Packets at independent exponential intervals.
    Poisson {
        /// Mean rate, headers included.
        rate: Bitrate,
        /// Size of a packet, headers included.
        packet: DataSize,
    },
    /// Long TCP transfers.
    Tcp {
        /// Number of transfers.
        flows: u32,
        /// Congestion controller of the transfers.
        congestion: Name,
        /// Round-trip time without the link; `None`: the scenario's base RTT.
        rtt: Option<Duration>,
    },
}

/// A running source of packets.
#[derive(Clone, Debug)]
pub struct Background {
    rate: Bitrate,
    packet: DataSize,
    pattern: Pattern,
    rng: Rng,
    /// When the next packet is due; `to` or later if there is none.
    next: Instant,
    to: Instant,
}

#[derive(Clone, Debug)]
enum Pattern {
    /// The next packet is packet `sent` of the burst that began at `since` and ends at `until`.
    Paced { since: Instant, until: Instant, sent: u64, means: Option<(Duration, Duration)> },
    /// The next interval is random.
    Poisson,
}

impl Background {
    /// The source, active in `[from, to)`; `None` for TCP flows. The description must have passed the
    /// scenario's checks.
    #[must_use]
    pub fn new(kind: &BackgroundKind, from: Instant, to: Instant, rng: Rng) -> Option<Self> {
        let (rate, packet, pattern) = match *kind {
            BackgroundKind::Constant { rate, packet } => {
                (rate, packet, Pattern::Paced { since: from, until: to, sent: 0, means: None })
            }
            BackgroundKind::OnOff { rate, packet, on_mean, off_mean } => {
                let means = Some((on_mean, off_mean));
                (rate, packet, Pattern::Paced { since: from, until: from, sent: 0, means })
            }
            BackgroundKind::Poisson { rate, packet } => (rate, packet, Pattern::Poisson),
            BackgroundKind::Tcp { .. } => return None,
        };
        let mut source = Self { rate, packet, pattern, rng, next: from, to };
        match &mut source.pattern {
            Pattern::Paced { until, means: Some((on, _)), .. } => *until = from + draw(&mut source.rng, *on),
            Pattern::Paced { .. } => {}
            Pattern::Poisson => source.step(),
        }
        Some(source)
    }

    /// When the next packet is to be sent; `None` if there are no more.
    #[must_use]
    pub fn poll_timeout(&self) -> Option<Instant> {
        (self.next < self.to).then_some(self.next)
    }

    /// Size in bytes of the next packet to be sent by `now`. Call until `None`.
    pub fn poll(&mut self, now: Instant) -> Option<u32> {
        if self.next > now || self.next >= self.to {
            return None;
        }
        self.step();
        Some(u32::try_from(self.packet.as_bytes()).unwrap_or(u32::MAX))
    }

    /// Computes the time of the next packet.
    fn step(&mut self) {
        let (rate, packet) = (self.rate, self.packet);
        match &mut self.pattern {
            Pattern::Poisson => {
                let mean = rate.time_for(packet).unwrap_or(Duration::MAX);
                self.next += draw(&mut self.rng, mean);
            }
            Pattern::Paced { since, until, sent, means } => {
                *sent += 1;
                // Computed from the burst's first packet, so that rounding errors do not accumulate.
                let after = rate.time_for(DataSize::from_bytes(packet.as_bytes().saturating_mul(*sent)));
                self.next = *since + after.unwrap_or(Duration::MAX);
                if let (Some((on, off)), true) = (means, self.next >= *until) {
                    *since = *until + draw(&mut self.rng, *off);
                    *until = *since + draw(&mut self.rng, *on);
                    *sent = 0;
                    self.next = *since;
                }
            }
        }
    }
}

fn draw(rng: &mut Rng, mean: Duration) -> Duration {
    let nanos = rng.exponential(mean.as_nanos() as f64);
    Duration::from_nanos((nanos.round() as u64).max(1)) // time always moves
}
