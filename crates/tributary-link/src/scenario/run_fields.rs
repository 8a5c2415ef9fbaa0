//! Reads background traffic and the `run` table.

use super::link_fields::moment;
use super::quantity::{bitrate, duration, size, volume};
use super::run::Lines;
use super::table::{Table, Value};
use super::{Direction, Moment, Name, RunSpec, ScenarioError, WorkloadSpec};
use crate::{BackgroundKind, BackgroundSpec};
use core::time::Duration;
use tributary_types::{Bitrate, DataSize};

/// Default packet size of background traffic.
const PACKET: DataSize = DataSize::from_bytes(1500);

#[derive(Clone, Copy)]
enum Kind {
    Constant,
    OnOff,
    Poisson,
    Tcp,
}

pub(super) fn background(table: &Table<'_>) -> Result<BackgroundSpec, ScenarioError> {
    const KINDS: [(&str, Kind); 4] = [
        ("constant", Kind::Constant),
        ("on-off", Kind::OnOff),
        ("poisson", Kind::Poisson),
        ("tcp", Kind::Tcp),
    ];
    let kind = table.required("kind")?.one_of(&KINDS)?;
    let own: &[&str] = match kind {
        Kind::Constant | Kind::Poisson => &["rate", "packet"],
        Kind::OnOff => &["rate", "packet", "on_mean", "off_mean"],
        Kind::Tcp => &["flows", "congestion", "rtt"],
    };
    table.only(&[&["kind", "on", "direction", "from", "to"], own].concat())?;
    let rate = || rate_of(table);
    let packet =
        || Ok(table.optional("packet").map(|value| value.quantity(size)).transpose()?.unwrap_or(PACKET));
    let time = |key| table.required(key)?.quantity(duration);
    let kind = match kind {
        Kind::Constant => BackgroundKind::Constant { rate: rate()?, packet: packet()? },
        Kind::Poisson => BackgroundKind::Poisson { rate: rate()?, packet: packet()? },
        Kind::OnOff => BackgroundKind::OnOff {
            rate: rate()?,
            packet: packet()?,
            on_mean: time("on_mean")?,
            off_mean: time("off_mean")?,
        },
        Kind::Tcp => BackgroundKind::Tcp {
            flows: table.optional("flows").map_or(Ok(1), |value| value.count())?,
            congestion: table.optional("congestion").map_or(Ok(Name::new("cubic")), |value| value.name())?,
            rtt: table.optional("rtt").map(|value| value.quantity(duration)).transpose()?,
        },
    };
    const WAYS: [(&str, Direction); 2] = [("down", Direction::Down), ("up", Direction::Up)];
    let limit = |key, otherwise| table.optional(key).map_or(Ok(otherwise), |value| moment(&value));
    Ok(BackgroundSpec {
        on: table.required("on")?.text()?.to_owned(),
        direction: table.optional("direction").map_or(Ok(Direction::Down), |value| value.one_of(&WAYS))?,
        from: limit("from", Moment::Share(0.0))?,
        to: limit("to", Moment::Share(1.0))?,
        kind,
    })
}

fn rate_of(table: &Table<'_>) -> Result<Bitrate, ScenarioError> {
    table.required("rate")?.quantity(bitrate)
}

/// Keys of the `run` table.
const RUN: [&str; 7] =
    ["transport", "scheduler", "congestion", "subflows", "connections", "workload", "metrics"];

/// The `run` table, and the place of each workload.
pub(super) fn run<'a>(table: &Table<'a>) -> Result<(RunSpec, Vec<Value<'a>>), ScenarioError> {
    table.only(&RUN)?;
    let name = |key| table.optional(key).map(|value| value.name()).transpose();
    let count = |key| table.optional(key).map(|value| value.count()).transpose();
    let places = match table.optional("workload") {
        Some(value) if value.table().is_ok() => vec![value],
        Some(value) => value.items()?,
        None => Vec::new(),
    };
    let workloads = places.iter().map(|place| workload(&place.table()?)).collect::<Result<_, _>>()?;
    let metrics = table.optional("metrics").map_or(Ok(Vec::new()), |value| value.items())?;
    let run = RunSpec {
        transport: name("transport")?,
        scheduler: name("scheduler")?,
        congestion: name("congestion")?,
        subflows: count("subflows")?,
        connections: count("connections")?,
        workloads,
        metrics: metrics.iter().map(Value::name).collect::<Result<_, _>>()?,
        lines: Lines(RUN.iter().filter_map(|key| Some(table.optional(key)?.written_at())).collect()),
    };
    Ok((run, places))
}

#[derive(Clone, Copy)]
enum Work {
    Bulk,
    Object,
    Request,
    Burst,
    Constant,
    Messages,
}

fn workload(table: &Table<'_>) -> Result<WorkloadSpec, ScenarioError> {
    const KINDS: [(&str, Work); 6] = [
        ("bulk", Work::Bulk),
        ("object", Work::Object),
        ("request", Work::Request),
        ("burst", Work::Burst),
        ("constant", Work::Constant),
        ("messages", Work::Messages),
    ];
    let kind = table.required("kind")?.one_of(&KINDS)?;
    let own: &[&str] = match kind {
        Work::Bulk => &["size"],
        Work::Object => &["size", "count", "pause"],
        Work::Request => &["sizes", "think"],
        Work::Burst => &["size", "every"],
        Work::Constant => &["rate", "packet"],
        Work::Messages => &["rate", "size", "priority", "deadline"],
    };
    table.only(&[&["kind"], own].concat())?;
    let size = || table.required("size")?.quantity(volume);
    let time = |key| table.optional(key).map(|value| value.quantity(duration)).transpose();
    Ok(match kind {
        Work::Bulk => WorkloadSpec::Bulk {
            size: table.optional("size").map(|value| value.quantity(volume)).transpose()?,
        },
        Work::Object => WorkloadSpec::Object {
            size: size()?,
            count: table.optional("count").map_or(Ok(1), |value| value.whole())?,
            pause: time("pause")?.unwrap_or(Duration::ZERO),
        },
        Work::Request => WorkloadSpec::Request {
            sizes: weights(&table.required("sizes")?)?,
            think: time("think")?.unwrap_or(Duration::ZERO),
        },
        Work::Burst => {
            WorkloadSpec::Burst { size: size()?, every: table.required("every")?.quantity(duration)? }
        }
        Work::Constant => WorkloadSpec::Constant {
            rate: rate_of(table)?,
            packet: table.optional("packet").map_or(Ok(PACKET), |value| value.quantity(volume))?,
        },
        Work::Messages => WorkloadSpec::Messages {
            per_second: table.required("rate")?.positive()?,
            size: size()?,
            priority: table.optional("priority").map_or(Ok(0), |value| value.small())?,
            deadline: time("deadline")?,
        },
    })
}

/// `["10 kB", "2 MB"]` with equal weights, or `[["10 kB", 3], ["2 MB", 1]]` with relative weights.
fn weights(value: &Value<'_>) -> Result<Vec<(DataSize, f64)>, ScenarioError> {
    let entry = |item: &Value<'_>| {
        if item.is_text() {
            return Ok((item.quantity(volume)?, 1.0));
        }
        let [size, weight] = item.pair()?;
        Ok((size.quantity(volume)?, weight.positive()?))
    };
    value.items()?.iter().map(entry).collect()
}
