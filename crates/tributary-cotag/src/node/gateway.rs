//! The gateway: packets become coded messages to the access points, each to the one with the largest free share.

use super::HopEnd;
use crate::buffer::PacketBuffer;
use crate::flows::FlowTable;
use crate::gateway::Gateway;
use crate::message::HopMessage;
use crate::pace::{Pace, in_time};
use crate::queue::{Queue, Waiting};
use crate::{Config, Counters};
use bytes::Bytes;
use core::time::Duration;
use std::collections::VecDeque;
use tributary_types::Instant;

/// Limit of the queue, as time at the links' measured rate.
const QUEUE: Duration = Duration::from_millis(30);
/// Bounds of the limit, in packets of the largest size. Small packets count by their bytes, as the links do.
const LEAST_QUEUE: usize = 256;
const MOST_QUEUE: usize = 4096;
/// The lower bound while no rate is known, as before the first burst that fills a link.
const FIRST_QUEUE: usize = 1024;
/// How long packets wait for room at any access point.
const LONGEST: Duration = Duration::from_secs(1);

/// The gateway's state machine. Its hops are those to the access points, always in the same order.
#[derive(Debug)]
pub struct GatewayNode {
    machine: Gateway,
    is_coded: bool,
    link_mtu: u64,
    /// Coded packets that access points gave back, each with the time until which the device waits for it.
    returned: VecDeque<(Instant, Bytes)>,
    /// How many were given back so far.
    returns: u64,
    /// How long the device waits for a packet.
    patience: Duration,
    /// When an access point last had room, or nothing waited.
    open_at: Instant,
    /// Packets that are not coded, by access point, and the access point of each flow.
    plain: Vec<Queue>,
    flows: FlowTable,
    buffer: PacketBuffer,
}

impl GatewayNode {
    /// A gateway with `points` access points; `epoch` as for [`Gateway::new`]. A datagram has up to `link_mtu` bytes.
    #[must_use]
    pub fn new(config: Config, epoch: u32, points: usize, link_mtu: usize) -> Self {
        Self {
            patience: config.patience,
            machine: Gateway::new(config, epoch),
            is_coded: true,
            link_mtu: link_mtu as u64,
            returned: VecDeque::new(),
            returns: 0,
            open_at: Instant::ZERO,
            plain: (0..points).map(|_| Queue::new(usize::MAX)).collect(),
            flows: FlowTable::default(),
            buffer: PacketBuffer::default(),
        }
    }

    /// The same without coding: each flow over one access point.
    #[must_use]
    pub fn without_coding(self) -> Self {
        Self { is_coded: false, ..self }
    }

    /// The counters of the coding.
    #[must_use]
    pub fn counters(&self) -> Counters {
        self.machine.counters()
    }

    /// How many packets access points have given back.
    #[must_use]
    pub fn returns(&self) -> u64 {
        self.returns
    }

    /// Label of the open cohort.
    #[must_use]
    pub fn label(&self) -> u32 {
        self.machine.label()
    }

    /// Most bytes that may wait.
    fn queue(&self, hops: &[impl HopEnd]) -> usize {
        let paces = || hops.iter().map(|hop| hop.control().pace());
        let least = if paces().any(Pace::is_rate_known) { LEAST_QUEUE } else { FIRST_QUEUE };
        let packet = self.link_mtu as usize;
        let bytes = in_time(paces().map(Pace::rate).sum(), QUEUE) as usize;
        bytes.clamp(least * packet, MOST_QUEUE * packet)
    }

    /// Takes a packet of flow `flow` for the device. Returns whether there was a place for it.
    pub fn handle_packet(&mut self, now: Instant, flow: u64, packet: &[u8], hops: &[impl HopEnd]) -> bool {
        let limit = self.queue(hops);
        if self.is_coded {
            let returned = self.returned.len() * self.link_mtu as usize;
            let has_place = returned + self.machine.waiting_bytes() < limit;
            if has_place {
                self.machine.handle_packet(now, flow, packet);
            }
            return has_place;
        }
        let lively = |point: &usize| hops[*point].control().is_lively(now);
        match self.flows.route(now, flow, (0..hops.len()).filter(lively)) {
            Some(point) if self.plain[point].bytes() < limit => {
                self.plain[point].push(true, Waiting { label: 0, bytes: self.buffer.copy(packet) });
                true
            }
            _ => false,
        }
    }

    /// Takes a message of an access point. Returns false for one that is not for this machine.
    pub fn handle_message(&mut self, now: Instant, message: &HopMessage<'_>) -> bool {
        match message {
            HopMessage::Coded(report) => self.machine.handle_report(&Bytes::copy_from_slice(report)),
            HopMessage::Returned(packet) if self.returned.len() < MOST_QUEUE => {
                self.returns += 1;
                self.returned.push_back((now + self.patience, self.buffer.copy(packet)));
            }
            _ => return false,
        }
        true
    }

    /// Ends cohorts, and drops what has waited too long.
    pub fn handle_timeout(&mut self, now: Instant, hops: &[impl HopEnd]) {
        let lively = hops.iter().map(HopEnd::control).filter(|hop| hop.is_lively(now));
        self.machine.expect_losses(lively.map(|hop| hop.pace().loss()));
        self.machine.handle_timeout(now);
        self.returned.retain(|(over, _)| now < *over);
        for (hop, plain) in hops.iter().zip(&mut self.plain) {
            if hop.control().is_gone(now) {
                plain.retain(|_| false);
            }
        }
        if self.machine.waiting() == 0 || hops.iter().any(|hop| hop.control().has_room(self.link_mtu)) {
            self.open_at = now;
        } else if now.saturating_since(self.open_at) >= LONGEST {
            self.machine.drop_waiting();
        }
    }

    /// Sends what may be sent.
    pub fn transmit(&mut self, now: Instant, hops: &mut [impl HopEnd]) {
        for (hop, plain) in hops.iter_mut().zip(&mut self.plain) {
            while hop.control().has_room(self.link_mtu)
                && let Some((_, packet)) = plain.pop(false, |_| true)
            {
                hop.send(now, &HopMessage::Plain(&packet.bytes), true);
            }
            if !self.is_coded {
                hop.control_mut().on_pause(self.link_mtu);
            }
        }
        if self.is_coded {
            self.transmit_coded(now, hops);
        }
    }

    fn transmit_coded(&mut self, now: Instant, hops: &mut [impl HopEnd]) {
        while let Some(flush) = self.machine.poll_flush() {
            hops.iter_mut().for_each(|hop| _ = hop.send(now, &HopMessage::Coded(&flush), true));
        }
        loop {
            let ready = hops.iter_mut().filter(|hop| hop.control().has_room(self.link_mtu));
            let Some(best) = ready.max_by_key(|hop| hop.control().pace().ease()) else { break };
            // Packets that were given back are late, so they are sent before later ones. The machine returns redundant packets
            // last, and only if less than half of the access point's room is in flight.
            let returned = self.returned.pop_front().map(|(_, bytes)| bytes);
            let is_spare = best.control().pace().is_spare();
            let Some(bytes) = returned.or_else(|| self.machine.poll_transmit(is_spare)) else { break };
            best.send(now, &HopMessage::Coded(&bytes), true);
        }
        hops.iter_mut().for_each(|hop| hop.control_mut().on_pause(self.link_mtu));
    }

    /// When to call [`handle_timeout`](Self::handle_timeout).
    #[must_use]
    pub fn poll_timeout(&self) -> Option<Instant> {
        self.machine.poll_timeout()
    }
}
