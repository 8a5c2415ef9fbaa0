//! The client's plans: an allocator, what is known of the view, and what past seconds carried.
//!
//! Of capacity a client knows what it measured: every GoP of an earlier viewing in the same scene over the same
//! transport that wanted more than the radios carry, and every GoP of its own since, the latest thirty in all.
//! A client that plans anew also knows what of the present GoP has arrived. Nothing of the future. All know the same.

use core::fmt;
use std::sync::Arc;

use tributary_sim::workload::tiled::{GopRecord, PARTS, Planned, TileMessage, TilePlanner};
use tributary_video::allocation::{
    self, Allocator, Arrival, Capacity, GopProblem, Message, Settings, TileMenu, UnknownAllocator,
};
use tributary_video::prediction::TileOutlook;
use tributary_video::rd::Concealment;

use super::audience::Watched;
use super::clip::Clip;
use super::display::Display;
use super::known::{Course, Known};

/// `fix-q` with its tiles sent by gain per byte: what order alone does.
pub const BY_GAIN: &str = "fix-q-by-gain";
/// `ows` that plans each GoP anew while it is sent, with what is known of the view by then.
pub const UPDATED: &str = "ows-updated";
/// Plans it makes for a GoP.
const UPDATES: usize = 8;
/// Bytes that may be on their way when a plan is made: what the server hands over ahead, and the radios' queues.
const UNDER_WAY: u64 = 800_000;
/// A view that nobody expected: so much is added to each tile's weight, times its share of the sphere. Predictions give
/// most of the sphere no weight at all, and a tile that was never sent is black.
const SURPRISE: f64 = 0.02;
/// What is sent now is what is frozen in the next GoP: so much is added, times the view expected of that.
const LATER: f64 = 0.1;
/// With one plan a GoP, so much of the expected dB is given up for sending nothing that is likelier late than in time.
const UNLIKELY_DB: f64 = 0.05;
/// From this plan of a GoP on, what is not this sure to arrive is not sent: nothing later can take it back.
const TRIMMED_FROM: usize = 6;
const SURE: f64 = 0.8;

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
    /// Whether the plan may leave tiles out.
    skipping: bool,
    /// Whether tiles also count for what the viewer may look at unexpectedly, or later.
    foresees: bool,
    known: Known,
    /// The latest plan.
    last: Vec<TileMessage>,
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
        earlier: &[Course],
    ) -> Result<Self, UnknownAllocator> {
        let by_gain = name == BY_GAIN;
        let known = match name {
            BY_GAIN => "fix-q",
            UPDATED => "ows",
            other => other,
        };
        let settings =
            Settings { unlikely_db: if plans(name) == 1 { UNLIKELY_DB } else { 0.0 }, ..Settings::default() };
        let allocator = allocation::create(known, settings)?;
        let display = Display::new(clip.info.tiles, concealment);
        Ok(Self {
            clip,
            watched,
            concealment,
            allocator,
            by_gain,
            plans: plans(name),
            skipping: known == "ows",
            foresees: known.starts_with("ows") && !known.starts_with("ows-paper"),
            known: Known::new(earlier),
            last: Vec::new(),
            display,
            shown: 0,
        })
    }

    /// Learns from the GoPs whose deadline has come.
    fn learn(&mut self, past: &[GopRecord]) {
        for record in &past[self.shown.min(past.len())..] {
            self.known.learn(record);
            let at = self.clip.at(self.watched.first + self.shown);
            self.display.advance(self.clip.table().gop(at), record);
            self.shown += 1;
        }
    }

    /// The `part`-th plan of a GoP, of which `sent` is known so far.
    fn allocate(&self, gop: usize, part: usize, sent: Option<&GopRecord>) -> Option<Vec<TileMessage>> {
        let (table, at) = (self.clip.table(), self.clip.at(self.watched.first + gop));
        // Where fewer outlooks are known than plans are made, the nearest before.
        let nearest = |moments: &'_ [Vec<TileOutlook>]| moments[part * moments.len() / self.plans].clone();
        let [outlook, later] = [&self.watched.outlooks, &self.watched.later].map(|all| nearest(&all[gop]));
        let mut tiles = table.menus(at, &outlook, self.concealment);
        for (tile, mse) in tiles.iter_mut().zip(self.display.concealed(table.gop(at))) {
            tile.concealed_mse = mse;
        }
        if self.foresees {
            let shares = table.layout().grid.sphere_shares();
            for ((tile, share), later) in tiles.iter_mut().zip(shares).zip(later) {
                // Scaled back, so that a weight stays a share.
                let weight = tile.weight + SURPRISE * share + LATER * later.share;
                tile.weight = weight / (1.0 + SURPRISE + LATER);
            }
        }
        let (mut coming, mut under_way) = (Vec::new(), 0);
        if let Some(record) = sent {
            for planned in record.planned.iter().filter(|planned| planned.arrived.is_some()) {
                helped(&mut tiles, &planned.message);
            }
            (coming, under_way) = self.on_its_way(record);
            coming.iter().for_each(|message| helped(&mut tiles, message));
        }
        let parts = part * PARTS / self.plans;
        let carried = sent.map_or(0.0, |record| record.arrivals[..parts].iter().sum::<u64>() as f64);
        let rest = self.known.rest(parts, carried).into_iter();
        let samples: Vec<f64> = rest.map(|bytes| (bytes - under_way as f64).max(0.0)).collect();
        let capacity = Capacity::from_paths(std::slice::from_ref(&samples)).ok()?;
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
        let mut order = allocation.order;
        if self.skipping && part >= TRIMMED_FROM {
            order = self.surely(&problem, order, &samples);
        }
        let cells = table.gop(at);
        let message =
            |Message { tile, choice }| TileMessage { tile, choice, bytes: cells[tile].bytes[choice] };
        let mut order: Vec<TileMessage> = order.into_iter().map(message).collect();
        // What is still to come stays wanted; what of it has begun is not sent twice.
        order.retain(|message| !coming.contains(message));
        coming.extend(order);
        Some(coming)
    }

    /// What of a plan will surely be there in time. Where something has to be dropped, the same capacity may show more
    /// when all tiles are planned anew for what is sure of it.
    fn surely(&self, problem: &GopProblem, mut order: Vec<Message>, samples: &[f64]) -> Vec<Message> {
        if !trim(problem, &mut order, samples) {
            return order;
        }
        let mut sorted = samples.to_vec();
        sorted.sort_by(f64::total_cmp);
        let sure = sorted[sorted.len() - (SURE * sorted.len() as f64).ceil() as usize];
        let again = Capacity::certain(sure)
            .and_then(|known| GopProblem::new(problem.tiles().to_vec(), known, Arrival::InOrder));
        let Ok(again) = again else { return order };
        let mut other = self.allocator.allocate(&again).order;
        trim(problem, &mut other, samples);
        if shown(problem, &other) < shown(problem, &order) { other } else { order }
    }

    /// What may be under way: the first messages of the latest plan that are missing, as far as the server and the
    /// radios hold that much; and their bytes.
    fn on_its_way(&self, record: &GopRecord) -> (Vec<TileMessage>, u64) {
        let (mut coming, mut bytes) = (Vec::new(), 0);
        for message in &self.last {
            let copies = record.planned.iter().filter(|planned| planned.message == *message);
            let missing = copies.map(Planned::missing).min().unwrap_or(message.bytes);
            if missing > 0 {
                coming.push(*message);
                bytes += missing;
            }
            if bytes >= UNDER_WAY {
                break;
            }
        }
        (coming, bytes)
    }
}

