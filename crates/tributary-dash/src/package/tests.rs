//! A small video made by ffmpeg, packaged both ways, and read back by the manifest reader.

use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};

use tributary_player::dash::mpd::{Addressing, Mpd};
use tributary_player::dash::sidx;

use super::*;

/// Ten seconds of ffmpeg's test picture, at a rate that does not divide the segments.
fn video(directory: &Path) -> PathBuf {
    let path = directory.join("source.mp4");
    let mut command = Command::new("ffmpeg");
    command.args(["-nostdin", "-v", "error", "-f", "lavfi", "-i", "testsrc2=s=320x180:r=30000/1001:d=10"]);
    command.args(["-c:v", "libx264", "-preset", "ultrafast"]).arg(&path);
    assert!(command.status().expect("ffmpeg is installed: scripts/setup").success());
    path
}

fn settings(layout: Layout) -> Settings {
    Settings { ladder: vec![45, 200, 400], preset: "ultrafast".to_owned(), layout, ..Settings::default() }
}

fn make(out: &Path, layout: Layout) -> Package {
    let video = video(out.parent().unwrap());
    package(&video, out, &settings(layout), (&mut |_| {}, &|| false)).unwrap()
}

fn manifest(out: &Path) -> Mpd {
    Mpd::read(&std::fs::read(out.join(MANIFEST)).unwrap(), "http://localhost/manifest.mpd").unwrap()
}

#[test]
fn segments_are_files_that_start_at_the_same_times_in_every_quality() {
    let directory = tempfile::tempdir().unwrap();
    let out = directory.path().join("title");
    let made = make(&out, Layout::Segments);
    assert_eq!((made.segments, made.representations.len()), (3, 3));
    assert!((made.duration_s - 10.0).abs() < 0.1, "{}", made.duration_s);
    let mpd = manifest(&out);
    let set = mpd.periods[0].set("video").unwrap();
    assert_eq!(set.representations.len(), 3);
    for representation in &set.representations {
        assert!(representation.codecs.starts_with("avc1."), "{}", representation.codecs);
        assert_eq!(representation.addressing.segments(), Some(3));
        for at in 0..3 {
            let (request, span) = representation.addressing.segment(at).unwrap();
            let name = request.url.strip_prefix("http://localhost/").unwrap();
            let bytes = std::fs::read(out.join(name)).unwrap();
            assert_eq!(&bytes[4..8], b"moof".as_slice());
            assert!((span.start.as_secs_f64() - 4.0 * at as f64).abs() < 0.04, "{span:?}");
        }
        let init = representation.addressing.initialization().unwrap().url;
        assert!(out.join(init.strip_prefix("http://localhost/").unwrap()).is_file());
    }
    // ffmpeg reads the result, with all its pictures.
    let mut command = Command::new("ffprobe");
    command.args([
        "-v",
        "error",
        "-count_frames",
        "-select_streams",
        "v:2",
        "-show_entries",
        "stream=nb_read_frames",
    ]);
    let output = command.args(["-of", "csv=p=0"]).arg(out.join(MANIFEST)).output().unwrap();
    assert!(String::from_utf8_lossy(&output.stdout).contains("300"), "{output:?}");
}

#[test]
fn a_single_file_has_its_index_where_the_manifest_says() {
    let directory = tempfile::tempdir().unwrap();
    let out = directory.path().join("title");
    make(&out, Layout::SingleFile);
    let mpd = manifest(&out);
    for representation in &mpd.periods[0].set("video").unwrap().representations {
        let Addressing::Base { url, initialization: Some(_), index: Some(index), .. } =
            &representation.addressing
        else {
            panic!("{:?}", representation.addressing);
        };
        let bytes = std::fs::read(out.join(url.strip_prefix("http://localhost/").unwrap())).unwrap();
        let part = &bytes[index.first as usize..=index.last.unwrap() as usize];
        let entries = sidx::read(part, index.first).unwrap().entries;
        assert_eq!(entries.len(), 3);
        // After the segments there is only the table for players that seek without an index.
        let after = entries.last().unwrap().range.last.unwrap() as usize + 1;
        assert_eq!(&bytes[after + 4..after + 8], b"mfra".as_slice());
    }
}

#[test]
fn invalid_input_is_refused_with_the_reason_and_leaves_no_files() {
    let directory = tempfile::tempdir().unwrap();
    let at = |name: &str| directory.path().join(name);
    let stop = AtomicBool::new(false);
    let refuse = |video: &Path, out: &Path, settings: &Settings| {
        package(video, out, settings, (&mut |_| {}, &|| stop.load(Ordering::Relaxed)))
            .unwrap_err()
            .to_string()
    };
    std::fs::write(at("text"), b"no video").unwrap();
    assert!(refuse(&at("text"), &at("out"), &Settings::default()).contains("is not a video"));
    let video = video(directory.path());
    let falling = Settings { ladder: vec![100, 50], ..Settings::default() };
    assert!(refuse(&video, &at("out"), &falling).contains("must have 1 to 64 ascending"));
    std::fs::create_dir(at("full")).unwrap();
    std::fs::write(at("full/file"), b"").unwrap();
    assert!(refuse(&video, &at("full"), &Settings::default()).contains("not empty"));
    stop.store(true, Ordering::Relaxed);
    let stopped =
        package(&video, &at("out"), &Settings::default(), (&mut |_| {}, &|| stop.load(Ordering::Relaxed)))
            .unwrap_err();
    assert!(matches!(stopped, PackageError::Stopped));
    let mut left: Vec<_> =
        std::fs::read_dir(directory.path()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    left.sort();
    assert_eq!(left, ["full", "source.mp4", "text"]);
}
