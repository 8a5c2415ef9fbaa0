//! Both ends together, in virtual time, over links of chosen rates.

use core::time::Duration;
use std::io;
use std::sync::Arc;

use bytes::Bytes;
use tokio::io::{AsyncReadExt, AsyncWriteExt, DuplexStream, duplex, split};
use tokio::time::{Instant as Clock, sleep, sleep_until};
use tributary_types::Bitrate;
use tributary_video::head::{HeadSample, HeadTrace};
use tributary_video::projection::Projection;
use tributary_video::rd::{Concealment, RdTable, TableLayout, TileCells};
use tributary_video::sphere::Orientation;
use tributary_video::tiles::TileGrid;
use tributary_video::viewport::FieldOfView;

use super::*;

mod sound;

const TILES: usize = 8;
/// Bytes of a tile in each quality. A GoP with all tiles in the middle quality has 1.28 Mbit.
const SIZES: [u64; 3] = [80_000, 20_000, 5_000];

/// A synthetic video: every segment contains its own number.
struct Fake {
    table: RdTable,
    missing: Option<(usize, usize)>,
}

fn fake() -> Fake {
    let grid = TileGrid::new(4, 2, Projection::Equirectangular).unwrap();
    let layout = TableLayout { grid, width: 64, height: 32, gop_duration_s: 1.0, qps: vec![22, 32, 42] };
    let cells =
        TileCells { bytes: SIZES.to_vec(), mse: vec![4.0, 20.0, 90.0], freeze_mse: 600.0, black_mse: 9000.0 };
    Fake { table: RdTable::new(layout, vec![cells; 3 * TILES]).unwrap(), missing: None }
}

fn content(gop: usize, tile: usize, quality: usize) -> Bytes {
    let mut bytes = vec![7; SIZES[quality] as usize];
    bytes[..3].copy_from_slice(&[gop as u8, tile as u8, quality as u8]);
    bytes.into()
}

impl TileSource for Fake {
    fn table(&self) -> &RdTable {
        &self.table
    }

    fn init(&self, tile: usize, quality: usize) -> io::Result<Bytes> {
        Ok(vec![tile as u8, quality as u8, 9].into())
    }

    fn segment(&self, gop: usize, tile: usize, quality: usize) -> io::Result<Bytes> {
        if self.missing == Some((gop, tile)) {
            return Err(io::Error::from(io::ErrorKind::NotFound));
        }
        Ok(content(gop, tile, quality))
    }
}

fn planner(name: &str) -> Planner {
    let at = |time_s| HeadSample { time_s, orientation: Orientation::default() };
    Planner {
        allocator: super::allocator(name, 8, false).unwrap(),
        field: FieldOfView::default(),
        trace: HeadTrace::from_samples(vec![at(0.0), at(1.0)]).unwrap(),
        crowd: Vec::new(),
        concealment: Concealment::Freeze,
    }
}

fn settings(slots: u32) -> PlayerSettings {
    PlayerSettings::new(Some(slots), Bitrate::from_bps(2_000_000), 1)
}

/// Carries bytes at a rate, and nothing during the outage (seconds from the start). Queues 10 ms of bytes.
async fn link(mut from: DuplexStream, mut to: DuplexStream, bytes_per_s: f64, outage: (f64, f64)) {
    let (origin, mut buffer) = (Clock::now(), vec![0; 2000]);
    while let Ok(count @ 1..) = from.read(&mut buffer).await {
        let now = origin.elapsed().as_secs_f64();
        if (outage.0..outage.1).contains(&now) {
            sleep_until(origin + Duration::from_secs_f64(outage.1)).await;
        }
        sleep(Duration::from_secs_f64(count as f64 / bytes_per_s)).await;
        if to.write_all(&buffer[..count]).await.is_err() {
            return;
        }
    }
    let _ = to.shutdown().await;
}

struct Seen {
    record: TiledRecord,
    tiles: Vec<TileArrived>,
    counters: PushCounters,
    /// The server's account.
    account: Option<Account>,
}

/// A viewing over a link with this downlink rate and an unlimited uplink, with one plan per slot.
async fn view(
    allocator: &str,
    slots: u32,
    bytes_per_s: f64,
    outage: (f64, f64),
) -> Result<Seen, PlayTilesError> {
    view_with(planner(allocator), settings(slots), bytes_per_s, outage).await
}

async fn view_with(
    planner: Planner,
    settings: PlayerSettings,
    bytes_per_s: f64,
    outage: (f64, f64),
) -> Result<Seen, PlayTilesError> {
    let (server_out, link_in) = duplex(4000);
    let (link_out, client_in) = duplex(4000);
    let (client_out, server_in) = duplex(1 << 16);
    tokio::spawn(link(link_in, link_out, bytes_per_s, outage));
    let serving = tokio::spawn(serve_tiles(server_in, OrderedOutlet(server_out), Arc::new(fake())));
    let mut tiles = Vec::new();
    let mut sink = |tile| {
        tiles.push(tile);
        Ok(())
    };
    let (_, record) = play_tiles((client_in, client_out), settings, planner, &mut sink).await?;
    let served = serving.await.unwrap();
    served.outcome.unwrap();
    Ok(Seen { record, tiles, counters: served.counters, account: served.account })
}

