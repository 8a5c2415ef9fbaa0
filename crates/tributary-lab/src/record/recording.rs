//! From what was seen on each path to a network: rates, delays and loss over time.
//!
//! Everything is counted at the time at which the link carried it: a packet that arrives later than the fastest ones of its
//! minute has waited that long in a queue.

use super::estimate::Arrivals;
use super::options::Options;
use super::probe::{LATE, PathLog, Slot};
use super::wire::{SMALL, Train};
use core::time::Duration;
use tributary_link::{
    Column, DelaySpec, LossSpec, MAX_RATE, MeasuredLink, MeasuredNetwork, MeasuredPath, TimeUnit, Trace,
    TraceTable, TraceTime,
};
use tributary_report::stats;

/// Clocks of two machines drift apart; within this time by a few milliseconds at most.
const MINUTE: Duration = Duration::from_secs(60);
/// A delay is that of the fastest packet of this time, which also divides loss.
const SECOND: Duration = Duration::from_secs(1);
/// A delay is written when it differs from the last one written by more than this.
const STEP: Duration = Duration::from_micros(250);
/// Packets that waited longer were lost by a queue, if they were: that is no loss of the radio.
const QUEUED: f64 = 0.01;
/// Slots without any packet that make an outage, and its shortest time.
const MISSED: f64 = 2.5;
const OUTAGE: f64 = 0.15;
/// A clock is not synchronised if a packet arrives so long before it was sent.
const BEFORE: f64 = -0.001;
/// Share of lost packets below which there is no loss: one packet in ten thousand.
const LOSSLESS: f64 = 1e-4;
/// Loss changes if two parts differ by so many standard errors. With 3.5, one part in 2000 differs by chance.
const DIFFERENT: f64 = 3.5;
/// Packets that are needed to compare.
const COMPARED: u64 = 100;

/// A path that was recorded.
#[derive(Clone, Debug)]
pub(super) struct RecordedPath {
    pub name: String,
    /// Bytes of headers below a message.
    pub header: usize,
    pub log: PathLog,
}

/// What has been recorded so far.
#[derive(Clone, Debug)]
pub struct Recording {
    options: Options,
    /// Number of slots that are complete.
    slots: usize,
    paths: Vec<RecordedPath>,
    clock: u64,
}

/// One direction of a path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Way {
    Down,
    Up,
}

/// What was seen of a slot in one direction.
#[derive(Clone, Copy, Debug)]
struct Seen {
    /// When the link carried it, seconds; and how long it had waited.
    at: f64,
    waited: f64,
    rate: Option<f64>,
    counted: u16,
    lost: u16,
}

/// One second of one path, for tables.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Second {
    pub rtt_ms: Option<f64>,
    /// Mbit/s.
    pub down: Option<f64>,
    pub up: Option<f64>,
    /// Packets of trains that were counted, and lost, towards the client and from it.
    pub counted: [u64; 2],
    pub lost: [u64; 2],
}

impl Recording {
    /// `clock` is this end's; a recording that has not ended leaves out what may still arrive.
    pub(super) fn new(paths: Vec<RecordedPath>, options: Options, (clock, ended): (u64, bool)) -> Self {
        let late = if ended { 0 } else { (LATE.as_nanos() / options.pace.slot().as_nanos()) as usize };
        // Slot 0 is before the beginning.
        let slots = paths.iter().map(|path| path.log.slots.len().saturating_sub(1 + late)).min();
        Self { options, slots: slots.unwrap_or(0), paths, clock }
    }

    /// Length of the recording.
    #[must_use]
    pub fn duration(&self) -> Duration {
        self.options.pace.slot() * u32::try_from(self.slots).unwrap_or(u32::MAX)
    }

