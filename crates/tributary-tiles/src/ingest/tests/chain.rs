//! From the file to the table and back, and resuming after a stop.

use std::collections::{BTreeMap, BTreeSet};
use std::io::Write;
use std::process::Stdio;

use tributary_video::metrics::mse;
use tributary_video::picture::Picture;

use super::*;
use crate::decode::{self, TileData};
use crate::layout;
use crate::patch::cut;

fn mean_error(originals: &[Picture], shown: &[Picture]) -> f64 {
    let errors = originals.iter().zip(shown).map(|(a, b)| mse(&a.luma(), &b.luma()).expect("one size"));
    errors.sum::<f64>() / originals.len() as f64
}

fn originals(video: &TiledVideo, gop: usize, tile: usize) -> Vec<Picture> {
    let place = video.grid().pixels(tile, video.size());
    let whole = video.reference(gop).expect("a reference");
    whole.map(|p| cut(&p.expect("a picture"), place).expect("a tile")).collect()
}

/// Equal except for rounding in the text.
fn same(a: f64, b: f64) {
    assert!((a - b).abs() <= 1e-12 * b, "{a} is not {b}");
}

/// The table agrees with decoding the files.
fn check_table(video: &TiledVideo) {
    let (width, height) = video.tile_size();
    let black = vec![Picture::black(width, height).expect("a size"); video.pictures_per_gop()];
    for (gop, tile) in (0..video.gops()).flat_map(|gop| (0..video.grid().tiles()).map(move |t| (gop, t))) {
        let cell = &video.table().gop(gop)[tile];
        let source = originals(video, gop, tile);
        for index in 0..video.qps().len() {
            let segment = video.segment(gop, tile, index).expect("a segment");
            let data = TileData { init: video.init(tile, index).expect("parameters"), segment: &segment };
            let shown = decode::tile(data, (width, height), video.pictures_per_gop()).expect("it decodes");
            assert_eq!(cell.bytes[index], segment.len() as u64);
            same(cell.mse[index], mean_error(&source, &shown));
        }
        same(cell.black_mse, mean_error(&source, &black));
        let frozen = match gop {
            0 => black.clone(),
            _ => vec![originals(video, gop - 1, tile).pop().expect("a picture"); source.len()],
        };
        same(cell.freeze_mse, mean_error(&source, &frozen));
        assert!(cell.mse[0] < cell.mse[1] && cell.bytes[0] > cell.bytes[1]);
    }
}

/// What ffprobe counts in `input`.
fn count(arguments: &[&str], input: &[u8]) -> String {
    let mut command = Command::new("ffprobe");
    command.args(["-v", "error", "-count_frames", "-of", "csv=p=0"]).args(arguments);
    command.stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut probe = command.spawn().expect("ffprobe is installed");
    probe.stdin.take().expect("piped").write_all(input).expect("it reads");
    let output = probe.wait_with_output().expect("it ends");
    String::from_utf8_lossy(&output.stdout).trim().to_owned()
}

#[test]
fn the_table_matches_the_files_and_players_play_them() {
    let directory = tempfile::tempdir().expect("a directory");
    let (source, out) = (moving(&directory), directory.path().join("tiles"));
    let video = make(&source, &settings(), &out).expect("an ingest");
    assert_eq!((video.gops(), video.pictures_per_gop(), video.tile_size()), (2, 5, (40, 20)));
    assert_eq!(video.record().notes, ["the last 2 pictures make no whole second and are left out"]);
    check_table(&video);
    video.verify().expect("checksums hold");
    assert!(!out.join(layout::WORK).exists());

    // One representation's segments concatenated, as in a player.
    let mut file = video.init(3, 1).expect("parameters").to_vec();
    (0..2).for_each(|gop| file.extend(video.segment(gop, 3, 1).expect("a segment")));
    let entries = "stream=width,height,nb_read_frames";
    assert_eq!(count(&["-show_entries", entries, "-"], &file), "40,20,10");
    let times = count(&["-show_entries", "packet=pts_time", "-"], &file);
    let times: Vec<f64> = times.lines().map(|line| line.trim_matches(',').parse().expect("a time")).collect();
    assert!(times.iter().enumerate().all(|(n, time)| (time - n as f64 / 5.0).abs() < 1e-6), "{times:?}");

    // ffmpeg's DASH client reads the manifest and finds all 8 representations.
    let manifest = out.join(layout::MANIFEST);
    let frames = count(&["-show_entries", "stream=index,nb_read_frames", &manifest.to_string_lossy()], b"");
    let found: BTreeSet<&str> = frames.lines().filter(|line| line.ends_with(",10")).collect();
    assert_eq!(found.len(), 8, "{frames}");

    // A second run does nothing; other settings are refused.
    let again = make(&source, &settings(), &out).expect("the same");
    assert_eq!(again.record(), video.record());
    let other = Settings { qps: vec![24, 41], ..settings() };
    let error = make(&source, &other, &out).expect_err("another video");
    assert!(matches!(error, IngestError::Occupied { .. }), "{error}");
}