#[tokio::test(start_paused = true)]
async fn every_planned_tile_arrives_unchanged_and_in_order() {
    let seen = view("fix", 5, 400_000.0, (99.0, 99.0)).await.unwrap();
    let record = &seen.record;
    assert_eq!((record.end.clone(), record.slots.len()), (End::Complete, 5));
    assert_eq!(record.slots.iter().map(|slot| slot.gop).collect::<Vec<_>>(), [0, 1, 2, 0, 1]);
    for slot in &record.slots[..1] {
        let arrived: Vec<_> = slot.arrived.iter().map(|a| (a.tile, a.quality)).collect();
        assert_eq!(arrived, slot.planned);
        assert!(slot.arrived.iter().all(|arrival| arrival.in_time));
    }
    for tile in &seen.tiles {
        assert_eq!(tile.segment, content(tile.gop as usize, tile.tile.into(), tile.quality.into()));
    }
    // Every tile that arrives can be decoded with what arrived before it.
    let mut inits = std::collections::BTreeSet::new();
    for tile in &seen.tiles {
        if tile.init.is_some() {
            inits.insert((tile.tile, tile.quality));
        }
        assert!(inits.contains(&(tile.tile, tile.quality)));
    }
    let with_init = seen.tiles.iter().filter(|tile| tile.init.is_some()).count();
    assert!(with_init < seen.tiles.len(), "every tile was sent with its initialisation segment");
    // One GoP and two round trips; the link takes half a millisecond for the answer.
    let start_up = record.start_up_ms.unwrap();
    assert!((1000.0..1000.0 + 2.0 * record.rtt_ms + 1.0).contains(&start_up), "{start_up}");
    assert_eq!(seen.counters.planned, record.slots.iter().map(|s| s.planned.len() as u64).sum::<u64>());
}

