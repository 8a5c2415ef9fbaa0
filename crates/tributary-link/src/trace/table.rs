//! Tables of measurements as traces: the columns of time and rate, and their units.
//!
//! A new data set needs only such a description, not a reader.

use super::rows::{Column, Row, TableLayout, rows};
use super::{MAX_RATE, MAX_SPAN_S, MIN_SPAN, Trace, TraceError, refuse};
use core::time::Duration;
use std::collections::BTreeMap;
use tributary_types::file_text::{shown, without_mark};
use tributary_types::{Bitrate, DataSize};

/// How to read a table of measurements.
#[derive(Clone, Debug, PartialEq)]
pub struct TraceTable {
    /// Form of the table.
    pub layout: TableLayout,
    /// When a row begins.
    pub time: TraceTime,
    /// The row's rate or amount.
    pub value: TraceValue,
    /// Only rows with exactly this text in this column.
    pub only: Vec<(Column, String)>,
    /// Whether rows may come in any order; otherwise times that go backwards are an error.
    pub sort: bool,
    /// Longest time that a rate is valid; after it the rate is zero until the next row.
    pub hold: Option<Duration>,
}

/// Unit of a time column.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TimeUnit {
    /// Minutes.
    Minutes,
    /// Seconds, from any origin.
    Seconds,
    /// Milliseconds.
    Millis,
    /// Microseconds.
    Micros,
    /// Nanoseconds.
    Nanos,
    /// Year, month, day, hour, minute and second, with any separators.
    Date,
}

impl TimeUnit {
    /// Length of the unit in seconds; `None` for dates.
    #[must_use]
    pub fn seconds(self) -> Option<f64> {
        match self {
            Self::Minutes => Some(60.0),
            Self::Seconds => Some(1.0),
            Self::Millis => Some(1e-3),
            Self::Micros => Some(1e-6),
            Self::Nanos => Some(1e-9),
            Self::Date => None,
        }
    }
}

/// When a row of a table begins.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TraceTime {
    /// At the time in a column; the trace begins with the first. Rows with (almost) the same time are
    /// replaced by their mean.
    At(Column, TimeUnit),
    /// At the end of the previous row; a column gives the duration of each.
    Lasting(Column, TimeUnit),
    /// At equal intervals.
    Every(Duration),
}

/// The value of a row. Rows without a time or a rate (empty, or `-`) are skipped.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TraceValue {
    /// The rate, in multiples of this.
    Rate(Column, Bitrate),
    /// Bytes that arrived at that time; rates are their sums over bins of this duration.
    Bytes(Column, Duration),
}

impl TraceTable {
    /// A table with columns of seconds and Mbit/s, separated by commas, semicolons or tabs.
    #[must_use]
    pub fn new(time: Column, rate: Column) -> Self {
        Self {
            layout: TableLayout::Separated,
            time: TraceTime::At(time, TimeUnit::Seconds),
            value: TraceValue::Rate(rate, Bitrate::from_mbps(1)),
            only: Vec::new(),
            sort: false,
            hold: None,
        }
    }

    /// The columns of the value and of the time.
    fn columns(&self) -> [&Column; 2] {
        let (TraceValue::Rate(value, _) | TraceValue::Bytes(value, _)) = &self.value;
        let time = match &self.time {
            TraceTime::At(column, _) | TraceTime::Lasting(column, _) => column,
            TraceTime::Every(_) => value,
        };
        [value, time]
    }
}

/// A row: its line, its start in nanoseconds, and its value.
struct Point {
    line: usize,
    at: u64,
    value: f64,
}

impl Trace {
    /// Reads a table as described by `table`.
    pub fn parse_table(text: &str, table: &TraceTable) -> Result<Self, TraceError> {
        let mut columns = table.columns().to_vec();
        columns.extend(table.only.iter().map(|(column, _)| column));
        Self::of_rows(rows(without_mark(text), table.layout, &columns)?, table)
    }

    /// The trace of rows with the cells value, time, and those of `only`.
    pub(super) fn of_rows(mut kept: Vec<Row<'_>>, table: &TraceTable) -> Result<Self, TraceError> {
        kept.retain(|row| {
            let wanted = table.only.iter().zip(&row.cells[2..]).all(|((_, text), cell)| cell == text);
            wanted && row.cells[..2].iter().all(|cell| !matches!(cell.as_ref(), "" | "-"))
        });
        if kept.is_empty() {
            let which = if table.only.is_empty() { "" } else { " that `only` accepts" };
            return refuse(1, format!("the table has no row with a time and a rate{which}"));
        }
        let (points, end) = points(&kept, table)?;
        let spans = match table.value {
            TraceValue::Rate(_, unit) => rates(&points, end, (unit, table.hold))?,
            TraceValue::Bytes(_, bin) => bins(&points, bin)?,
        };
        Ok(Self { spans })
    }
}

