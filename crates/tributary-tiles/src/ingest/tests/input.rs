//! Files that are not plain equirectangular video: each is refused with what to do, or converted with a note.

use super::*;

const CODEC: [&str; 6] = ["-c:v", "libx264", "-preset", "ultrafast", "-pix_fmt", "yuv420p"];

fn out(directory: &TempDir) -> PathBuf {
    directory.path().join("tiles")
}

/// The error of an ingest, which must leave nothing behind.
fn refusal(directory: &TempDir, source: &Path, settings: &Settings) -> IngestError {
    let out = directory.path().join("refused");
    let error = make(source, settings, &out).map(drop).expect_err("refused");
    assert!(!out.exists(), "{error}");
    error
}

#[test]
fn files_that_are_not_videos_are_refused() {
    let directory = tempfile::tempdir().expect("a directory");
    let text = directory.path().join("text.mp4");
    fs::write(&text, "these are words").expect("written");
    assert!(matches!(refusal(&directory, &text, &settings()), IngestError::NotVideo { .. }));
    let sound = clip(&directory, "sound.wav", "sine=d=1", &[]);
    assert!(matches!(refusal(&directory, &sound, &settings()), IngestError::NoPicture { .. }));
    for path in [directory.path().join("absent.mp4"), directory.path().to_owned()] {
        let error = refusal(&directory, &path, &settings());
        assert!(matches!(error, IngestError::Unreadable { .. }), "{error}");
    }
}

#[test]
fn a_flat_picture_needs_the_override() {
    let directory = tempfile::tempdir().expect("a directory");
    let flat = clip(&directory, "flat.mp4", "testsrc2=s=64x36:r=5:d=1", &CODEC);
    let error = refusal(&directory, &flat, &settings());
    assert!(matches!(error, IngestError::Aspect { width: 64, height: 36, .. }), "{error}");
    assert!(error.to_string().contains("--any-aspect"));
    let accepted = Settings { any_aspect: true, ..settings() };
    assert_eq!(make(&flat, &accepted, &out(&directory)).expect("an ingest").tile_size(), (32, 18));
}

#[test]
fn errors_about_odd_sizes_name_a_valid_size() {
    let directory = tempfile::tempdir().expect("a directory");
    let odd =
        clip(&directory, "odd.mkv", "testsrc=s=81x41:r=5:d=1", &["-c:v", "ffv1", "-pix_fmt", "yuv444p"]);
    let error = refusal(&directory, &odd, &settings());
    assert!(error.to_string().contains("--size 80x40"), "{error}");
    let scaled = Settings { size: Some((80, 40)), ..settings() };
    let video = make(&odd, &scaled, &out(&directory)).expect("an ingest");
    assert_eq!((video.size(), video.source().width), ((80, 40), 81));
    assert_eq!(video.record().notes, ["scaled from 81×41 to 80×40"]);
    let tiny =
        Settings { grid: TileGrid::new(40, 2, Projection::Equirectangular).expect("a grid"), ..settings() };
    let error = make(&odd, &tiny, &directory.path().join("tiny")).expect_err("tiles of two pixels");
    assert!(error.to_string().contains("--size 640x40"), "{error}");
}

#[test]
fn a_variable_rate_is_resampled_and_reported() {
    let directory = tempfile::tempdir().expect("a directory");
    let times = "setpts='if(lt(N,10),N/10,1+(N-10)/5)/TB'";
    let output = [&["-vf", times, "-fps_mode", "vfr", "-enc_time_base", "1/1000"], &CODEC[..]].concat();
    let variable = clip(&directory, "variable.mkv", "testsrc2=s=80x40:r=10:d=1.5", &output);
    let at = Settings { rate: Some("5".parse().expect("a rate")), ..settings() };
    let video = make(&variable, &at, &out(&directory)).expect("an ingest");
    assert_eq!((video.gops(), video.pictures_per_gop()), (2, 5));
    let notes = video.record().notes.join("; ");
    assert!(notes.contains("resampled from a variable rate to 5/1"), "{notes}");
}

#[test]
fn a_file_that_was_cut_is_refused_or_its_beginning_taken() {
    let directory = tempfile::tempdir().expect("a directory");
    let output = [&["-g", "1", "-movflags", "+faststart"], &CODEC[..]].concat();
    let whole = clip(&directory, "whole.mp4", "testsrc2=s=80x40:r=5:d=4", &output);
    let bytes = fs::read(&whole).expect("there");
    let cut = directory.path().join("cut.mp4");
    fs::write(&cut, &bytes[..bytes.len() * 7 / 10]).expect("written");
    let error = refusal(&directory, &cut, &settings());
    assert!(matches!(error, IngestError::Truncated { announced: 20, seconds: 2, .. }), "{error}");
    let beginning = Settings { seconds: Some(2), ..settings() };
    assert_eq!(make(&cut, &beginning, &out(&directory)).expect("its beginning").gops(), 2);
    // Its index was at the end of the file.
    let headless = clip(&directory, "headless.mp4", "testsrc2=s=80x40:r=5:d=2", &CODEC);
    let bytes = fs::read(&headless).expect("there");
    fs::write(&headless, &bytes[..bytes.len() * 7 / 10]).expect("written");
    let error = make(&headless, &settings(), &directory.path().join("none")).expect_err("no index");
    assert!(matches!(error, IngestError::NotVideo { .. }), "{error}");
}

