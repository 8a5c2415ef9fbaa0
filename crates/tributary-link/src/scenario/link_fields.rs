//! Reads delay, loss and queue of a link, and time windows.

use super::quantity::{duration, share, size};
use super::rate_fields::rate;
use super::table::{Table, Value};
use super::trace_fields::TraceFiles;
use super::{LinkSpec, Moment, ScenarioError};
use crate::{DelaySpec, LossSpec, QueueSpec};
use core::time::Duration;

pub(super) fn link(table: &Table<'_>, files: TraceFiles<'_>) -> Result<LinkSpec, ScenarioError> {
    table.only(&["rate", "delay", "loss", "queue"])?;
    let mut spec = LinkSpec::with_rate(rate(&table.required("rate")?, files)?);
    if let Some(value) = table.optional("delay") {
        spec.delay = delay(&value)?;
    }
    if let Some(value) = table.optional("loss") {
        spec.loss = loss(&value)?;
    }
    if let Some(value) = table.optional("queue") {
        spec.queue = queue(&value)?;
    }
    Ok(spec)
}

fn delay(value: &Value<'_>) -> Result<DelaySpec, ScenarioError> {
    if value.is_text() {
        return Ok(DelaySpec::fixed(value.quantity(duration)?));
    }
    let table = value.table()?;
    table.only(&["base", "jitter", "changes"])?;
    let time = |key| table.optional(key).map(|value| value.quantity(duration)).transpose();
    let change = |item: Value<'_>| -> Result<(Duration, Duration), ScenarioError> {
        let [since, base] = item.pair()?;
        Ok((since.quantity(duration)?, base.quantity(duration)?))
    };
    let changes = match table.optional("changes") {
        Some(value) => value.items()?.into_iter().map(change).collect::<Result<_, _>>()?,
        None => Vec::new(),
    };
    let (base, jitter) = (time("base")?.unwrap_or_default(), time("jitter")?.unwrap_or_default());
    Ok(DelaySpec { base, jitter, changes })
}

fn loss(value: &Value<'_>) -> Result<LossSpec, ScenarioError> {
    let Ok(table) = value.table() else {
        return Ok(LossSpec::Bernoulli(value.probability()?));
    };
    if let Some(steps) = table.optional("steps") {
        table.only(&["steps"])?;
        let step = |item: Value<'_>| -> Result<(Duration, f64), ScenarioError> {
            let [since, share] = item.pair()?;
            Ok((since.quantity(duration)?, share.probability()?))
        };
        return Ok(LossSpec::Steps(steps.items()?.into_iter().map(step).collect::<Result<_, _>>()?));
    }
    table.only(&["to_bad", "to_good", "loss_good", "loss_bad"])?;
    Ok(LossSpec::GilbertElliott {
        to_bad: table.required("to_bad")?.probability()?,
        to_good: table.required("to_good")?.probability()?,
        loss_good: table.required("loss_good")?.probability()?,
        loss_bad: table.required("loss_bad")?.probability()?,
    })
}

fn queue(value: &Value<'_>) -> Result<QueueSpec, ScenarioError> {
    if value.is_text() {
        return Ok(QueueSpec::Bytes(value.quantity(size)?));
    }
    let table = value.table()?;
    table.only(&["packets", "time", "floor", "codel"])?;
    let given = |key| table.optional(key);
    match (given("packets"), given("time"), given("floor"), given("codel")) {
        (Some(packets), None, None, None) => Ok(QueueSpec::Packets(packets.whole()?)),
        (None, Some(time), floor, None) => {
            let floor = floor.map(|value| value.quantity(size)).transpose()?;
            let floor = floor.unwrap_or(QueueSpec::DEFAULT_FLOOR);
            Ok(QueueSpec::Time { time: time.quantity(duration)?, floor })
        }
        (None, None, None, Some(value)) => codel(&value.table()?),
        _ => Err(table.refuse(
            "give a size such as \"256 KiB\", { packets = … }, { time = …, floor = … } or { codel = {} }",
        )),
    }
}

/// `{ target = "5 ms", interval = "100 ms", limit = "300 kB" }`, each with a default.
fn codel(table: &Table<'_>) -> Result<QueueSpec, ScenarioError> {
    table.only(&["target", "interval", "limit"])?;
    let time = |key| table.optional(key).map(|value| value.quantity(duration)).transpose();
    let limit = table.optional("limit").map(|value| value.quantity(size)).transpose()?;
    Ok(QueueSpec::Codel {
        target: time("target")?.unwrap_or(QueueSpec::CODEL_TARGET),
        interval: time("interval")?.unwrap_or(QueueSpec::CODEL_INTERVAL),
        limit: limit.unwrap_or(QueueSpec::CODEL_LIMIT),
    })
}

pub(super) fn windows(value: &Value<'_>) -> Result<Vec<(Moment, Moment)>, ScenarioError> {
    let window = |item: Value<'_>| {
        let [from, to] = item.pair()?;
        Ok((moment(&from)?, moment(&to)?))
    };
    value.items()?.into_iter().map(window).collect()
}

pub(super) fn moment(value: &Value<'_>) -> Result<Moment, ScenarioError> {
    if value.text()?.trim_end().ends_with('%') {
        Ok(Moment::Share(value.quantity(share)?))
    } else {
        Ok(Moment::At(value.quantity(duration)?))
    }
}
