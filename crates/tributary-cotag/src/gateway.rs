//! The gateway: groups arriving packets into cohorts and makes the coded packets. Algorithm 1.
//!
//! `Deviates:` in systematic mode originals are sent at once and a cohort ends early when it is full, so that
//! labels count cohorts and not intervals; an interval without packets has no cohort. If no packet follows a
//! cohort for T, a flush on every link tells the nodes that it is over. In paper mode a cohort's packets may wait here for an
//! access point's room until the next but one cohort has ended, because the paper's gateway has links without a queue.

use super::packet::{Header, LENGTH, Need, Payload, decode, encode, encode_original, put_symbol};
use super::queue::{Queue, Waiting};
use super::{Config, Counters, GENERATION, MAX_PACKET, Mode, PacketBuffer, ahead};
use bytes::Bytes;
use std::collections::VecDeque;
use tributary_coding::rlnc::{Encoder, MAX_SYMBOLS, Vector};
use tributary_types::Instant;

/// Redundant packets made in one multiplication.
const BATCH: usize = 4;

/// Packets of one flow (paper) or of all flows (systematic) of the open cohort.
#[derive(Debug, Default)]
struct Group {
    flow: u64,
    symbols: Vec<Bytes>,
}

/// A generation of a cohort that has ended.
#[derive(Debug)]
struct Ended {
    label: u32,
    generation: u8,
    generations: u8,
    encoder: Encoder,
    /// Number of combinations made so far, and their limit.
    made: usize,
    most: usize,
    /// Number of redundant packets that the device still needs.
    wanted: usize,
}

/// The gateway's state machine.
#[derive(Debug)]
pub struct Gateway {
    config: Config,
    epoch: u32,
    label: u32,
    groups: Vec<Group>,
    buffer: PacketBuffer,
    count: u16,
    previous: u16,
    begun: Option<Instant>,
    /// When to flush, unless a packet arrives before.
    flush_at: Option<Instant>,
    flush: Option<Bytes>,
    queue: Queue,
    ended: VecDeque<Ended>,
    loss: Option<f64>,
    counters: Counters,
}

impl Gateway {
    /// A gateway. `epoch` is the number of its start, larger than at any earlier start, so that nodes can
    /// tell its labels from old ones; for example ticks of the wall clock.
    #[must_use]
    pub fn new(config: Config, epoch: u32) -> Self {
        Self::starting_at(config, epoch, 1)
    }

    /// As [`new`](Self::new), with a chosen first label.
    #[must_use]
    pub fn starting_at(config: Config, epoch: u32, label: u32) -> Self {
        Self {
            queue: Queue::new(config.buffer),
            config,
            epoch,
            label,
            groups: Vec::new(),
            buffer: PacketBuffer::default(),
            count: 0,
            previous: 0,
            begun: None,
            flush_at: None,
            flush: None,
            ended: VecDeque::new(),
            loss: None,
            counters: Counters::default(),
        }
    }

    /// Sets the measured loss on the way to the device, one share (0 to 1) for each working access point. Later cohorts
    /// get only as many redundant packets as the largest of these shares needs, and never more than the redundancy
    /// limit. `None` means that too few packets have passed the access point for a measurement. Without any measurement
    /// the limit applies. Paper mode ignores the losses.
    pub fn expect_losses(&mut self, losses: impl IntoIterator<Item = Option<f64>>) {
        let largest = losses.into_iter().flatten().reduce(f64::max);
        self.loss = largest.filter(|_| self.config.mode == Mode::Systematic);
    }

    /// Label of the open cohort.
    #[must_use]
    pub fn label(&self) -> u32 {
        self.label
    }

    /// Number of packets waiting to be sent.
    #[must_use]
    pub fn waiting(&self) -> usize {
        self.queue.len()
    }

    /// Bytes of the packets waiting to be sent.
    #[must_use]
    pub fn waiting_bytes(&self) -> usize {
        self.queue.bytes()
    }

