//! The access point: forwards, recodes in spare time, and drops cohorts that later ones have overtaken.
//! Algorithm 2.
//!
//! In paper mode cohort k waits until a later label has arrived on every incoming link; in systematic mode
//! packets are forwarded at once. `Deviates:` the smallest unprocessed label is not stored: label k may be
//! sent while it is older than the newest label of each incoming link, but by less than two. An original of an
//! older cohort, which another access point could not deliver, is forwarded without being mixed. A label that has waited for 1.5 T
//! is sent without a later one, because the gateway may be waiting for the room that it takes.

use super::packet::{Header, Payload, decode, encode};
use super::queue::{Queue, Waiting};
use super::{Config, Counters, GENERATION, Mode, Strays, Verdict, ahead};
use bytes::Bytes;
use std::collections::VecDeque;
use tributary_coding::rlnc::{Recoder, Vector};
use tributary_types::Instant;

/// Mixes made in one multiplication.
const BATCH: usize = 4;

/// A generation whose packets are held for mixing.
#[derive(Debug)]
struct Held {
    header: Header,
    /// `None` while the generation's size is not known, because only originals have arrived.
    recoder: Option<Recoder>,
    originals: Vec<(u16, Bytes)>,
    /// Remaining mixes: the redundancy limit, or the number that the device reports as missing.
    left: usize,
}

/// The access point's state machine.
#[derive(Debug)]
pub struct AccessPoint {
    config: Config,
    number: u8,
    epoch: Option<u32>,
    /// Newest label of each incoming link.
    newest: Vec<Option<u32>>,
    /// Labels that wait for a later one, each with the time until which it waits; paper mode.
    waits: VecDeque<(u32, Instant)>,
    /// Newest label that has waited long enough.
    released: Option<u32>,
    queue: Queue,
    held: Vec<Held>,
    /// Sent after everything that can be sent of the cohort that it ends.
    flush: Option<Bytes>,
    strays: Strays,
    /// Packets too far ahead. They are taken when so many in a row are ahead that the link was silent for long.
    early: Vec<(usize, Bytes)>,
    /// Share of packets that the link to the device loses.
    loss: Option<f64>,
    counters: Counters,
}

impl AccessPoint {
    /// Access point `number`, unique among the access points, with `links` incoming links.
    ///
    /// # Panics
    /// Without incoming links.
    #[must_use]
    pub fn new(config: Config, number: u8, links: usize) -> Self {
        assert!(links > 0, "an access point has an incoming link");
        let queue = Queue::new(config.buffer);
        let newest = vec![None; links];
        Self {
            config,
            number,
            epoch: None,
            newest,
            waits: VecDeque::new(),
            released: None,
            queue,
            held: Vec::new(),
            flush: None,
            strays: Strays::default(),
            early: Vec::new(),
            loss: None,
            counters: Counters::default(),
        }
    }

    /// Sets the share of packets that the link to the device loses. No more mixes of a generation are made than
    /// repair this loss. `None`: not known, up to the redundancy limit. Paper mode ignores it.
    pub fn expect_loss(&mut self, loss: Option<f64>) {
        self.loss = loss.filter(|_| self.config.mode == Mode::Systematic);
    }

    /// The counters.
    #[must_use]
    pub fn counters(&self) -> Counters {
        self.counters
    }

    /// Number of packets waiting.
    #[must_use]
    pub fn waiting(&self) -> usize {
        self.queue.len()
    }

    /// Takes an authenticated packet from incoming link `link`.
    pub fn handle_packet(&mut self, now: Instant, link: usize, packet: Bytes) {
        let Ok((header, payload)) = decode(&packet) else {
            self.counters.malformed += 1;
            return;
        };
        if matches!(payload, Payload::Report(_)) || link >= self.newest.len() {
            self.counters.mislabelled += 1;
            return;
        }
        match self.accept(&header) {
            Some(Verdict::Take) => self.drop_early(),
            Some(Verdict::Begin) => {
                // The earlier ones of the same jump: they are data, too.
                let early = core::mem::take(&mut self.early);
                self.begin(header.epoch);
                early.into_iter().for_each(|(link, packet)| self.handle_packet(now, link, packet));
            }
            Some(Verdict::Ahead) => {
                self.early.push((link, packet));
                return;
            }
            None => return,
        }
        self.counters.received += 1;
        if self.is_over(&header) {
            self.counters.full += self.queue.push(true, Waiting { label: header.label, bytes: packet });
            return;
        }
        if self.newest[link].is_none_or(|newest| ahead(header.label, newest) > 0) {
            self.await_later(now, header.label);
            self.newest[link] = Some(header.label);
        }
        if payload == Payload::Flush {
            self.flush = Some(packet);
            self.give_in_systematic_mode();
            return;
        }
        if let Payload::Coded(vector, body) = &payload
            && !self.hold(&header, vector, body)
        {
            self.counters.mislabelled += 1;
            return;
        }
        let label = header.label;
        self.counters.full += self.queue.push(header.high, Waiting { label, bytes: packet });
        self.give_in_systematic_mode();
    }