#[tokio::test(start_paused = true)]
async fn plans_follow_what_arrives() {
    // The second link has eight times the rate; both clients start with an estimate of 2 Mbit/s.
    let (slow, fast) =
        tokio::join!(view("ows", 6, 60_000.0, (99.0, 99.0)), view("ows", 6, 480_000.0, (99.0, 99.0)));
    let planned = |seen: &Seen| seen.record.slots[3..].iter().map(|s| s.planned_bytes).sum::<u64>();
    let (slow, fast) = (slow.unwrap(), fast.unwrap());
    assert!(planned(&fast) > 3 * planned(&slow), "{} {}", planned(&fast), planned(&slow));
    assert!(planned(&slow) <= 11 * 66_000, "{}", planned(&slow));
    for slot in fast.record.slots.iter().chain(&slow.record.slots).filter(|slot| slot.slot > 5) {
        assert!(slot.capacity_samples > 0);
        assert!(4 * slot.bytes_in_time() >= 3 * slot.planned_bytes, "{slot:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn tiles_that_cannot_begin_in_time_are_dropped_and_the_next_gop_is_complete() {
    let seen = view("ows-no-skip", 8, 300_000.0, (2.2, 4.6)).await.unwrap();
    let in_time: Vec<bool> =
        seen.record.slots.iter().map(|s| s.planned.iter().all(|(t, _)| s.in_time(*t).is_some())).collect();
    assert_eq!(in_time[..2], [true, true], "{in_time:?}");
    assert!(!in_time[2] && !in_time[3], "{in_time:?}");
    assert_eq!(in_time[5..], [true, true, true], "{in_time:?}");
    assert!(seen.counters.expired > 0, "{:?}", seen.counters);
    let late = seen.tiles.iter().filter(|tile| !tile.in_time).count();
    assert!(late <= 5, "{late} tiles had begun before their deadline and arrived late");
}

#[tokio::test(start_paused = true)]
async fn planning_again_follows_the_head_and_requests_no_tile_twice() {
    // The head turns by 180° in the middle of a slot.
    let at = |time_s, yaw| HeadSample { time_s, orientation: Orientation { yaw, ..Orientation::default() } };
    let turning = || Planner {
        trace: HeadTrace::from_samples(vec![at(0.0, 0.0), at(2.2, 0.0), at(2.4, 3.0), at(9.0, 3.0)]).unwrap(),
        ..planner("ows")
    };
    let with = |plans| PlayerSettings { plans, ..settings(8) };
    let outage = (99.0, 99.0);
    let (once, often) = tokio::join!(
        view_with(turning(), with(1), 60_000.0, outage),
        view_with(turning(), with(8), 60_000.0, outage)
    );
    let (once, often) = (once.unwrap(), often.unwrap());
    assert!(once.record.slots.iter().all(|slot| slot.plans == 1));
    assert!(often.record.slots.iter().all(|slot| slot.plans > 5), "{:?}", often.record.slots);
    let mut seen = std::collections::BTreeSet::new();
    for tile in &often.tiles {
        assert!(seen.insert((tile.slot, tile.tile, tile.quality)), "{tile:?} came twice");
    }
    let in_time = |seen: &Seen| seen.record.slots.iter().map(SlotRecord::bytes_in_time).sum::<u64>();
    assert!(in_time(&often) > in_time(&once), "{} {}", in_time(&often), in_time(&once));
    // Slot 3 is sent from 2 s to 3 s of the trace's time: the turn comes after its first plan.
    let behind = |seen: &Seen| {
        let tiles =
            seen.record.slots[3].arrived.iter().filter(|t| t.in_time && matches!(t.tile, 0 | 3 | 4 | 7));
        tiles.map(|tile| u64::from(tile.bytes)).sum::<u64>()
    };
    assert!(behind(&often) > behind(&once), "{} {}", behind(&often), behind(&once));
}

/// Looks back from a time on, and leaves later.
struct Restless {
    tiles: Vec<TileArrived>,
    turns_at: Clock,
    turned: bool,
    leaves_at: Clock,
    shown_s: f64,
}

impl Viewer for Restless {
    fn tile(&mut self, tile: TileArrived) -> io::Result<()> {
        self.tiles.push(tile);
        Ok(())
    }

    async fn head(&mut self) -> Orientation {
        if self.turned {
            std::future::pending::<()>().await;
        }
        sleep_until(self.turns_at).await;
        self.turned = true;
        Orientation { yaw: 3.0, ..Orientation::default() }
    }

    fn turn(&mut self, player: &Player, now: tributary_types::Instant) -> Option<tributary_types::Instant> {
        self.shown_s = player.playback_s(now)?;
        Some(now + Duration::from_millis(100))
    }

    fn has_left(&self) -> bool {
        Clock::now() >= self.leaves_at
    }
}

#[tokio::test(start_paused = true)]
async fn an_observed_head_turns_the_plans_and_its_viewer_may_leave() {
    let (server_out, link_in) = duplex(4000);
    let (link_out, client_in) = duplex(4000);
    let (client_out, server_in) = duplex(1 << 16);
    tokio::spawn(link(link_in, link_out, 60_000.0, (99.0, 99.0)));
    let serving = tokio::spawn(serve_tiles(server_in, OrderedOutlet(server_out), Arc::new(fake())));
    let after = |seconds| Clock::now() + Duration::from_secs_f64(seconds);
    // In the middle of a slot: at its edge it depends on the round trip whether it is planned.
    let (turns_at, leaves_at) = (after(4.0), after(7.5));
    let mut viewer = Restless { tiles: Vec::new(), turns_at, turned: false, leaves_at, shown_s: 0.0 };
    let settings = PlayerSettings { plans: 8, seconds: Some(u32::MAX), ..settings(0) };
    let (_, record) =
        play_tiles((client_in, client_out), settings, planner("ows"), &mut viewer).await.unwrap();
    serving.await.unwrap().outcome.unwrap();
    // It left within a tenth of a second; nothing after that is part of the viewing.
    assert!(
        (6.2..6.6).contains(&viewer.shown_s) && record.slots.len() == 8,
        "{} {}",
        viewer.shown_s,
        record.slots.len()
    );
    let behind = |slots: std::ops::Range<u32>| {
        let tiles = viewer
            .tiles
            .iter()
            .filter(|tile| slots.contains(&tile.slot) && matches!(tile.tile, 0 | 3 | 4 | 7));
        tiles.map(|tile| tile.segment.len()).sum::<usize>()
    };
    assert!(behind(5..7) > 2 * behind(1..3), "{} {}", behind(5..7), behind(1..3));
}

#[tokio::test(start_paused = true)]
async fn later_plans_count_tiles_under_way() {
    // A steady link. The request of each plan and the data in flight must both fit, or the plan's last tiles are
    // lost.
    let often = PlayerSettings { plans: 8, ..settings(10) };
    let seen = view_with(planner("ows-no-skip"), often, 250_000.0, (99.0, 99.0)).await.unwrap();
    let whole = |slot: &&SlotRecord| (0..TILES as u16).all(|tile| slot.in_time(tile).is_some());
    let steady = &seen.record.slots[4..];
    assert_eq!(steady.iter().filter(whole).count(), steady.len(), "{steady:?}");
}

#[tokio::test(start_paused = true)]
async fn a_silent_or_closed_server_ends_the_viewing() {
    let (client, _server) = duplex(1 << 16);
    let began = Clock::now();
    let (tiles, plans) = split(client);
    let (video, record) =
        play_tiles((tiles, plans), settings(4), planner("fix"), &mut |_| Ok(())).await.unwrap();
    assert_eq!((video, record.end, record.slots.len()), (None, End::TimedOut, 4));
    assert!(began.elapsed() < Duration::from_secs(12));

    let (client, server) = duplex(1 << 16);
    drop(server);
    let (tiles, plans) = split(client);
    let (_, record) = play_tiles((tiles, plans), settings(4), planner("fix"), &mut |_| Ok(())).await.unwrap();
    assert!(matches!(record.end, End::Failed(_)) && record.start_up_ms.is_none());
}

#[tokio::test(start_paused = true)]
async fn both_ends_give_the_same_account_of_a_viewing_that_drops_and_plans_again() {
    let often = PlayerSettings { plans: 8, ..settings(8) };
    let seen = view_with(planner("ows"), often, 150_000.0, (2.2, 4.6)).await.unwrap();
    let account = seen.record.account.expect("the server's account");
    assert_eq!(seen.account, Some(account));
    assert!(account.dropped() > 0 && account.in_time > 0, "{account:?}");
    assert!(account.asked < seen.counters.planned, "tiles of replaced plans count once: {account:?}");
    assert_eq!(account.asked, seen.counters.pushed + seen.counters.expired, "{:?}", seen.counters);
    assert_eq!(account.in_time + account.late, seen.tiles.len() as u64);
}

#[tokio::test(start_paused = true)]
async fn closing_after_the_end_message_is_orderly_and_closing_before_it_is_not() {
    for (last, orderly) in [(&[4, 3, 0, 0, 0, 0, 0, 0][..], true), (&[], false)] {
        let (client, server) = duplex(1000);
        let (plans, out) = split(server);
        let serving = tokio::spawn(serve_tiles(plans, OrderedOutlet(out), Arc::new(fake())));
        let (_tiles, mut requests) = split(client);
        requests.write_all(&[1, 3, 0, 0, 0, 0, 0, 8, b'T', b'R', b'B', b'T', 0, 0, 0, 0]).await.unwrap();
        // The client does not read the menus: the server is sending one when the client sends its end message.
        requests.write_all(&[2, 3, 0, 0, 0, 0, 0, 8, 0, 0, 0, 0, 0, 16, 0, 0]).await.unwrap();
        sleep(Duration::from_secs(1)).await;
        requests.write_all(last).await.unwrap();
        let began = Clock::now();
        let served = serving.await.unwrap();
        assert_eq!(served.outcome.is_ok(), orderly, "{:?}", served.outcome);
        assert_eq!(served.account, None);
        assert_eq!(began.elapsed() < Duration::from_secs(10), orderly, "{:?}", began.elapsed());
    }
}

#[tokio::test(start_paused = true)]
async fn a_missing_segment_is_named_to_the_client() {
    let (client, server) = duplex(1 << 16);
    let (plans, out) = split(server);
    let source = Arc::new(Fake { missing: Some((1, 5)), ..fake() });
    let serving = tokio::spawn(serve_tiles(plans, OrderedOutlet(out), source));
    let (tiles, plans) = split(client);
    let error = play_tiles((tiles, plans), settings(4), planner("fix"), &mut |_| Ok(())).await.unwrap_err();
    assert!(error.to_string().contains("GoP 1, tile 5"), "{error}");
    let outcome = serving.await.unwrap().outcome;
    assert!(matches!(outcome, Err(ServeTilesError::Source { gop: 1, tile: 5, .. })), "{outcome:?}");
}

#[tokio::test(start_paused = true)]
async fn a_message_sent_byte_by_byte_times_out_like_a_missing_one() {
    // START with its magic; a MENUS message that never ends.
    let start = [1, 3, 0, 0, 0, 0, 0, 8, b'T', b'R', b'B', b'T', 0, 0, 0, 0];
    let menus = [2, 3, 0, 0, 0, 0, 0, 8, 0, 0, 0, 0, 0, 1, 0];
    let (mut client, server) = duplex(1 << 16);
    let (plans, out) = split(server);
    let began = Clock::now();
    let serving = tokio::spawn(serve_tiles(plans, OrderedOutlet(out), Arc::new(fake())));
    client.write_all(&start).await.unwrap();
    for byte in menus {
        sleep(Duration::from_secs(12)).await;
        if client.write_all(&[byte]).await.is_err() {
            break;
        }
    }
    let outcome = serving.await.unwrap().outcome;
    assert!(matches!(outcome, Err(ServeTilesError::Idle)), "{outcome:?}");
    assert!(began.elapsed() < Duration::from_secs(50), "{:?}", began.elapsed());
}