    /// The counters.
    #[must_use]
    pub fn counters(&self) -> Counters {
        self.counters
    }

    /// Takes a packet of flow `flow`: any number that is the same for all packets of the flow.
    pub fn handle_packet(&mut self, now: Instant, flow: u64, packet: &[u8]) {
        if packet.is_empty() || packet.len() > MAX_PACKET {
            self.counters.oversize += 1;
            return;
        }
        self.handle_timeout(now);
        self.counters.received += 1;
        self.begun.get_or_insert(now);
        self.flush_at = None;
        let group = self.group(flow);
        let index = self.groups[group].symbols.len();
        let symbol = if self.config.mode == Mode::Systematic {
            let header = Header { high: true, symbols: 0, ..self.header(0, 1) };
            let (bytes, symbol) = encode_original(&mut self.buffer, &header, index as u16, packet);
            self.counters.full += self.queue.push(true, Waiting { label: header.label, bytes });
            symbol
        } else {
            self.buffer.write(LENGTH + packet.len(), |bytes| put_symbol(bytes, packet))
        };
        self.groups[group].symbols.push(symbol);
        self.count += 1;
        let most = if self.config.mode == Mode::Systematic { GENERATION } else { MAX_SYMBOLS };
        if index + 1 == most {
            self.end_cohort(now);
        }
    }

    fn group(&mut self, flow: u64) -> usize {
        let flow = if self.config.mode == Mode::Systematic { 0 } else { flow };
        if let Some(found) = self.groups.iter().position(|group| group.flow == flow) {
            return found;
        }
        // A cohort has at most 255 generations; further flows share the last.
        if self.groups.len() == 255 {
            return 254;
        }
        self.groups.push(Group { flow, symbols: Vec::new() });
        self.groups.len() - 1
    }

    /// Takes a report of the device.
    pub fn handle_report(&mut self, packet: &Bytes) {
        match decode(packet) {
            Ok((header, Payload::Report(needs))) if header.epoch == self.epoch => {
                needs.iter().for_each(|need| self.apply(need));
            }
            Ok((_, Payload::Report(_))) => self.counters.stale += 1,
            _ => self.counters.malformed += 1,
        }
    }

    fn apply(&mut self, need: &Need) {
        let same = |ended: &&mut Ended| ended.label == need.label && ended.generation == need.generation;
        if let Some(ended) = self.ended.iter_mut().find(same) {
            ended.wanted = usize::from(need.packets);
        }
    }

    /// When [`handle_timeout`](Self::handle_timeout) must be called.
    #[must_use]
    pub fn poll_timeout(&self) -> Option<Instant> {
        self.begun.map(|begun| begun + self.config.interval).or(self.flush_at)
    }

    /// Ends a cohort whose interval is over, and makes a flush if nothing has followed it.
    pub fn handle_timeout(&mut self, now: Instant) {
        if self.begun.is_some_and(|begun| now >= begun + self.config.interval) {
            self.end_cohort(now);
        }
        if self.flush_at.is_none_or(|at| now < at) {
            return;
        }
        if self.config.mode == Mode::Paper && self.queue.has_high() {
            // A later label on every link ends a cohort at the device, so the flush follows the cohort's packets.
            self.flush_at = Some(now + self.config.interval);
            return;
        }
        self.flush_at = None;
        self.flush = Some(encode(&self.header(0, 1), &Payload::Flush));
        // The paper's nodes process a label when a later one has arrived, so this label is not used again.
        self.label = self.label.wrapping_add(1);
        self.previous = 0;
    }

    /// A flush, to be sent on every link at once. It needs no room: the next nodes may make room only when it arrives.
    pub fn poll_flush(&mut self) -> Option<Bytes> {
        let flush = self.flush.take()?;
        self.counters.sent += 1;
        Some(flush)
    }