    /// Limits how long the newest label waits for a later one.
    fn await_later(&mut self, now: Instant, label: u32) {
        let is_new = self.newest_label().is_none_or(|newest| ahead(label, newest) > 0);
        if self.config.mode == Mode::Paper && is_new {
            self.waits.push_back((label, now + self.config.interval * 3 / 2));
            self.waits.retain(|(other, _)| ahead(label, *other) < 2);
        }
    }

    /// When [`handle_timeout`](Self::handle_timeout) must be called.
    #[must_use]
    pub fn poll_timeout(&self) -> Option<Instant> {
        self.waits.front().map(|(_, until)| *until)
    }

    /// Releases labels that have waited long enough for a later one.
    pub fn handle_timeout(&mut self, now: Instant) {
        while let Some((label, _)) = self.waits.front().filter(|(_, until)| now >= *until) {
            self.released = Some(*label);
            self.waits.pop_front();
        }
    }

    fn drop_early(&mut self) {
        self.counters.ahead += self.early.len() as u64;
        self.early.clear();
    }

    /// What to do with the packet; `None` if it is from another start of the gateway, or its cohort is over.
    fn accept(&mut self, header: &Header) -> Option<Verdict> {
        let distance = self.epoch.map_or(1, |epoch| ahead(header.epoch, epoch));
        match self.strays.judge_epoch(distance) {
            Verdict::Take => {}
            // The gateway was restarted: labels begin again.
            Verdict::Begin => self.begin(header.epoch),
            Verdict::Ahead => {
                self.counters.stale += 1;
                return None;
            }
        }
        let Some(newest) = self.newest_label() else { return Some(Verdict::Take) };
        let is_useful = self.config.mode == Mode::Systematic && header.high;
        if self.is_over(header) && !is_useful {
            self.counters.late += 1;
            return None;
        }
        Some(self.strays.judge(ahead(header.label, newest)))
    }

    /// Whether a later cohort has overtaken the packet's.
    fn is_over(&self, header: &Header) -> bool {
        self.newest_label().is_some_and(|newest| ahead(header.label, newest) <= -2)
    }

    fn begin(&mut self, epoch: u32) {
        self.drop_early();
        self.epoch = Some(epoch);
        self.newest.fill(None);
        self.waits.clear();
        self.released = None;
        self.held.clear();
        self.flush = None;
        self.counters.given += self.queue.retain(|_| false);
    }

    fn newest_label(&self) -> Option<u32> {
        self.newest.iter().flatten().copied().reduce(|a, b| if ahead(a, b) > 0 { a } else { b })
    }

