//! The device: collects cohorts from all links, decodes them, delivers their packets in order. Algorithm 3.
//!
//! A cohort ends when every packet is known; when a later label has arrived on every link (two later in
//! systematic mode, where redundant packets are sent after the next cohort has begun); or after a timeout from
//! its first packet (in paper mode from its last, because a cohort has up to 1024 packets), because otherwise one blocked link would
//! stall the label rule. Then
//! everything decodable is delivered and the rest counted as lost. Order is kept across all flows.
//! `Deviates:` a full buffer refuses low packets at its limit and high ones at twice the limit; held packets
//! are part of equations and are not dropped.

use super::packet::{Header, MAX_NEEDS, Need, Payload, decode, encode_report};
use super::{Config, Counters, GENERATION, Mode, Strays, Verdict, ahead};
use bytes::Bytes;
use std::collections::{BTreeMap, VecDeque};
use tributary_coding::rlnc::{Decoder, Progress, Vector};
use tributary_types::Instant;

/// The received part of a generation.
#[derive(Debug)]
enum Part {
    /// Its size is not known: originals by number.
    Open(BTreeMap<u16, Bytes>),
    Sized(Box<Decoder>),
}

#[derive(Debug)]
struct Cohort {
    /// Since when it waits: its first packet, in paper mode its last.
    since: Instant,
    parts: BTreeMap<u8, Part>,
    /// Number of generations; 0 while not known.
    generations: u8,
    /// Number of packets, once a packet of the next cohort has told it.
    total: Option<u16>,
    /// Number of originals received.
    arrived: usize,
    held: usize,
    /// Packets already delivered: systematic mode delivers before the cohort is complete.
    delivered: usize,
}

/// The device's state machine.
#[derive(Debug)]
pub struct Device {
    config: Config,
    epoch: Option<u32>,
    newest: Vec<Option<u32>>,
    /// Label of the next cohort to deliver.
    next: u32,
    /// Cohorts by distance from the first label of this epoch, so that the order is independent of the
    /// wrap-around.
    cohorts: BTreeMap<u64, Cohort>,
    turn: u64,
    held: usize,
    strays: Strays,
    /// Completed generations that were not reported yet.
    done: VecDeque<Need>,
    out: VecDeque<Bytes>,
    counters: Counters,
}

impl Device {
    /// A device with `links` incoming links.
    ///
    /// # Panics
    /// Without incoming links.
    #[must_use]
    pub fn new(config: Config, links: usize) -> Self {
        assert!(links > 0, "a device has an incoming link");
        Self {
            config,
            epoch: None,
            newest: vec![None; links],
            next: 0,
            cohorts: BTreeMap::new(),
            turn: 0,
            held: 0,
            strays: Strays::default(),
            done: VecDeque::new(),
            out: VecDeque::new(),
            counters: Counters::default(),
        }
    }

    /// The counters.
    #[must_use]
    pub fn counters(&self) -> Counters {
        self.counters
    }

    /// Number of packets held for decoding.
    #[must_use]
    pub fn held(&self) -> usize {
        self.held
    }

    /// The next packet in order.
    pub fn poll_delivery(&mut self) -> Option<Bytes> {
        self.out.pop_front()
    }

    /// When [`handle_timeout`](Self::handle_timeout) must be called.
    #[must_use]
    pub fn poll_timeout(&self) -> Option<Instant> {
        self.cohorts.values().map(|cohort| cohort.since + self.config.patience).min()
    }

    /// Ends cohorts whose timeout has passed.
    pub fn handle_timeout(&mut self, now: Instant) {
        let patience = self.config.patience;
        let over = |(at, cohort): (&u64, &Cohort)| (now >= cohort.since + patience).then_some(*at);
        if let Some(last) = self.cohorts.iter().filter_map(over).max() {
            self.finish_before(last + 1);
        }
        self.advance();
    }

    /// A report of missing packets, to be sent on every link towards the gateway; `None` if there is nothing
    /// to report. A complete generation is reported with zero, so that no more of it is sent.
    pub fn poll_report(&mut self) -> Option<Bytes> {
        let mut needs: Vec<Need> = self.done.drain(..).collect();
        for (at, cohort) in &self.cohorts {
            let label = self.next.wrapping_add((at - self.turn) as u32);
            for (generation, part) in &cohort.parts {
                if let Part::Sized(decoder) = part {
                    let packets = if decoder.is_complete() { 0 } else { decoder.lacks().max(1) as u16 };
                    needs.push(Need { label, generation: *generation, packets });
                }
            }
        }
        let epoch = self.epoch.filter(|_| !needs.is_empty())?;
        Some(encode_report(epoch, &needs))
    }

