//! Standard output, files and progress.

use super::page::TablesBeside;
use anyhow::{Context, Result};
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use std::io::{self, IsTerminal, Write};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// One line on standard output. A closed reader is an error, not a panic.
pub(crate) fn line(text: &str) -> Result<()> {
    writeln!(io::stdout().lock(), "{text}").context("standard output")
}

/// The directory for results, created if it is missing. Writing is tested before the work begins.
pub(crate) fn directory(path: &Path) -> Result<()> {
    std::fs::create_dir_all(path).with_context(|| format!("cannot make the directory {}", path.display()))?;
    let probe = path.join(".writable");
    std::fs::write(&probe, b"").with_context(|| format!("cannot write into {}", path.display()))?;
    std::fs::remove_file(&probe).with_context(|| format!("cannot remove {}", probe.display()))
}

/// Writes one file of a report and returns its path.
pub(crate) fn file(directory: &Path, name: &str, text: &str) -> Result<PathBuf> {
    let path = directory.join(name);
    std::fs::write(&path, text).with_context(|| format!("cannot write {}", path.display()))?;
    Ok(path)
}

/// How a result is printed.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Form {
    pub json: bool,
    pub markdown: bool,
}

/// A result in all its output formats.
pub(crate) struct Report {
    /// Name of the files, without their endings.
    pub name: String,
    pub json: String,
    pub markdown: String,
    /// The HTML page, if there is one.
    pub html: Option<String>,
    /// The text that is printed by default.
    pub text: String,
}

impl Report {
    /// Writes the files, prints the requested format, and prints where the report is.
    pub(crate) fn publish(&self, into: &Path, form: Form, beside: Option<&TablesBeside>) -> Result<()> {
        file(into, &format!("{}.json", self.name), &self.json)?;
        let mut page = file(into, &format!("{}.md", self.name), &self.markdown)?;
        if let Some(html) = &self.html {
            page = file(into, &format!("{}.html", self.name), html)?;
        }
        let printed = match form {
            Form { json: true, .. } => &self.json,
            Form { markdown: true, .. } => &self.markdown,
            _ => &self.text,
        };
        line(printed)?;
        if let Some(beside) = beside {
            beside.write(&self.name, &self.markdown)?;
        }
        eprintln!("report: {}", page.display());
        Ok(())
    }
}

/// The user's cache directory for encoded videos.
pub(crate) fn cache() -> PathBuf {
    let home = |name: &str| std::env::var_os(name).filter(|v| !v.is_empty()).map(PathBuf::from);
    let base = home("XDG_CACHE_HOME").or_else(|| home("HOME").map(|home| home.join(".cache")));
    base.unwrap_or_else(std::env::temp_dir).join("tributary")
}

/// The command line as it was typed.
pub(crate) fn command_line() -> String {
    let mut words = std::env::args();
    let program = words.next().unwrap_or_default();
    let name = Path::new(&program).file_name().map_or(program.clone(), |n| n.to_string_lossy().into_owned());
    let quoted = words.map(|word| if word.contains(' ') { format!("'{word}'") } else { word });
    std::iter::once(name).chain(quoted).collect::<Vec<_>>().join(" ")
}

/// Time between two lines of progress that is not on a terminal.
const LINES: Duration = Duration::from_secs(10);

/// A bar on a terminal, a line every ten seconds elsewhere; on standard error either way.
pub(crate) struct Progress {
    bar: ProgressBar,
    terminal: bool,
    last: String,
    written: Option<Instant>,
}

impl Progress {
    pub(crate) fn new() -> Self {
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
    pub(crate) fn at(&mut self, share: f64, text: &str) {
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
    pub(crate) fn begin_part(&mut self) {
        self.written = None;
    }

    /// A line above the bar.
    pub(crate) fn note(&self, text: &str) {
        if self.terminal {
            self.bar.println(text);
        } else {
            eprintln!("{text}");
        }
    }

    pub(crate) fn end(&self) {
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