/// The rows sorted by time, and the end of the last one if the table gives it.
fn points(rows: &[Row<'_>], table: &TraceTable) -> Result<(Vec<Point>, Option<u64>), TraceError> {
    let mut points = Vec::with_capacity(rows.len());
    let mut end = 0_u64;
    let [value_column, time_column] = table.columns();
    let first = match &table.time {
        TraceTime::At(_, unit) => {
            let times = rows.iter().map(|row| time(row, *unit, time_column));
            times.collect::<Result<Vec<f64>, _>>()?.into_iter().fold(f64::INFINITY, f64::min)
        }
        _ => 0.0,
    };
    for row in rows {
        let line = row.line;
        let value = number(row.line, &row.cells[0], value_column)?;
        let at = match &table.time {
            TraceTime::At(_, unit) => nanos(line, time(row, *unit, time_column)? - first)?,
            TraceTime::Lasting(..) | TraceTime::Every(_) => end,
        };
        end = match &table.time {
            TraceTime::At(..) => at,
            TraceTime::Lasting(_, unit) => end + nanos(line, time(row, *unit, time_column)?)?,
            TraceTime::Every(step) => end + u64::try_from(step.as_nanos()).unwrap_or(u64::MAX / 2),
        };
        if end > MAX_SPAN_S * 1_000_000_000 {
            return refuse(line, "the trace is longer than a week");
        }
        points.push(Point { line, at, value });
    }
    if table.sort {
        points.sort_by_key(|point| point.at);
    } else if let Some(pair) = points.windows(2).find(|pair| pair[1].at < pair[0].at) {
        return refuse(
            pair[1].line,
            format!(
                "{time_column}: time goes backwards: sort the table, or read it with {{ file = \"…\", sort = true, … }}"
            ),
        );
    }
    let end = (!matches!(table.time, TraceTime::At(..))).then_some(end);
    Ok((points, end))
}

/// Spans of the rates, each lasting until the next point.
fn rates(
    points: &[Point],
    end: Option<u64>,
    (unit, hold): (Bitrate, Option<Duration>),
) -> Result<Vec<(u64, Bitrate)>, TraceError> {
    let hold = hold.map_or(u64::MAX, |hold| u64::try_from(hold.as_nanos()).unwrap_or(u64::MAX));
    if hold < MIN_SPAN {
        return refuse(1, "a rate must hold for 10 µs at least");
    }
    let mut steps: Vec<(u64, Bitrate)> = Vec::new(); // (begin, rate)
    let mut rest = points;
    while let [first, ..] = rest {
        // Counted from the first of the group, so that a dense log is not one single group.
        let count = rest.partition_point(|point| point.at - first.at < MIN_SPAN);
        let (group, later) = rest.split_at(count);
        rest = later;
        let at = first.at;
        let mean = group.iter().map(|point| point.value).sum::<f64>() / group.len() as f64;
        steps.push((at, rate(group[0].line, mean * unit.as_bps() as f64)?));
    }
    let last = steps.last().map_or(0, |step| step.0);
    let before = steps.len().checked_sub(2).map(|i| steps[i].0);
    let end = end.unwrap_or_else(|| last + before.map_or(1_000_000_000, |before| last - before));
    let mut spans = Vec::new();
    for (i, &(at, rate)) in steps.iter().enumerate() {
        let next = steps.get(i + 1).map_or(end, |step| step.0);
        if next.saturating_sub(at) < MIN_SPAN {
            continue; // only the last row can be this short: it is left out
        }
        let held = at.saturating_add(hold).min(next);
        join(&mut spans, held, rate);
        if next - held >= MIN_SPAN {
            join(&mut spans, next, Bitrate::ZERO);
        }
    }
    if spans.is_empty() { refuse(points[0].line, "the table lasts less than 10 µs") } else { Ok(spans) }
}

/// Spans of the bytes that arrive in each bin.
fn bins(points: &[Point], bin: Duration) -> Result<Vec<(u64, Bitrate)>, TraceError> {
    let length = u64::try_from(bin.as_nanos()).unwrap_or(u64::MAX);
    if !(MIN_SPAN..=3_600_000_000_000).contains(&length) {
        return refuse(1, "bins must be from 10 µs to an hour long");
    }
    let mut sums: BTreeMap<u64, (usize, f64)> = BTreeMap::new();
    for point in points {
        let sum = sums.entry(point.at / length).or_insert((point.line, 0.0));
        sum.1 += point.value;
    }
    let mut spans = Vec::new();
    let mut end = 0;
    for (index, (line, bytes)) in sums {
        let begin = index * length;
        if begin > end {
            join(&mut spans, begin, Bitrate::ZERO);
        }
        end = begin + length;
        if !(0.0..=u64::MAX as f64 / 2.0).contains(&bytes) {
            return refuse(line, format!("{bytes} bytes are not a number from zero"));
        }
        let carried = Bitrate::of(DataSize::from_bytes(bytes as u64), bin).unwrap_or(Bitrate::ZERO);
        join(&mut spans, end, rate(line, carried.as_bps() as f64)?);
    }
    Ok(spans)
}

fn join(spans: &mut Vec<(u64, Bitrate)>, end: u64, rate: Bitrate) {
    match spans.last_mut() {
        Some(last) if last.1 == rate => last.0 = end,
        _ => spans.push((end, rate)),
    }
}

fn rate(line: usize, bps: f64) -> Result<Bitrate, TraceError> {
    if !(0.0..=MAX_RATE.as_bps() as f64).contains(&bps) {
        return refuse(line, format!("a rate of {bps} bit/s is not between 0 and {MAX_RATE}"));
    }
    Ok(Bitrate::from_bps(bps.round() as u64))
}

fn number(line: usize, cell: &str, column: &Column) -> Result<f64, TraceError> {
    let problem = match cell.parse::<f64>() {
        Ok(number) if number.is_finite() => return Ok(number),
        _ if cell.contains(',') => "; write numbers with a decimal point and without commas",
        _ if line == 1 && matches!(column, Column::Numbered(_)) => {
            "; if line 1 is a heading, name the columns: time = \"…\", rate = \"…\""
        }
        _ => "",
    };
    refuse(line, format!("{column}: `{}` is not a number{problem}", shown(cell)))
}

/// The row's time or duration in seconds.
fn time(row: &Row<'_>, unit: TimeUnit, column: &Column) -> Result<f64, TraceError> {
    let cell = row.cells[1].as_ref();
    match unit.seconds() {
        Some(seconds) => Ok(number(row.line, cell, column)? * seconds),
        None => date(row.line, cell, column),
    }
}

fn nanos(line: usize, seconds: f64) -> Result<u64, TraceError> {
    if !(0.0..=MAX_SPAN_S as f64).contains(&seconds) {
        return refuse(line, format!("{seconds} s is not between 0 and a week"));
    }
    Ok((seconds * 1e9).round() as u64)
}

/// Seconds since 1970 of a date such as `2019.12.16_13.40.04`, in its own time zone.
fn date(line: usize, cell: &str, column: &Column) -> Result<f64, TraceError> {
    let mut parts = cell.split(|c: char| !c.is_ascii_digit()).filter(|part| !part.is_empty());
    let mut next = |least, most| parts.next()?.parse::<u64>().ok().filter(|n| (least..=most).contains(n));
    let read = (|| {
        let (year, month, day) = (next(1970, 9999)?, next(1, 12)?, next(1, 31)?);
        let (hour, minute, second) = (next(0, 23)?, next(0, 59)?, next(0, 60)?);
        Some((days(year, month, day) * 86_400 + hour * 3600 + minute * 60 + second) as f64)
    })();
    let Some(whole) = read else {
        return refuse(
            line,
            format!("{column}: `{}` is not a date such as 2019.12.16_13.40.04", shown(cell)),
        );
    };
    let fraction = parts.next().and_then(|digits| format!("0.{digits}").parse::<f64>().ok());
    Ok(whole + fraction.unwrap_or(0.0))
}

/// Days from 1970-01-01 to a date of the Gregorian calendar.
fn days(year: u64, month: u64, day: u64) -> u64 {
    // Years begin in March here, so that a leap day is the last day of a year.
    let (year, month) = if month > 2 { (year, month - 3) } else { (year - 1, month + 9) };
    let leap_days = year / 4 - year / 100 + year / 400;
    year * 365 + leap_days + (month * 153 + 2) / 5 + day - 1 - 719_468
}
