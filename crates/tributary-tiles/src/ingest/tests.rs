//! Ingests of small videos with the real programs: the files agree with the table, and a stopped, truncated
//! or damaged result is never accepted as complete.

mod chain;
mod damage;
mod input;
mod sound;
mod stop;

use std::fs;
use std::process::Command;

use tempfile::TempDir;
use tributary_video::projection::Projection;

use super::*;

/// Makes `name` in `directory` from ffmpeg's test picture: 80×40 pixels, five a second.
fn clip(directory: &TempDir, name: &str, source: &str, output: &[&str]) -> PathBuf {
    let path = directory.path().join(name);
    let mut command = Command::new("ffmpeg");
    command.args(["-nostdin", "-v", "error", "-y", "-f", "lavfi", "-i", source]).args(output).arg(&path);
    let made = command.status().expect("ffmpeg is installed (apt-get install ffmpeg)");
    assert!(made.success(), "{name}");
    path
}

/// Two seconds and two pictures.
fn moving(directory: &TempDir) -> PathBuf {
    let output = ["-c:v", "libx264", "-preset", "ultrafast", "-qp", "10", "-pix_fmt", "yuv420p"];
    clip(directory, "moving.mp4", "testsrc2=s=80x40:r=5:d=2.4", &output)
}

fn settings() -> Settings {
    Settings {
        grid: TileGrid::new(2, 2, Projection::Equirectangular).expect("a grid"),
        qps: vec![24, 40],
        size: None,
        seconds: None,
        rate: None,
        eyes: Eyes::Left,
        any_aspect: false,
        preset: "ultrafast".to_owned(),
        sound: true,
        jobs: None,
    }
}

fn make(source: &Path, settings: &Settings, out: &Path) -> Result<TiledVideo, IngestError> {
    ingest(source, settings, out, &|_: Progress| {})
}

#[test]
fn settings_that_make_no_sense_are_refused() {
    let refused = |change: fn(&mut Settings)| {
        let mut settings = settings();
        change(&mut settings);
        let error = make(Path::new("no.mp4"), &settings, Path::new("none")).expect_err("refused");
        assert!(matches!(error, IngestError::Setting { .. }), "{error}");
    };
    refused(|s| s.qps = vec![]);
    refused(|s| s.qps = vec![30, 30]);
    refused(|s| s.qps = vec![40, 30]);
    refused(|s| s.qps = vec![0, 30]);
    refused(|s| s.qps = vec![30, 52]);
    refused(|s| s.seconds = Some(0));
    refused(|s| s.preset = "placebo:log=1".to_owned());
}

#[test]
fn pieces_cover_every_row_of_every_gop_once() {
    let directory = tempfile::tempdir().expect("a directory");
    let mut recipe = Recipe::of(&moving(&directory), &settings()).expect("a video");
    for (jobs, rows, gops) in [(1, 4, 3), (16, 4, 1), (3, 7, 12), (64, 1, 1)] {
        recipe.grid = TileGrid::new(2, rows, Projection::Equirectangular).expect("a grid");
        let mut seen = vec![vec![0; rows]; gops];
        let mut untiled = Vec::new();
        for piece in pieces_of(&recipe, gops, jobs) {
            match piece {
                Piece::Tiles { gop, rows } => rows.iter().for_each(|row| seen[gop][*row] += 1),
                Piece::Untiled { gop } => untiled.push(gop),
            }
        }
        assert!(seen.iter().flatten().all(|count| *count == 1), "{jobs} jobs: {seen:?}");
        assert_eq!(untiled, (0..gops).step_by(10).collect::<Vec<_>>());
    }
}