    /// Stores the packet for mixing. Returns false if it contradicts its cohort.
    fn hold(&mut self, header: &Header, vector: &Vector, body: &Bytes) -> bool {
        let same =
            |held: &Held| held.header.label == header.label && held.header.generation == header.generation;
        let at = self.held.iter().position(same).unwrap_or_else(|| {
            self.held.push(Held { header: *header, recoder: None, originals: Vec::new(), left: 0 });
            self.held.len() - 1
        });
        let held = &mut self.held[at];
        if header.symbols == 0 {
            let Vector::Original(index) = vector else { return false };
            if self.config.mode == Mode::Paper || usize::from(*index) >= GENERATION {
                return false;
            }
            if let Some(recoder) = &mut held.recoder {
                return recoder.push(vector, body.clone()).is_ok();
            }
            if held.originals.len() < GENERATION {
                held.originals.push((*index, body.clone()));
            }
            return true;
        }
        if held.recoder.is_none() {
            let symbols = usize::from(header.symbols);
            let shape = self.config.generation(header.epoch, header.label, header.generation, symbols);
            let Some(shape) = shape else { return false };
            let mut recoder = Recoder::new(shape, u32::from(self.number) << 24);
            // Only the packets that take this link can be lost on it.
            let own = if self.loss.is_some() { held.originals.len() } else { symbols };
            for (index, original) in held.originals.drain(..) {
                if recoder.push(&Vector::Original(index), original).is_err() {
                    self.counters.mislabelled += 1;
                }
            }
            held.header.symbols = header.symbols;
            held.left = self.config.extra_for(own, self.loss);
            held.recoder = Some(recoder);
        }
        if self.loss.is_some() && !matches!(vector, Vector::Original(_)) {
            // The gateway's redundant packet repairs as much as a mix does.
            held.left = held.left.saturating_sub(1);
        }
        let recoder = held.recoder.as_mut().expect("it is there");
        held.header.symbols == header.symbols && recoder.push(vector, body.clone()).is_ok()
    }

    /// In systematic mode giving drops redundant packets only, so it need not wait for the link.
    fn give_in_systematic_mode(&mut self) {
        if self.config.mode == Mode::Systematic {
            self.give();
        }
    }

    /// Giving: drops every cohort that is two labels behind. In paper mode to be called when the link has taken what it has
    /// room for: a node that reads several labels at once must not drop what it could have sent. `Deviates:` in systematic
    /// mode originals are kept, because the device accepts them until its own rule ends the cohort; a queue of more than
    /// T would otherwise lose them.
    pub fn give(&mut self) {
        let Some(newest) = self.newest_label() else { return };
        self.held.retain(|held| ahead(newest, held.header.label) < 2);
        let stays = |label| ahead(newest, label) < 2;
        self.counters.given += match self.config.mode {
            Mode::Paper => self.queue.retain(stays),
            Mode::Systematic => self.queue.retain_low(stays),
        };
    }

    /// Reads a report of the device on its way to the gateway.
    pub fn handle_report(&mut self, packet: &Bytes) {
        match decode(packet) {
            Ok((header, Payload::Report(needs))) if Some(header.epoch) == self.epoch => {
                for need in needs {
                    let same = |held: &&mut Held| {
                        held.header.label == need.label && held.header.generation == need.generation
                    };
                    if let Some(held) = self.held.iter_mut().find(same) {
                        held.left = held.left.min(usize::from(need.packets));
                    }
                }
            }
            Ok((_, Payload::Report(_))) => self.counters.stale += 1,
            _ => self.counters.malformed += 1,
        }
    }

    /// The next packet for the device; redundant ones only if the link has spare time (`spare`).
    pub fn poll_transmit(&mut self, spare: bool) -> Option<Bytes> {
        let (mode, newest, released) = (self.config.mode, &self.newest, self.released);
        // Algorithm 2, line 15: a later label has arrived on every incoming link.
        let may = |label| {
            let over = |newest: &Option<u32>| newest.is_some_and(|newest| ahead(newest, label) > 0);
            let is_released = released.is_some_and(|released| ahead(released, label) >= 0);
            mode == Mode::Systematic || is_released || newest.iter().all(over)
        };
        if let Some((high, packet)) = self.queue.pop(spare, may) {
            self.counters.sent += 1;
            self.counters.taken += u64::from(!high);
            return Some(packet.bytes);
        }
        if !spare {
            return None;
        }
        let Some(held) = self.held.iter_mut().find(|held| held.left > 0 && may(held.header.label)) else {
            self.counters.sent += u64::from(self.flush.is_some());
            return self.flush.take();
        };
        let count = held.left.min(BATCH);
        held.left -= count;
        let header = Header { high: false, ..held.header };
        let mixes = held.recoder.as_mut().map(|recoder| recoder.recode(count)).unwrap_or_default();
        for (vector, payload) in mixes {
            let bytes = encode(&header, &Payload::Coded(vector, payload));
            self.counters.full += self.queue.push(false, Waiting { label: header.label, bytes });
        }
        let (_, packet) = self.queue.pop(true, may)?;
        self.counters.sent += 1;
        self.counters.taken += 1;
        Some(packet.bytes)
    }
}
