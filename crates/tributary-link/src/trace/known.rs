//! Published forms of rate traces, recognised by their first line and their columns: no description is needed.
//!
//! | form | recognised by | source |
//! |---|---|---|
//! | Mahimahi | a whole number alone on the first line | Netravali et al., ATC 2015 |
//! | Sabre | JSON list with `duration_ms`, `bandwidth_kbps`, `latency_ms` | Spiteri et al., MMSys 2018 |
//! | E3PO | JSON list with `duration_ms`, `throughput_MBps`, `rtt_ms` | bytedance/E3PO |
//! | Lumos5G, 5Gophers | columns `seq_num` and `Throughput`, or `…_throughput_mbps` | Narayanan et al., IMC 2020, WWW 2020 |
//! | Starlink (5GTracker) | columns `time`, `throughput`, `speed` | Hu et al., IMC 2023 |
//! | UCC 5G | columns `Timestamp`, `DL_bitrate` | Raca et al., MMSys 2020 |
//! | two columns | two columns: time and rate | Pensieve, Solis-WiFi |
//! | CSV | a column of time, and columns with a unit of rate in their names | |
//!
//! Not here: columns that only the user knows, which a scenario file names ([`super::TraceTable`]).

use super::heading::{rate_unit, time_unit};
use super::{
    Column, MAX_SPAN_S, TableLayout, TimeUnit, Trace, TraceError, TraceTable, TraceTime, TraceValue,
    data_lines, refuse,
};
use core::time::Duration;
use serde::Deserialize;
use serde_json::value::RawValue;
use std::borrow::Cow;
use std::collections::BTreeMap;
use tributary_types::Bitrate;
use tributary_types::file_text::{Separator, shown, without_mark};

/// What to do with a file of an unknown form.
const DESCRIBE: &str = "put the unit into a heading, such as `wifi (Mbit/s)`, or describe the columns in a scenario file: \
                        rate = { trace = { file = \"…\", time = \"…\", rate = \"…\" } }";
/// Longest round-trip time.
const MAX_RTT_MS: f64 = 60_000.0;

/// A recognised file.
#[derive(Clone, Debug, PartialEq)]
pub struct KnownForm {
    /// Name of the form.
    pub name: &'static str,
    /// The paths in the file, one for each column of rates; at least one.
    pub traces: Vec<KnownTrace>,
}

/// One path of a recognised file.
#[derive(Clone, Debug, PartialEq)]
pub struct KnownTrace {
    /// What its column is called, without the unit; empty if the file has one path.
    pub name: String,
    /// Rate from the server to the client.
    pub down: Trace,
    /// Rate from the client to the server, if the file has it.
    pub up: Option<Trace>,
    /// `(since, round-trip time)`, ascending, from zero on; empty if the file has none.
    pub rtt: Vec<(Duration, Duration)>,
}

impl KnownTrace {
    fn alone(down: Trace) -> Self {
        Self { name: String::new(), down, up: None, rtt: Vec::new() }
    }
}

impl KnownForm {
    /// Reads a file of a known form.
    ///
    /// # Errors
    /// [`TraceError`] names the line, the column, and how to describe a form that is unknown.
    pub fn read(text: &str) -> Result<Self, TraceError> {
        let text = without_mark(text);
        let one = |name, down| Ok(Self { name, traces: vec![KnownTrace::alone(down)] });
        let Some((line, first)) = data_lines(text).next() else {
            return refuse(1, "the file has no data");
        };
        if first.starts_with('[') {
            return json(text);
        }
        if first.parse::<u64>().is_ok() {
            return one("Mahimahi", Trace::parse_mahimahi(text)?);
        }
        let separator = separator(first);
        let cells = separator.split(first);
        let numbers = cells.iter().all(|cell| cell.parse::<f64>().is_ok());
        match (cells.len(), separator, numbers) {
            (2, Separator::Blank, true) => {
                let mut table = TraceTable::new(Column::Numbered(1), Column::Numbered(2));
                table.layout = TableLayout::Blank;
                one("two columns", Trace::parse_table(text, &table)?)
            }
            (2, Separator::Comma | Separator::Semicolon | Separator::Tab, _) => {
                one("two columns", Trace::parse_csv(text)?)
            }
            (_, _, true) => refuse(
                line,
                format!(
                    "{} columns without a heading: nothing says which is the rate; {DESCRIBE}",
                    cells.len()
                ),
            ),
            _ => headed(text, (line, &cells), layout(separator)),
        }
    }
}

