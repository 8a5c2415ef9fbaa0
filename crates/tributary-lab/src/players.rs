//! Real players of a video over HTTP, without a screen: VLC and ffplay. Their counters are read from their own
//! output.
//!
//! Both read about a second ahead and start with about a second of media, as the simulated player does
//! ([`tributary_player::progressive`]). Not here: the film and its server.

use core::time::Duration;
use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::process::{Process, ProcessError};
use tributary_stream::film::PICTURES_PER_SECOND;

/// Time limit for VLC's answer.
const ANSWER: Duration = Duration::from_secs(5);
/// Time limit for a player to end after SIGTERM.
const END: Duration = Duration::from_secs(3);
/// If VLC shows no picture in the last two seconds, playback has stopped, which counts as one underflow.
const LAST: Duration = Duration::from_secs(2);
/// ffplay's queue counts as run dry when it is empty. The next such event counts only after the queue has held this
/// much, kB: 150 ms of the film.
const REFILLED_KB: f64 = 100.0;

/// A player.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Player {
    /// VLC with dummy outputs.
    Vlc,
    /// ffplay, which drops late pictures.
    Ffplay,
}

/// Counters of a player.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Noticed {
    /// Buffer underflows.
    pub underflows: u64,
    /// Late pictures, which the player dropped.
    pub discards: u64,
    /// Pictures shown.
    pub pictures: u64,
}

impl Player {
    /// The player with this name.
    #[must_use]
    pub fn find(name: &str) -> Option<Self> {
        [Self::Vlc, Self::Ffplay].into_iter().find(|player| player.program() == name)
    }

    /// The program.
    #[must_use]
    pub fn program(self) -> &'static str {
        match self {
            Self::Vlc => "vlc",
            Self::Ffplay => "ffplay",
        }
    }

    /// Programs that must be installed.
    #[must_use]
    pub fn needs(self) -> &'static [&'static str] {
        match self {
            Self::Vlc => &["vlc", "unshare"],
            Self::Ffplay => &["ffplay"],
        }
    }

    /// Plays `url` for this time. `command` creates the command for a program. The player's files are written to
    /// `home`.
    ///
    /// # Errors
    /// [`ProcessError`]: it could not be started, or ended early.
    pub fn play(
        self,
        command: impl Fn(&str) -> Command,
        url: &str,
        home: &Path,
        time: Duration,
    ) -> Result<Noticed, ProcessError> {
        match self {
            Self::Vlc => vlc(command, url, home, time),
            Self::Ffplay => ffplay(command, url, home, time),
        }
    }
}

fn start(name: &str, mut command: Command, home: &Path) -> Result<(Process, PathBuf), ProcessError> {
    let system = |source| ProcessError::System { name: name.to_owned(), source };
    let log = home.join("log");
    command.stderr(File::create(&log).map_err(system)?);
    for variable in ["HOME", "XDG_CONFIG_HOME", "XDG_DATA_HOME", "XDG_CACHE_HOME", "XDG_RUNTIME_DIR"] {
        command.env(variable, home);
    }
    Ok((Process::start(name, command)?, log))
}

fn read(process: &Process, log: &Path) -> Result<String, ProcessError> {
    let text = std::fs::read(log).map_err(|error| process.failed(error.to_string()))?;
    Ok(String::from_utf8_lossy(&text).into_owned())
}

/// VLC refuses to run as root, so `unshare` gives it another user id in a user namespace. Its prefetching, 16 MiB by
/// default, would hold 25 s of the film.
fn vlc(
    command: impl Fn(&str) -> Command,
    url: &str,
    home: &Path,
    time: Duration,
) -> Result<Noticed, ProcessError> {
    let mut words = if rustix::process::geteuid().is_root() {
        let mut words = command("unshare");
        words.args(["--user", "--map-user=1000", "vlc"]);
        words
    } else {
        command("vlc")
    };
    words.args(["--intf", "oldrc", "--rc-fake-tty", "--no-audio", "--vout", "dummy", "--verbose", "2"]);
    words.args([
        "--network-caching",
        "1000",
        "--prefetch-buffer-size",
        "640",
        "--prefetch-read-size",
        "16384",
    ]);
    let (mut process, log) = start(
        "vlc",
        {
            words.arg(url);
            words
        },
        home,
    )?;
    std::thread::sleep(time.saturating_sub(LAST));
    let before = vlc_statistics(&mut process)?;
    std::thread::sleep(LAST.min(time));
    let after = vlc_statistics(&mut process)?;
    process.terminate(END);
    let late = read(&process, &log)?.lines().filter(|line| line.contains("PCR  is called too late")).count();
    let stands = after.pictures == before.pictures;
    Ok(Noticed { underflows: late as u64 + u64::from(stands), ..after })
}

