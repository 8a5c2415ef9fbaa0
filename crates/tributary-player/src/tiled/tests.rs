//! Hostile peers: all input is accepted or gives an error, and it never causes a panic or unbounded memory use.

use bytes::Bytes;
use proptest::prelude::*;
use tributary_types::{Bitrate, Instant};
use tributary_video::head::{HeadSample, HeadTrace};
use tributary_video::projection::Projection;
use tributary_video::rd::{Concealment, RdTable, TableLayout, TileCells};
use tributary_video::sphere::Orientation;
use tributary_video::tiles::TileGrid;
use tributary_video::viewport::FieldOfView;

use super::frames::Frames;
use super::wire::{Plan, Reader, TilePart, TiledMessage};
use super::*;

mod live;
mod sound;

const START: TiledMessage = TiledMessage::Start { low_resolution: false };
/// Bytes of a tile in each quality.
const SIZES: [u64; 3] = [40_000, 20_000, 10_000];

fn table() -> RdTable {
    let grid = TileGrid::new(4, 2, Projection::Equirectangular).unwrap();
    let layout = TableLayout { grid, width: 64, height: 32, gop_duration_s: 1.0, qps: vec![22, 32, 42] };
    let cells =
        TileCells { bytes: SIZES.to_vec(), mse: vec![4.0, 20.0, 90.0], freeze_mse: 600.0, black_mse: 9000.0 };
    RdTable::new(layout, vec![cells; 24]).unwrap()
}

fn planner(name: &str) -> Planner {
    let at = |time_s| HeadSample { time_s, orientation: Orientation::default() };
    Planner {
        allocator: allocator(name, 1, false).unwrap(),
        field: FieldOfView::default(),
        trace: HeadTrace::from_samples(vec![at(0.0), at(1.0)]).unwrap(),
        crowd: Vec::new(),
        concealment: Concealment::Freeze,
    }
}

fn settings(slots: u32) -> PlayerSettings {
    PlayerSettings::new(Some(slots), Bitrate::from_bps(2_000_000), 1)
}

fn video() -> Video {
    Video { layout: table().layout().clone(), gops: 3, sound: None, low_resolution: false }
}

/// The next tile to read, and its parts after the read.
fn next_tile(pusher: &mut Pusher, now: Instant) -> Option<TileOrder> {
    loop {
        match pusher.poll_transmit(now, &table())? {
            Transmit::Read(order) => {
                pusher.handle_tile(None, Bytes::from_static(&[0; 20_000])).unwrap();
                return Some(order);
            }
            Transmit::Message { .. } => {}
        }
    }
}

fn entry(tile: u16, quality: u8) -> PlanEntry {
    PlanEntry { tile, quality, with_init: false }
}

fn plan(slot: u32, revision: u16, entries: Vec<PlanEntry>) -> TiledMessage {
    TiledMessage::Plan(Plan { slot, gop: 0, revision, within_us: 1_000_000, entries })
}

fn part(slot: u32, tile: u16, offset: u32, total: u32) -> TiledMessage {
    let payload = Bytes::from_static(&[1; 10]);
    TiledMessage::Tile(TilePart { slot, gop: 0, tile, quality: 1, init: 0, total, offset, payload })
}

fn started() -> Pusher {
    let mut pusher = Pusher::new(video());
    pusher.handle_bytes(Instant::ZERO, &START.encode()).unwrap();
    pusher
}

/// A player after the plan of its first slot.
fn playing() -> Player {
    let mut player = Player::new(settings(3), planner("fix"), Instant::ZERO);
    let at = Instant::from_millis(10);
    player.handle_bytes(at, &TiledMessage::Video(video()).encode()).unwrap();
    player.handle_bytes(at, &TiledMessage::menu_of(&table(), 0, 0).encode()).unwrap();
    player
}

fn messages() -> Vec<TiledMessage> {
    vec![
        TiledMessage::Start { low_resolution: true },
        TiledMessage::Menus { first: 2, count: 3 },
        plan(1, 0, vec![entry(3, 1), PlanEntry { with_init: true, ..entry(7, 2) }]),
        TiledMessage::End,
        TiledMessage::Report { in_time: 3, late: 1 },
        TiledMessage::Video(Video { sound: SoundFormat::new(2), low_resolution: true, ..video() }),
        TiledMessage::menu_of(&table(), 1, 12_000),
        part(0, 3, 0, 20_000),
        TiledMessage::Served { asked: 7, sent: 5 },
        TiledMessage::Refused { reason: "no such thing — ü".to_owned() },
        TiledMessage::Last { gop: 7 },
        TiledMessage::Gone { gop: 1, oldest: 5 },
    ]
}

