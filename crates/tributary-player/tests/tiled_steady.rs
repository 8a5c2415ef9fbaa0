//! A viewing of ten different GoPs in virtual time, over a link with a steady rate and no queue except the pusher's.
//! The player and the pusher are the real ones; there is no transport between them.

use core::time::Duration;
use std::collections::VecDeque;

use bytes::Bytes;
use tributary_player::tiled::{
    End, Planner, Player, PlayerSettings, Pusher, SlotRecord, Transmit, Video, allocator,
};
use tributary_types::{Bitrate, Instant};
use tributary_video::head::{HeadSample, HeadTrace};
use tributary_video::projection::Projection;
use tributary_video::rd::{Concealment, RdTable, TableLayout, TileCells};
use tributary_video::sphere::Orientation;
use tributary_video::tiles::TileGrid;
use tributary_video::viewport::FieldOfView;

const SLOTS: u32 = 10;
const PLANS: u16 = 8;
const BYTES_PER_MS: usize = 23_400;
const DELAY: Duration = Duration::from_millis(5);

/// 32 tiles: 46 MB per GoP in the finest quality, 12 MB in the coarsest.
fn table() -> RdTable {
    let grid = TileGrid::new(8, 4, Projection::Equirectangular).unwrap();
    let layout = TableLayout { grid, width: 256, height: 128, gop_duration_s: 1.0, qps: vec![22, 32, 42] };
    let bytes = vec![1_440_000, 720_000, 360_000];
    let cells = TileCells { bytes, mse: vec![4.0, 20.0, 90.0], freeze_mse: 600.0, black_mse: 9000.0 };
    RdTable::new(layout, vec![cells; 32 * SLOTS as usize]).unwrap()
}

fn planner() -> Planner {
    let at = |time_s| HeadSample { time_s, orientation: Orientation::default() };
    Planner {
        allocator: allocator("ows", PLANS, false).unwrap(),
        field: FieldOfView::default(),
        trace: HeadTrace::from_samples(vec![at(0.0), at(20.0)]).unwrap(),
        crowd: Vec::new(),
        concealment: Concealment::Freeze,
    }
}

/// Messages in flight in one direction, with their arrival times.
type Pipe = VecDeque<(Instant, Bytes)>;

/// The messages that have arrived by `now`.
fn arrived(way: &mut Pipe, now: Instant) -> Option<Bytes> {
    let due = way.front().is_some_and(|(at, _)| *at <= now);
    due.then(|| way.pop_front()).flatten().map(|(_, bytes)| bytes)
}

fn view() -> Vec<SlotRecord> {
    let table = table();
    let mut now = Instant::ZERO;
    let assumed = Bitrate::from_bps(8_000 * BYTES_PER_MS as u64);
    let settings = PlayerSettings::new(Some(SLOTS), assumed, PLANS);
    let mut player = Player::new(settings, planner(), now);
    let mut pusher = Pusher::new(Video {
        layout: table.layout().clone(),
        gops: SLOTS,
        sound: None,
        low_resolution: false,
    });
    let (mut up, mut down, mut free) = (Pipe::new(), Pipe::new(), now);
    while !player.is_over(now) {
        player.handle_timeout(now).unwrap();
        up.extend(std::iter::from_fn(|| player.poll_transmit()).map(|bytes| (now + DELAY, bytes)));
        while let Some(bytes) = arrived(&mut up, now) {
            pusher.handle_bytes(now, &bytes).unwrap();
        }
        while free <= now {
            match pusher.poll_transmit(now, &table) {
                None => free = now + Duration::from_millis(1),
                Some(Transmit::Message { bytes, .. }) => {
                    free += Duration::from_millis(1).mul_f64(bytes.len() as f64 / BYTES_PER_MS as f64);
                    down.push_back((free + DELAY, bytes));
                }
                Some(Transmit::Read(order)) => {
                    let cells = &table.gop(order.gop as usize)[usize::from(order.entry.tile)];
                    let bytes = vec![0; cells.bytes[usize::from(order.entry.quality)] as usize];
                    pusher.handle_tile(None, bytes.into()).unwrap();
                }
            }
        }
        while let Some(bytes) = arrived(&mut down, now) {
            player.handle_bytes(now, &bytes).unwrap();
        }
        now += Duration::from_millis(1);
    }
    player.record(End::Complete).slots
}

/// Over a steady link every GoP has its own menu, with more GoPs than the player keeps menus, and every
/// requested tile arrives.
#[test]
fn a_video_of_many_gops_is_planned_with_its_own_menus_and_arrives() {
    let slots = view();
    assert!(slots.iter().all(|slot| !slot.old_menu), "{slots:?}");
    let late =
        |slot: &SlotRecord| slot.planned.iter().filter(|(tile, _)| slot.in_time(*tile).is_none()).count();
    let late: Vec<usize> = slots[3..].iter().map(late).collect();
    assert!(late.iter().all(|late| *late == 0), "late tiles of each GoP: {late:?}");
    let in_time: u64 = slots[3..].iter().map(SlotRecord::bytes_in_time).sum();
    let mean = in_time as f64 / late.len() as f64;
    assert!(mean > 0.9 * 1000.0 * BYTES_PER_MS as f64, "{mean} bytes a GoP in time");
}
