//! Progress of long work.

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use std::io::{self, IsTerminal};
use std::time::{Duration, Instant};

/// Time between two lines of progress that is not on a terminal.
const LINES: Duration = Duration::from_secs(10);

/// A bar on a terminal, a line every ten seconds elsewhere; on standard error either way.
#[derive(Debug)]
pub struct Progress {
    bar: ProgressBar,
    terminal: bool,
    last: String,
    written: Option<Instant>,
}

impl Default for Progress {
    fn default() -> Self {
        Self::new()
    }
}

impl Progress {
    /// A bar at zero.
    #[must_use]
    pub fn new() -> Self {
        let terminal = io::stderr().is_terminal();
        let target = if terminal { ProgressDrawTarget::stderr() } else { ProgressDrawTarget::hidden() };
        let bar = ProgressBar::with_draw_target(Some(1000), target);
        let style =
            ProgressStyle::with_template("{spinner} [{elapsed_precise}] {bar:30} {percent:>3} % {msg}");
        bar.set_style(style.expect("the template is well-formed"));
        if terminal {
            bar.enable_steady_tick(Duration::from_millis(120));
        }
        Self { bar, terminal, last: String::new(), written: None }
    }

    /// `share` of all work is done, 0 to 1; `text` is the next step.
    pub fn at(&mut self, share: f64, text: &str) {
        self.bar.set_position((share.clamp(0.0, 1.0) * 1000.0) as u64);
        if self.last != text {
            text.clone_into(&mut self.last);
            self.bar.set_message(self.last.clone());
        }
        if !self.terminal
            && let Some(line) = self.line(Instant::now(), share, text)
        {
            eprintln!("{line}");
        }
    }

    /// The line to write at `now` where there is no terminal; `None` if the last one was written recently.
    fn line(&mut self, now: Instant, share: f64, text: &str) -> Option<String> {
        if self.written.is_some_and(|written| now.duration_since(written) < LINES) {
            return None;
        }
        self.written = Some(now);
        Some(format!("{:3.0} % {text}", share * 100.0))
    }

    /// Another part of the work begins: the next line is written at once.
    pub fn begin_part(&mut self) {
        self.written = None;
    }

    /// A line above the bar.
    pub fn note(&self, text: &str) {
        if self.terminal {
            self.bar.println(text);
        } else {
            eprintln!("{text}");
        }
    }

    /// Removes the bar.
    pub fn end(&self) {
        self.bar.finish_and_clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_log_has_a_line_of_progress_every_ten_seconds() {
        let (mut progress, start) = (Progress::new(), Instant::now());
        let call = |n: u32| (start + Duration::from_secs(25) * n / 800, f64::from(n) / 800.0);
        let lines: Vec<String> =
            (0..=800).map(call).filter_map(|(now, share)| progress.line(now, share, "encoding")).collect();
        assert_eq!(lines, ["  0 % encoding", " 40 % encoding", " 80 % encoding"]);
        progress.begin_part();
        assert!(progress.line(start + Duration::from_secs(25), 0.0, "measuring").is_some());
    }
}
