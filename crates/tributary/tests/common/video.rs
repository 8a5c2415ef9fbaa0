//! A tiled video for tests. Needs ffmpeg.

use std::path::{Path, PathBuf};
use std::process::Command;
use tributary_testing::text;

/// A tiled video of one second in this directory.
pub fn tiled_video(directory: &Path) -> PathBuf {
    let (clip, tiles) = (directory.join("clip.mp4"), directory.join("tiles"));
    let mut ffmpeg = Command::new("ffmpeg");
    ffmpeg.args(["-nostdin", "-v", "error", "-f", "lavfi", "-i", "testsrc2=size=256x128:rate=8:duration=1"]);
    assert!(ffmpeg.arg(&clip).status().expect("ffmpeg is installed (apt-get install ffmpeg)").success());
    let mut ingest = Command::new(env!("CARGO_BIN_EXE_tributary"));
    ingest.args(["ingest", text(&clip), "--out", text(&tiles), "--grid", "2x2", "--qps", "30"]);
    let output = ingest.output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    tiles
}
