//! Fuzz targets of files that users write. Included by `entry.rs`.

use tributary_lab::reproduce::{Paper, Selection};
use tributary_video::head::{self, Format};

/// A plan of experiments is refused with the file's name, or has cells.
pub fn plan(data: &[u8]) {
    let Ok(text) = core::str::from_utf8(data) else { return };
    match Paper::parse(text, "fuzz.toml") {
        Ok(paper) => _ = paper.cells(&Selection::default()),
        Err(error) => assert!(error.to_string().contains("fuzz.toml"), "the error names no file: {error}"),
    }
}

/// A head movement is refused with a line, or its samples are in order and each time has an orientation.
///
/// Input: a byte for the format, then the file.
pub fn head_trace(data: &[u8]) {
    let Some((format, file)) = data.split_first() else { return };
    let renamed = ["plain:time_s=t,yaw_deg=y,pitch_deg=p"];
    let names: Vec<&str> = Format::NAMES.into_iter().chain(renamed).collect();
    let format = names[usize::from(*format) % names.len()].parse().expect("the format is known");
    let Ok(trace) = head::read(file, format) else { return };
    let end = trace.duration_s();
    assert!(end.is_finite() && end >= 0.0);
    for time in [-1.0, 0.0, end / 2.0, end, end + 1.0] {
        let at = trace.at(time);
        assert!([at.yaw, at.pitch, at.roll].iter().all(|angle| angle.is_finite()), "{at:?}");
    }
}
