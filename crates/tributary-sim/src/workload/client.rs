//! The client's half of a connection's workloads: sends requests, reads, and records.

use tributary_link::WorkloadSpec;
use tributary_types::Instant;

use super::exchange::Exchange;
use super::pull::Pull;
use super::push::Watch;
use super::{FlowRecord, REQUEST, Terms};
use crate::transport::{Application, Notice, StreamKey, Transport};

/// The client of all workloads of one connection.
#[derive(Debug)]
pub struct Client {
    exchange: Exchange,
    terms: Terms,
    flows: Vec<Flow>,
}

#[derive(Debug)]
struct Flow {
    side: Side,
    record: FlowRecord,
    /// Bytes of requests that the transport has not accepted yet.
    unsent: u64,
    /// The transport opened no stream; this is tried again at its next [`crate::Notice`].
    refused: bool,
}

#[derive(Debug)]
enum Side {
    Pull(Box<Pull>),
    Push(Watch),
}

impl Client {
    pub(super) fn new(workloads: &[WorkloadSpec], exchange: Exchange, terms: &Terms) -> Self {
        let flow = |(index, spec): (usize, &WorkloadSpec)| {
            let rng = terms.rng.child(&format!("workload {index}"));
            let side = Pull::new(spec, rng);
            let side = side.map_or_else(|| Side::Push(Watch::new(spec)), |pull| Side::Pull(Box::new(pull)));
            let record = FlowRecord { kind: spec.kind(), ..FlowRecord::default() };
            Flow { side, record, unsent: 0, refused: false }
        };
        let flows = workloads.iter().enumerate().map(flow).collect();
        Self { exchange, terms: terms.clone(), flows }
    }

    /// The record of each workload up to `end`.
    #[must_use]
    pub fn records(&self, end: Instant) -> Vec<FlowRecord> {
        let finished = |(index, flow): (usize, &Flow)| {
            let mut record = flow.record.clone();
            match &flow.side {
                Side::Pull(pull) => pull.finish(end, &mut record),
                Side::Push(watch) => watch.finish(end, (&self.exchange, index), &mut record),
            }
            record.arrivals.finish(end);
            record
        };
        self.flows.iter().enumerate().map(finished).collect()
    }

    fn connected(&mut self, now: Instant) {
        for flow in &mut self.flows {
            match &mut flow.side {
                Side::Pull(pull) => pull.connected(now, &self.terms),
                Side::Push(watch) => watch.connected(now),
            }
        }
    }

    /// Makes the requests that are due.
    fn ask(&mut self, now: Instant, transport: &mut dyn Transport) {
        for (index, flow) in self.flows.iter_mut().enumerate() {
            let Side::Pull(pull) = &mut flow.side else { continue };
            if pull.poll_timeout().is_none_or(|at| at > now || at >= self.terms.to) {
                continue;
            }
            let stream = self.exchange.stream(index).or_else(|| transport.open(now, 0));
            flow.refused = stream.is_none();
            let Some(stream) = stream else { continue };
            self.exchange.bind(index, stream);
            if let Some(size) = pull.poll(now, &mut flow.record) {
                self.exchange.ask(index, size);
                flow.unsent += REQUEST;
                flow.unsent -= transport.write(now, stream, flow.unsent);
            }
        }
    }

    fn read(&mut self, now: Instant, stream: StreamKey, transport: &mut dyn Transport) {
        let Some(index) = self.exchange.workload(stream) else { return };
        let flow = &mut self.flows[index];
        loop {
            let bytes = transport.read(now, stream, u64::MAX);
            if bytes == 0 {
                return;
            }
            flow.record.bytes += bytes;
            match &mut flow.side {
                Side::Pull(pull) => pull.arrived(now, bytes, &mut flow.record),
                Side::Push(watch) => {
                    watch.arrived(now, bytes, (&self.exchange, index), &mut flow.record);
                }
            }
        }
    }

    fn write(&mut self, now: Instant, stream: StreamKey, transport: &mut dyn Transport) {
        let Some(index) = self.exchange.workload(stream) else { return };
        let flow = &mut self.flows[index];
        if flow.unsent > 0 {
            flow.unsent -= transport.write(now, stream, flow.unsent);
        }
    }
}

impl Application for Client {
    fn handle_notice(&mut self, now: Instant, notice: Notice, transport: &mut dyn Transport) {
        match notice {
            Notice::Connected => self.connected(now),
            Notice::Readable(stream) => self.read(now, stream, transport),
            Notice::Writable(stream) => self.write(now, stream, transport),
            Notice::Opened(_) | Notice::Expired { .. } | Notice::Closed => {}
        }
        self.ask(now, transport);
    }

    fn handle_timeout(&mut self, now: Instant, transport: &mut dyn Transport) {
        self.ask(now, transport);
    }

    fn poll_timeout(&self) -> Option<Instant> {
        let next = |flow: &Flow| match &flow.side {
            Side::Pull(pull) if !flow.refused => pull.poll_timeout(),
            _ => None,
        };
        self.flows.iter().filter_map(next).min().filter(|at| *at < self.terms.to)
    }
}
