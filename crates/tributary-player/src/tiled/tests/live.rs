//! A live video: what a player does with GoPs that come late or not at all, and a pusher with requests for old ones.

use core::time::Duration;

use super::*;
use crate::tiled::wire::MOST_LIVE;

const GOP: Duration = Duration::from_secs(1);

fn live() -> Video {
    Video { gops: LIVE, ..video() }
}

fn at(millis: u64) -> Instant {
    Instant::from_millis(millis)
}

/// GoP `gop` is there.
fn menu(gop: u32) -> Bytes {
    TiledMessage::menu(gop, table().gop(0), 0).encode()
}

/// A viewer who comes when GoP 40 is the newest; the answer takes 100 ms.
fn joined(slots: u32) -> Player {
    let mut player = Player::new(settings(slots), planner("fix"), at(0));
    player.handle_bytes(at(100), &TiledMessage::Video(live()).encode()).unwrap();
    player.handle_bytes(at(100), &menu(40)).unwrap();
    player
}

fn slots(player: &Player) -> Vec<SlotRecord> {
    (0..).map_while(|slot| player.slot(slot).cloned()).collect()
}

fn last(player: &Player) -> SlotRecord {
    slots(player).pop().unwrap()
}

fn gops(player: &Player) -> Vec<u32> {
    slots(player).iter().map(|slot| slot.gop).collect()
}

/// All bytes of the last plan arrive.
fn deliver(player: &mut Player, now: Instant) {
    let slot = last(player);
    for (tile, quality) in slot.planned {
        let total = SIZES[usize::from(quality)] as u32;
        let payload = vec![1; total as usize].into();
        let part =
            TilePart { slot: slot.slot, gop: slot.gop, tile, quality, init: 0, total, offset: 0, payload };
        player.handle_bytes(now, &TiledMessage::Tile(part).encode()).unwrap();
    }
}

#[test]
fn a_late_viewer_begins_with_the_newest_gop_and_waits_for_each_next_one() {
    let mut player = joined(10);
    // Half a GoP of margin, then the plan.
    assert_eq!((gops(&player), player.poll_timeout()), (vec![], at(600)));
    player.handle_timeout(at(600)).unwrap();
    assert_eq!(gops(&player), [40]);
    // GoP 41 is a little late, within the margin: nothing is shifted.
    player.handle_bytes(at(1400), &menu(41)).unwrap();
    player.handle_timeout(at(1600)).unwrap();
    assert_eq!((gops(&player), player.waited()), (vec![40, 41], Duration::ZERO));
    // GoP 42 comes 700 ms after its plan was due.
    player.handle_timeout(at(2600)).unwrap();
    assert_eq!(gops(&player), [40, 41]);
    assert!(player.poll_timeout() > at(60_000), "it would be called again and again");
    assert!(!player.is_over(at(50_000)));
    player.handle_bytes(at(3300), &menu(42)).unwrap();
    assert_eq!((gops(&player), player.waited()), (vec![40, 41, 42], Duration::from_millis(700)));
    // Its slot, and with it the end, are shown 700 ms later: after another GoP and a round trip.
    assert_eq!(last(&player).deadline_ms, 4400.0);
}

#[test]
fn a_viewer_that_falls_behind_goes_on_with_the_newest_gop() {
    let mut player = joined(10);
    for gop in 41..=43 {
        player.handle_bytes(at(500), &menu(gop)).unwrap();
    }
    player.handle_timeout(at(600)).unwrap();
    player.handle_timeout(at(1600)).unwrap();
    assert_eq!(gops(&player), [43]);
    // Two GoPs behind is near enough.
    for gop in 44..=46 {
        player.handle_bytes(at(1700), &menu(gop)).unwrap();
    }
    assert_eq!(gops(&player), [43, 44]);
}

#[test]
fn waiting_for_a_gop_does_not_lower_the_estimate_of_the_capacity() {
    let mut player = joined(20);
    for slot in 0..8 {
        let now = at(600) + GOP * slot;
        player.handle_timeout(now).unwrap();
        deliver(&mut player, now + Duration::from_millis(150));
        player.handle_bytes(now + Duration::from_millis(700), &menu(41 + slot)).unwrap();
    }
    let before = last(&player).capacity_mean;
    // The source stops for five seconds, with one tile of the last plan dropped.
    let now = at(600) + GOP * 8;
    player.handle_timeout(now).unwrap();
    let late = now + Duration::from_millis(6000);
    player.handle_timeout(now + GOP).unwrap();
    player.handle_bytes(late, &menu(49)).unwrap();
    let after = last(&player);
    assert_eq!(after.gop, 49);
    assert!(after.capacity_mean > 0.5 * before, "{before} bytes before, {} after", after.capacity_mean);
}

