//! Encoding with the installed ffmpeg: sizes, closed GoPs, the cache, and errors for bad input.

use std::path::{Path, PathBuf};
use std::process::Command;
use tributary_stream::{Ladder, LadderError, LadderSettings, Source, gop};
use tributary_types::Bitrate;

/// Whether ffmpeg is missing.
fn ffmpeg_is_missing() -> bool {
    if Command::new("ffmpeg").arg("-version").output().is_ok() {
        return false;
    }
    tributary_testing::not_run("ffmpeg is not installed (Debian package ffmpeg)");
    true
}

fn settings(cache: &Path) -> LadderSettings {
    LadderSettings {
        rates: [2, 6].map(Bitrate::from_mbps).to_vec(),
        seconds: 2,
        width: Some(256),
        any_aspect: false,
        cache: cache.to_owned(),
    }
}

fn build(file: &Path, cache: &Path) -> Result<Ladder, LadderError> {
    Ladder::build(&Source::File(file.to_owned()), &settings(cache), &mut |_| {})
}

/// Creates a file with ffmpeg's test sources.
fn made(directory: &Path, name: &str, arguments: &[&str]) -> PathBuf {
    let path = directory.join(name);
    let status = Command::new("ffmpeg").args(["-nostdin", "-v", "error"]).args(arguments).arg(&path).status();
    assert!(status.unwrap().success());
    path
}

#[test]
fn the_scene_becomes_closed_gops_near_their_nominal_size_and_is_cached() {
    if ffmpeg_is_missing() {
        return;
    }
    let cache = tempfile::tempdir().unwrap();
    let mut heard = Vec::new();
    let ladder = Ladder::build(&Source::Scene, &settings(cache.path()), &mut |p| heard.push(p)).unwrap();
    assert_eq!((ladder.rates().len(), ladder.distinct()), (2, 2));
    assert!(heard.last() == Some(&1.0) && heard.is_sorted(), "{heard:?}");
    for (number, representation) in ladder.representations().iter().enumerate() {
        let ratio = representation.real.as_bps() as f64 / representation.nominal.as_bps() as f64;
        assert!((0.85..1.15).contains(&ratio), "{representation:?}");
        for index in 0..2 {
            let gops = gop::split(&ladder.gop(number, index).unwrap());
            assert!(gops.len() == 1 && gops[0].closed && gops[0].pictures == 30);
        }
    }
    // The content repeats; an unknown representation gives `None`.
    assert_eq!(ladder.gop(0, 0), ladder.gop(0, 2_000_000));
    assert_eq!(ladder.gop(9, 0), None);
    assert!(ladder.still(1, 0, 128).unwrap().starts_with(&[0xff, 0xd8]));
    let again = Ladder::build(&Source::Scene, &settings(cache.path()), &mut |_| {}).unwrap();
    assert_eq!(again.gop(1, 1), ladder.gop(1, 1));
    assert_eq!(std::fs::read_dir(cache.path()).unwrap().count(), 1, "other files than the ladder are left");
}

#[test]
fn every_gop_decodes_without_the_one_before() {
    if ffmpeg_is_missing() {
        return;
    }
    let cache = tempfile::tempdir().unwrap();
    let ladder = Ladder::build(&Source::Scene, &settings(cache.path()), &mut |_| {}).unwrap();
    let file = cache.path().join("second.h264");
    std::fs::write(&file, ladder.gop(0, 1).unwrap()).unwrap();
    let arguments =
        ["-v", "error", "-count_frames", "-show_entries", "stream=nb_read_frames", "-of", "csv=p=0"];
    let output = Command::new("ffprobe").args(arguments).arg(&file).output().unwrap();
    assert_eq!((output.stdout.trim_ascii(), output.stderr.trim_ascii()), (b"30".as_slice(), b"".as_slice()));
}

#[test]
fn a_broken_cache_is_made_again() {
    if ffmpeg_is_missing() {
        return;
    }
    let cache = tempfile::tempdir().unwrap();
    Ladder::build(&Source::Scene, &settings(cache.path()), &mut |_| {}).unwrap();
    let kept = std::fs::read_dir(cache.path()).unwrap().next().unwrap().unwrap().path();
    std::fs::write(kept.join("0.h264"), b"rubbish").unwrap();
    let ladder = Ladder::build(&Source::Scene, &settings(cache.path()), &mut |_| {}).unwrap();
    assert_eq!(ladder.distinct(), 2);
}

#[test]
fn bad_input_is_named() {
    if ffmpeg_is_missing() {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let (here, cache) = (dir.path(), dir.path().join("cache"));
    assert!(matches!(build(&here.join("absent.mp4"), &cache), Err(LadderError::Unreadable { .. })));
    assert!(matches!(build(here, &cache), Err(LadderError::Unreadable { .. })));
    let text = here.join("text.mp4");
    std::fs::write(&text, "not a video").unwrap();
    assert!(matches!(build(&text, &cache), Err(LadderError::NotVideo { .. })));
    std::fs::write(&text, "").unwrap();
    assert!(matches!(build(&text, &cache), Err(LadderError::NotVideo { .. })));
    let sound = made(here, "sound.wav", &["-f", "lavfi", "-i", "sine=d=1"]);
    assert!(matches!(build(&sound, &cache), Err(LadderError::NoPicture { .. })));
    let flat = made(here, "flat.mp4", &["-f", "lavfi", "-i", "testsrc=s=320x180:d=2", "-pix_fmt", "yuv420p"]);
    let refused = build(&flat, &cache).unwrap_err();
    assert!(matches!(refused, LadderError::Aspect { width: 320, height: 180, .. }), "{refused}");
    let accepted = LadderSettings { any_aspect: true, ..settings(&cache) };
    assert!(Ladder::build(&Source::File(flat), &accepted, &mut |_| {}).is_ok());
}

#[test]
fn odd_sizes_short_clips_and_strange_names_are_streamed() {
    if ffmpeg_is_missing() {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    // Lossless RGB (4:2:0 encoders refuse odd sizes), a quarter of a second long, with a file name that looks like a
    // protocol.
    let arguments = ["-f", "lavfi", "-i", "testsrc=s=301x151:d=0.25", "-c:v", "ffv1"];
    let odd = made(dir.path(), "pipe-odd %d.mkv", &arguments);
    let own_size = LadderSettings { width: None, ..settings(&dir.path().join("cache")) };
    let ladder = Ladder::build(&Source::File(odd), &own_size, &mut |_| {}).unwrap();
    assert_eq!(ladder.distinct(), 1);
}

#[test]
fn invalid_settings_are_refused_before_any_work() {
    let here = Path::new("unused");
    let rates = |rates: &[u64]| LadderSettings {
        rates: rates.iter().map(|r| Bitrate::from_mbps(*r)).collect(),
        ..settings(here)
    };
    let wrong = [
        rates(&[]),
        rates(&[5, 5]),
        rates(&[5, 3]),
        rates(&[0]),
        rates(&[99_999]),
        LadderSettings { seconds: 0, ..settings(here) },
        LadderSettings { width: Some(3), ..settings(here) },
    ];
    for settings in wrong {
        let refused = Ladder::build(&Source::Scene, &settings, &mut |_| {});
        assert!(matches!(refused, Err(LadderError::Setting { .. })), "{settings:?}");
    }
}
