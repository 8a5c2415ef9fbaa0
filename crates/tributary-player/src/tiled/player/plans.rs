//! Times and contents of the player's plans: each slot at its beginning, and again while it is sent, with the head's
//! new position and what has arrived.
//!
//! A tile that has probably begun to be sent is not requested in another quality. The pusher removes tiles that it has
//! already sent from a later plan.

use core::time::Duration;
use std::collections::{BTreeMap, BTreeSet};

use tributary_types::{Bitrate, Instant};
use tributary_video::allocation::{Allocator, TileChoice, TileMenu};
use tributary_video::rd::RdTable;

use super::{MENUS_AHEAD, PlayError, Player};
use crate::capacity::CapacityMeter;
use crate::tiled::guard::Guard;
use crate::tiled::planner::Moment;
use crate::tiled::record::{SlotRecord, SoundRecord};
use crate::tiled::screen::Screen;
use crate::tiled::wire::{MOST_ENTRIES, Plan, PlanEntry, SOUND, TiledMessage};

/// With fewer capacity samples than this, the assumed rate is used in addition.
const LEAST_SAMPLES: usize = 30;
/// Shares of the assumed rate; each counts as one sample.
const ASSUMED: [f64; 3] = [1.0, 0.5, 0.25];
/// When a slot is planned again, tiles that would arrive within this time count as begun: they are in the session's
/// buffer, in sockets and in the paths' queues.
const BEGUN_TIME: Duration = Duration::from_millis(150);

/// A plan that is due.
#[derive(Debug, Clone, Copy)]
pub(super) struct Due {
    pub(super) at: Instant,
    pub(super) slot: u32,
    pub(super) revision: u16,
}

/// A slot that is about to be planned.
pub(in crate::tiled) struct Upcoming<'a> {
    /// When its plan is due.
    pub(in crate::tiled) at: Instant,
    pub(in crate::tiled) slot: u32,
    /// The GoP's duration.
    pub(in crate::tiled) gop: Duration,
    pub(in crate::tiled) tiles: Vec<TileMenu>,
    /// Time after the plan's arrival during which its tiles may begin.
    pub(in crate::tiled) within: Duration,
    /// The rate that is assumed before one has been measured.
    pub(in crate::tiled) assumed: Bitrate,
    /// The viewer's own allocator.
    pub(in crate::tiled) allocator: &'a dyn Allocator,
}

/// Tiles of a slot that were already requested.
#[derive(Default)]
struct Begun {
    /// The finest quality of each tile that has arrived or is being sent.
    have: BTreeMap<u16, u8>,
    /// Outstanding requested tiles, in order.
    coming: Vec<(u16, u8)>,
    /// Their bytes.
    coming_bytes: f64,
    /// Requested tiles that have arrived.
    arrived: Vec<(u16, u8)>,
}

impl Player {
    /// The next plan: another plan of the present slot, or the first plan of the next slot.
    pub(super) fn next_plan(&self) -> Option<Due> {
        let origin = self.origin?;
        let next = self.slots.next();
        let again = next.checked_sub(1).and_then(|slot| {
            let revision = self.revision.checked_add(1).filter(|r| *r < self.settings.plans)?;
            let begins = origin + self.gop() * slot;
            let at = begins + self.gop() * u32::from(revision) / u32::from(self.settings.plans);
            // The plan must reach the server before the last time at which a tile may begin.
            let useful = at + self.rtt + self.guard.time() < begins + self.gop();
            useful.then_some(Due { at, slot, revision })
        });
        let first = || Due { at: origin + self.gop() * next, slot: next, revision: 0 };
        again.or_else(|| (next < self.to_play && !self.lacks_gop()).then(first))
    }