#[test]
fn less_than_a_second_is_refused() {
    let directory = tempfile::tempdir().expect("a directory");
    let short = clip(&directory, "short.mp4", "testsrc2=s=80x40:r=5:d=0.6", &CODEC);
    let error = refusal(&directory, &short, &settings());
    assert!(matches!(error, IngestError::TooShort { found: 3, needed: 5, .. }), "{error}");
}

#[test]
fn a_directory_with_something_else_is_left_alone() {
    let directory = tempfile::tempdir().expect("a directory");
    let source = moving(&directory);
    let error = make(&source, &settings(), directory.path()).expect_err("not empty");
    assert!(matches!(error, IngestError::Occupied { .. }), "{error}");
    assert!(!directory.path().join("work").exists());
}

#[test]
fn both_eyes_are_tiles_of_one_picture() {
    let directory = tempfile::tempdir().expect("a directory");
    // The pictures beside each other differ, so each eye can be told.
    let input = "testsrc2=s=80x40:r=5:d=1,split[left][right];[right]negate[other];[left][other]hstack";
    let output = [&CODEC[..], &["-metadata:s:v", "stereo_mode=left_right"]].concat();
    let source = clip(&directory, "both.mkv", input, &output);
    let both = Settings { eyes: Eyes::Both, ..settings() };
    let video = make(&source, &both, &out(&directory)).expect("an ingest");
    assert_eq!((video.size(), video.grid().tiles()), ((80, 80), 8));
    assert_eq!(video.grid().projection(), Projection::TopBottom);
    assert_eq!(video.record().notes, ["stereo: both eyes of its side-by-side pictures are taken"]);
    let manifest = String::from_utf8(video.manifest().expect("a manifest")).expect("text");
    assert!(manifest.contains(r#"VideoFramePackingType" value="4""#), "{manifest}");
    let pictures = video.reference(0).expect("pictures").collect::<Result<Vec<_>, _>>().expect("pictures");
    let luma = pictures[0].luma();
    // The right eye's picture is the left one's negative.
    let pairs = (0..40).flat_map(|row| luma.row(row).iter().zip(luma.row(row + 40)));
    let error: u64 = pairs.map(|(left, right)| u64::from(left.abs_diff(255 - right))).sum();
    assert!(error < 80 * 40 * 2, "{error}");
}

#[test]
fn pictures_that_are_not_stored_upright_are_converted_with_a_note() {
    let directory = tempfile::tempdir().expect("a directory");
    let stereo = |name: &str, size: &str, mode: &str| {
        let output = [&CODEC[..], &["-metadata:s:v", mode]].concat();
        clip(&directory, name, &format!("testsrc2=s={size}:r=5:d=1"), &output)
    };
    // Side by side, as VR180 cameras write it: two squares look like one panorama.
    let hemispheres = stereo("sbs.mkv", "80x40", "stereo_mode=left_right");
    let error = refusal(&directory, &hemispheres, &settings()).to_string();
    assert!(error.contains("the left eye of its side-by-side stereo pictures is 40×40"), "{error}");
    assert!(error.contains("VR180") && error.contains("--any-aspect"), "{error}");
    let panorama = stereo("tb.mkv", "80x80", "stereo_mode=top_bottom");
    let video = make(&panorama, &settings(), &out(&directory)).expect("an ingest");
    assert_eq!((video.size(), video.source().height), ((80, 40), 80));
    assert_eq!(video.record().notes, ["stereo: the left eye of its top-bottom stereo pictures is taken"]);
    let unmarked = stereo("unmarked.mkv", "80x80", "title=none");
    let both = Settings { eyes: Eyes::Both, ..settings() };
    let error = refusal(&directory, &unmarked, &both).to_string();
    assert!(error.starts_with("--eyes: the file does not say"), "{error}");
    let error = refusal(&directory, &unmarked, &settings());
    assert!(error.to_string().contains("two views, one above the other"), "{error}");
    let odd = stereo("odd.mkv", "80x40", "stereo_mode=checkerboard_lr");
    assert!(matches!(refusal(&directory, &odd, &settings()), IngestError::Stored(_)));
}