#[test]
fn messages_round_trip_in_any_pieces() {
    for (reader, messages) in [(Reader::Server, &messages()[..5]), (Reader::Client, &messages()[5..])] {
        let all: Vec<u8> = messages.iter().flat_map(|message| message.encode()).collect();
        for piece in [1, 7, 4096] {
            let (mut frames, mut found) = (Frames::new(reader), Vec::new());
            for bytes in all.chunks(piece) {
                frames.push(bytes);
                while let Some(message) = frames.next().unwrap() {
                    found.push(message);
                }
            }
            assert_eq!(found, messages);
            assert!(frames.is_between_messages());
        }
    }
}

#[test]
fn every_single_byte_change_is_an_error_or_another_message() {
    for message in messages() {
        let good = message.encode();
        for place in 0..good.len().min(64) {
            for value in [0, 1, 0x7f, 0x80, 0xff] {
                let mut bytes = good.to_vec();
                bytes[place] = value;
                let _ = started().handle_bytes(Instant::ZERO, &bytes);
                let _ = playing().handle_bytes(Instant::from_millis(20), &bytes);
            }
        }
    }
}

#[test]
fn a_length_is_checked_before_memory_is_reserved() {
    for kind in 0..=255 {
        let head = [kind, 1, 0, 0, 0xff, 0xff, 0xff, 0xff];
        assert!(started().handle_bytes(Instant::ZERO, &head).is_err(), "{kind}");
        assert!(playing().handle_bytes(Instant::ZERO, &head).is_err(), "{kind}");
    }
    assert!(matches!(
        Pusher::new(video()).handle_bytes(Instant::ZERO, b"GET / HTTP/1.1\r\n\r\n"),
        Err(PushError::Wire(WireError::Magic))
    ));
}

#[test]
fn requests_for_missing_tiles_are_refused_with_a_reason() {
    let far = TiledMessage::Plan(Plan { slot: 0, gop: 3, revision: 0, within_us: 1, entries: vec![] });
    for (message, words) in [
        (plan(0, 0, vec![entry(8, 0)]), "tile 8; there are 8"),
        (plan(0, 0, vec![entry(0, 3)]), "quality 3; there are 3"),
        (far, "GoP 3; there are 3"),
        (TiledMessage::Menus { first: 9, count: 1 }, "GoP 9"),
        (START, "or sent two"),
    ] {
        let error = started().handle_bytes(Instant::ZERO, &message.encode()).unwrap_err().to_string();
        assert!(error.contains(words), "{error}");
    }
    let mut pusher = started();
    pusher.handle_bytes(Instant::ZERO, &plan(4, 1, vec![]).encode()).unwrap();
    for old in [plan(4, 1, vec![]), plan(3, 9, vec![])] {
        assert!(matches!(pusher.handle_bytes(Instant::ZERO, &old.encode()), Err(PushError::Old { .. })));
    }
    assert!(Pusher::new(video()).handle_bytes(Instant::ZERO, &plan(0, 0, vec![]).encode()).is_err());
}

#[test]
fn a_client_gets_the_low_resolution_stream_if_it_asks_for_it_and_the_video_has_one() {
    let start = TiledMessage::Start { low_resolution: true }.encode();
    let error = Pusher::new(video()).handle_bytes(Instant::ZERO, &start).unwrap_err().to_string();
    assert!(error.contains("no low-resolution stream") && error.contains("tributary ingest"), "{error}");
    let grid = TileGrid::new(1, 1, Projection::Equirectangular).unwrap();
    let layout = TableLayout { grid, width: 32, height: 16, qps: vec![27], ..table().layout().clone() };
    let low = Video { layout, ..video() };
    for asks in [false, true] {
        let mut pusher = Pusher::new(video()).with_low_resolution(Some((low.clone(), vec![7])));
        let start = TiledMessage::Start { low_resolution: asks };
        pusher.handle_bytes(Instant::ZERO, &start.encode()).unwrap();
        assert_eq!(pusher.is_low_resolution(), asks);
        let Some(Transmit::Message { bytes, .. }) = pusher.poll_transmit(Instant::ZERO, &table()) else {
            panic!("no answer")
        };
        let expected = if asks { low.clone() } else { Video { low_resolution: true, ..video() } };
        assert_eq!(bytes, TiledMessage::Video(expected).encode());
        let other = pusher.handle_bytes(Instant::ZERO, &plan(0, 0, vec![entry(7, 0)]).encode());
        assert_eq!(other.is_err(), asks, "it has one tile");
    }
}

