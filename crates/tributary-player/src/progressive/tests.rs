//! The player by exact numbers: 10 pictures a second of 1000 bytes each, unless a test says otherwise.

use super::*;

const FILM: Film =
    Film { bitrate: Bitrate::from_bps(80_000), pictures_per_second: 10, group: 10, intra: 1, pictures: 100 };

fn at(millis: u64) -> Instant {
    Instant::from_millis(1000 + millis)
}

fn millis(millis: u64) -> Duration {
    Duration::from_millis(millis)
}

fn playing(ahead: Option<Duration>) -> Player {
    let settings = Settings { caching: millis(500), ahead, patience: millis(300) };
    Player::new(FILM, settings, at(0))
}

#[test]
fn the_papers_file_has_its_size_and_length() {
    let film = Film::paper();
    assert_eq!((film.bytes(), film.time_of(film.pictures)), (408_720_000, Duration::from_secs(624)));
    // A second is a group of 655 000 bytes; its intra picture has 6 of 30 shares.
    assert_eq!((film.bytes_of(1), film.bytes_of(2), film.bytes_of(25)), (131_000, 152_833, 655_000));
    assert_eq!((film.bytes_of(26), film.bytes_of(1 << 40)), (786_000, 408_720_000));
}

#[test]
fn the_player_reads_only_as_far_ahead_as_allowed() {
    let mut player = playing(Some(millis(800)));
    assert_eq!((player.space(at(0)), player.next_space(at(0))), (8000, None));
    player.handle_data(at(100), 5000);
    // Playing since 100: the first picture's time has come, so nine may be there.
    assert_eq!(player.space(at(100)), 4000);
    player.handle_data(at(120), 4000);
    assert_eq!((player.space(at(120)), player.next_space(at(120))), (0, Some(at(200))));
    assert_eq!((player.space(at(199)), player.space(at(200))), (0, 1000));
    // It never reads less ahead than it needs to begin.
    assert_eq!(playing(Some(millis(100))).space(at(0)), 5000);
    assert_eq!(playing(None).space(at(0)), 100_000);
}

#[test]
fn pictures_in_time_are_shown_and_late_ones_discarded() {
    let mut player = playing(None);
    player.handle_data(at(0), 4999);
    assert_eq!(player.record(at(50)), Record::default());
    player.handle_data(at(50), 1);
    assert_eq!(player.record(at(50)).start_up, Some(millis(50)));
    // Picture 5 has its time at 550, picture 6 at 650. At 700 both arrive with picture 7.
    player.handle_data(at(700), 3000);
    let record = player.record(at(700));
    assert_eq!((record.discards, record.underflows, record.stalls), (2, 1, 0));
    assert_eq!(record.shown, 5);
    // A picture that is complete at its very time is shown.
    player.handle_data(at(850), 1000);
    assert_eq!((player.record(at(850)).discards, player.record(at(950)).shown), (2, 7));
    // Another missing picture is another underflow, and counts before it arrives.
    let record = player.record(at(1000));
    assert_eq!((record.discards, record.underflows), (3, 2));
    player.handle_data(at(1000), 1000);
    assert_eq!(player.record(at(1000)), record);
}

#[test]
fn a_longer_outage_stops_the_clock_and_buffers_again() {
    let mut player = playing(None);
    player.handle_data(at(0), 5000);
    // Dry at 500, stopped at 800: pictures 5 to 7 are discarded, picture 8 and the following are shown later.
    player.handle_data(at(2000), 7000);
    let record = player.record(at(2000));
    assert_eq!((record.discards, record.underflows, record.stalls), (3, 1, 1));
    assert_eq!(record.stalled, millis(1200));
    // Pictures 8 to 11 are not enough; with picture 12 playback continues.
    player.handle_data(at(2100), 1000);
    assert_eq!(player.record(at(2200)).stalled, millis(1300));
    assert_eq!((player.record(at(2200)).shown, player.record(at(2500)).shown), (6, 9));
}

#[test]
fn a_player_without_data_stays_stalled_and_one_with_all_data_ends() {
    let mut player = playing(None);
    player.handle_data(at(0), 5000);
    let record = player.record(at(60_000));
    assert_eq!((record.shown, record.discards, record.underflows), (5, 3, 1));
    assert_eq!((record.stalled, record.ended), (millis(59_200), false));
    player.handle_data(at(60_000), 95_000);
    assert!(player.is_complete() && player.space(at(60_000)) == 0);
    let record = player.record(at(80_000));
    assert_eq!((record.shown, record.discards, record.ended), (97, 3, true));
    // More than the file has changes nothing.
    player.handle_data(at(80_000), 1);
    assert_eq!(player.record(at(80_000)), record);
}

#[test]
fn every_picture_is_shown_or_discarded_once_for_any_cut_of_the_bytes() {
    let mut rng = tributary_types::Rng::new(5);
    for _ in 0..200 {
        let mut player = playing(Some(millis(1000)));
        let mut now = 0;
        while !player.is_complete() {
            let most = if rng.chance(0.05) { 2000 } else { 60 };
            now += rng.below(most);
            player.handle_timeout(at(now));
            let bytes = player.space(at(now)).min(rng.below(3000));
            player.handle_data(at(now), bytes);
            let record = player.record(at(now));
            assert!(record.underflows <= record.discards && record.stalls <= record.underflows, "{record:?}");
        }
        let record = player.record(at(now + 20_000));
        assert_eq!((record.shown + record.discards, record.ended), (100, true), "{record:?}");
    }
}