    pub(super) fn plan(&mut self, now: Instant, due: Due) -> Result<(), PlayError> {
        let Due { slot, revision, .. } = due;
        self.revision = revision;
        if revision == 0 {
            (self.screen, self.guard) = self.learnt(slot);
            self.go_on(now, due);
        }
        let gop = self.gop_of(slot);
        // Only the time in which tiles may still begin counts.
        let within = self.begin_within(now, slot, &self.guard);
        let (samples, measured) = samples(self.meter.as_mut(), self.settings.assumed, (now, within));
        let begun = if revision == 0 { Begun::default() } else { self.begun(slot, &samples, within) };
        let (Some(menu), Some(planning), Some(screen)) =
            (menu_for(&self.menus, gop), &self.planning, &self.screen)
        else {
            return Err(PlayError::Order);
        };
        let old_menu = !self.menus.contains_key(&gop);
        let sound = self.sound_of(slot, gop);
        let sound_bytes = sound.filter(|sound| sound.complete_ms.is_none()).map_or(0, |sound| sound.bytes);
        let (playback_s, have) = (self.playback.position_s(now), &begun.have);
        let moment = Moment { playback_s, slot, menu, screen, have };
        // Tiles already being sent and the sound arrive first and use capacity.
        let first = begun.coming_bytes + f64::from(sound_bytes);
        let left: Vec<f64> = samples.iter().map(|bytes| (bytes - first).max(0.0)).collect();
        let given = self.given.take().filter(|(of, _)| (*of, 0) == (slot, revision));
        let allocation = given.map_or_else(|| planning.plan(moment, &left), |(_, given)| Ok(given))?;
        let mut entries = self.entries(&allocation.order, &begun);
        let mut record = match revision {
            0 => SlotRecord {
                slot,
                gop,
                planned_ms: self.millis(now),
                deadline_ms: self.millis(self.deadline(slot)),
                capacity_mean: samples.iter().sum::<f64>() / samples.len() as f64,
                capacity_least: samples.iter().copied().fold(f64::INFINITY, f64::min),
                capacity_samples: measured,
                guard_ms: self.guard.time().as_secs_f64() * 1e3,
                old_menu,
                ..SlotRecord::default()
            },
            _ => self.slots.pop().unwrap_or_default(),
        };
        record.plans += 1;
        record.sound = sound;
        record.expected_mse = allocation.expected_mse;
        record.planned = begun.arrived.clone();
        record.planned.extend(entries.iter().map(|entry| (entry.tile, entry.quality)));
        record.planned_bytes = record.planned.iter().map(|tile| size(menu, *tile)).sum();
        let tiles: BTreeSet<u16> = record.planned.iter().map(|(tile, _)| *tile).collect();
        record.left_out = (menu.gop(0).len() - tiles.len()) as u32;
        self.slots.push(record);
        // Most of them were dropped and do not come; tiles that come for a slot that is forgotten are dropped.
        if self.asked.first().is_some_and(|first| first.0 < self.slots.first()) {
            self.asked = self.asked.split_off(&(self.slots.first(), 0, 0));
        }
        self.end_with_last();
        if sound_bytes > 0 {
            // Its bytes are few, and a viewer hears a gap at once.
            let with_init = !self.inits.contains(&(SOUND, 0));
            entries.insert(0, PlanEntry { tile: SOUND, quality: 0, with_init });
            entries.truncate(MOST_ENTRIES);
        }
        self.ask(now, (slot, gop, revision), entries);
        Ok(())
    }

    /// The sound of a slot, as far as it is known. It is not requested without the GoP's own menu, which has its size.
    fn sound_of(&self, slot: u32, gop: u32) -> Option<SoundRecord> {
        let known = self.slots.get(slot).and_then(|record| record.sound);
        let offered = || {
            self.video.as_ref()?.sound?;
            let bytes = self.sounds.get(&gop).copied().filter(|bytes| *bytes > 0)?;
            Some(SoundRecord { bytes, ..SoundRecord::default() })
        };
        known.or_else(offered)
    }