#[test]
fn of_requests_that_pile_up_the_newest_are_kept() {
    let mut pusher = started();
    for slot in 0..100 {
        pusher.handle_bytes(Instant::ZERO, &plan(slot, 0, vec![entry(0, 0)]).encode()).unwrap();
    }
    let order = next_tile(&mut pusher, Instant::ZERO).unwrap();
    assert_eq!((order.slot, pusher.counters().expired), (92, 92));

    let mut pusher = Pusher::new(video());
    pusher.handle_bytes(Instant::ZERO, &TiledMessage::Start { low_resolution: false }.encode()).unwrap();
    let last = video().gops - 1;
    for _ in 0..100 {
        pusher.handle_bytes(Instant::ZERO, &TiledMessage::Menus { first: 0, count: 16 }.encode()).unwrap();
    }
    pusher.handle_bytes(Instant::ZERO, &TiledMessage::Menus { first: last, count: 1 }.encode()).unwrap();
    let mut answers = Vec::new();
    while let Some(Transmit::Message { bytes, .. }) = pusher.poll_transmit(Instant::ZERO, &table()) {
        answers.push(bytes);
    }
    assert_eq!(answers.len(), 64);
    assert_eq!(
        answers.first(),
        Some(&TiledMessage::Video(video()).encode()),
        "the description is not dropped"
    );
    assert_eq!(answers.last(), Some(&TiledMessage::menu_of(&table(), last as usize, 0).encode()));
}

#[test]
fn a_newer_revision_replaces_tiles_that_have_not_begun() {
    let mut pusher = started();
    let first = plan(0, 0, (0..4).map(|tile| entry(tile, 0)).collect());
    pusher.handle_bytes(Instant::ZERO, &first.encode()).unwrap();
    assert_eq!(next_tile(&mut pusher, Instant::ZERO).unwrap().entry, entry(0, 0));
    // A client cannot know which tiles have begun when it plans again; tiles that have begun are not pushed twice.
    let update = plan(0, 1, vec![entry(0, 0), entry(6, 2)]);
    pusher.handle_bytes(Instant::ZERO, &update.encode()).unwrap();
    assert_eq!(next_tile(&mut pusher, Instant::ZERO).unwrap().entry, entry(6, 2));
    assert_eq!(next_tile(&mut pusher, Instant::ZERO), None);
    let counters = PushCounters { planned: 5, pushed: 2, expired: 0, replaced: 3 };
    assert_eq!(pusher.counters(), counters);
    pusher.handle_bytes(Instant::ZERO, &plan(1, 0, vec![entry(1, 1)]).encode()).unwrap();
    assert_eq!(next_tile(&mut pusher, Instant::from_millis(1000)), None, "its deadline has come");
    assert_eq!(pusher.counters().expired, 1);
}

#[test]
fn a_server_that_pushes_unrequested_tiles_is_disconnected() {
    let at = Instant::from_millis(20);
    let unasked = |message: TiledMessage| playing().handle_bytes(at, &message.encode());
    assert!(matches!(unasked(part(2, 0, 0, 20)), Err(PlayError::Unasked { slot: 2, .. })));
    assert!(matches!(unasked(part(0, 999, 0, 20)), Err(PlayError::Unasked { tile: 999, .. })));
    assert!(matches!(unasked(TiledMessage::Video(video())), Err(PlayError::Order)));
    assert!(matches!(
        unasked(TiledMessage::Refused { reason: "full".to_owned() }),
        Err(PlayError::Refused(_))
    ));
    let mut menu = TiledMessage::menu_of(&table(), 1, 0).encode().to_vec();
    menu[16..20].copy_from_slice(&f32::NAN.to_be_bytes());
    let error = playing().handle_bytes(at, &menu).unwrap_err().to_string();
    assert!(error.contains("freeze_mse") && error.contains("NaN"), "{error}");
}