/// The separator with which the line has the most cells.
fn separator(first: &str) -> Separator {
    let possible = [Separator::Comma, Separator::Semicolon, Separator::Tab];
    let best = possible.into_iter().max_by_key(|separator| separator.split(first).len());
    best.filter(|separator| separator.split(first).len() > 1).unwrap_or(Separator::Blank)
}

fn layout(separator: Separator) -> TableLayout {
    match separator {
        Separator::Comma => TableLayout::Comma,
        Separator::Semicolon => TableLayout::Semicolon,
        Separator::Tab => TableLayout::Tab,
        Separator::Blank => TableLayout::Blank,
    }
}

/// A table with a heading.
fn headed(
    text: &str,
    (line, heading): (usize, &[Cow<'_, str>]),
    layout: TableLayout,
) -> Result<KnownForm, TraceError> {
    let named = |name: &str| heading.iter().find(|cell| cell.eq_ignore_ascii_case(name)).map(Cow::as_ref);
    let column = |name: &str| Column::Named(name.to_owned());
    let table = |time: TraceTime, rate: &str, unit: Bitrate| TraceTable {
        layout,
        time,
        value: TraceValue::Rate(column(rate), unit),
        ..TraceTable::new(Column::Numbered(1), Column::Numbered(2))
    };
    let (mega, second) = (Bitrate::from_mbps(1), TraceTime::Every(Duration::from_secs(1)));
    // Runs follow each other in one file, so the rows are seconds, and what lies between the runs is left out.
    let logged = [("Lumos5G", ["seq_num", "run_num"]), ("Starlink (5GTracker)", ["time", "speed"])];
    for (name, wanted) in logged {
        if let (Some(rate), true) = (named("throughput"), wanted.iter().all(|column| named(column).is_some()))
        {
            let down = Trace::parse_table(text, &table(second.clone(), rate, mega))?;
            return Ok(KnownForm { name, traces: vec![KnownTrace::alone(down)] });
        }
    }
    if let (Some(time), Some(down)) = (named("timestamp"), named("dl_bitrate")) {
        let kilo = Bitrate::from_bps(1000);
        let read =
            |rate| Trace::parse_table(text, &table(TraceTime::At(column(time), TimeUnit::Date), rate, kilo));
        let up = named("ul_bitrate").map(read).transpose()?.filter(|up| up.max() > Bitrate::ZERO);
        let traces = vec![KnownTrace { up, ..KnownTrace::alone(read(down)?) }];
        return Ok(KnownForm { name: "UCC 5G", traces });
    }
    let rates: Vec<(&str, Bitrate)> = heading
        .iter()
        .filter_map(|cell| Some((cell.as_ref(), Bitrate::from_bps(rate_unit(cell).ok()?? as u64))))
        .collect();
    let all = || heading.iter().map(|cell| format!("`{}`", shown(cell))).collect::<Vec<_>>().join(", ");
    let time = match (named("seq_num"), heading.iter().find(|cell| is_time(cell))) {
        (Some(_), _) => second,
        (None, Some(cell)) => {
            let unit = time_unit(cell).or_else(|problem| refuse(line, problem))?;
            TraceTime::At(column(cell), unit.unwrap_or(TimeUnit::Seconds))
        }
        (None, None) => {
            return refuse(line, format!("none of the columns {} is a time; {DESCRIBE}", all()));
        }
    };
    if rates.is_empty() {
        return refuse(line, format!("none of the columns {} has a unit of rate; {DESCRIBE}", all()));
    }
    let alone = rates.len() == 1;
    let trace = |(name, unit): (&str, Bitrate)| {
        let down = Trace::parse_table(text, &table(time.clone(), name, unit))?;
        let name = if alone { String::new() } else { bare(name) };
        Ok(KnownTrace { name, ..KnownTrace::alone(down) })
    };
    Ok(KnownForm { name: "CSV", traces: rates.into_iter().map(trace).collect::<Result<_, TraceError>>()? })
}

fn is_time(heading: &str) -> bool {
    let first = heading.split(|c: char| !c.is_alphanumeric()).next().unwrap_or_default().to_lowercase();
    matches!(first.as_str(), "t" | "time" | "timestamp" | "seconds" | "second" | "sec")
}

/// A column's name without units and words that only say that it is a rate.
fn bare(heading: &str) -> String {
    const RATE: [&str; 5] = ["throughput", "rate", "bandwidth", "bitrate", "goodput"];
    let words = heading.split(['_', ' ', '(', ')', '[', ']', '"']).filter(|word| !word.is_empty());
    let kept = words.filter(|word| {
        !RATE.contains(&word.to_lowercase().as_str()) && rate_unit(word).is_ok_and(|unit| unit.is_none())
    });
    kept.collect::<Vec<_>>().join("-")
}

/// A row of a JSON trace.
#[derive(Deserialize)]
struct Lasting {
    duration_ms: f64,
    #[serde(alias = "latency_ms")]
    rtt_ms: Option<f64>,
}

/// Sabre's and E3PO's lists. The round-trip time is Sabre's `latency_ms`, which delays every request once, and E3PO's `rtt_ms`.
fn json(text: &str) -> Result<KnownForm, TraceError> {
    let broken =
        |error: serde_json::Error| TraceError { line: error.line().max(1), problem: error.to_string() };
    let list: Vec<&RawValue> = serde_json::from_str(text).map_err(broken)?;
    let Some(first) = list.first() else { return refuse(1, "the list is empty") };
    let keys: BTreeMap<String, serde_json::Value> = serde_json::from_str(first.get())
        .or_else(|_| refuse(1, "expected a list of objects, as Sabre and E3PO have it"))?;
    let forms = [("Sabre", "bandwidth_kbps", 1_000), ("E3PO", "throughput_MBps", 8_000_000)];
    let Some((name, rate, unit)) = forms.into_iter().find(|form| keys.contains_key(form.1)) else {
        let keys = keys.keys().map(|key| format!("`{}`", shown(key))).collect::<Vec<_>>().join(", ");
        return refuse(
            1,
            format!(
                "no `bandwidth_kbps` (Sabre) and no `throughput_MBps` (E3PO) among the keys {keys}; {DESCRIBE}"
            ),
        );
    };
    let table = TraceTable {
        layout: TableLayout::Json,
        time: TraceTime::Lasting(Column::Named("duration_ms".to_owned()), TimeUnit::Millis),
        value: TraceValue::Rate(Column::Named(rate.to_owned()), Bitrate::from_bps(unit)),
        ..TraceTable::new(Column::Numbered(1), Column::Numbered(2))
    };
    let down = Trace::parse_table(text, &table)?;
    let rows: Vec<Lasting> = serde_json::from_str(text).map_err(broken)?;
    let mut rtt: Vec<(Duration, Duration)> = Vec::new();
    let mut at_ms = 0.0;
    for (number, row) in rows.iter().enumerate() {
        if let Some(ms) = row.rtt_ms {
            if !(0.0..=MAX_RTT_MS).contains(&ms) {
                return refuse(1, format!("entry {}: an RTT of {ms} ms is not from 0 to 60 s", number + 1));
            }
            let (at, time) = (Duration::from_secs_f64(at_ms / 1e3), Duration::from_secs_f64(ms / 1e3));
            match rtt.last_mut() {
                Some(last) if last.1 == time => {}
                Some(last) if last.0 == at => last.1 = time,
                _ => rtt.push((at, time)),
            }
        }
        at_ms = (at_ms + row.duration_ms).clamp(0.0, MAX_SPAN_S as f64 * 1e3);
    }
    Ok(KnownForm { name, traces: vec![KnownTrace { rtt, ..KnownTrace::alone(down) }] })
}

#[cfg(test)]
mod tests;
