//! Sound over a link: it comes first and whole; when it is late, only it is missing.

use super::*;

const SOUND_BYTES: u32 = 12_000;

/// A [`Fake`] whose every GoP has sound that contains its own number.
struct Loud(Fake);

fn spoken(gop: usize) -> Bytes {
    let mut bytes = vec![9; SOUND_BYTES as usize];
    bytes[0] = gop as u8;
    bytes.into()
}

impl TileSource for Loud {
    fn table(&self) -> &RdTable {
        self.0.table()
    }

    fn init(&self, tile: usize, quality: usize) -> io::Result<Bytes> {
        self.0.init(tile, quality)
    }

    fn segment(&self, gop: usize, tile: usize, quality: usize) -> io::Result<Bytes> {
        self.0.segment(gop, tile, quality)
    }

    fn sound(&self) -> Option<(SoundFormat, Vec<u32>)> {
        Some((SoundFormat::new(2)?, vec![SOUND_BYTES; 3]))
    }

    fn sound_init(&self) -> io::Result<Bytes> {
        Ok(Bytes::from_static(b"sound"))
    }

    fn sound_segment(&self, gop: usize) -> io::Result<Bytes> {
        Ok(spoken(gop))
    }
}

/// A viewing with sound, with `ows-no-skip` and one plan per slot.
async fn hear(slots: u32, bytes_per_s: f64, outage: (f64, f64)) -> Seen {
    let (server_out, link_in) = duplex(4000);
    let (link_out, client_in) = duplex(4000);
    let (client_out, server_in) = duplex(1 << 16);
    tokio::spawn(link(link_in, link_out, bytes_per_s, outage));
    let serving = tokio::spawn(serve_tiles(server_in, OrderedOutlet(server_out), Arc::new(Loud(fake()))));
    let mut tiles = Vec::new();
    let mut sink = |tile| {
        tiles.push(tile);
        Ok(())
    };
    let planner = planner("ows-no-skip");
    let played = play_tiles((client_in, client_out), settings(slots), planner, &mut sink).await;
    let (video, record) = played.unwrap();
    assert_eq!(video.and_then(|video| video.sound), SoundFormat::new(2));
    let served = serving.await.unwrap();
    served.outcome.unwrap();
    Seen { record, tiles, counters: served.counters, account: served.account }
}

fn heard(seen: &Seen) -> Vec<&TileArrived> {
    seen.tiles.iter().filter(|tile| tile.tile == SOUND).collect()
}

#[tokio::test(start_paused = true)]
async fn every_gops_sound_arrives_whole_and_before_its_tiles() {
    let seen = hear(6, 300_000.0, (99.0, 99.0)).await;
    for slot in &seen.record.slots {
        let first = seen.tiles.iter().find(|tile| tile.slot == slot.slot).unwrap();
        assert_eq!((first.tile, first.in_time), (SOUND, true), "slot {}", slot.slot);
        assert_eq!(first.segment, spoken(slot.gop as usize));
        assert!(slot.sound.unwrap().in_time && slot.in_time(SOUND).is_none());
    }
    let with_init: Vec<bool> = heard(&seen).iter().map(|sound| sound.init.is_some()).collect();
    assert_eq!(with_init, [true, false, false, false, false, false]);
    // Neither end counts it as a tile.
    let tiles = seen.tiles.iter().filter(|tile| tile.tile != SOUND).count() as u64;
    assert_eq!(seen.counters.pushed, tiles);
    let account = seen.account.unwrap();
    assert_eq!((seen.record.account, account.in_time + account.late), (Some(account), tiles));
}

#[tokio::test(start_paused = true)]
async fn late_sound_is_missing_and_delays_no_picture() {
    // The link carries nothing for two slots and a half.
    let seen = hear(8, 300_000.0, (2.2, 4.6)).await;
    let in_time: Vec<bool> = seen.record.slots.iter().map(|s| s.sound.is_some_and(|s| s.in_time)).collect();
    assert_eq!(in_time[..2], [true, true], "{in_time:?}");
    assert!(in_time[2..5].iter().any(|in_time| !in_time), "{in_time:?}");
    assert_eq!(in_time[5..], [true, true, true], "{in_time:?}");
    for sound in heard(&seen) {
        assert_eq!(sound.segment, spoken(sound.gop as usize), "whole or not at all");
    }
    // The slots begin at their times, and the pictures after the outage are complete.
    for pair in seen.record.slots.windows(2) {
        assert!((pair[1].deadline_ms - pair[0].deadline_ms - 1000.0).abs() < 1e-6);
    }
    for slot in &seen.record.slots[5..] {
        assert!(slot.planned.iter().all(|(tile, _)| slot.in_time(*tile).is_some()), "{slot:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn on_a_link_that_carries_little_the_sound_is_heard() {
    // 12 kB of sound, and 40 kB for all tiles in the lowest quality.
    let seen = hear(8, 20_000.0, (99.0, 99.0)).await;
    let heard = seen.record.slots[2..].iter().filter(|s| s.sound.is_some_and(|s| s.in_time)).count();
    assert!(heard >= 5, "{:?}", seen.record.slots.iter().map(|s| s.sound).collect::<Vec<_>>());
}