    /// The names of the paths.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.paths.iter().map(|path| path.name.as_str())
    }

    /// One line for each path: name, mean rates in Mbit/s, median round-trip time in milliseconds, loss in per cent.
    #[must_use]
    pub fn summary(&self) -> Vec<String> {
        let line = |path: &RecordedPath| {
            let rate = |way| match stats::mean(&self.rates(path, way)) {
                Some(rate) if rate > 0.0 => format!("{:.1} Mbit/s", rate / 1e6),
                _ => "nothing".to_owned(),
            };
            let lost = |way| {
                let (counted, lost) = total(&self.losses(path, way));
                100.0 * lost as f64 / counted.max(1) as f64
            };
            let rtts: Vec<f64> = self
                .slots(path)
                .iter()
                .filter_map(|slot| Some(slot.reply?.rtt.as_secs_f64() * 1e3))
                .collect();
            let rtt = stats::median(&rtts).map_or("none".to_owned(), |rtt| format!("{rtt:.1} ms"));
            format!(
                "{}: down {}, up {}, RTT {rtt}, loss {:.2} % and {:.2} %",
                path.name,
                rate(Way::Down),
                rate(Way::Up),
                lost(Way::Down),
                lost(Way::Up)
            )
        };
        self.paths.iter().map(line).collect()
    }

    /// The network that was recorded, with these notes and how delays were measured; `None` before the first slot of every path
    /// is complete.
    #[must_use]
    pub fn network(&self, name: &str, description: &str, notes: &[String]) -> Option<MeasuredNetwork> {
        if self.slots == 0 {
            return None;
        }
        let mut notes = notes.to_vec();
        let mut path = |path: &RecordedPath| {
            let one_way = self.one_way(path);
            notes.push(format!("{}: {}", path.name, if one_way { ONE_WAY } else { HALF }));
            let link = |way| {
                let rates = self.rates(path, way);
                let (loss, delay) =
                    (steps(&self.losses(path, way)), self.delay(path, (way, one_way), &rates));
                MeasuredLink { rate: self.trace(&rates), delay, loss }
            };
            MeasuredPath { name: path.name.clone(), down: link(Way::Down), up: Some(link(Way::Up)) }
        };
        let paths = self.paths.iter().map(&mut path).collect();
        let (name, description) = (name.to_owned(), description.to_owned());
        Some(MeasuredNetwork { name, description, notes, duration: self.duration(), paths })
    }

    /// Every whole second of a path.
    pub(super) fn seconds(&self, path: usize) -> Vec<Second> {
        let path = &self.paths[path];
        let rates = [Way::Down, Way::Up].map(|way| self.rates(path, way));
        let losses = [Way::Down, Way::Up].map(|way| self.losses(path, way));
        let each = self.per_second();
        let second = |(number, slots): (usize, &[Slot])| {
            let rtts: Vec<f64> =
                slots.iter().filter_map(|slot| Some(slot.reply?.rtt.as_secs_f64() * 1e3)).collect();
            let [down, up] = [0, 1].map(|way: usize| {
                let from = (number * each).min(rates[way].len());
                let part = &rates[way][from..(from + each).min(rates[way].len())];
                stats::mean(part).map(|rate| rate / 1e6)
            });
            let of = |way: usize| losses[way].get(number).copied().unwrap_or_default();
            let (counted, lost) = ([of(0).0, of(1).0], [of(0).1, of(1).1]);
            Second { rtt_ms: stats::median(&rtts), down, up, counted, lost }
        };
        self.slots(path).chunks(each).enumerate().map(second).collect()
    }

    fn slots<'a>(&self, path: &'a RecordedPath) -> &'a [Slot] {
        &path.log.slots[1..=self.slots]
    }

    /// Slots of a second.
    fn per_second(&self) -> usize {
        (SECOND.as_nanos() / self.options.pace.slot().as_nanos()) as usize
    }

    /// What was seen in one direction, in order.
    fn seen(&self, path: &RecordedPath, way: Way) -> Vec<Seen> {
        let pace = self.options.pace;
        let one = |slot: &Slot| {
            let asked = slot.asked?;
            let replied = slot.reply.as_ref();
            let (sent, arrived, rate, (counted, lost)) = match way {
                Way::Down => {
                    let Arrivals { first, .. } = slot.down;
                    let at = replied.map(|reply| reply.at).into_iter().chain(first).min()?;
                    (asked, at, slot.down.rate(path.header), slot.down.losses())
                }
                Way::Up => {
                    let Train { first, rate, counted, lost, .. } = slot.up.unwrap_or_default();
                    let rate = (rate > 0).then_some(rate as f64);
                    let received = replied.map(|reply| (asked, reply.received));
                    let train = slot.up.map(|_| (asked + pace.slot() / 2, first));
                    let (sent, at) = received.or(train)?;
                    // A step of this machine's clock is no time on the way, even if the server has the same clock.
                    (sent, at.saturating_sub(slot.epoch), rate, (counted, lost))
                }
            };
            let seen = Seen { at: sent.as_secs_f64(), waited: 0.0, rate, counted, lost };
            Some((arrived.as_secs_f64() - sent.as_secs_f64(), seen))
        };
        let slots: Vec<(f64, Seen)> = self.slots(path).iter().filter_map(one).collect();
        let minute = |seen: &Seen| (seen.at / MINUTE.as_secs_f64()) as usize;
        let mut all = Vec::with_capacity(slots.len());
        for part in slots.chunk_by(|a, b| minute(&a.1) == minute(&b.1)) {
            let least = part.iter().map(|slot| slot.0).fold(f64::INFINITY, f64::min);
            all.extend(part.iter().map(|&(took, seen)| {
                let waited = took - least;
                Seen { at: seen.at + waited, waited, ..seen }
            }));
        }
        all.sort_by(|a, b| a.at.total_cmp(&b.at));
        all
    }

    /// The rate of every slot, bit/s. A slot whose train says nothing has the last rate; one in an outage has none.
    fn rates(&self, path: &RecordedPath, way: Way) -> Vec<f64> {
        let slot = self.options.pace.slot().as_secs_f64();
        let seen = self.seen(path, way);
        let mut known: Vec<Option<f64>> = vec![None; self.slots];
        let trains: Vec<(f64, f64)> = seen.iter().filter_map(|seen| Some((seen.at, seen.rate?))).collect();
        for (number, (at, _)) in trains.iter().enumerate() {
            // One train whose times a busy machine has spoilt does not count; a change of the rate does, at its time.
            let around = &trains[number.saturating_sub(1)..(number + 2).min(trains.len())];
            let rates: Vec<f64> = around.iter().map(|train| train.1).collect();
            let rate = if rates.len() == 3 { stats::median(&rates) } else { Some(trains[number].1) };
            if let Some(known) = known.get_mut((at / slot) as usize) {
                *known = rate;
            }
        }
        self.outages(path, &seen).for_each(|number| known[number] = Some(0.0));
        // What other programs carried is not more than the rate. It is counted when it arrives, a round trip after the request.
        let rtts = self.slots(path).iter().filter_map(|slot| Some(slot.reply?.rtt));
        let later = rtts.min().filter(|_| way == Way::Down).unwrap_or_default().as_secs_f64() / slot;
        for (number, slots) in self.slots(path).iter().enumerate().skip(1 + later.round() as usize) {
            let Some(carried) = slots.carried else { continue };
            let bytes = if way == Way::Down { carried.down } else { carried.up };
            let least = bytes as f64 * 8.0 / carried.over.as_secs_f64();
            let known = &mut known[number - 1 - later.round() as usize];
            *known = known.map(|rate| if rate > 0.0 { rate.max(least) } else { rate });
        }
        let mut last = known.iter().flatten().copied().find(|rate| *rate > 0.0).unwrap_or(0.0);
        let held = |known: Option<f64>| match known {
            Some(0.0) => 0.0,
            Some(rate) => {
                last = rate;
                rate
            }
            None if seen.is_empty() => 0.0,
            None => last,
        };
        known.into_iter().map(held).collect()
    }

    /// Slots in which nothing came through although something was sent.
    fn outages(&self, path: &RecordedPath, seen: &[Seen]) -> impl Iterator<Item = usize> {
        let slot = self.options.pace.slot().as_secs_f64();
        let (end, least) = (self.slots as f64 * slot, OUTAGE.max(MISSED * slot));
        let asked: Vec<f64> =
            self.slots(path).iter().filter_map(|slot| Some(slot.asked?.as_secs_f64())).collect();
        let times: Vec<f64> =
            [-slot].into_iter().chain(seen.iter().map(|seen| seen.at)).chain([end]).collect();
        let mut found = Vec::new();
        for pair in times.windows(2).filter(|pair| pair[1] - pair[0] > least) {
            let (from, to) = (pair[0] + slot, pair[1]);
            // The packet that ends the gap was itself asked for at its end, if it did not wait.
            if asked.iter().any(|asked| (from..to - slot / 2.0).contains(asked)) {
                found.extend((from / slot).ceil() as usize..((to / slot) as usize).min(self.slots));
            }
        }
        found.into_iter()
    }

    fn trace(&self, rates: &[f64]) -> Trace {
        let slot = self.options.pace.slot().as_secs_f64();
        let line = |rate: &f64| format!("{slot},{:.6}\n", rate.min(MAX_RATE.as_bps() as f64) / 1e6);
        let table = TraceTable {
            time: TraceTime::Lasting(Column::Numbered(1), TimeUnit::Seconds),
            ..TraceTable::new(Column::Numbered(1), Column::Numbered(2))
        };
        Trace::parse_table(&rates.iter().map(line).collect::<String>(), &table)
            .expect("slots are longer than the shortest span, and rates are in range")
    }

    /// Whether the clocks of both ends tell the delay of each direction.
    fn one_way(&self, path: &RecordedPath) -> bool {
        let same = self.clock != 0 && path.log.clock == Some(self.clock);
        let possible = self.slots(path).iter().filter_map(|slot| slot.reply);
        (same || self.options.synchronised) && possible.clone().all(|reply| reply.up.min(reply.down) > BEFORE)
    }

    /// The delay of the fastest packet of each second, without the time that the link takes to send it at its rate.
    fn delay(&self, path: &RecordedPath, (way, one_way): (Way, bool), rates: &[f64]) -> DelaySpec {
        let other = self.rates(path, if way == Way::Down { Way::Up } else { Way::Down });
        let bits = (SMALL + path.header) as f64 * 8.0;
        let sending = |rate: f64| if rate > 0.0 { bits / rate } else { 0.0 };
        let of = |(number, slot): (usize, &Slot)| {
            let (reply, own) = (slot.reply?, sending(rates[number]));
            Some(match (one_way, way) {
                (true, Way::Down) => reply.down - own,
                (true, Way::Up) => reply.up - own,
                (false, _) => (reply.rtt.as_secs_f64() - own - sending(other[number])) / 2.0,
            })
        };
        let mut delay: Option<DelaySpec> = None;
        let each = self.per_second();
        for (number, part) in self.slots(path).chunks(each).enumerate() {
            let delays = part.iter().enumerate().filter_map(|(i, slot)| of((number * each + i, slot)));
            let Some(least) = delays.min_by(f64::total_cmp) else { continue };
            let way = Duration::from_secs_f64(least.max(0.0));
            match &mut delay {
                None => delay = Some(DelaySpec::fixed(way)),
                Some(delay) => {
                    let present = delay.changes.last().map_or(delay.base, |change| change.1);
                    if present.abs_diff(way) > STEP {
                        delay.changes.push((SECOND * number as u32, way));
                    }
                }
            }
        }
        delay.unwrap_or_default()
    }

    /// Packets that were counted and lost in each second; those that waited in a queue are left out.
    fn losses(&self, path: &RecordedPath, way: Way) -> Vec<(u64, u64)> {
        let mut losses = vec![(0, 0); self.slots.div_ceil(self.per_second())];
        for seen in self.seen(path, way).iter().filter(|seen| seen.waited < QUEUED) {
            if let Some(second) = losses.get_mut(seen.at as usize) {
                second.0 += u64::from(seen.counted);
                second.1 += u64::from(seen.lost);
            }
        }
        losses
    }
}