    /// The next slot before its first plan, if that is what is planned next.
    pub(in crate::tiled) fn upcoming(&self, now: Instant) -> Option<Upcoming<'_>> {
        let Due { at, slot, .. } = self.next_plan().filter(|due| due.revision == 0)?;
        let (screen, guard) = self.learnt(slot);
        let (menu, planning) = (menu_for(&self.menus, self.gop_of(slot))?, self.planning.as_ref()?);
        let (playback_s, have) = (self.playback.position_s(now), &BTreeMap::new());
        let tiles = planning.tiles(Moment { playback_s, slot, menu, screen: screen.as_ref()?, have });
        let (assumed, gop) = (self.settings.assumed, self.gop());
        let (within, allocator) = (self.begin_within(now, slot, &guard), planning.allocator());
        Some(Upcoming { at, slot, gop, tiles, within, assumed, allocator })
    }

    /// The screen with the previous slot, of which everything but the last round trip is known, and the guard interval with the
    /// lateness of the slot before that one, which is over.
    fn learnt(&self, slot: u32) -> (Option<Screen>, Guard) {
        let (mut screen, mut guard) = (self.screen.clone(), self.guard.clone());
        if let Some(before) = self.slots.last()
            && let (Some(menu), Some(screen)) = (self.menus.get(&before.gop), &mut screen)
        {
            screen.show(menu.gop(0), |tile| before.in_time(tile as u16));
        }
        if let Some(over) = slot.checked_sub(2).and_then(|over| self.slots.get(over)) {
            let last = over.arrived.iter().map(|tile| tile.complete_ms).fold(over.deadline_ms, f64::max);
            guard.slot_over(Duration::from_secs_f64((last - over.deadline_ms) / 1e3));
        }
        (screen, guard)
    }

    /// Time after a plan's arrival during which tiles of the slot may begin.
    fn begin_within(&self, now: Instant, slot: u32, guard: &Guard) -> Duration {
        (self.deadline(slot) - self.rtt - guard.time()).saturating_since(now)
    }

    /// Tiles of the present slot that have arrived, and those that are probably being sent.
    fn begun(&self, slot: u32, samples: &[f64], within: Duration) -> Begun {
        let mut begun = Begun::default();
        let Some(record) = self.slots.get(slot) else { return begun };
        let menu = menu_for(&self.menus, record.gop);
        let mean = samples.iter().sum::<f64>() / samples.len().max(1) as f64;
        let rate = mean / within.as_secs_f64().max(1e-3);
        let mut on_the_way = rate * BEGUN_TIME.as_secs_f64();
        begun.arrived = record.arrived.iter().map(|tile| (tile.tile, tile.quality)).collect();
        let coming = record.planned.iter().filter(|tile| self.outstanding.contains(tile));
        for tile in coming {
            if on_the_way <= 0.0 {
                break;
            }
            let bytes = menu.map_or(0.0, |menu| size(menu, *tile) as f64);
            on_the_way -= bytes;
            begun.coming_bytes += bytes;
            begun.coming.push(*tile);
        }
        for (tile, quality) in begun.arrived.iter().chain(&begun.coming) {
            let finest = begun.have.entry(*tile).or_insert(*quality);
            *finest = (*finest).min(*quality);
        }
        begun
    }

    /// The plan's entries: tiles that have begun, then the new choice without tiles that have already arrived
    /// in this or a finer quality, within the protocol's limits.
    fn entries(&self, order: &[TileChoice], begun: &Begun) -> Vec<PlanEntry> {
        let chosen = order.iter().map(|message| (message.tile as u16, message.choice as u8));
        let finer = chosen.filter(|(tile, quality)| begun.have.get(tile).is_none_or(|have| quality < have));
        let mut named = BTreeSet::new();
        let entry = |(tile, quality): (u16, u8)| {
            let with_init = !self.inits.contains(&(tile, quality));
            named.insert((tile, quality)).then_some(PlanEntry { tile, quality, with_init })
        };
        begun.coming.iter().copied().chain(finer).filter_map(entry).take(MOST_ENTRIES).collect()
    }

    fn ask(&mut self, now: Instant, (slot, gop, revision): (u32, u32, u16), entries: Vec<PlanEntry>) {
        let gops = self.video.as_ref().map_or(1, |video| video.gops);
        let ahead = gop.saturating_add(MENUS_AHEAD) % gops;
        if revision == 0 && !self.is_live() && !self.menus.contains_key(&ahead) {
            // Requested before the tiles: behind a GoP of tiles it would be late.
            self.out.push_back(TiledMessage::Menus { first: ahead, count: 1 }.encode());
        }
        self.outstanding = entries.iter().map(|entry| (entry.tile, entry.quality)).collect();
        self.asked.extend(self.outstanding.iter().map(|(tile, quality)| (slot, *tile, *quality)));
        // A tile that begins later than one GoP after the first plan's arrival, less the guard interval, is late.
        let within = self.begin_within(now, slot, &self.guard);
        let within_us = u32::try_from(within.as_micros()).unwrap_or(u32::MAX);
        self.out.push_back(TiledMessage::Plan(Plan { slot, gop, revision, within_us, entries }).encode());
        let busy = !self.outstanding.is_empty();
        let rtt = self.rtt;
        if let Some(meter) = &mut self.meter {
            if busy {
                meter.expect(now, now + rtt);
            } else {
                meter.rest(now);
            }
        }
    }
}

/// Samples of the bytes that arrive within a time from now, and the number of measured samples among them.
pub(in crate::tiled) fn samples(
    meter: Option<&mut CapacityMeter>,
    assumed: Bitrate,
    (now, within): (Instant, Duration),
) -> (Vec<f64>, u32) {
    let mut samples = meter.map_or_else(Vec::new, |meter| meter.samples(now, within));
    let measured = samples.len();
    let assumed = assumed.as_bps() as f64 / 8.0 * within.as_secs_f64();
    match measured {
        0 => samples.push(assumed),
        few if few < LEAST_SAMPLES => samples.extend(ASSUMED.map(|share| share * assumed)),
        _ => {}
    }
    (samples, measured as u32)
}

/// The menu of a GoP, or a substitute if it has not arrived.
fn menu_for(menus: &BTreeMap<u32, RdTable>, gop: u32) -> Option<&RdTable> {
    menus.get(&gop).or_else(|| menus.values().next_back())
}

/// Bytes of a tile in a quality.
pub(super) fn size(menu: &RdTable, (tile, quality): (u16, u8)) -> u64 {
    let cells = menu.gop(0).get(usize::from(tile));
    cells.and_then(|cells| cells.bytes.get(usize::from(quality))).copied().unwrap_or(0)
}
