//! The sound of a video: announced in the menus, requested before all tiles, sent first, and not counted as a tile.

use super::*;
use crate::tiled::wire::SOUND;

const BYTES: u32 = 12_000;

fn with_sound() -> Video {
    Video { sound: SoundFormat::new(2), ..video() }
}

/// A player of a video with so many bytes of sound in its first GoP, and the messages after its first plan.
fn playing(sound: u32, plans: u16) -> (Player, Vec<TiledMessage>) {
    let settings = PlayerSettings { plans, ..settings(3) };
    let mut player = Player::new(settings, planner("ows"), Instant::ZERO);
    let at = Instant::from_millis(10);
    player.handle_bytes(at, &TiledMessage::Video(with_sound()).encode()).unwrap();
    player.handle_bytes(at, &TiledMessage::menu_of(&table(), 0, sound).encode()).unwrap();
    let said = said(&mut player);
    (player, said)
}

fn said(player: &mut Player) -> Vec<TiledMessage> {
    let mut frames = Frames::new(Reader::Server);
    while let Some(bytes) = player.poll_transmit() {
        frames.push(&bytes);
    }
    core::iter::from_fn(|| frames.next().unwrap()).collect()
}

fn entries(said: &[TiledMessage]) -> Vec<PlanEntry> {
    let plan = |message: &TiledMessage| match message {
        TiledMessage::Plan(plan) => Some(plan.entries.clone()),
        _ => None,
    };
    said.iter().find_map(plan).expect("a plan")
}

fn arrives(sound: u32) -> TiledMessage {
    let payload = Bytes::from(vec![5; sound as usize]);
    let (gop, quality, init, offset) = (0, 0, 0, 0);
    TiledMessage::Tile(TilePart { slot: 0, gop, tile: SOUND, quality, init, total: sound, offset, payload })
}

#[test]
fn the_sound_is_requested_first_and_uses_capacity() {
    let (mut player, with) = playing(BYTES, 4);
    let (_, without) = playing(0, 4);
    let (with, without) = (entries(&with), entries(&without));
    assert_eq!(with[0], PlanEntry { tile: SOUND, quality: 0, with_init: true });
    assert!(with[1..].iter().chain(&without).all(|entry| entry.tile != SOUND));
    let bytes = |entries: &[PlanEntry]| -> u64 {
        entries.iter().filter(|e| e.tile != SOUND).map(|e| SIZES[usize::from(e.quality)]).sum()
    };
    assert!(bytes(&with) < bytes(&without), "{with:?} {without:?}");

    let at = Instant::from_millis(100);
    player.handle_bytes(at, &arrives(BYTES).encode()).unwrap();
    let sound = player.poll_tile().unwrap();
    assert_eq!((sound.tile, sound.segment.len() as u32, sound.in_time), (SOUND, BYTES, true));
    let slot = &player.slot(0).unwrap();
    assert_eq!(
        slot.sound,
        Some(SoundRecord { bytes: BYTES, complete_ms: Some(100.0), in_time: true }),
        "{slot:?}"
    );
    assert!(slot.arrived.is_empty() && slot.bytes_in_time() == 0, "sound is not a tile");
    player.handle_timeout(Instant::from_millis(400)).unwrap();
    assert!(entries(&said(&mut player)).iter().all(|entry| entry.tile != SOUND), "it has arrived");
}

#[test]
fn sound_that_needs_the_whole_rate_leaves_out_tiles() {
    // The assumed rate of 2 Mbit/s carries 250 kB in a GoP.
    let (_, said) = playing(400_000, 1);
    let (_, without) = playing(0, 1);
    let tiles = |said: &[TiledMessage]| entries(said).iter().filter(|entry| entry.tile != SOUND).count();
    assert!(tiles(&said) < tiles(&without), "{} {}", tiles(&said), tiles(&without));
}

#[test]
fn late_sound_is_recorded_as_late_and_not_as_a_tile() {
    let (mut player, _) = playing(BYTES, 1);
    player.handle_bytes(Instant::from_millis(1900), &arrives(BYTES).encode()).unwrap();
    assert!(!player.poll_tile().unwrap().in_time);
    assert!(!player.slot(0).unwrap().sound.unwrap().in_time);
}

#[test]
fn sound_of_another_size_than_announced_or_not_requested_ends_the_viewing() {
    let (mut player, _) = playing(BYTES, 1);
    let error = player.handle_bytes(Instant::from_millis(20), &arrives(BYTES - 1).encode()).unwrap_err();
    assert!(matches!(error, PlayError::Size { tile: SOUND, .. }), "{error}");
    let (mut player, _) = playing(0, 1);
    let error = player.handle_bytes(Instant::from_millis(20), &arrives(BYTES).encode()).unwrap_err();
    assert!(matches!(error, PlayError::Unasked { tile: SOUND, .. }), "{error}");
}

#[test]
fn a_pusher_sends_the_sound_in_its_place_and_counts_only_tiles() {
    let mut pusher = Pusher::new(with_sound()).with_sound(vec![20_000, 0]);
    pusher.handle_bytes(Instant::ZERO, &START.encode()).unwrap();
    let asked = vec![entry(SOUND, 0), entry(3, 1)];
    pusher.handle_bytes(Instant::ZERO, &plan(0, 0, asked.clone()).encode()).unwrap();
    let first = next_tile(&mut pusher, Instant::ZERO).unwrap();
    assert_eq!(first.entry, asked[0]);
    // Planned again while it is being sent: it is not sent twice.
    pusher.handle_bytes(Instant::ZERO, &plan(0, 1, asked.clone()).encode()).unwrap();
    assert_eq!(next_tile(&mut pusher, Instant::ZERO).unwrap().entry, asked[1]);
    assert_eq!(next_tile(&mut pusher, Instant::ZERO), None);
    let counters = pusher.counters();
    assert_eq!((counters.planned - counters.replaced, counters.pushed, counters.expired), (1, 1, 0));

    // Only the first GoP has sound.
    let TiledMessage::Plan(of) = plan(1, 0, vec![entry(SOUND, 0)]) else { unreachable!() };
    let silent = TiledMessage::Plan(Plan { gop: 1, ..of });
    let error = pusher.handle_bytes(Instant::ZERO, &silent.encode()).unwrap_err();
    assert_eq!(error.to_string(), "the client asked for sound 0; there are 0");
}

#[test]
fn peers_of_other_versions_refuse_each_other_by_name() {
    let old = |message: TiledMessage| {
        let mut bytes = message.encode().to_vec();
        bytes[1] = 1;
        bytes
    };
    let words = "the peer speaks version 1 of tiled streaming, this program version 3";
    let error = started().handle_bytes(Instant::ZERO, &old(TiledMessage::End)).unwrap_err();
    assert_eq!(error.to_string(), words);
    let (mut player, _) = playing(0, 1);
    let error = player.handle_bytes(Instant::ZERO, &old(TiledMessage::Video(video()))).unwrap_err();
    assert_eq!(error.to_string(), format!("invalid message from the server: {words}"));
}

#[test]
fn sound_of_unknown_kinds_is_refused() {
    let good = TiledMessage::Video(with_sound()).encode();
    // The codec and the channels are the last fixed bytes of VIDEO.
    for (at, value) in [(30, 2), (31, 0), (31, 3), (30, 0)] {
        let mut bytes = good.to_vec();
        bytes[at] = value;
        let mut frames = Frames::new(Reader::Client);
        frames.push(&bytes);
        assert!(matches!(frames.next(), Err(WireError::Field { .. })), "byte {at} is {value}");
    }
}
