//! The stand as a video: a browser without a window shows the page, a fixed script changes the radios as a viewer would, and ffmpeg
//! encodes what is shown.

use core::time::Duration;
use std::fs::File;
use std::io::Write;
use std::path::PathBuf;
use std::process::Command;
use std::time::Instant;

use serde_json::{Value, json};
use tributary_link::Scenario;
use tributary_tiles::program;

use super::ShowError;
use super::browser::{Browser, BrowserError};

/// Pictures a second of the video.
const RATE: u32 = 10;
/// The page's size, pixels.
const SIZE: (u32, u32) = (1280, 1100);
/// Time until both players show a picture.
const BEGIN: Duration = Duration::from_secs(60);
/// Time between two looks whether they do.
const LOOK: Duration = Duration::from_millis(200);

/// Whether both players show something.
const BOTH_PLAY: &str = "document.querySelector('iframe') !== null && \
    [...document.querySelectorAll('iframe')].every((frame) => \
    Number(frame.contentDocument?.querySelector('main')?.dataset.pictures) > 0)";

/// What is recorded.
#[derive(Clone, Debug)]
pub struct Recording {
    /// The video, MP4.
    pub file: PathBuf,
    /// Its length.
    pub seconds: u32,
}

impl Recording {
    /// Checks that the file can be written, before the long work begins.
    ///
    /// # Errors
    /// [`ShowError::File`] names it.
    pub fn check(&self) -> Result<(), ShowError> {
        let opened = File::options().append(true).create(true).open(&self.file);
        opened.map(drop).map_err(|source| ShowError::File { file: self.file.clone(), source })
    }
}

/// What the viewer does to a radio.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Act {
    /// Blocks it, or lets it through again.
    Block,
    /// Drags it to this share of its highest rate in the scenario.
    Drag(f64),
    /// Gives it the scenario's rate again.
    Release,
}

/// Of the recording, the share after which something is done to the fastest or the slowest radio.
const SCRIPT: [(f64, Which, Act); 8] = [
    (0.15, Which::Fastest, Act::Block),
    (0.35, Which::Fastest, Act::Block),
    (0.45, Which::Slowest, Act::Drag(0.3)),
    (0.55, Which::Fastest, Act::Block),
    (0.65, Which::Fastest, Act::Block),
    (0.7, Which::Slowest, Act::Release),
    (0.75, Which::Slowest, Act::Block),
    (0.9, Which::Slowest, Act::Block),
];

/// Which radio is meant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Which {
    Fastest,
    Slowest,
}

pub(super) fn record(
    scenario: &Scenario,
    url: &str,
    recording: &Recording,
    progress: &mut (dyn FnMut(f64) + Send),
) -> Result<(), ShowError> {
    let mut browser = Browser::open(url, SIZE)?;
    let until = Instant::now() + BEGIN;
    while browser.evaluate(BOTH_PLAY)? != Value::Bool(true) {
        if Instant::now() >= until {
            return Err(BrowserError::Gone("shows no picture of one side").into());
        }
        browser.watch(Instant::now() + LOOK)?;
    }
    browser.film()?;
    let mut played = Ok(());
    let mut encode = Command::new("ffmpeg");
    encode.args(["-nostdin", "-v", "error", "-y", "-f", "image2pipe", "-c:v", "mjpeg", "-framerate"]);
    encode.arg(RATE.to_string()).args(["-i", "pipe:0", "-c:v", "libx264", "-preset", "veryfast"]);
    encode.args(["-pix_fmt", "yuv420p", "-movflags", "+faststart", "-f", "mp4"]);
    encode.arg(program::name_of(&recording.file));
    let encoded = program::run_fed("ffmpeg", &mut encode, |pictures| {
        played = play(&mut browser, scenario, recording.seconds, pictures, progress);
        Ok(())
    });
    // A browser that fails leaves ffmpeg with nothing to encode, which is not the reason.
    played?;
    encoded?;
    Ok(())
}

fn play(
    browser: &mut Browser,
    scenario: &Scenario,
    seconds: u32,
    pictures: &mut impl Write,
    progress: &mut (dyn FnMut(f64) + Send),
) -> Result<(), BrowserError> {
    let began = Instant::now();
    let count = seconds * RATE;
    let mut script = SCRIPT.iter().peekable();
    for number in 1..=count {
        browser.watch(began + Duration::from_secs(1) * number / RATE)?;
        let share = f64::from(number) / f64::from(count);
        while let Some((_, which, act)) = script.next_if(|(at, ..)| *at <= share) {
            browser.evaluate(&in_the_page(&radio(scenario, *which), *act))?;
        }
        // ffmpeg ends early only if it fails, and then says why.
        if pictures.write_all(&browser.picture).is_err() {
            return Ok(());
        }
        progress(share);
    }
    Ok(())
}

/// Name and highest rate of a radio, Mbit/s.
fn radio(scenario: &Scenario, which: Which) -> (String, f64) {
    let rates = scenario.paths.iter().map(|path| (path.name.clone(), path.down.rate.max()));
    let chosen = match which {
        Which::Fastest => rates.max_by_key(|(_, rate)| *rate),
        Which::Slowest => rates.min_by_key(|(_, rate)| *rate),
    };
    let (name, rate) = chosen.expect("a scenario has a path");
    (name, rate.as_bps() as f64 / 1e6)
}

/// The script that does in the page what a viewer would.
fn in_the_page((name, rate): &(String, f64), act: Act) -> String {
    let radio = format!(
        "[...document.querySelectorAll('.radio')].find((one) => one.dataset.radio === {})",
        json!(name)
    );
    match act {
        Act::Block => format!("{radio}.querySelector('.block').click()"),
        Act::Release => format!("{radio}.querySelector('.release').click()"),
        Act::Drag(share) => format!(
            "{{ const slider = {radio}.querySelector('input'); slider.value = {}; \
             slider.dispatchEvent(new Event('input', {{ bubbles: true }})); }}",
            share * rate
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_script_ends_with_the_scenario_s_radios() {
        for radio in [Which::Fastest, Which::Slowest] {
            let of = |act: &dyn Fn(Act) -> bool| {
                SCRIPT.iter().filter(|(_, which, done)| *which == radio && act(*done)).count()
            };
            assert_eq!(of(&|act| act == Act::Block) % 2, 0);
            assert_eq!(of(&|act| matches!(act, Act::Drag(_))), of(&|act| act == Act::Release));
        }
        assert!(SCRIPT.is_sorted_by_key(|(at, ..)| *at));
    }

    #[test]
    fn a_script_names_the_radio_as_text() {
        let scenario = Scenario::builtin("deep-fade-2k").unwrap();
        assert_eq!(radio(&scenario, Which::Fastest), ("wigig".to_owned(), 14.0));
        assert_eq!(radio(&scenario, Which::Slowest).0, "wifi");
        let script = in_the_page(&("a\"b".to_owned(), 10.0), Act::Drag(0.5));
        assert!(script.contains(r#"=== "a\"b""#) && script.contains("slider.value = 5;"), "{script}");
    }
}
