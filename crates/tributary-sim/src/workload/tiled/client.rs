//! The viewer's half: asks for each GoP when it begins, and notes what arrived when.

use tributary_types::Instant;

use super::ledger::{Ledger, Plan};
use super::{GopRecord, Planned, TilePlanner, TiledRecord, TiledSpec};
use crate::transport::{Application, Notice, StreamKey, Transport};

/// Bytes of a request, and of each message it names.
const REQUEST: (u64, u64) = (64, 8);
/// Requests go before everything else.
const FIRST: u8 = u8::MAX;

/// The client of a viewing.
#[derive(Debug)]
pub struct TiledClient {
    spec: TiledSpec,
    planner: Box<dyn TilePlanner>,
    ledger: Ledger,
    record: TiledRecord,
    /// Plans made so far.
    made: usize,
    requests: Option<StreamKey>,
    /// Bytes of requests that the transport has not taken.
    unsent: u64,
}

impl TiledClient {
    pub(super) fn new(spec: TiledSpec, planner: Box<dyn TilePlanner>, ledger: Ledger) -> Self {
        let spec = TiledSpec { plans: spec.plans.max(1), ..spec };
        let record = TiledRecord::default();
        Self { spec, planner, ledger, record, made: 0, requests: None, unsent: 0 }
    }

    /// What came of it so far.
    #[must_use]
    pub fn record(&self) -> &TiledRecord {
        &self.record
    }

    /// When the next plan is due.
    fn due(&self) -> Option<Instant> {
        let started = self.record.started?;
        let (gop, part) = (self.made / self.spec.plans, self.made % self.spec.plans);
        let within = self.spec.gop * part as u32 / self.spec.plans as u32;
        (gop < self.spec.gops).then(|| started + self.spec.gop * gop as u32 + within)
    }

    fn plan(&mut self, now: Instant, transport: &mut dyn Transport) {
        self.note_withdrawn();
        while self.due().is_some_and(|due| due <= now) {
            let (gop, part) = (self.made / self.spec.plans, self.made % self.spec.plans);
            self.made += 1;
            let messages = self.planner.plan(gop, part, &self.record.gops);
            if part == 0 {
                let deadline = self.record.started.unwrap_or(now) + self.spec.gop * (gop as u32 + 1);
                let (planned, arrivals) = Default::default();
                let none =
                    GopRecord { asked: now, deadline, planned, bytes_in_time: 0, arrivals, last: None };
                self.record.gops.push(none);
            }
            if let Some(messages) = messages {
                let record = &mut self.record.gops[gop];
                let first = record.planned.len();
                record.planned.extend(messages.iter().map(|message| Planned {
                    message: *message,
                    arrived: (message.bytes == 0).then_some(now),
                    withdrawn: false,
                    missing: message.bytes,
                }));
                let bytes = REQUEST.0 + REQUEST.1 * messages.len() as u64;
                self.unsent += bytes;
                self.ledger.ask(Plan { gop, deadline: record.deadline, first, messages, bytes });
            }
        }
        self.ask(now, transport);
    }

    fn ask(&mut self, now: Instant, transport: &mut dyn Transport) {
        if self.unsent == 0 {
            return;
        }
        self.requests = self.requests.or_else(|| transport.open(now, FIRST));
        if let Some(stream) = self.requests {
            self.unsent -= transport.write(now, stream, self.unsent);
        }
    }

    fn note_withdrawn(&mut self) {
        for (gop, message) in self.ledger.withdrawn() {
            self.record.gops[gop].planned[message].withdrawn = true;
        }
    }

    fn read(&mut self, now: Instant, stream: StreamKey, transport: &mut dyn Transport) {
        loop {
            let bytes = transport.read(now, stream, u64::MAX);
            if bytes == 0 {
                return;
            }
            let gops = &mut self.record.gops;
            self.ledger.arrived(stream, bytes, |part, bytes| {
                let record = &mut gops[part.gop];
                if now <= record.deadline {
                    record.bytes_in_time += bytes;
                    record.arrivals[record.part(now)] += bytes;
                    record.last = Some(now);
                }
                let planned = &mut record.planned[part.message];
                planned.missing -= bytes;
                if planned.missing == 0 {
                    planned.arrived = Some(now);
                }
            });
        }
    }
}

impl Application for TiledClient {
    fn handle_notice(&mut self, now: Instant, notice: Notice, transport: &mut dyn Transport) {
        match notice {
            Notice::Connected => self.record.started = Some(now.max(self.spec.from)),
            Notice::Readable(stream) => self.read(now, stream, transport),
            _ => {}
        }
        self.plan(now, transport);
    }

    fn handle_timeout(&mut self, now: Instant, transport: &mut dyn Transport) {
        self.plan(now, transport);
    }

    fn poll_timeout(&self) -> Option<Instant> {
        self.due()
    }
}
