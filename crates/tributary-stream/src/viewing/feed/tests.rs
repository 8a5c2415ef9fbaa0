//! What a page gets when it comes, and what it loses when it reads too slowly.

use tokio::time::timeout;

use super::*;

fn news(message: &[u8]) -> Value {
    assert_eq!(u32::from_be_bytes(message[..4].try_into().unwrap()) as usize, message.len() - 4);
    assert_eq!(message[4], NEWS);
    serde_json::from_slice(&message[5..]).unwrap()
}

fn arrived(init: Option<&'static [u8]>) -> TileArrived {
    let segment = Bytes::from_static(b"media");
    let init = init.map(Bytes::from_static);
    TileArrived { slot: 3, gop: 1, tile: 2, quality: 1, in_time: true, init, segment }
}

#[tokio::test]
async fn a_page_that_comes_later_learns_the_state_and_gets_every_initialisation_segment() {
    let feed = Feed::default();
    feed.tile(&arrived(Some(b"init")));
    feed.say(&News::State { state: "playing", cause: None });
    let mut page = feed.subscribe();
    feed.tile(&TileArrived { slot: 4, ..arrived(None) });
    assert_eq!(news(&page.next().await)["state"], "playing");
    for slot in [3, 4] {
        let tile = [b"\x02\0\0\0", &[slot][..], b"\0\x02\x01\x01\0\0\0\x04initmedia"].concat();
        assert_eq!(page.next().await[4..], tile);
    }
    assert_eq!(feed.pages(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_page_that_comes_within_a_slot_gets_its_tiles_before_it_and_the_present_playing_time() {
    let feed = Feed::default();
    feed.say(&News::State { state: "playing", cause: None });
    for slot in 0..1000 {
        feed.tile(&TileArrived { slot: slot + 1, ..arrived(Some(b"init")) });
        feed.tile(&TileArrived { slot: slot + 1, in_time: false, ..arrived(None) });
        feed.say(&News::Slot(SlotNews { slot, position_s: f64::from(slot), ..SlotNews::default() }));
        assert!(feed.present().tiles.len() <= 2, "those of slots that are over");
    }
    tokio::time::advance(Duration::from_millis(250)).await;
    let mut page = feed.subscribe();
    assert_eq!(news(&page.next().await)["state"], "playing");
    for slot in [999_u16, 1000] {
        assert_eq!(page.next().await[7..9], slot.to_be_bytes());
    }
    let slot = news(&page.next().await);
    assert_eq!((slot["slot"].as_u64(), slot["position_s"].as_f64()), (Some(999), Some(999.25)));
    assert_eq!(feed.status()["shown"]["position_s"], 999.0);
}

#[tokio::test(start_paused = true)]
async fn a_page_that_is_loaded_begins_the_viewing_until_it_is_clear_that_it_does_not_come() {
    let within = Duration::from_secs(5);
    let feed = Feed::default();
    feed.expect();
    feed.watched(within).await;
    tokio::time::advance(within).await;
    let waits = async || timeout(Duration::from_secs(1), feed.watched(within)).await.is_err();
    assert!(waits().await);
    feed.expect();
    drop(feed.subscribe());
    assert!(waits().await, "it came and has gone");
}

#[tokio::test]
async fn a_page_that_reads_too_slowly_is_told_what_it_lost() {
    let feed = Feed::default();
    let mut page = feed.subscribe();
    assert_eq!(news(&page.next().await)["state"], "waiting");
    for _ in 0..WAITING + 10 {
        feed.tile(&arrived(None));
    }
    let told = news(&page.next().await);
    assert_eq!((told["news"].as_str(), told["messages"].as_u64()), (Some("skipped"), Some(10)));
    assert_eq!(news(&page.next().await)["state"], "waiting");
    assert_eq!(page.next().await[4], TILE);
}

#[test]
fn a_page_gets_the_low_resolution_stream_if_there_is_one() {
    let grid = tributary_video::tiles::TileGrid::new(1, 1, Projection::Equirectangular).unwrap();
    let layout =
        tributary_video::rd::TableLayout { grid, width: 64, height: 32, gop_duration_s: 1.0, qps: vec![27] };
    for has_low in [false, true] {
        let feed = Feed::default();
        assert!(!feed.fall_back(), "no video yet");
        let video = Video { layout: layout.clone(), gops: 1, sound: None, low_resolution: has_low };
        feed.say(&News::Video(VideoNews::new((0, false), &video, (110.0, 90.0))));
        assert_eq!(feed.status()["low_resolution"], false);
        assert_eq!((feed.fall_back(), feed.is_low_resolution()), (has_low, has_low));
        feed.say(&News::Video(VideoNews::new((1, true), &video, (110.0, 90.0))));
        assert_eq!(feed.status()["low_resolution"], true);
    }
}

#[test]
fn the_status_says_where_the_viewer_looks() {
    let feed = Feed::default();
    assert_eq!(feed.status()["look"], Value::Null);
    feed.look(Orientation::from_degrees(90.0, -12.34, 5.0));
    assert_eq!(feed.status()["look"], serde_json::json!({ "yaw": 90.0, "pitch": -12.34, "roll": 5.0 }));
}

#[test]
fn a_slot_says_of_each_tile_whether_it_is_shown() {
    let in_time = crate::tiled::Arrived {
        tile: 0,
        quality: 2,
        complete_ms: 1.0,
        in_time: true,
        init_bytes: 0,
        bytes: 7,
    };
    let late = crate::tiled::Arrived { tile: 1, in_time: false, ..in_time };
    let slot =
        SlotRecord { planned: vec![(0, 2), (1, 0)], arrived: vec![in_time, late], ..SlotRecord::default() };
    let news = SlotNews::new(&slot, Some(&slot), 1.0, 3);
    assert_eq!((&news.tiles, news.bytes, news.late_before), (&vec![2, NOT_IN_TIME, LEFT_OUT], 7, 1));
    let complete =
        SlotNews { tiles: vec![0, 1, LEFT_OUT], sound: Some(false), ..SlotNews::new(&slot, None, 0.0, 3) };
    let feed = Feed::default();
    [news, complete].into_iter().for_each(|slot| feed.say(&News::Slot(slot)));
    let sums = serde_json::json!({
        "slots": 2, "slots_incomplete": 1, "tiles_in_time": 3, "tiles_not_in_time": 1, "tiles_left_out": 2,
        "sound_not_in_time": 1, "bytes": 14,
    });
    assert_eq!(feed.status()["so_far"], sums);
}