#[test]
fn after_a_full_disk_the_same_command_makes_the_same_video() {
    let directory = tempfile::tempdir().expect("a directory");
    let (source, out) = (moving(&directory), directory.path().join("tiles"));
    // Writing to this device fails as on a full disk.
    let full = out.join("tiles/t02q40");
    let fill = |at: Progress| {
        if at.stage == Stage::Tiles && !full.exists() {
            fs::create_dir_all(&full).expect("a directory");
            std::os::unix::fs::symlink("/dev/full", full.join(".00001.m4s.part")).expect("a link");
        }
    };
    let one = Settings { jobs: NonZeroUsize::new(1), ..settings() };
    let error = ingest(&source, &one, &out, &fill).expect_err("no room");
    let full =
        matches!(&error, IngestError::Write { source, .. } if source.kind() == io::ErrorKind::StorageFull);
    assert!(full, "{error}");
    assert!(matches!(TiledVideo::open(&out), Err(TiledError::Unfinished { .. })));
    let other = Settings { qps: vec![24, 41], ..settings() };
    assert!(matches!(make(&source, &other, &out), Err(IngestError::Occupied { .. })));

    // One of the finished pieces is changed: it is made again.
    let segment = out.join(layout::segment(0, 1, 24));
    fs::write(&segment, b"half").expect("written");
    let kept = fs::metadata(out.join(layout::segment(0, 2, 24))).and_then(|m| m.modified()).expect("there");
    let video = make(&source, &settings(), &out).expect("it continues");
    let still = fs::metadata(out.join(layout::segment(0, 2, 24))).and_then(|m| m.modified()).expect("there");
    assert_eq!(kept, still, "finished pieces are not made again");

    let fresh = make(&source, &one, &directory.path().join("fresh")).expect("an ingest");
    assert_eq!(video.record(), fresh.record());
    assert_eq!(files(&out), files(fresh.directory()));
}

/// Every file's content, by its name.
fn files(directory: &Path) -> BTreeMap<PathBuf, Vec<u8>> {
    let mut found = BTreeMap::new();
    let mut left = vec![directory.to_owned()];
    while let Some(at) = left.pop() {
        for entry in fs::read_dir(at).expect("a directory").flatten() {
            let path = entry.path();
            if path.is_dir() {
                left.push(path);
            } else {
                let name = path.strip_prefix(directory).expect("inside").to_owned();
                found.insert(name, fs::read(path).expect("a file"));
            }
        }
    }
    found
}

#[test]
fn two_ingests_do_not_work_in_one_directory() {
    let directory = tempfile::tempdir().expect("a directory");
    let (source, out) = (moving(&directory), directory.path().join("tiles"));
    let recipe = Recipe::of(&source, &settings()).expect("a video");
    let first = Work::begin(&out, &recipe).expect("it begins");
    assert!(matches!(make(&source, &settings(), &out), Err(IngestError::Busy(_))));
    // Stands for a child process that is being started while the ingest ends.
    let _copy = first._lock.0.try_clone().expect("a descriptor");
    drop(first);
    Work::begin(&out, &recipe).map(drop).expect("the other one has ended");
}