/// A player after the plan of its first slot, and a part of its first requested tile: bytes from `offset` of `total`.
fn expecting() -> (Player, impl Fn(u32, u32) -> TilePart) {
    let mut player = playing();
    let mut planned = Frames::new(Reader::Server);
    while let Some(bytes) = player.poll_transmit() {
        planned.push(&bytes);
    }
    let entry = std::iter::from_fn(|| planned.next().unwrap()).find_map(|message| match message {
        TiledMessage::Plan(plan) => plan.entries.first().copied(),
        _ => None,
    });
    let PlanEntry { tile, quality, .. } = entry.unwrap();
    let part = move |offset: u32, total: u32| {
        let payload = Bytes::from_static(&[1; 5_000]);
        TilePart { slot: 0, gop: 0, tile, quality, init: 0, total, offset, payload }
    };
    (player, part)
}

#[test]
fn tiles_arrive_whole_and_once_or_not_at_all() {
    let at = Instant::from_millis(20);
    let (mut player, part) = expecting();
    let total = SIZES[usize::from(part(0, 0).quality)] as u32;
    let mut give = |offset| player.handle_bytes(at, &TiledMessage::Tile(part(offset, total)).encode());
    give(0).unwrap();
    give(10_000).unwrap();
    give(5_000).unwrap();
    for offset in (0..total).step_by(5_000) {
        give(offset).unwrap();
    }
    assert!(matches!(give(0), Err(PlayError::Unasked { .. })), "twice");
    assert_eq!(player.poll_tile().unwrap().segment.len() as u32, total);
    assert_eq!(player.poll_tile(), None, "a dropped part leaves the tile incomplete");
}

#[test]
fn a_server_that_sends_another_size_than_announced_is_disconnected() {
    let at = Instant::from_millis(20);
    for more in [1, 60 << 20] {
        let (mut player, part) = expecting();
        let announced = SIZES[usize::from(part(0, 0).quality)];
        let lie = TiledMessage::Tile(part(0, announced as u32 + more)).encode();
        let error = player.handle_bytes(at, &lie).unwrap_err();
        assert!(matches!(error, PlayError::Size { announced: told, .. } if told == announced), "{error}");
    }
    let (mut player, part) = expecting();
    let other = TiledMessage::Tile(TilePart { gop: 1, ..part(0, 20_000) }).encode();
    assert!(matches!(player.handle_bytes(at, &other), Err(PlayError::Unasked { .. })));
}

#[test]
fn a_tile_goes_in_parts_until_its_deadline() {
    let mut pusher = started();
    pusher.handle_bytes(Instant::ZERO, &plan(0, 0, vec![entry(0, 0), entry(1, 0)]).encode()).unwrap();
    let parts = |pusher: &mut Pusher, now| match pusher.poll_transmit(now, &table()) {
        Some(Transmit::Message { bytes, deadline }) => Some((bytes.len(), deadline.is_some())),
        Some(Transmit::Read(_)) => None,
        None => panic!("nothing to send"),
    };
    assert_eq!(parts(&mut pusher, Instant::ZERO).map(|(_, deadline)| deadline), Some(false), "the video");
    assert!(next_tile(&mut pusher, Instant::ZERO).is_some());
    assert_eq!(parts(&mut pusher, Instant::ZERO), Some((32 + 16_384, true)));
    assert_eq!(parts(&mut pusher, Instant::ZERO), Some((32 + 3_616, true)));
    assert!(next_tile(&mut pusher, Instant::ZERO).is_some());
    assert!(parts(&mut pusher, Instant::ZERO).is_some());
    // The rest of the tile is dropped, so the tile is not complete.
    assert_eq!(pusher.poll_transmit(Instant::from_millis(1000), &table()), None);
    assert_eq!(pusher.counters(), PushCounters { planned: 2, pushed: 1, expired: 1, replaced: 0 });
    let error = {
        pusher.handle_bytes(Instant::ZERO, &plan(1, 0, vec![entry(2, 0)]).encode()).unwrap();
        assert!(matches!(pusher.poll_transmit(Instant::ZERO, &table()), Some(Transmit::Read(_))));
        pusher.handle_tile(None, Bytes::new()).unwrap_err()
    };
    assert!(error.to_string().contains("tile 2, quality 0 has 0 bytes of media"), "{error}");
}