    /// Takes an authenticated packet from incoming link `link`.
    pub fn handle_packet(&mut self, now: Instant, link: usize, packet: &Bytes) {
        let Ok((header, payload)) = decode(packet) else {
            self.counters.malformed += 1;
            return;
        };
        if matches!(payload, Payload::Report(_)) || link >= self.newest.len() {
            self.counters.mislabelled += 1;
            return;
        }
        let Some(at) = self.accept(&header) else { return };
        self.counters.received += 1;
        if self.newest[link].is_none_or(|newest| ahead(header.label, newest) > 0) {
            self.newest[link] = Some(header.label);
        }
        match payload {
            Payload::Coded(vector, body) => {
                if matches!(vector, Vector::Original(_)) {
                    self.learn_total(at, header.previous);
                }
                self.store(now, at, (&header, &vector, body));
            }
            _ => {
                self.learn_total(at, header.previous);
                self.cohort(now, at).total = Some(0);
            }
        }
        self.apply_rule();
        self.advance();
    }

    /// The packet's place among the cohorts, if it is of this epoch and not late.
    fn accept(&mut self, header: &Header) -> Option<u64> {
        let newer = self.epoch.map_or(1, |epoch| ahead(header.epoch, epoch));
        match self.strays.judge_epoch(newer) {
            Verdict::Take => {}
            Verdict::Begin => self.begin(header),
            Verdict::Ahead => {
                self.counters.stale += 1;
                return None;
            }
        }
        let distance = ahead(header.label, self.next);
        if distance < 0 {
            self.counters.late += 1;
            return None;
        }
        match self.strays.judge(distance) {
            Verdict::Take => Some(self.turn + distance.unsigned_abs() as u64),
            Verdict::Ahead => {
                self.counters.ahead += 1;
                None
            }
            Verdict::Begin => {
                self.begin(header);
                Some(self.turn)
            }
        }
    }

    /// Ends all cohorts and continues with the packet's label.
    fn begin(&mut self, header: &Header) {
        self.finish_before(u64::MAX);
        self.done.clear();
        self.newest.fill(None);
        self.epoch = Some(header.epoch);
        self.next = header.label;
    }

    /// A packet of cohort `at` contains the number of packets in the previous cohort.
    fn learn_total(&mut self, at: u64, previous: u16) {
        if self.config.mode == Mode::Paper || at == self.turn {
            return;
        }
        if let Some(before) = self.cohorts.get_mut(&(at - 1)) {
            before.total.get_or_insert(previous);
        }
    }

    fn cohort(&mut self, now: Instant, at: u64) -> &mut Cohort {
        self.cohorts.entry(at).or_insert_with(|| Cohort {
            since: now,
            parts: BTreeMap::new(),
            generations: 0,
            total: None,
            arrived: 0,
            held: 0,
            delivered: 0,
        })
    }

    fn store(&mut self, now: Instant, at: u64, (header, vector, body): (&Header, &Vector, Bytes)) {
        let limit = if header.high { 2 * self.config.buffer } else { self.config.buffer };
        if self.held >= limit {
            self.counters.full += 1;
            return;
        }
        let config = self.config.clone();
        let cohort = self.cohort(now, at);
        let same_shape = [0, header.generations].contains(&cohort.generations);
        let taken = same_shape && cohort.push(&config, header, vector, body);
        if taken {
            cohort.generations = header.generations;
            cohort.held += 1;
            if config.mode == Mode::Paper {
                cohort.since = now;
            }
            self.held += 1;
        } else {
            self.counters.mislabelled += 1;
        }
    }

    /// Algorithm 3, line 15.
    fn apply_rule(&mut self) {
        let margin = if self.config.mode == Mode::Paper { 1 } else { 2 };
        let Some(smallest) = self
            .newest
            .iter()
            .copied()
            .min_by_key(|newest| newest.map_or(i32::MIN, |label| ahead(label, self.next)))
            .flatten()
        else {
            return;
        };
        let distance = ahead(smallest, self.next);
        if distance >= margin {
            self.finish_before(self.turn + (distance - margin + 1).unsigned_abs() as u64);
        }
    }

    /// Delivers complete cohorts, and in systematic mode the known beginning of the next.
    fn advance(&mut self) {
        let systematic = self.config.mode == Mode::Systematic;
        while let Some(cohort) = self.cohorts.get_mut(&self.turn) {
            if systematic {
                cohort.deliver_beginning(&mut self.out, &mut self.counters);
            }
            if !cohort.is_complete(systematic) {
                return;
            }
            self.finish_before(self.turn + 1);
        }
    }

    /// Ends every cohort before place `end`: delivers everything decodable, counts the rest as lost.
    fn finish_before(&mut self, end: u64) {
        while let Some(entry) = self.cohorts.first_entry().filter(|entry| *entry.key() < end) {
            let (at, mut cohort) = entry.remove_entry();
            self.held -= cohort.held;
            if cohort.is_complete(self.config.mode == Mode::Systematic) {
                let label = self.next.wrapping_add((at - self.turn) as u32);
                let needs =
                    cohort.parts.keys().map(|generation| Need { label, generation: *generation, packets: 0 });
                self.done.extend(needs);
                self.done.drain(..self.done.len().saturating_sub(MAX_NEEDS / 2));
            }
            cohort.finish(self.config.mode == Mode::Systematic, &mut self.out, &mut self.counters);
            self.move_to(at + 1);
        }
        if end != u64::MAX && end > self.turn {
            self.move_to(end);
        }
    }

