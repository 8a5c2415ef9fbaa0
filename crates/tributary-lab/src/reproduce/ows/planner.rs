//! The client's plans: an allocator, what is known of the view, and what past seconds carried.
//!
//! Of capacity a client knows what it measured: every GoP of an earlier viewing in the same scene over the same
//! transport that wanted more than the radios carry, and every GoP of its own since, the latest thirty in all.
//! Nothing of the present GoP and nothing of the future. All allocators know the same.

use core::fmt;
use core::time::Duration;
use std::collections::VecDeque;
use std::sync::Arc;

use tributary_sim::workload::tiled::{GopRecord, TileMessage, TilePlanner};
use tributary_types::Instant;
use tributary_video::allocation::{
    self, Allocation, Allocator, Arrival, Capacity, GopProblem, Message, Settings, UnknownAllocator,
};
use tributary_video::rd::Concealment;

use super::audience::Watched;
use super::clip::Clip;
use super::display::Display;

/// Seconds of capacity that are remembered.
const REMEMBERED: usize = 30;
/// `fix-q` with its tiles sent by gain per byte: what order alone does.
pub const BY_GAIN: &str = "fix-q-by-gain";
/// `ows` that plans each GoP anew while it is sent, with what is known of the view by then.
pub const UPDATED: &str = "ows-updated";
/// Plans it makes for a GoP.
const UPDATES: usize = 4;
/// Bytes that may be on their way when a plan is made: what the server hands over ahead, and the radios' queues.
const UNDER_WAY: u64 = 800_000;

/// Plans for each GoP that the client called `name` makes.
pub fn plans(name: &str) -> usize {
    if name == UPDATED { UPDATES } else { 1 }
}

/// Everything a plan is made from.
pub struct Planner {
    clip: Arc<Clip>,
    watched: Arc<Watched>,
    concealment: Concealment,
    allocator: Box<dyn Allocator>,
    by_gain: bool,
    plans: usize,
    /// Bytes that a GoP's time carried, oldest first.
    carried: VecDeque<f64>,
    /// The most that the earlier viewing had.
    most: f64,
    display: Display,
    /// GoPs that are shown.
    shown: usize,
}

impl fmt::Debug for Planner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Planner").field("allocator", &self.allocator.name()).finish_non_exhaustive()
    }
}

impl Planner {
    /// A client with the allocator called `name` that remembers what an earlier transfer carried.
    ///
    /// # Errors
    /// There is no such allocator.
    pub fn new(
        name: &str,
        clip: Arc<Clip>,
        watched: Arc<Watched>,
        concealment: Concealment,
        earlier: &[f64],
    ) -> Result<Self, UnknownAllocator> {
        let by_gain = name == BY_GAIN;
        let known = match name {
            BY_GAIN => "fix-q",
            UPDATED => "ows",
            other => other,
        };
        let allocator = allocation::create(known, Settings::default())?;
        let display = Display::new(clip.info.tiles, concealment);
        let most = earlier.iter().copied().fold(0.0, f64::max);
        let carried = earlier[earlier.len().saturating_sub(REMEMBERED)..].iter().copied().collect();
        Ok(Self {
            clip,
            watched,
            concealment,
            allocator,
            by_gain,
            plans: plans(name),
            carried,
            most,
            display,
            shown: 0,
        })
    }

    /// Learns from the GoPs whose deadline has come.
    fn learn(&mut self, past: &[GopRecord]) {
        for record in &past[self.shown.min(past.len())..] {
            if self.carried.len() == REMEMBERED {
                self.carried.pop_front();
            }
            // A GoP that was soon there is no proof of more than was ever carried.
            self.carried.push_back(carried(record).min(self.most.max(record.bytes_in_time as f64)));
            self.display.advance(self.clip.table().gop(self.clip.at(self.shown)), record);
            self.shown += 1;
        }
    }

    /// The `part`-th plan of a GoP, of which `sent` is known so far.
    fn allocate(&self, gop: usize, part: usize, sent: Option<&GopRecord>) -> Option<Allocation> {
        let (table, at) = (self.clip.table(), self.clip.at(gop));
        // Where fewer outlooks are known than plans are made, the nearest before.
        let outlooks = &self.watched.outlooks[gop];
        let outlook = &outlooks[part * outlooks.len() / self.plans];
        let mut tiles = table.menus(at, outlook, self.concealment);
        for (tile, mse) in tiles.iter_mut().zip(self.display.concealed(table.gop(at))) {
            tile.concealed_mse = mse;
        }
        let mut under_way = 0;
        for message in sent.into_iter().flat_map(|record| on_its_way(record, &mut under_way)) {
            let tile = &mut tiles[message.tile];
            tile.concealed_mse = tile.concealed_mse.min(tile.choices[message.choice].mse);
        }
        let left = (self.plans - part) as f64 / self.plans as f64;
        let carried = |bytes: &f64| (bytes * left - under_way as f64).max(0.0);
        let samples: Vec<f64> = self.carried.iter().map(carried).collect();
        let capacity = Capacity::from_paths(&[samples]).ok()?;
        let problem = GopProblem::new(tiles, capacity, Arrival::InOrder).ok()?;
        let mut allocation = self.allocator.allocate(&problem);
        if self.by_gain {
            let rate = |message: &Message| {
                let tile = &problem.tiles()[message.tile];
                let choice = &tile.choices[message.choice];
                tile.weight * (tile.concealed_mse - choice.mse) / choice.bytes.max(1) as f64
            };
            allocation.order.sort_by(|a, b| rate(b).total_cmp(&rate(a)).then(a.tile.cmp(&b.tile)));
        }
        Some(allocation)
    }
}

impl TilePlanner for Planner {
    fn plan(&mut self, gop: usize, part: usize, records: &[GopRecord]) -> Option<Vec<TileMessage>> {
        self.learn(&records[..gop.min(records.len())]); // those whose deadline has come
        let cells = self.clip.table().gop(self.clip.at(gop));
        let message = |message: &Message| {
            let Message { tile, choice } = *message;
            TileMessage { tile, choice, bytes: cells[tile].bytes[choice] }
        };
        let allocation = self.allocate(gop, part, records.get(gop))?;
        Some(allocation.order.iter().map(message).collect())
    }
}

/// What has arrived of a GoP and what may be under way: the first messages that are missing, as far as the
/// server and the radios hold that much. Their bytes are added to `under_way`.
fn on_its_way(record: &GopRecord, under_way: &mut u64) -> Vec<TileMessage> {
    let mut coming = Vec::new();
    for planned in record.planned.iter().filter(|planned| !planned.withdrawn) {
        if planned.arrived.is_none() {
            if *under_way >= UNDER_WAY {
                continue;
            }
            *under_way += planned.missing();
        }
        coming.push(planned.message);
    }
    coming
}

/// What a GoP's time carried, as its client measured it: what arrived by the deadline, or, where everything
/// arrived earlier, as much more as the rest of the time would have carried at that rate.
fn carried(record: &GopRecord) -> f64 {
    let since = |at: Instant| at.saturating_since(record.asked);
    let bytes = record.bytes_in_time as f64;
    let whole = since(record.deadline).as_secs_f64();
    match record.complete() {
        Some(at) if since(at) > Duration::ZERO => bytes * whole / since(at).as_secs_f64(),
        _ => bytes,
    }
}
