//! Sound is cut at the pictures' GoPs, keeps its tone and its time, and plays where files and manifests are played.

use super::*;
use crate::layout;

/// Six tenths of a second of silence, then a tone of 880 Hz to the end; five pictures a second, for 3.4 s.
fn clip_with_sound(directory: &TempDir, name: &str, sound: &str, output: &[&str]) -> PathBuf {
    let path = directory.path().join(name);
    let mut command = Command::new("ffmpeg");
    command.args(["-nostdin", "-v", "error", "-y", "-f", "lavfi", "-i", "testsrc2=s=80x40:r=5:d=3.4"]);
    command
        .args(["-f", "lavfi", "-i", sound, "-c:v", "libx264", "-preset", "ultrafast"])
        .args(output)
        .arg(&path);
    assert!(command.status().expect("ffmpeg is installed").success(), "{name}");
    path
}

/// Samples at 48 kHz of one channel of a file.
fn samples(file: &[u8], directory: &TempDir) -> Vec<f32> {
    let path = directory.path().join("sound.mp4");
    fs::write(&path, file).expect("written");
    let mut command = Command::new("ffmpeg");
    command.args(["-nostdin", "-v", "error", "-i"]).arg(&path).args(["-ac", "1", "-f", "f32le", "pipe:1"]);
    let bytes = command.output().expect("ffmpeg is installed").stdout;
    bytes.chunks_exact(4).map(|b| f32::from_le_bytes([b[0], b[1], b[2], b[3]])).collect()
}

/// Frequency by the number of times that it crosses zero upwards.
fn tone(samples: &[f32]) -> f64 {
    let crossings = samples.windows(2).filter(|pair| pair[0] < 0.0 && pair[1] >= 0.0).count();
    crossings as f64 * 48_000.0 / samples.len() as f64
}

fn whole(video: &TiledVideo) -> Vec<u8> {
    let mut file = video.sound_init().expect("an initialisation segment");
    (0..video.gops()).for_each(|gop| file.extend(video.sound_segment(gop).expect("a segment")));
    file
}

const TONE: &str = "aevalsrc='if(gte(t,0.6),0.5*sin(2*PI*880*t),0)':s=44100:d=3.4";

#[test]
fn sound_keeps_its_tone_and_its_time() {
    let directory = tempfile::tempdir().expect("a directory");
    // In MPEG-TS sound and pictures begin at different times, and not at 0.
    for (name, output) in [("a.mp4", ["-c:a", "aac"]), ("b.ts", ["-c:a", "mp2"]), ("c.mkv", ["-c:a", "flac"])]
    {
        let source = clip_with_sound(&directory, name, TONE, &output);
        let video =
            make(&source, &settings(), &directory.path().join(format!("{name}.tiles"))).expect("an ingest");
        let sound = video.sound().expect("sound");
        assert_eq!((sound.codec.as_str(), sound.rate_hz, sound.channels), ("opus", 48_000, 1));
        assert_eq!(video.gops(), 3);
        let samples = samples(&whole(&video), &directory);
        let seconds = samples.len() as f64 / 48_000.0;
        assert!((2.95..3.1).contains(&seconds), "{name}: {seconds} s");
        let begins = samples.iter().position(|s| s.abs() > 0.1).expect("a tone") as f64 / 48_000.0;
        assert!((begins - 0.6).abs() < 0.03, "{name}: the tone begins at {begins} s");
        let heard = tone(&samples[48_000..96_000]);
        assert!((heard - 880.0).abs() < 5.0, "{name}: {heard} Hz");
        video.verify().expect("checksums hold");
        // Each GoP has a second of packets of 100 ms.
        for gop in 0..3 {
            let segment = video.sound_segment(gop).expect("a segment");
            assert_eq!(segment.len() as u32, video.sound_bytes()[gop]);
            let at = segment.windows(4).position(|w| w == b"trun").expect("a run") + 8;
            let count = u32::from_be_bytes(segment[at..at + 4].try_into().expect("four bytes"));
            assert!((10..=11).contains(&count), "{name}: {count} packets");
        }
    }
}

#[test]
fn the_manifest_and_the_record_name_the_sound() {
    let directory = tempfile::tempdir().expect("a directory");
    let source = clip_with_sound(&directory, "a.mp4", &format!("{TONE},aformat=cl=5.1"), &["-c:a", "aac"]);
    let out = directory.path().join("tiles");
    let video = make(&source, &settings(), &out).expect("an ingest");
    assert_eq!(video.sound().map(|sound| sound.channels), Some(2));
    assert!(video.record().notes.iter().any(|note| note == "6 channels of sound are mixed down to 2"));
    let manifest = String::from_utf8(video.manifest().expect("a manifest")).expect("text");
    for word in ["contentType=\"audio\"", "codecs=\"opus\"", "audioSamplingRate=\"48000\"", "value=\"2\""] {
        assert!(manifest.contains(word), "{word} in {manifest}");
    }
    // ffmpeg's DASH client finds it.
    let mut command = Command::new("ffprobe");
    command.args(["-v", "error", "-select_streams", "a", "-count_packets", "-of", "csv=p=0"]);
    command
        .args(["-show_entries", "stream=codec_name,channels,nb_read_packets"])
        .arg(out.join(layout::MANIFEST));
    let found = String::from_utf8(command.output().expect("ffprobe").stdout).expect("text");
    assert!(found.starts_with("opus,2,3"), "{found}");
}

#[test]
fn a_video_without_sound_or_with_no_sound_wanted_has_none() {
    let directory = tempfile::tempdir().expect("a directory");
    let silent = make(&moving(&directory), &settings(), &directory.path().join("silent")).expect("an ingest");
    assert_eq!((silent.sound(), silent.sound_bytes()), (None, &[0, 0][..]));
    assert!(silent.sound_init().is_err() && silent.sound_segment(0).is_err());

    let source = clip_with_sound(&directory, "a.mp4", TONE, &["-c:a", "aac"]);
    let out = directory.path().join("unwanted");
    let unwanted = Settings { sound: false, ..settings() };
    assert_eq!(make(&source, &unwanted, &out).expect("an ingest").sound(), None);
    // With sound it is another video.
    assert!(matches!(make(&source, &settings(), &out), Err(IngestError::Occupied { .. })));
}

#[test]
fn sound_that_ends_early_leaves_the_last_gops_silent() {
    let directory = tempfile::tempdir().expect("a directory");
    let source = clip_with_sound(&directory, "a.mp4", "sine=440:d=1.5", &["-c:a", "aac"]);
    let video = make(&source, &settings(), &directory.path().join("tiles")).expect("an ingest");
    let bytes = video.sound_bytes();
    assert!(bytes[0] > bytes[1] && bytes[1] > 0 && bytes[2] == 0, "{bytes:?}");
}

#[test]
fn damaged_sound_is_found() {
    let directory = tempfile::tempdir().expect("a directory");
    let source = clip_with_sound(&directory, "a.mp4", TONE, &["-c:a", "aac"]);
    let out = directory.path().join("tiles");
    let video = make(&source, &settings(), &out).expect("an ingest");
    fs::write(out.join(layout::sound(1)), b"noise").expect("written");
    assert!(matches!(video.sound_segment(1), Err(TiledError::Damaged { .. })));
    fs::remove_file(out.join(layout::sound(1))).expect("removed");
    assert!(matches!(TiledVideo::open(&out), Err(TiledError::Missing { .. })));
}
