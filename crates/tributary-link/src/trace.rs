//! Rate traces: Mahimahi's packet-delivery format, CSV of rate over time, and tables of measurements.
//!
//! Each becomes a sequence of constant rates that repeats without end. Reads text, never a file.
//!
//! Deviates: Mahimahi gives delivery opportunities of 1500 bytes at whole milliseconds. Here the
//! opportunities of millisecond *t* are spread evenly over *t − 1 … t* (the resolution of its clock).

use core::time::Duration;
use thiserror::Error;
use tributary_types::Bitrate;

pub(crate) mod heading;
mod rows;
mod table;
#[cfg(test)]
mod tests;
mod write;

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
    text.lines()
        .enumerate()
        .map(|(i, line)| (i + 1, line.trim()))
        .filter(|(_, line)| !line.is_empty() && !line.starts_with('#'))
}

impl Trace {
    /// Reads Mahimahi's format: one ascending timestamp in milliseconds per line, each an opportunity to deliver 1500
    /// bytes. The last timestamp is the period after which the trace repeats.
    pub fn parse_mahimahi(text: &str) -> Result<Self, TraceError> {
        let mut spans = Vec::new();
        let mut last: Option<(u64, u64)> = None; // (millisecond's end, opportunities in it)
        let mut last_line = 1;
        for (line, word) in data_lines(text) {
            let Ok(stamp) = word.parse::<u64>() else {
                return refuse(line, format!("`{word}` is not a whole number of milliseconds"));
            };
            if stamp > MAX_SPAN_S * 1000 {
                return refuse(line, format!("{stamp} ms is more than a week"));
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

    /// Reads `seconds,mbit/s` lines. A heading may name other units, such as `time (ms),rate (kbit/s)`. Each rate
    /// lasts until the next line's time; the last rate lasts as long as the one before it. The first line must be at
    /// zero seconds.
    pub fn parse_csv(text: &str) -> Result<Self, TraceError> {
        let mut rows: Vec<(u64, Bitrate)> = Vec::new();
        let (mut seconds, mut mbps) = (1.0, 1.0);
        for (line, row) in data_lines(text) {
            let Some((time, rate)) = row.split_once(',') else {
                return refuse(line, format!("`{row}` is not `seconds,mbit/s`"));
            };
            let (Ok(at), Ok(value)) = (time.trim().parse::<f64>(), rate.trim().parse::<f64>()) else {
                if rows.is_empty() && row.starts_with(|c: char| c.is_alphabetic() || c == '"') {
                    let time = heading::time_unit(time).or_else(|problem| refuse(line, problem))?;
                    seconds = time.and_then(TimeUnit::seconds).unwrap_or(seconds);
                    let rate = heading::rate_unit(rate).or_else(|problem| refuse(line, problem))?;
                    mbps = rate.map_or(mbps, |bits| bits / 1e6);
                    continue;
                }
                return refuse(line, format!("`{row}` is not `seconds,mbit/s`"));
            };
            rows.push(csv_row(line, at * seconds, value * mbps, rows.last().map(|r| r.0))?);
        }
        let Some(&(last_start, last_rate)) = rows.last() else {
            return refuse(1, "the trace has no line `seconds,mbit/s`");
        };
        let last_step = rows.len().checked_sub(2).map_or(1_000 * MILLI, |i| last_start - rows[i].0);
        let mut spans: Vec<(u64, Bitrate)> = rows.windows(2).map(|pair| (pair[1].0, pair[0].1)).collect();
        spans.push((last_start + last_step, last_rate));
        Ok(Self { spans })
    }

    /// The time after which the trace repeats.
    #[must_use]
    pub fn period(&self) -> Duration {
        Duration::from_nanos(self.spans.last().map_or(0, |s| s.0))
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

fn csv_row(line: usize, time: f64, rate: f64, before: Option<u64>) -> Result<(u64, Bitrate), TraceError> {
    if !(time.is_finite() && (0.0..=MAX_SPAN_S as f64).contains(&time)) {
        return refuse(line, format!("time {time} s is not between 0 and a week"));
    }
    if !(rate.is_finite() && rate >= 0.0 && rate * 1e6 <= MAX_RATE.as_bps() as f64) {
        return refuse(line, format!("rate {rate} Mbit/s is not between 0 and {MAX_RATE}"));
    }
    let nanos = (time * 1e9).round() as u64;
    match before {
        None if nanos != 0 => refuse(line, format!("the first line must be at 0 s, not {time} s")),
        Some(previous) if nanos <= previous => {
            refuse(line, format!("{time} s does not come after the line before: sort the trace"))
        }
        Some(previous) if nanos - previous < MIN_SPAN => {
            refuse(line, format!("{time} s is less than 10 µs after the line before"))
        }
        _ => Ok((nanos, Bitrate::from_bps((rate * 1e6).round() as u64))),
    }
}