/// Requests VLC's statistics.
fn vlc_statistics(process: &mut Process) -> Result<Noticed, ProcessError> {
    process.say("stats")?;
    let mut noticed = Noticed::default();
    loop {
        let line = process.line(ANSWER)?;
        let number = |name: &str| line.strip_prefix(name)?.split(':').nth(1)?.trim().parse::<u64>().ok();
        if let Some(shown) = number("| frames displayed") {
            noticed.pictures = shown;
        } else if let Some(lost) = number("| frames lost") {
            noticed.discards = lost;
        } else if line.starts_with("stats: returned") {
            return Ok(noticed);
        }
    }
}

/// The external clock continues while no data arrives, so pictures come late and are dropped.
fn ffplay(
    command: impl Fn(&str) -> Command,
    url: &str,
    home: &Path,
    time: Duration,
) -> Result<Noticed, ProcessError> {
    let mut words = command("ffplay");
    words.args(["-hide_banner", "-an", "-sync", "ext", "-framedrop", "-stats", "-seekable", "0", url]);
    words.env("SDL_VIDEODRIVER", "dummy");
    let (mut process, log) = start("ffplay", words, home)?;
    std::thread::sleep(time);
    process.terminate(END);
    let noticed = ffplay_statistics(&read(&process, &log)?);
    if noticed.pictures == 0 {
        return Err(process.failed("it showed no picture; is its display library installed?"));
    }
    Ok(noticed)
}

/// Reads lines such as `   8.03 M-V:  0.000 fd=   1 aq=    0KB vq=  664KB sq=    0B f=0/0`: the clock, dropped pictures, the queue.
fn ffplay_statistics(log: &str) -> Noticed {
    let mut noticed = Noticed::default();
    let mut filled = false;
    for line in log.split(['\r', '\n']) {
        let after = |name: &str| line.split_once(name)?.1.split_whitespace().next();
        let Some(queue) = after("vq=").and_then(|text| text.strip_suffix("KB")?.parse::<f64>().ok()) else {
            continue;
        };
        if let Some(dropped) = after("fd=").and_then(|text| text.parse().ok()) {
            noticed.discards = dropped;
        }
        let clock = line.split_whitespace().next().and_then(|text| text.parse::<f64>().ok());
        // The clock also advances without pictures.
        if let Some(clock) = clock.filter(|clock| clock.is_finite() && queue > 0.0) {
            let due = (clock * f64::from(PICTURES_PER_SECOND)).round() as u64;
            noticed.pictures = noticed.pictures.max(due.saturating_sub(noticed.discards));
        }
        if queue == 0.0 && filled {
            noticed.underflows += 1;
        }
        filled = queue >= REFILLED_KB || (filled && queue > 0.0);
    }
    noticed
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn players_are_found_by_their_programs() {
        assert_eq!(Player::find("vlc"), Some(Player::Vlc));
        assert_eq!(Player::find("ffplay"), Some(Player::Ffplay));
        assert_eq!(Player::find("mplayer"), None);
    }

    #[test]
    fn ffplays_output_shows_empty_queues_and_dropped_pictures() {
        let line = |clock: &str, dropped: u32, queue: u32| {
            format!("{clock} M-V:  0.000 fd={dropped:4} aq=    0KB vq={queue:5}KB sq=    0B f=0/0   \r")
        };
        let log = [
            "Input #0, mpegts, from 'http://127.0.0.1/film.ts':\n".to_owned(),
            line("    nan", 0, 0),
            line("   0.04", 0, 40),
            line("   1.00", 0, 600),
            line("   1.04", 0, 0),
            line("   1.04", 0, 30),
            line("   1.04", 0, 0),
            line("   2.00", 7, 500),
            line("   2.04", 7, 0),
        ];
        let noticed = ffplay_statistics(&log.concat());
        assert_eq!(noticed, Noticed { underflows: 2, discards: 7, pictures: 43 });
        assert_eq!(ffplay_statistics("no such file\n"), Noticed::default());
    }

    #[test]
    fn vlcs_statistics_are_requested_and_parsed() {
        let mut command = Command::new("sh");
        let answer = "read line; test \"$line\" = stats && printf '%s\\n' '| frames displayed :      284' \
                      '| frames lost      :        3' 'stats: returned 0 (no error)'";
        command.args(["-c", answer]);
        let mut process = Process::start("vlc", command).unwrap();
        let noticed = vlc_statistics(&mut process).unwrap();
        assert_eq!(noticed, Noticed { underflows: 0, discards: 3, pictures: 284 });
        assert!(vlc_statistics(&mut process).is_err(), "it has ended");
    }
}