    fn move_to(&mut self, turn: u64) {
        self.next = self.next.wrapping_add((turn - self.turn) as u32);
        self.turn = turn;
    }
}

impl Cohort {
    /// Stores a combination. Returns false if it contradicts the generation.
    fn push(&mut self, config: &Config, header: &Header, vector: &Vector, body: Bytes) -> bool {
        let part = self.parts.entry(header.generation).or_insert_with(|| Part::Open(BTreeMap::new()));
        let is_original = matches!(vector, Vector::Original(_));
        if header.symbols > 0
            && let Part::Open(originals) = part
        {
            let shape =
                config.generation(header.epoch, header.label, header.generation, usize::from(header.symbols));
            let Some(shape) = shape else { return false };
            let mut decoder = Decoder::new(shape);
            if originals.keys().any(|index| *index >= header.symbols) {
                return false;
            }
            for (index, original) in core::mem::take(originals) {
                let _ = decoder.push(&Vector::Original(index), original);
            }
            *part = Part::Sized(Box::new(decoder));
        }
        let progress = match part {
            Part::Open(originals) => match vector {
                Vector::Original(index)
                    if usize::from(*index) < GENERATION && config.mode == Mode::Systematic =>
                {
                    if originals.insert(*index, body).is_some() {
                        Ok(Progress::Redundant)
                    } else {
                        Ok(Progress::Kept)
                    }
                }
                _ => return false,
            },
            Part::Sized(decoder) => {
                let other =
                    header.symbols > 0 && usize::from(header.symbols) != decoder.generation().symbols();
                if other {
                    return false;
                }
                decoder.push(vector, body)
            }
        };
        self.arrived +=
            usize::from(is_original && progress.is_ok_and(|progress| progress != Progress::Redundant));
        progress.is_ok()
    }

    /// Packet `position` of the cohort in systematic mode.
    fn at(&self, position: usize) -> Option<&Bytes> {
        let generations = usize::from(self.generations).max(1);
        let index = position / generations;
        match self.parts.get(&((position % generations) as u8))? {
            Part::Open(originals) => originals.get(&(index as u16)),
            Part::Sized(decoder) => decoder.symbol(index),
        }
    }

    /// Number of packets in the cohort, if known.
    fn size(&self) -> Option<usize> {
        let sized = |part: &Part| match part {
            Part::Open(_) => None,
            Part::Sized(decoder) => Some(decoder.generation().symbols()),
        };
        let all = self.generations > 0 && self.parts.len() == usize::from(self.generations);
        let sum = || self.parts.values().map(sized).sum::<Option<usize>>();
        if all { sum() } else { None }.or(self.total.map(usize::from))
    }

    fn is_complete(&self, systematic: bool) -> bool {
        if systematic {
            return self.size().is_some_and(|size| self.delivered >= size);
        }
        let full = |part: &Part| matches!(part, Part::Sized(decoder) if decoder.is_complete());
        self.total == Some(0)
            || self.generations > 0
                && self.parts.len() == usize::from(self.generations)
                && self.parts.values().all(full)
    }

    fn deliver_beginning(&mut self, out: &mut VecDeque<Bytes>, counters: &mut Counters) {
        while let Some(symbol) = self.at(self.delivered) {
            deliver(symbol, out, counters);
            self.delivered += 1;
        }
    }

    fn finish(&mut self, systematic: bool, out: &mut VecDeque<Bytes>, counters: &mut Counters) {
        for part in self.parts.values_mut() {
            if let Part::Sized(decoder) = part {
                decoder.finish();
            }
        }
        let (mut known, mut size) = (self.delivered, 0);
        if systematic {
            let arrived_end = |part: &Part| match part {
                Part::Open(originals) => {
                    originals.last_key_value().map_or(0, |(last, _)| usize::from(*last) + 1)
                }
                Part::Sized(decoder) => decoder.generation().symbols(),
            };
            let generations = usize::from(self.generations).max(1);
            let longest = self.parts.values().map(arrived_end).max().unwrap_or(0) * generations;
            size = self.size().unwrap_or(longest);
            for position in self.delivered..size {
                if let Some(symbol) = self.at(position) {
                    deliver(symbol, out, counters);
                    known += 1;
                }
            }
        } else {
            for part in self.parts.values() {
                let Part::Sized(decoder) = part else { continue };
                let symbols = decoder.generation().symbols();
                size += symbols;
                for symbol in (0..symbols).filter_map(|index| decoder.symbol(index)) {
                    deliver(symbol, out, counters);
                    known += 1;
                }
            }
        }
        counters.lost += size.saturating_sub(known) as u64;
        counters.recovered += known.saturating_sub(self.arrived) as u64;
    }
}

/// Delivers the packet inside a symbol: two bytes of length, the packet, padding.
fn deliver(symbol: &Bytes, out: &mut VecDeque<Bytes>, counters: &mut Counters) {
    let length = symbol.first_chunk::<2>().map_or(0, |length| usize::from(u16::from_be_bytes(*length)));
    if length == 0 || symbol.len() < 2 + length {
        counters.malformed += 1;
        return;
    }
    counters.sent += 1;
    out.push_back(symbol.slice(2..2 + length));
}