#[test]
fn the_counts_include_tiles_withdrawn_too_late_and_exclude_withdrawn_ones() {
    let at = Instant::ZERO;
    let mut pusher = started();
    let send = |pusher: &mut Pusher, message: TiledMessage| pusher.handle_bytes(at, &message.encode());
    send(&mut pusher, plan(0, 0, (0..4).map(|tile| entry(tile, 0)).collect())).unwrap();
    // Tile 0 is sent, and the first part of tile 1; the newer plan contains neither, and withdraws 2 and 3.
    assert_eq!(next_tile(&mut pusher, at).unwrap().entry, entry(0, 0));
    assert_eq!(next_tile(&mut pusher, at).unwrap().entry, entry(1, 0));
    assert!(pusher.poll_transmit(at, &table()).is_some());
    send(&mut pusher, plan(0, 1, vec![entry(5, 0), entry(6, 0)])).unwrap();
    assert!(matches!(send(&mut pusher, TiledMessage::Report { in_time: 0, late: 0 }), Err(PushError::Order)));
    send(&mut pusher, TiledMessage::End).unwrap();
    assert!(pusher.has_ended() && !pusher.is_over());
    let served = TiledMessage::Served { asked: 4, sent: 1 }.encode();
    let account = Some(Transmit::Message { bytes: served, deadline: None });
    assert_eq!(pusher.poll_transmit(at, &table()), account);
    assert_eq!(pusher.poll_transmit(at, &table()), None, "once");
    let error = send(&mut pusher, TiledMessage::Report { in_time: u64::MAX, late: 2 }).unwrap_err();
    assert!(matches!(error, PushError::Report { sent: 1, .. }), "{error}");
    send(&mut pusher, TiledMessage::Report { in_time: 0, late: 1 }).unwrap();
    assert!(pusher.is_over());
    assert_eq!(pusher.account(), Some(Account { asked: 4, in_time: 0, late: 1 }));
    assert_eq!(pusher.account().unwrap().dropped(), 3);
    assert!(matches!(send(&mut pusher, TiledMessage::End), Err(PushError::Order)));
}

#[test]
fn a_player_takes_the_servers_account_once_and_at_the_end() {
    let at = Instant::from_millis(20);
    let served = |asked, sent| TiledMessage::Served { asked, sent }.encode();
    assert!(matches!(playing().handle_bytes(at, &served(8, 8)), Err(PlayError::Order)));
    let arrived = || {
        let (mut player, part) = expecting();
        let total = SIZES[usize::from(part(0, 0).quality)] as u32;
        for offset in (0..total).step_by(5_000) {
            player.handle_bytes(at, &TiledMessage::Tile(part(offset, total)).encode()).unwrap();
        }
        player.finish();
        (player, part(0, total))
    };
    for (asked, sent) in [(8, 0), (3, 4)] {
        let error = arrived().0.handle_bytes(at, &served(asked, sent)).unwrap_err();
        assert!(matches!(error, PlayError::Account { arrived: 1, .. }), "{error}");
    }
    let (mut player, again) = arrived();
    // Requests from before the end may still be answered; nothing more is planned.
    player.handle_bytes(at, &TiledMessage::menu_of(&table(), 1, 0).encode()).unwrap();
    player.handle_bytes(at, &served(8, 7)).unwrap();
    assert!(player.is_settled());
    let said: Vec<_> = std::iter::from_fn(|| player.poll_transmit()).collect();
    assert_eq!(said, [TiledMessage::End.encode(), TiledMessage::Report { in_time: 1, late: 0 }.encode()]);
    let account = player.record(End::Complete).account;
    assert_eq!(account, Some(Account { asked: 8, in_time: 1, late: 0 }));
    assert!(matches!(player.handle_bytes(at, &served(8, 7)), Err(PlayError::Order)));
    assert!(matches!(player.handle_bytes(at, &TiledMessage::Tile(again).encode()), Err(PlayError::Order)));
}

proptest! {
    #[test]
    fn random_bytes_cause_no_panic(noise in proptest::collection::vec(any::<u8>(), 0..400), cut in 0usize..200) {
        let _ = started().handle_bytes(Instant::ZERO, &noise);
        let _ = playing().handle_bytes(Instant::from_millis(20), &noise);
        let mut good: Vec<u8> = messages()[..3].iter().flat_map(|message| message.encode()).collect();
        good.truncate(cut);
        let mut pusher = Pusher::new(video());
        if pusher.handle_bytes(Instant::ZERO, &good).is_ok() {
            let _ = pusher.handle_end();
        }
        prop_assert!(next_tile(&mut pusher, Instant::ZERO).is_none() || cut > 8);
    }
}
