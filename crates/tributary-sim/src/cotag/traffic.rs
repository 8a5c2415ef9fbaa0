//! Bursts: flows that send at one rate and then at a higher one, and the arrivals of all flows together.

use core::time::Duration;
use std::cell::RefCell;
use std::rc::Rc;

use tributary_types::{Bitrate, Instant};

use crate::transport::{Application, Notice, StreamKey, Transport};

/// Interval at which data is written.
const STEP: Duration = Duration::from_micros(250);

/// The rates of a flow over time.
#[derive(Clone, Copy, Debug)]
pub(super) struct RateProfile {
    /// Rate from `begin` on.
    pub calm: Bitrate,
    /// Rate from `burst_from` on.
    pub burst: Bitrate,
    pub begin: Instant,
    pub burst_from: Instant,
}

impl RateProfile {
    fn made_until(&self, now: Instant) -> u64 {
        let calm = now.min(self.burst_from).saturating_since(self.begin);
        let burst = now.saturating_since(self.burst_from);
        self.calm.size_in(calm).as_bytes() + self.burst.size_in(burst).as_bytes()
    }
}

/// In-order arrivals of all flows.
#[derive(Debug)]
pub(super) struct Tally {
    from: Instant,
    to: Instant,
    goal: u64,
    since: u64,
    /// Bytes that arrived in `[from, to)`.
    pub within: u64,
    /// When `goal` bytes had arrived since `from`.
    pub reached: Option<Instant>,
}

impl Tally {
    pub fn new(from: Instant, to: Instant, goal: u64) -> Self {
        Self { from, to, goal, since: 0, within: 0, reached: None }
    }

    fn add(&mut self, now: Instant, bytes: u64) {
        if now < self.from {
            return;
        }
        self.since += bytes;
        self.within += if now < self.to { bytes } else { 0 };
        if self.since >= self.goal && self.reached.is_none() {
            self.reached = Some(now);
        }
    }
}

/// The server's side. Data that the transport does not accept waits in the application.
#[derive(Debug)]
pub(super) struct Source {
    profile: RateProfile,
    stream: Option<StreamKey>,
    connected: bool,
    written: u64,
    next: Instant,
}

impl Source {
    pub fn new(profile: RateProfile) -> Self {
        Self { profile, stream: None, connected: false, written: 0, next: profile.begin }
    }

    fn write(&mut self, now: Instant, transport: &mut dyn Transport) {
        if !self.connected || now < self.profile.begin {
            return;
        }
        self.stream = self.stream.or_else(|| transport.open(now, 0));
        let owed = self.profile.made_until(now).saturating_sub(self.written);
        if let Some(stream) = self.stream.filter(|_| owed > 0) {
            self.written += transport.write(now, stream, owed);
        }
    }
}

impl Application for Source {
    fn handle_notice(&mut self, now: Instant, notice: Notice, transport: &mut dyn Transport) {
        self.connected |= notice == Notice::Connected;
        if let Notice::Writable(_) = notice {
            self.write(now, transport);
        }
    }

    fn handle_timeout(&mut self, now: Instant, transport: &mut dyn Transport) {
        self.write(now, transport);
        while self.next <= now {
            self.next += STEP;
        }
    }

    fn poll_timeout(&self) -> Option<Instant> {
        Some(self.next)
    }
}

/// The client's side: reads everything.
#[derive(Debug)]
pub(super) struct Sink(pub Rc<RefCell<Tally>>);

impl Application for Sink {
    fn handle_notice(&mut self, now: Instant, notice: Notice, transport: &mut dyn Transport) {
        let Notice::Readable(stream) = notice else { return };
        loop {
            let bytes = transport.read(now, stream, u64::MAX);
            if bytes == 0 {
                return;
            }
            self.0.borrow_mut().add(now, bytes);
        }
    }

    fn handle_timeout(&mut self, _: Instant, _: &mut dyn Transport) {}

    fn poll_timeout(&self) -> Option<Instant> {
        None
    }
}
