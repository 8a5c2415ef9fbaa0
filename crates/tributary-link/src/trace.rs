//! Rate traces: Mahimahi's packet-delivery format, CSV of rate over time, and tables of measurements.
//!
//! Each becomes a sequence of constant rates that repeats without end. Reads text, never a file. Every table, in
//! whatever form, begins with its first time, and rows with the same time are replaced by their mean.
//!
//! Deviates: Mahimahi gives delivery opportunities of 1500 bytes at whole milliseconds. Here the
//! opportunities of millisecond *t* are spread evenly over *t − 1 … t* (the resolution of its clock).

use core::time::Duration;
use thiserror::Error;
use tributary_types::Bitrate;
use tributary_types::file_text::{lines, shown, without_mark};

mod csv;
pub(crate) mod heading;
mod known;
mod rows;
mod table;
#[cfg(test)]
mod tests;
mod write;

pub use known::{KnownForm, KnownTrace};
pub use rows::{Column, TableLayout};
pub use table::{TimeUnit, TraceTable, TraceTime, TraceValue};

/// The highest rate of a link; above it a byte takes less than a nanosecond.
pub const MAX_RATE: Bitrate = Bitrate::from_mbps(100_000);

const MILLI: u64 = 1_000_000;
/// Longest trace.
pub(crate) const MAX_SPAN_S: u64 = 7 * 24 * 3600;
/// Shortest time between two rates, in ns. A trace that repeated in zero time would stop the clock.
pub(crate) const MIN_SPAN: u64 = 10_000;
/// Bytes of one Mahimahi delivery opportunity.
const OPPORTUNITY_BITS: u64 = 1500 * 8;

/// Spans of constant rate that repeat.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Trace {
    /// `(end in nanoseconds from the trace's start, rate)`, ascending, never empty.
    pub(crate) spans: Vec<(u64, Bitrate)>,
}

/// Why a trace was refused.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
#[error("trace line {line}: {problem}")]
pub struct TraceError {
    /// Line of the trace, counted from one.
    pub line: usize,
    /// Description of the error, and the expected value.
    pub problem: String,
}

fn refuse<T>(line: usize, problem: impl Into<String>) -> Result<T, TraceError> {
    Err(TraceError { line, problem: problem.into() })
}

/// The lines with data, with their numbers: neither empty nor comments.
fn data_lines(text: &str) -> impl Iterator<Item = (usize, &str)> {
    lines(text)
        .map(|(number, line)| (number, line.trim()))
        .filter(|(_, line)| !line.is_empty() && !line.starts_with('#'))
}

impl Trace {
    /// Reads Mahimahi's format: one ascending timestamp in milliseconds per line, each an opportunity to deliver 1500
    /// bytes. Times count from the start of the trace: it begins with an outage if the first is late, and equal times are
    /// several opportunities. The last timestamp is the period after which the trace repeats.
    pub fn parse_mahimahi(text: &str) -> Result<Self, TraceError> {
        let mut spans = Vec::new();
        let mut last: Option<(u64, u64)> = None; // (millisecond's end, opportunities in it)
        let mut last_line = 1;
        for (line, word) in data_lines(without_mark(text)) {
            let Ok(stamp) = word.parse::<u64>() else {
                let problem = format!(
                    "`{}` is not a whole number of milliseconds, as Mahimahi's format has on each line; a table of \
                     rates is `file.csv` or {{ file = \"…\", time = 1, rate = 2 }}",
                    shown(word)
                );
                return refuse(line, problem);
            };
            if stamp > MAX_SPAN_S * 1000 {
                let problem = format!(
                    "{stamp} ms is more than a week; Mahimahi's times count from the start of the trace"
                );
                return refuse(line, problem);
            }
            let end = stamp.max(1);
            match last {
                Some((at, _)) if end < at => {
                    return refuse(line, format!("{stamp} ms comes after {at} ms: sort the trace"));
                }
                Some((at, n)) if end == at => last = Some((at, n + 1)),
                _ => {
                    close_millisecond(&mut spans, last, last_line)?;
                    last = Some((end, 1));
                }
            }
            last_line = line;
        }
        if last.is_none() {
            return refuse(1, "the trace has no delivery opportunity");
        }
        close_millisecond(&mut spans, last, last_line)?;
        Ok(Self { spans })
    }

    /// The time after which the trace repeats.
    #[must_use]
    pub fn period(&self) -> Duration {
        Duration::from_nanos(self.spans.last().map_or(0, |s| s.0))
    }

    /// The same trace without its first `after`: it begins there, and still repeats after its period.
    #[must_use]
    pub fn begun_at(&self, after: Duration) -> Self {
        let period = self.spans.last().map_or(1, |span| span.0);
        let from = (after.as_nanos() % u128::from(period)) as u64;
        let later = self.spans.iter().filter(|span| span.0 > from).map(|&(end, rate)| (end - from, rate));
        let begins = std::iter::once(0).chain(self.spans.iter().map(|span| span.0));
        let passed = self.spans.iter().zip(begins).filter(|(_, begin)| *begin < from);
        let passed = passed.map(|(&(end, rate), _)| (end.min(from) + period - from, rate));
        let mut spans: Vec<(u64, Bitrate)> = Vec::with_capacity(self.spans.len() + 1);
        for (end, rate) in later.chain(passed) {
            match spans.last_mut() {
                Some(last) if last.1 == rate => last.0 = end,
                _ => spans.push((end, rate)),
            }
        }
        Self { spans }
    }

    /// The highest rate in the trace.
    #[must_use]
    pub fn max(&self) -> Bitrate {
        self.spans.iter().map(|s| s.1).max().unwrap_or(Bitrate::ZERO)
    }

    /// The mean rate.
    #[must_use]
    pub fn mean(&self) -> Bitrate {
        let mut from = 0;
        let mut sum = 0_u128;
        for &(to, rate) in &self.spans {
            sum += u128::from(to - from) * u128::from(rate.as_bps());
            from = to;
        }
        Bitrate::from_bps(u64::try_from(sum / u128::from(from.max(1))).unwrap_or(u64::MAX))
    }

    /// `(end from the trace's start, rate)` of each span, ascending.
    pub fn iter(&self) -> impl Iterator<Item = (Duration, Bitrate)> {
        self.spans.iter().map(|&(end, rate)| (Duration::from_nanos(end), rate))
    }

    pub(crate) fn spans(&self) -> &[(u64, Bitrate)] {
        &self.spans
    }
}

/// Appends the gap before the millisecond that ends at `last.0`, then the millisecond itself.
fn close_millisecond(
    spans: &mut Vec<(u64, Bitrate)>,
    last: Option<(u64, u64)>,
    line: usize,
) -> Result<(), TraceError> {
    let Some((end, opportunities)) = last else { return Ok(()) };
    let rate = Bitrate::from_bps(opportunities.saturating_mul(OPPORTUNITY_BITS * 1000));
    if rate > MAX_RATE {
        return refuse(line, format!("{rate} in one millisecond is above {MAX_RATE}"));
    }
    let begin = (end - 1) * MILLI;
    let previous = spans.last().map_or(0, |s| s.0);
    if begin > previous {
        spans.push((begin, Bitrate::ZERO));
    }
    match spans.last_mut() {
        Some(span) if span.1 == rate => span.0 = end * MILLI,
        _ => spans.push((end * MILLI, rate)),
    }
    Ok(())
}