    /// Drops the packets that wait: for a time so long that nobody expects them any more, no link had room.
    pub fn drop_waiting(&mut self) {
        self.counters.given += self.queue.retain(|_| false);
    }

    /// The next packet, to be sent on one link, which the driver chooses; redundant ones only if a link has spare time (`spare`).
    pub fn poll_transmit(&mut self, spare: bool) -> Option<Bytes> {
        if let Some((high, packet)) = self.queue.pop(spare, |_| true) {
            self.counters.sent += 1;
            self.counters.taken += u64::from(!high);
            return Some(packet.bytes);
        }
        if !spare {
            return None;
        }
        // The oldest cohort first: it has the least time left.
        let at = self.ended.iter().position(|ended| ended.made < ended.most && ended.wanted > 0)?;
        self.make(at, BATCH, false);
        self.poll_transmit(true)
    }

    fn header(&self, generation: u8, generations: u8) -> Header {
        let (epoch, label, previous) = (self.epoch, self.label, self.previous);
        Header { high: false, generation, epoch, label, symbols: 0, previous, generations }
    }

    fn enqueue(&mut self, header: Header, vector: Vector, payload: Bytes) {
        let bytes = encode(&header, &Payload::Coded(vector, payload));
        self.counters.full += self.queue.push(header.high, Waiting { label: header.label, bytes });
    }

    fn end_cohort(&mut self, now: Instant) {
        self.begun = None;
        let groups = core::mem::take(&mut self.groups);
        let (label, generations) = (self.label, groups.len() as u8);
        // Algorithm 1, line 2: cohort k is forgotten when k + 2 begins to be sent.
        self.ended.retain(|ended| ahead(label, ended.label) < 2);
        let is_paper = self.config.mode == Mode::Paper;
        // Giving: drops the rest of earlier cohorts (but keeps originals of systematic mode). `Deviates:` the last cohort stays,
        // as at an access point, whose queue is in part here: its room keeps packets back.
        let stays = |other| ahead(label, other) < 2;
        self.counters.given += if is_paper { self.queue.retain(stays) } else { 0 };
        for (generation, group) in groups.into_iter().enumerate() {
            let symbols = group.symbols.len();
            let most = self.config.extra_for(symbols, self.loss) + if is_paper { symbols } else { 0 };
            let shape = self.config.generation(self.epoch, label, generation as u8, symbols);
            let encoder = Encoder::new(shape.expect("a cohort is cut to fit"), group.symbols);
            let generation = generation as u8;
            let ended = Ended { label, generation, generations, encoder, made: 0, most, wanted: usize::MAX };
            self.ended.push_back(ended);
            if is_paper {
                self.make(self.ended.len() - 1, symbols, true);
            }
        }
        (self.previous, self.count) = (self.count, 0);
        self.label = self.label.wrapping_add(1);
        self.flush_at = Some(now + self.config.interval);
    }

    /// Makes up to `count` combinations of a generation and queues them.
    fn make(&mut self, at: usize, count: usize, high: bool) {
        let ended = &mut self.ended[at];
        let count = count.min(ended.most - ended.made).min(ended.wanted);
        let vector = |i: usize| match self.config.mode {
            Mode::Paper => Vector::Random(i as u16),
            Mode::Systematic => Vector::Cauchy(i as u16),
        };
        let vectors: Vec<Vector> = (ended.made..ended.made + count).map(vector).collect();
        let payloads = ended.encoder.encode(&vectors).expect("rows of the generation");
        ended.made += count;
        ended.wanted = if high { ended.wanted } else { ended.wanted.saturating_sub(count) };
        let header = Header {
            high,
            generation: ended.generation,
            epoch: self.epoch,
            label: ended.label,
            symbols: ended.encoder.generation().symbols() as u16,
            previous: 0,
            generations: ended.generations,
        };
        for (vector, payload) in vectors.into_iter().zip(payloads) {
            self.enqueue(header, vector, payload);
        }
    }
}
