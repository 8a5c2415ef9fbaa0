//! The device: coded messages of all access points become packets in order. Packets for the gateway are not coded: small
//! ones take every access point, others one. Of two access points that both send, one is enough for an acknowledgement,
//! because the next acknowledgement replaces it.

use super::HopEnd;
use crate::buffer::PacketBuffer;
use crate::device::Device;
use crate::flows::spread;
use crate::message::HopMessage;
use crate::{Config, Counters};
use bytes::Bytes;
use core::time::Duration;
use tributary_types::Instant;

/// Packets up to this length are sent over every access point, so that a failed one delays no
/// acknowledgement.
const SMALL: usize = 256;
/// An access point heard within this time certainly works.
const FRESH: Duration = Duration::from_millis(5);

/// The device's state machine. Its hops are those to the access points, always in the same order.
#[derive(Debug)]
pub struct DeviceNode {
    machine: Device,
    buffer: PacketBuffer,
    report_every: Duration,
    reported: Instant,
    /// Whether something has arrived since the last report.
    has_news: bool,
    /// Number of this start, and of the next packet.
    start: u32,
    number: u64,
}

impl DeviceNode {
    /// A device with `points` access points; `start` is a number that no earlier start had, for example a random one.
    #[must_use]
    pub fn new(config: Config, start: u32, points: usize) -> Self {
        Self {
            report_every: config.interval / 2,
            machine: Device::new(config, points),
            buffer: PacketBuffer::default(),
            reported: Instant::ZERO,
            has_news: false,
            start,
            number: 0,
        }
    }

    /// The counters of the coding.
    #[must_use]
    pub fn counters(&self) -> Counters {
        self.machine.counters()
    }

    /// Takes a coded packet of an access point.
    pub fn handle_packet(&mut self, now: Instant, point: usize, packet: &[u8]) {
        self.has_news = true;
        self.machine.handle_packet(now, point, &self.buffer.copy(packet));
    }

    /// Ends cohorts that have waited long enough.
    pub fn handle_timeout(&mut self, now: Instant) {
        self.machine.handle_timeout(now);
    }

    /// The next packet in order.
    pub fn poll_delivery(&mut self) -> Option<Bytes> {
        self.machine.poll_delivery()
    }

    /// Sends a packet of flow `flow` to the gateway. `is_acknowledgement`: the next one of the flow replaces it.
    pub fn send_packet(
        &mut self,
        now: Instant,
        (flow, is_acknowledgement): (u64, bool),
        packet: &[u8],
        hops: &mut [impl HopEnd],
    ) {
        let message = HopMessage::Numbered(self.start, self.number, packet);
        self.number += 1;
        let lively = |point: &usize| hops[*point].control().is_lively(now);
        let of_flow = spread(flow, (0..hops.len()).filter(lively));
        let one = match freshest(now, hops) {
            Some(point) if is_acknowledgement => Some(point),
            _ => of_flow.filter(|_| packet.len() > SMALL),
        };
        match one {
            Some(point) => _ = hops[point].send(now, &message, false),
            None => hops.iter_mut().for_each(|hop| _ = hop.send(now, &message, false)),
        }
    }

    /// Sends the report that is due.
    pub fn transmit(&mut self, now: Instant, hops: &mut [impl HopEnd]) {
        if !self.has_news || now < self.reported + self.report_every {
            return;
        }
        (self.has_news, self.reported) = (false, now);
        if let Some(report) = self.machine.poll_report() {
            hops.iter_mut().for_each(|hop| _ = hop.send(now, &HopMessage::Coded(&report), false));
        }
    }

    /// When to call [`handle_timeout`](Self::handle_timeout) and [`transmit`](Self::transmit).
    #[must_use]
    pub fn poll_timeout(&self) -> Option<Instant> {
        let report = self.has_news.then(|| self.reported + self.report_every);
        self.machine.poll_timeout().into_iter().chain(report).min()
    }
}

/// The access point heard last, if it certainly works.
fn freshest(now: Instant, hops: &[impl HopEnd]) -> Option<usize> {
    let heard = hops.iter().enumerate().filter_map(|(point, hop)| Some((hop.control().heard()?, point)));
    heard.filter(|(at, _)| now.saturating_since(*at) < FRESH).max().map(|(_, point)| point)
}