const ONE_WAY: &str = "delays are one-way, by the clocks of both ends";
const HALF: &str =
    "delays are half of the round-trip time, because the clocks of both ends are not known to agree";

fn total(losses: &[(u64, u64)]) -> (u64, u64) {
    losses.iter().fold((0, 0), |sum, next| (sum.0 + next.0, sum.1 + next.1))
}

/// Loss over time: seconds are joined as long as they do not differ by more than chance.
fn steps(seconds: &[(u64, u64)]) -> LossSpec {
    let mut parts: Vec<(usize, (u64, u64))> = Vec::new(); // (first second, packets counted and lost)
    let mut next = (0, (0, 0));
    for (number, second) in seconds.iter().enumerate() {
        next.1 = total(&[next.1, *second]);
        if next.1.0 < COMPARED && number + 1 < seconds.len() {
            continue;
        }
        match parts.last_mut() {
            Some(last) if !differ(last.1, next.1) => last.1 = total(&[last.1, next.1]),
            _ => parts.push(next),
        }
        next = (number + 1, (0, 0));
    }
    let share = |(counted, lost): (u64, u64)| {
        let share = lost as f64 / counted.max(1) as f64;
        if share < LOSSLESS { 0.0 } else { share }
    };
    match &parts[..] {
        [] => LossSpec::None,
        [(_, all)] if share(*all) == 0.0 => LossSpec::None,
        [(_, all)] => LossSpec::Bernoulli(share(*all)),
        // The first part begins at zero.
        parts => LossSpec::Steps(
            parts.iter().map(|(since, part)| (SECOND * *since as u32, share(*part))).collect(),
        ),
    }
}

/// Whether two shares differ by more than chance (two-proportion z-test).
fn differ(a: (u64, u64), b: (u64, u64)) -> bool {
    let (counted, lost) = total(&[a, b]);
    if a.0.min(b.0) < COMPARED {
        return false;
    }
    let share = |(counted, lost): (u64, u64)| lost as f64 / counted as f64;
    let all = share((counted, lost));
    let error = (all * (1.0 - all) * (1.0 / a.0 as f64 + 1.0 / b.0 as f64)).sqrt();
    (share(a) - share(b)).abs() > DIFFERENT * error
}

#[cfg(test)]
mod tests;
