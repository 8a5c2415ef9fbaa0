//! Generated head movement: rests of about a second, then turns, mostly sideways.
//!
//! Used when there is no recorded head movement. Not a model of viewers: only the magnitudes of speeds and rests are
//! those of public recordings. The seed is fixed, so the trace is the same on every machine.

use core::fmt::Write as _;
use std::path::{Path, PathBuf};

use tributary_types::Rng;

/// Samples a second.
const RATE: f64 = 30.0;
/// Duration in seconds: longer than a demo with default settings.
const SECONDS: f64 = 600.0;
/// Shortest rest, and the maximum random time added to it, seconds.
const REST_S: (f64, f64) = (0.5, 1.5);
/// Mean speed of a turn, degrees per second.
const SPEED_DEG_S: f64 = 70.0;

/// Writes the trace into the cache, in the plain format; returns the path.
///
/// # Errors
/// The file cannot be written.
pub fn generated_head(cache: &Path) -> std::io::Result<PathBuf> {
    std::fs::create_dir_all(cache)?;
    let path = cache.join("generated-head.csv");
    // Renamed when complete, so that a demo running at the same time never reads an incomplete file.
    let part = tempfile::NamedTempFile::new_in(cache)?;
    std::fs::write(part.path(), movement())?;
    part.persist(&path)?;
    Ok(path)
}

/// The whole trace as text.
fn movement() -> String {
    let mut random = Rng::new(7).child("head");
    let mut between = |low: f64, high: f64| low + (high - low) * random.uniform();
    let mut text = "time_s,yaw_deg,pitch_deg\n".to_owned();
    let mut sample = |at: f64, (yaw, pitch): (f64, f64)| {
        let yaw = (yaw + 180.0).rem_euclid(360.0) - 180.0;
        // Writing into a string cannot fail.
        let _ = writeln!(text, "{at:.4},{yaw:.3},{pitch:.3}");
    };
    let (mut at, mut from) = (0.0, (0.0, 0.0));
    while at < SECONDS {
        let rest = REST_S.0 + between(0.0, REST_S.1);
        let turn = between(15.0, 90.0) * if between(0.0, 1.0) < 0.5 { -1.0 } else { 1.0 };
        let to = (from.0 + turn, between(-20.0, 15.0));
        let moving = turn.abs() / SPEED_DEG_S;
        for step in 0..((rest + moving) * RATE) as u32 {
            // Speeds up and slows down smoothly.
            let way = ((f64::from(step) / RATE - rest) / moving).clamp(0.0, 1.0);
            let eased = way * way * (3.0 - 2.0 * way);
            sample(at, (from.0 + (to.0 - from.0) * eased, from.1 + (to.1 - from.1) * eased));
            at += 1.0 / RATE;
        }
        from = to;
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use tributary_video::head::{Format, read};

    #[test]
    fn the_generated_head_moves_rests_and_never_jumps() {
        let cache = tempfile::tempdir().unwrap();
        let path = generated_head(cache.path()).unwrap();
        assert_eq!(std::fs::read_dir(cache.path()).unwrap().count(), 1);
        let trace = read(std::fs::File::open(path).unwrap(), Format::Plain).unwrap();
        assert!(trace.duration_s() > SECONDS - 5.0);
        let (mut resting, mut fastest) = (0, 0.0_f64);
        let steps = 1000;
        for step in 0..steps {
            let at = f64::from(step) * 0.1;
            let (before, after) = (trace.at(at), trace.at(at + 0.1));
            let degrees = before.ahead().angle_to(after.ahead()).to_degrees() * 10.0;
            resting += i32::from(degrees < 1.0);
            fastest = fastest.max(degrees);
        }
        assert!((steps / 4..steps * 9 / 10).contains(&resting), "{resting} of {steps}");
        assert!((60.0..200.0).contains(&fastest), "{fastest} degrees a second");
    }
}