/// A tile of which this message is there, or will be.
fn helped(tiles: &mut [TileMenu], message: &TileMessage) {
    let tile = &mut tiles[message.tile];
    tile.concealed_mse = tile.concealed_mse.min(tile.choices[message.choice].mse);
}

/// Drops from the end what will hardly be there in time; whether there was any.
fn trim(problem: &GopProblem, order: &mut Vec<Message>, samples: &[f64]) -> bool {
    let bytes = |message: &Message| problem.tiles()[message.tile].choices[message.choice].bytes;
    let (planned, mut end) = (order.len(), order.iter().map(bytes).sum::<u64>());
    while let Some(last) = order.last() {
        let arrives = samples.iter().filter(|sample| **sample >= end as f64).count();
        if arrives as f64 >= SURE * samples.len() as f64 {
            break;
        }
        end -= bytes(last);
        order.pop();
    }
    order.len() < planned
}

/// The view's expected error when all of an order arrives.
fn shown(problem: &GopProblem, order: &[Message]) -> f64 {
    let mut errors: Vec<f64> = problem.tiles().iter().map(|tile| tile.concealed_mse).collect();
    for message in order {
        let error = &mut errors[message.tile];
        *error = error.min(problem.tiles()[message.tile].choices[message.choice].mse);
    }
    errors.iter().zip(problem.tiles()).map(|(error, tile)| error * tile.weight).sum()
}

impl TilePlanner for Planner {
    fn plan(&mut self, gop: usize, part: usize, records: &[GopRecord]) -> Option<Vec<TileMessage>> {
        self.learn(&records[..gop.min(records.len())]); // those whose deadline has come
        self.last = self.allocate(gop, part, records.get(gop))?;
        Some(self.last.clone())
    }
}
