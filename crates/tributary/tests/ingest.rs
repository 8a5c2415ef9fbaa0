//! `tributary ingest` on the command line: after a kill it continues and makes the same
//! video; it refuses bad input with one line.

use std::fs;
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Command, Stdio};

use tributary_tiles::{TiledError, TiledVideo};

/// Four seconds of ffmpeg's test picture.
fn clip(path: &Path) {
    let mut command = Command::new("ffmpeg");
    command.args(["-nostdin", "-v", "error", "-f", "lavfi", "-i", "testsrc2=s=160x80:r=5:d=4"]);
    command.args(["-c:v", "libx264", "-preset", "ultrafast", "-pix_fmt", "yuv420p"]).arg(path);
    assert!(command.status().expect("ffmpeg is installed (apt-get install ffmpeg)").success());
}

fn tributary(source: &Path, out: &Path) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_tributary"));
    command.arg("ingest").arg(source).arg("--out").arg(out);
    command.args(["--grid", "2x2", "--qps", "38,26", "--preset", "ultrafast", "--jobs", "1", "--json"]);
    command
}

#[test]
fn a_killed_ingest_resumes_and_makes_the_same_video() {
    let directory = tempfile::tempdir().expect("a directory");
    let (source, out) = (directory.path().join("clip.mp4"), directory.path().join("tiles"));
    clip(&source);
    let mut running = tributary(&source, &out).stderr(Stdio::piped()).spawn().expect("it starts");
    let said = BufReader::new(running.stderr.take().expect("piped"));
    // A line is printed when the reference exists and tiles begin.
    let begun = said.lines().map_while(Result::ok).any(|line| line.contains("encoding"));
    running.kill().expect("it runs");
    running.wait().expect("it ends");
    assert!(begun);
    assert!(matches!(TiledVideo::open(&out), Err(TiledError::Unfinished { .. })));

    let output = tributary(&source, &out).output().expect("it runs");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let made: serde_json::Value = serde_json::from_slice(&output.stdout).expect("one JSON object");
    assert_eq!((made["gops"].as_u64(), made["qualities"].as_array().map(Vec::len)), (Some(4), Some(2)));
    let video = TiledVideo::open(&out).expect("a whole video");
    video.verify().expect("whole");
    let fresh = directory.path().join("fresh");
    assert!(tributary(&source, &fresh).status().expect("it runs").success());
    let sums = |of: &Path| fs::read(of.join("SHA256SUMS")).expect("there");
    assert!(sums(&out) == sums(&fresh));
}

/// Whether a process with this mark in its environment is running.
fn is_running(mark: &str) -> bool {
    let processes = fs::read_dir("/proc").expect("Linux").flatten();
    let marked = |path: std::path::PathBuf| fs::read(path.join("environ")).unwrap_or_default();
    processes
        .map(|entry| marked(entry.path()))
        .any(|environment| environment.split(|byte| *byte == 0).any(|variable| variable == mark.as_bytes()))
}

#[test]
fn ctrl_c_leaves_no_process_and_no_temporary_file() {
    let directory = tempfile::tempdir().expect("a directory");
    let (source, out) = (directory.path().join("clip.mp4"), directory.path().join("tiles"));
    clip(&source);
    let mark = format!("TRIBUTARY_TEST_MARK={}", directory.path().display());
    let (name, value) = mark.split_once('=').expect("both");
    let mut command = tributary(&source, &out);
    let mut running = command.env(name, value).stderr(Stdio::piped()).spawn().expect("it starts");
    let mut said = BufReader::new(running.stderr.take().expect("piped")).lines().map_while(Result::ok);
    let mut before = said.by_ref().take_while(|line| !line.contains("encoding")).collect::<Vec<_>>();
    let id = i32::try_from(running.id()).expect("a process number");
    let process = rustix::process::Pid::from_raw(id).expect("not 0");
    rustix::process::kill_process(process, rustix::process::Signal::INT).expect("it runs");
    let status = running.wait().expect("it ends");
    before.extend(said);
    assert_eq!(status.code(), Some(130), "{before:#?}");
    let says = |text: &str| before.iter().any(|line| line.contains(text));
    assert!(says("20 pictures of 160×80: about") && says("continues from there"), "{before:#?}");
    assert!(!is_running(&mark));
    let work = fs::read_dir(out.join("work")).expect("notes are kept").flatten();
    assert_eq!(work.filter(|entry| entry.path().is_dir()).count(), 0, "scratch is left");
    assert!(matches!(TiledVideo::open(&out), Err(TiledError::Unfinished { .. })));
    assert!(tributary(&source, &out).status().expect("it runs").success());
    TiledVideo::open(&out).expect("a whole video").verify().expect("whole");
}

#[test]
fn an_error_names_the_file_and_the_remedy() {
    let directory = tempfile::tempdir().expect("a directory");
    let source = directory.path().join("clip.mp4");
    clip(&source);
    let out = directory.path().join("tiles");
    let output = tributary(&source, &out).args(["--size", "161x80"]).output().expect("it runs");
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(!output.status.success() && said.contains("--size 160x80"), "{said}");
    let output = tributary(&directory.path().join("none.mp4"), &out).output().expect("it runs");
    assert!(String::from_utf8_lossy(&output.stderr).contains("none.mp4"));
    assert!(!out.exists());
}
