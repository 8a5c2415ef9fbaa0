//! The server's half of a connection's workloads: answers requests, pushes at fixed times.

use tributary_link::WorkloadSpec;
use tributary_types::Instant;

use super::exchange::{Exchange, PushedMessage};
use super::push::Clock;
use super::{REQUEST, Terms};
use crate::transport::{Application, Notice, StreamKey, Transport};

/// Bytes offered to a transport at once in an endless transfer.
const BLOCK: u64 = 1 << 20;

/// The server of all workloads of one connection.
#[derive(Debug)]
pub struct Server {
    exchange: Exchange,
    terms: Terms,
    flows: Vec<Flow>,
    connected: bool,
}

#[derive(Debug)]
struct Flow {
    clock: Option<Clock>,
    /// Bytes of an incomplete request that have arrived.
    request: u64,
    /// Bytes still to be written; `None` is a transfer without end.
    owed: Option<u64>,
    /// Bytes of messages made so far.
    made: u64,
}

impl Server {
    pub(super) fn new(workloads: &[WorkloadSpec], exchange: Exchange, terms: &Terms) -> Self {
        let flow = |spec| Flow { clock: Clock::new(spec), request: 0, owed: Some(0), made: 0 };
        let flows = workloads.iter().map(flow).collect();
        Self { exchange, terms: terms.clone(), flows, connected: false }
    }

    fn start(&mut self, now: Instant) {
        self.connected = true;
        for clock in self.flows.iter_mut().filter_map(|flow| flow.clock.as_mut()) {
            clock.start(now.max(self.terms.from));
        }
    }

    /// Opens the streams for pushed data, and makes the messages that are due.
    fn push(&mut self, now: Instant, transport: &mut dyn Transport) {
        if !self.connected {
            return;
        }
        for index in 0..self.flows.len() {
            let flow = &mut self.flows[index];
            let Some(clock) = &mut flow.clock else { continue };
            let stream = self.exchange.stream(index).or_else(|| transport.open(now, clock.priority));
            let Some(stream) = stream else { continue };
            self.exchange.bind(index, stream);
            let mut owed = 0;
            while let Some((made, size)) = clock.poll(now).filter(|(made, _)| *made < self.terms.to) {
                flow.made += size;
                owed += size;
                self.exchange.push(index, PushedMessage { made, end: flow.made });
            }
            if owed > 0 {
                flow.owed = flow.owed.map(|before| before + owed);
                self.write(now, stream, index, transport);
            }
        }
    }

    fn read(&mut self, now: Instant, stream: StreamKey, transport: &mut dyn Transport) {
        let Some(index) = self.exchange.workload(stream) else { return };
        let flow = &mut self.flows[index];
        loop {
            let bytes = transport.read(now, stream, u64::MAX);
            if bytes == 0 {
                break;
            }
            flow.request += bytes;
        }
        while flow.request >= REQUEST {
            flow.request -= REQUEST;
            if let Some(size) = self.exchange.asked(index) {
                flow.owed = flow.owed.zip(size).map(|(owed, size)| owed + size);
            }
        }
        self.write(now, stream, index, transport);
    }

    fn write(&mut self, now: Instant, stream: StreamKey, index: usize, transport: &mut dyn Transport) {
        let flow = &mut self.flows[index];
        if flow.owed.is_none() && now >= self.terms.to {
            flow.owed = Some(0);
        }
        loop {
            let most = flow.owed.unwrap_or(BLOCK);
            if most == 0 {
                return;
            }
            let taken = transport.write(now, stream, most);
            flow.owed = flow.owed.map(|owed| owed - taken);
            if taken < most {
                return;
            }
        }
    }
}

impl Application for Server {
    fn handle_notice(&mut self, now: Instant, notice: Notice, transport: &mut dyn Transport) {
        match notice {
            Notice::Connected => self.start(now),
            Notice::Readable(stream) => self.read(now, stream, transport),
            Notice::Writable(stream) => {
                if let Some(index) = self.exchange.workload(stream) {
                    self.write(now, stream, index, transport);
                }
            }
            Notice::Opened(_) | Notice::Expired { .. } | Notice::Closed => {}
        }
        self.push(now, transport);
    }

    fn handle_timeout(&mut self, now: Instant, transport: &mut dyn Transport) {
        self.push(now, transport);
    }

    fn poll_timeout(&self) -> Option<Instant> {
        // A flow without a stream waits for a notice of the transport, not for a time.
        let flows = self.flows.iter().enumerate();
        let due = flows.filter_map(|(index, flow)| {
            let due = flow.clock.as_ref()?.due()?;
            self.exchange.stream(index).map(|_| due)
        });
        due.min().filter(|due| *due < self.terms.to)
    }
}
