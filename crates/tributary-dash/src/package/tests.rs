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

/// Makes `name` from a source of ffmpeg's.
fn clip(directory: &Path, name: &str, source: &str, output: &[&str]) -> PathBuf {
    let path = directory.join(name);
    let mut command = Command::new("ffmpeg");
    command.args(["-nostdin", "-v", "error", "-f", "lavfi", "-i", source]).args(output).arg(&path);
    assert!(command.status().expect("ffmpeg is installed: scripts/setup").success(), "{name}");
    path
}

/// Packages `video` in one quality. Returns the package, and the grey pictures of its only segment file.
fn packaged(video: &Path) -> (Package, Vec<u8>) {
    let out = video.with_extension("title");
    let settings = Settings {
        ladder: vec![800],
        preset: "ultrafast".to_owned(),
        layout: Layout::SingleFile,
        seconds: None,
    };
    let made = package(video, &out, &settings, (&mut |_| {}, &|| false)).unwrap();
    let mut command = Command::new("ffmpeg");
    command.args(["-nostdin", "-v", "error", "-i"]).arg(out.join("1.mp4"));
    let output = command
        .args(["-fps_mode", "passthrough", "-pix_fmt", "gray", "-f", "rawvideo", "-"])
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    (made, output.stdout)
}

const X264: [&str; 6] = ["-c:v", "libx264", "-preset", "ultrafast", "-pix_fmt", "yuv420p"];

#[test]
fn a_video_that_lies_on_its_side_is_packaged_upright() {
    let directory = tempfile::tempdir().unwrap();
    // White on the left, stored so that it is to be turned by 90°: white is then at the top.
    let picture = "color=black:s=64x32:r=10:d=1,drawbox=w=32:h=32:c=white:t=fill";
    let video = clip(directory.path(), "lying.mp4", picture, &X264);
    let mut bytes = std::fs::read(&video).unwrap();
    let header = bytes.windows(4).position(|name| name == b"tkhd").unwrap() + 44;
    let matrix = [0_i32, 1 << 16, 0, -(1 << 16), 0, 0].iter().flat_map(|number| number.to_be_bytes());
    bytes.splice(header..header + 24, matrix.collect::<Vec<_>>());
    std::fs::write(&video, bytes).unwrap();
    let (made, pictures) = packaged(&video);
    let one = &made.representations[0];
    assert_eq!((one.width, one.height, pictures.len()), (32, 64, 10 * 32 * 64));
    let (top, bottom) = pictures[..32 * 64].split_at(32 * 32);
    let mean = |part: &[u8]| part.iter().map(|grey| usize::from(*grey)).sum::<usize>() / part.len();
    assert!(mean(top) > 200 && mean(bottom) < 40, "{} and {}", mean(top), mean(bottom));
    assert_eq!(made.notes, ["turned upright (transpose=clock)"]);
}

#[test]
fn a_recording_that_names_no_rate_has_as_many_pictures_as_it_had() {
    let directory = tempfile::tempdir().unwrap();
    // As browsers record: uneven whole milliseconds, and a track without a default duration.
    let uneven = "settb=1/1000,setpts='floor(N*1000/30+7*sin(N*2.3))'";
    let codec = ["-c:v", "libvpx", "-deadline", "realtime", "-cpu-used", "8", "-b:v", "300k"];
    let times = ["-vf", uneven, "-fps_mode", "passthrough", "-enc_time_base", "1:1000"];
    let output = [&times[..], &codec].concat();
    let video = clip(directory.path(), "recorded.webm", "testsrc2=s=64x32:r=30:d=4", &output);
    let mut bytes = std::fs::read(&video).unwrap();
    let at = bytes.windows(3).position(|id| id == [0x23, 0xE3, 0x83]).expect("a default duration");
    let size = bytes[at + 3] & 0x7F;
    // An empty element of the same length.
    bytes[at..at + 2].copy_from_slice(&[0xEC, 0x80 | (size + 2)]);
    bytes[at + 2..at + 4 + usize::from(size)].fill(0);
    std::fs::write(&video, bytes).unwrap();
    let (made, pictures) = packaged(&video);
    assert!((118..=121).contains(&(pictures.len() / (64 * 32))), "{} pictures", pictures.len() / (64 * 32));
    assert!((made.duration_s - 4.0).abs() < 0.1, "{}", made.duration_s);
    assert_eq!(made.notes, ["resampled from a variable rate to 30/1 pictures a second"]);
}

#[test]
fn times_that_begin_late_and_other_ways_to_store_a_picture_are_converted() {
    let directory = tempfile::tempdir().unwrap();
    let source = "testsrc2=s=64x32:r=10:d=2";
    let late = clip(directory.path(), "late.mkv", source, &[&X264[..], &["-output_ts_offset", "5"]].concat());
    let (made, pictures) = packaged(&late);
    assert_eq!((pictures.len() / (64 * 32), made.notes.len()), (20, 0));
    assert!((made.duration_s - 2.0).abs() < 0.01, "{}", made.duration_s);
    let wide = clip(directory.path(), "wide.mp4", source, &[&X264[..], &["-vf", "setsar=2"]].concat());
    let (made, _) = packaged(&wide);
    assert_eq!((made.representations[0].width, made.representations[0].height), (128, 32));
    let stereo = ["-metadata:s:v", "stereo_mode=left_right"];
    let eyes = clip(directory.path(), "eyes.mkv", source, &[&X264[..], &stereo].concat());
    let (made, _) = packaged(&eyes);
    assert_eq!((made.representations[0].width, made.notes.len()), (32, 1), "{:?}", made.notes);
    let mixed = clip(
        directory.path(),
        "mixed.mkv",
        source,
        &[&X264[..], &["-metadata:s:v", "stereo_mode=checkerboard_lr"]].concat(),
    );
    let settings = Settings { ladder: vec![800], ..Settings::default() };
    let error =
        package(&mixed, &directory.path().join("none"), &settings, (&mut |_| {}, &|| false)).unwrap_err();
    assert!(error.to_string().contains("convert it first: ffmpeg -i IN -vf stereo3d="), "{error}");
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