#[test]
fn the_last_gop_ends_the_viewing() {
    let mut player = joined(10);
    player.handle_timeout(at(600)).unwrap();
    player.handle_bytes(at(1200), &menu(41)).unwrap();
    player.handle_bytes(at(1200), &TiledMessage::Last { gop: 41 }.encode()).unwrap();
    player.handle_timeout(at(1600)).unwrap();
    player.handle_timeout(at(2600)).unwrap();
    assert_eq!(gops(&player), [40, 41]);
    assert!(!player.is_over(at(2600)) && player.is_over(at(2700)), "{:?}", player.ends_at());
    // A source that ends while its last GoP is shown.
    let mut player = joined(10);
    player.handle_timeout(at(600)).unwrap();
    player.handle_bytes(at(1700), &TiledMessage::Last { gop: 40 }.encode()).unwrap();
    assert!(player.is_over(at(1700)));
}

#[test]
fn a_live_viewing_that_is_cut_has_no_slots_that_were_never_made() {
    let endless = PlayerSettings { seconds: None, ..settings(0) };
    let mut player = Player::new(endless, planner("fix"), at(0));
    player.handle_bytes(at(100), &TiledMessage::Video(live()).encode()).unwrap();
    player.handle_bytes(at(100), &menu(40)).unwrap();
    player.handle_timeout(at(600)).unwrap();
    assert_eq!(player.record(End::TimedOut).slots.len(), 1);
    // Of a viewing of ten seconds, nine are missing.
    let mut player = joined(10);
    player.handle_timeout(at(600)).unwrap();
    assert_eq!(player.record(End::TimedOut).slots.len(), 10);
}

#[test]
fn only_a_live_video_has_a_last_gop_and_no_gop_has_an_absurd_number() {
    let mut player = playing();
    let error = player.handle_bytes(at(20), &TiledMessage::Last { gop: 1 }.encode()).unwrap_err();
    assert!(matches!(error, PlayError::Order));
    let mut player = joined(3);
    assert!(player.handle_bytes(at(200), &menu(MOST_LIVE)).is_err());
}

/// What a pusher sends now.
fn sent(pusher: &mut Pusher) -> Vec<TiledMessage> {
    let mut client = Frames::new(Reader::Client);
    let mut all = Vec::new();
    while let Some(Transmit::Message { bytes, .. }) = pusher.poll_transmit(Instant::ZERO, &table()) {
        client.push(&bytes);
        all.extend(client.next().unwrap());
    }
    all
}

#[test]
fn a_pusher_announces_gops_and_says_which_are_gone() {
    let mut pusher = Pusher::new(live());
    assert!(!pusher.has_started());
    pusher.handle_bytes(Instant::ZERO, &START.encode()).unwrap();
    pusher.handle_bytes(Instant::ZERO, &TiledMessage::Menus { first: 0, count: 3 }.encode()).unwrap();
    for gop in 8..=9 {
        pusher.handle_gop((5, gop), table().gop(0));
    }
    let kinds = sent(&mut pusher);
    assert!(matches!(
        kinds[..],
        [TiledMessage::Video(_), TiledMessage::Menu { gop: 8, .. }, TiledMessage::Menu { gop: 9, .. }]
    ));
    // A GoP that is no longer kept, in a request for its menu and in a plan.
    pusher.handle_bytes(Instant::ZERO, &TiledMessage::Menus { first: 1, count: 1 }.encode()).unwrap();
    let of = |slot, gop| {
        let entries = vec![entry(0, 0), entry(1, 0)];
        TiledMessage::Plan(Plan { slot, gop, revision: 0, within_us: 1_000_000, entries }).encode()
    };
    pusher.handle_bytes(Instant::ZERO, &of(0, 4)).unwrap();
    let gone = |gop| TiledMessage::Gone { gop, oldest: 5 };
    assert_eq!(sent(&mut pusher), [gone(1), gone(4)]);
    // One that was still there when it was planned.
    pusher.handle_bytes(Instant::ZERO, &of(1, 5)).unwrap();
    assert!(matches!(pusher.poll_transmit(Instant::ZERO, &table()), Some(Transmit::Read(_))));
    pusher.handle_gone();
    assert_eq!(sent(&mut pusher), [gone(5)]);
    let counters = pusher.counters();
    assert_eq!((counters.planned, counters.pushed, counters.expired), (4, 0, 4));
    // One that does not exist yet.
    let error = pusher.handle_bytes(Instant::ZERO, &of(2, 10)).unwrap_err();
    assert_eq!(error.to_string(), "the client asked for GoP 10; there are 10");
}

#[test]
fn a_client_that_reads_nothing_costs_a_bounded_number_of_menus() {
    let mut pusher = Pusher::new(live());
    pusher.handle_bytes(Instant::ZERO, &START.encode()).unwrap();
    for gop in 0..1000 {
        pusher.handle_gop((gop, gop), table().gop(0));
    }
    let all = sent(&mut pusher);
    assert!(all.len() <= 64, "{}", all.len());
    assert!(matches!(all.last(), Some(TiledMessage::Menu { gop: 999, .. })));
}
