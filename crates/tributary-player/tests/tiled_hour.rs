//! A viewing without end in virtual time: after an hour it takes no more memory than after six minutes, at both ends, although most tiles
//! are dropped and the head never rests. Player and pusher are the real ones; there is no transport between them.
//!
//! The memory is the process's own, so nothing that grows can be forgotten here; the file has one test, because tests of a file share a process.

use core::time::Duration;

use bytes::Bytes;
use tributary_player::tiled::{
    End, Planner, Player, PlayerSettings, Pusher, SoundFormat, Transmit, Video, allocator,
};
use tributary_types::{Bitrate, Instant};
use tributary_video::head::{HeadSample, HeadTrace};
use tributary_video::projection::Projection;
use tributary_video::rd::{Concealment, RdTable, TableLayout, TileCells};
use tributary_video::sphere::Orientation;
use tributary_video::tiles::TileGrid;
use tributary_video::viewport::FieldOfView;

const SLOTS: u32 = 3600;
const GOPS: u32 = 30;
const STEP: Duration = Duration::from_millis(25);
/// Bytes that the link carries in a step; a GoP's coarsest tiles are more than those of 40 steps.
const BYTES_PER_STEP: usize = 2_500;
/// Bytes by which the process may grow. The records of the slots between are more than ten times as many.
const ALLOWED: u64 = 512 << 10;

fn table() -> RdTable {
    let grid = TileGrid::new(8, 4, Projection::Equirectangular).unwrap();
    let layout = TableLayout { grid, width: 256, height: 128, gop_duration_s: 1.0, qps: vec![22, 42] };
    let cells =
        TileCells { bytes: vec![12_000, 4_000], mse: vec![4.0, 90.0], freeze_mse: 600.0, black_mse: 9000.0 };
    RdTable::new(layout, vec![cells; 32 * GOPS as usize]).unwrap()
}

fn planner() -> Planner {
    let at = |time_s| HeadSample { time_s, orientation: Orientation::default() };
    Planner {
        allocator: allocator("fix", 2, false).unwrap(),
        field: FieldOfView::default(),
        trace: HeadTrace::from_samples(vec![at(0.0), at(1.0)]).unwrap(),
        crowd: Vec::new(),
        concealment: Concealment::Freeze,
    }
}

/// Bytes of this process in memory.
fn resident() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap();
    1024 * line.trim().trim_end_matches(" kB").parse::<u64>().unwrap()
}

#[test]
fn an_hour_takes_no_more_memory_than_six_minutes() {
    let table = table();
    let mut now = Instant::ZERO;
    let settings = PlayerSettings {
        seconds: Some(u32::MAX),
        assumed: Bitrate::from_bps(800_000),
        plans: 2,
        kept: Some(8),
        low_resolution: false,
    };
    let mut player = Player::new(settings, planner(), now);
    let video = Video {
        layout: table.layout().clone(),
        gops: GOPS,
        sound: SoundFormat::new(1),
        low_resolution: false,
    };
    let mut pusher = Pusher::new(video).with_sound(vec![500; GOPS as usize]);
    let (mut room, mut slot, mut tiles, mut early) = (0, 0, 0_u64, 0);
    while slot < SLOTS {
        let turned = now.saturating_since(Instant::ZERO).as_secs_f64() * 40.0 % 360.0;
        player.handle_head(now, Orientation::from_degrees(turned - 180.0, 0.0, 0.0));
        player.handle_timeout(now).unwrap();
        while let Some(bytes) = player.poll_transmit() {
            pusher.handle_bytes(now, &bytes).unwrap();
        }
        room += BYTES_PER_STEP;
        while room > 0 {
            match pusher.poll_transmit(now, &table) {
                None => room = 0,
                Some(Transmit::Message { bytes, .. }) => {
                    room = room.saturating_sub(bytes.len());
                    player.handle_bytes(now, &bytes).unwrap();
                }
                Some(Transmit::Read(order)) => {
                    let cells = &table.gop(order.gop as usize).get(usize::from(order.entry.tile));
                    let bytes = cells.map_or(500, |cells| cells.bytes[usize::from(order.entry.quality)]);
                    pusher.handle_tile(None, Bytes::from(vec![0; bytes as usize])).unwrap();
                }
            }
        }
        while player.poll_tile().is_some() {
            tiles += 1;
        }
        while player.slot(slot + 1).is_some() {
            slot += 1;
            if slot == SLOTS / 10 {
                early = resident();
            }
        }
        now += STEP;
    }
    let late = resident();
    let counters = pusher.counters();
    assert!(tiles > u64::from(SLOTS) * 10, "{tiles} tiles and sounds arrived");
    assert!(counters.expired + counters.replaced > u64::from(SLOTS), "{counters:?}");
    assert!(late < early + ALLOWED, "{early} bytes after six minutes, {late} after an hour");
    let record = player.record(End::Complete);
    assert_eq!((record.slots.len(), record.bytes_per_tenth.len()), (8, 0));
}
