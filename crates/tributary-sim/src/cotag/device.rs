//! The device as a host: forwards decoded packets to the ends of the flows.

use core::time::Duration;
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;

use tributary_cotag::{Counters, Device, LossMeter};
use tributary_types::Instant;

use super::contents::Contents;
use super::feedback::{Feedback, unnumbered};
use crate::host::{Host, Outbox};
use crate::id::RouteId;
use crate::packet::{Body, Packet};

/// Shortest interval between two reports of missing packets and of the radios' losses.
const REPORTS: Duration = Duration::from_millis(1);
/// Bytes of headers (IPv4, UDP, envelope) of a datagram to an access point.
const ENVELOPE: u32 = 60;

/// The host.
#[derive(Debug)]
pub(super) struct DeviceNode {
    machine: Device,
    contents: Rc<RefCell<Contents>>,
    /// Number of the access point, by the route its packets arrive on.
    links: BTreeMap<RouteId, usize>,
    /// By access point: the route to it, and the loss of its radio.
    up: Vec<(RouteId, LossMeter)>,
    /// Something has arrived since the last report; when the next report may be sent.
    news: bool,
    next_report: Instant,
    /// Delay from the gateway to here, of every packet from `measured_from` on.
    pub delays: Vec<Duration>,
    measured_from: Instant,
    /// Deliveries without a known packet: zero unless a decoder is wrong.
    pub unknown: u64,
}

impl DeviceNode {
    pub fn new(machine: Device, contents: Rc<RefCell<Contents>>, measured_from: Instant) -> Self {
        Self {
            machine,
            contents,
            links: BTreeMap::new(),
            up: Vec::new(),
            news: false,
            next_report: Instant::ZERO,
            delays: Vec::new(),
            measured_from,
            unknown: 0,
        }
    }

    /// Adds an access point that sends on route `from` and receives on route `to`.
    pub fn join(&mut self, from: RouteId, to: RouteId) {
        self.links.insert(from, self.up.len());
        self.up.push((to, LossMeter::default()));
    }

    pub fn counters(&self) -> Counters {
        self.machine.counters()
    }

    fn drain(&mut self, now: Instant, out: &mut Outbox) {
        while let Some(delivered) = self.machine.poll_delivery() {
            let Some(inner) = self.contents.borrow_mut().take(&delivered) else {
                self.unknown += 1;
                continue;
            };
            if inner.entered >= self.measured_from {
                self.delays.push(now.saturating_since(inner.entered));
            }
            out.send(inner.packet);
        }
        if self.news && self.next_report <= now {
            self.news = false;
            self.next_report = now + REPORTS;
            let report = self.machine.poll_report();
            for (route, meter) in &self.up {
                let feedback = Feedback { loss: meter.share(), ..Feedback::default() }.encode();
                for bytes in report.iter().chain([&feedback]) {
                    let size = bytes.len() as u32 + ENVELOPE;
                    out.send(Packet::new(*route, size, Body::Datagram(bytes.clone())));
                }
            }
        }
    }
}

impl Host for DeviceNode {
    fn handle_packet(&mut self, now: Instant, packet: Packet, out: &mut Outbox) {
        if let (Some(link), Body::Datagram(datagram)) = (self.links.get(&packet.route), &packet.body)
            && let Some((number, bytes)) = unnumbered(datagram)
        {
            self.up[*link].1.on_received(number);
            self.machine.handle_packet(now, *link, &bytes);
            self.news = true;
        }
        self.drain(now, out);
    }

    fn handle_timeout(&mut self, now: Instant, out: &mut Outbox) {
        self.machine.handle_timeout(now);
        self.drain(now, out);
    }

    fn poll_timeout(&self) -> Option<Instant> {
        let report = self.news.then_some(self.next_report);
        self.machine.poll_timeout().into_iter().chain(report).min()
    }
}
