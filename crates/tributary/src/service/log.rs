//! The log on standard error, and the line of live state below it on a terminal.

use anyhow::{Context, Result};
use clap::ValueEnum;
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use std::borrow::Cow;
use std::io::{self, IsTerminal, Write};
use std::sync::OnceLock;
use tracing_subscriber::filter::Targets;
use tracing_subscriber::{fmt, prelude::*};

/// Log level when `RUST_LOG` is not set.
pub(crate) const LEVEL: &str = "warn,tributary=info,tributary_net=info,tributary_dash=info";

/// The live line, if there is one: log lines are written above it.
static LIVE: OnceLock<ProgressBar> = OnceLock::new();

/// Form of the log's lines.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub(crate) enum Format {
    /// For people.
    #[default]
    Text,
    /// One JSON object a line: timestamp, level, target, and fields with the message.
    Json,
}

/// Writes the log to standard error, at this level unless `RUST_LOG` says otherwise.
pub(crate) fn start(default: &str, format: Format) -> Result<()> {
    let directives = std::env::var("RUST_LOG").unwrap_or_default();
    let filter: Targets = match directives.as_str() {
        "" => default.parse()?,
        directives => directives
            .parse()
            .with_context(|| format!("RUST_LOG `{directives}`: expected a level, for example info"))?,
    };
    let lines = fmt::layer().with_writer(|| Writer);
    let lines = match format {
        Format::Text => lines.with_ansi(io::stderr().is_terminal()).with_target(false).boxed(),
        Format::Json => lines.json().boxed(),
    };
    tracing_subscriber::registry().with(lines).with(filter).init();
    Ok(())
}

/// Replaces the live line; log lines are written above it.
pub(crate) fn show_line(text: String) {
    let bar = LIVE.get_or_init(|| {
        let style = ProgressStyle::with_template("{wide_msg}").expect("the template is well-formed");
        ProgressBar::with_draw_target(None, ProgressDrawTarget::stderr()).with_style(style)
    });
    bar.set_message(text);
    bar.tick();
}

/// Removes the live line.
pub(crate) fn clear_line() {
    if let Some(line) = LIVE.get() {
        line.finish_and_clear();
    }
}

/// Writes a log line above the live line.
#[derive(Debug)]
struct Writer;

/// The log's formatter passes one message at a time. A message stays one line, whoever wrote parts of it.
fn one_line(message: &[u8]) -> Cow<'_, [u8]> {
    let (text, end) = match message.strip_suffix(b"\n") {
        Some(text) => (text, &b"\n"[..]),
        None => (message, &b""[..]),
    };
    if !text.iter().any(|byte| matches!(byte, b'\n' | b'\r')) {
        return Cow::Borrowed(message);
    }
    let escaped = text.iter().flat_map(|byte| match byte {
        b'\n' => &b"\\n"[..],
        b'\r' => &b"\\r"[..],
        byte => std::slice::from_ref(byte),
    });
    Cow::Owned(escaped.chain(end).copied().collect())
}

impl Write for Writer {
    fn write(&mut self, text: &[u8]) -> io::Result<usize> {
        let line = one_line(text);
        match LIVE.get() {
            Some(bar) => bar.suspend(|| io::stderr().write_all(&line))?,
            None => io::stderr().write_all(&line)?,
        }
        Ok(text.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        io::stderr().flush()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_log_message_stays_one_line() {
        assert_eq!(*one_line(b"INFO a message\n"), *b"INFO a message\n");
        assert_eq!(*one_line(b"INFO done\nINFO forged\r\n"), *b"INFO done\\nINFO forged\\r\n");
    }
}
