//! `--qlog` of viewers, players and their servers.

#[path = "common/program.rs"]
mod program;
#[path = "common/video.rs"]
mod video;

use program::Program;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use tempfile::TempDir;
use tributary_testing::text;

fn run(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_tributary")).args(arguments).env_remove("RUST_LOG").output().unwrap()
}

/// Names of the events in a log.
fn events(log: &Path) -> Vec<String> {
    let text = fs::read_to_string(log).unwrap();
    let records = text.lines().map(|line| line.trim_start_matches('\u{1e}'));
    let records = records.map(|record| serde_json::from_str::<serde_json::Value>(record).unwrap());
    records.filter_map(|record| Some(record["name"].as_str()?.to_owned())).collect()
}

/// Whether a log has a session from its beginning to its end, with decisions about segments.
fn is_whole(log: &Path) -> bool {
    let events = events(log);
    ["tributary:subflow_up", "tributary:window_loaded", "tributary:closed"]
        .iter()
        .all(|name| events.iter().any(|event| event == name))
}

struct World {
    directory: TempDir,
    key: PathBuf,
}

impl World {
    fn new() -> Self {
        let directory = TempDir::new().unwrap();
        let key = directory.path().join("key");
        assert!(run(&["keygen", "--shared", "--out", text(&key)]).status.success());
        Self { directory, key }
    }

    fn at(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }
}

#[test]
fn both_ends_of_a_tiled_video_write_their_sessions() {
    let world = World::new();
    let tiles = video::tiled_video(world.directory.path());
    let (served, viewed, key) = (world.at("server.qlog"), world.at("viewer.qlog"), text(&world.key));
    let serve = ["stream", "serve", text(&tiles), "--listen", "127.0.0.1:0", "--shared-key", key];
    let mut server = Program::start(&[&serve[..], &["--qlog", text(&served)]].concat(), &world.at("log"));
    let path = format!("127.0.0.2={}", server.listening);
    let play = ["stream", "play", "--path", &path, "--seconds", "1", "--shared-key", key];
    let output = run(&[&play[..], &["--qlog", text(&viewed)]].concat());
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    assert!(is_whole(&viewed), "{:?}", events(&viewed));
    server.signal("TERM");
    server.wait();
    assert!(is_whole(&served), "{:?}", events(&served));
}

#[test]
fn both_ends_of_a_title_write_their_sessions() {
    let world = World::new();
    let page = world.at("page");
    fs::create_dir(&page).unwrap();
    fs::write(page.join("manifest.mpd"), "no manifest").unwrap();
    let (served, played, key) = (world.at("server.qlog"), world.at("player.qlog"), text(&world.key));
    let listen = ["--listen", "127.0.0.1:0", "--session", "127.0.0.1:0", "--json"];
    let serve = ["dash", "serve", text(&page), "--shared-key", key, "--qlog", text(&served)];
    let mut server = Program::start_json(&[&serve[..], &listen].concat(), &world.at("log"));
    let said: serde_json::Value = serde_json::from_str(&server.listening).unwrap();
    let url = format!("http://{}/manifest.mpd", said["listening"]["session"][0].as_str().unwrap());
    let play = ["dash", "play", &url, "--transport", "fbdt", "--shared-key", key, "--qlog", text(&played)];
    let output = run(&play);
    let error = String::from_utf8_lossy(&output.stderr);
    assert!(error.contains("the manifest: "), "it was served: {error}");
    assert!(events(&played).iter().any(|event| event == "tributary:subflow_up"), "{:?}", events(&played));
    server.signal("TERM");
    server.wait();
    assert!(is_whole(&served), "{:?}", events(&served));
}

#[test]
fn transports_without_sessions_refuse_a_log_of_them() {
    let world = World::new();
    let log = world.at("qlog");
    for command in [
        &["dash", "play", "http://127.0.0.1:1/manifest.mpd", "--transport", "tcp"][..],
        &["stream", "play", "--path", "any=127.0.0.1:1", "--transport", "tcp"],
        &["dash", "serve", text(world.directory.path())],
    ] {
        let output = run(&[command, &["--qlog", text(&log)]].concat());
        let error = String::from_utf8_lossy(&output.stderr);
        assert!(
            !output.status.success() && error.contains("--qlog writes the events of sessions"),
            "{error}"
        );
        assert!(!log.exists(), "{command:?}");
    }
}
