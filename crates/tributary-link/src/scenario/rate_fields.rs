//! Reads the `rate` field of a link: every rate process and its parameters.

use super::ScenarioError;
use super::quantity::{bitrate, duration};
use super::table::{Table, Value};
use super::trace_fields::{TraceFiles, trace};
use crate::{CotagChannel, RateSpec};
use core::time::Duration;
use std::sync::Arc;
use tributary_types::Bitrate;

const KINDS: [&str; 7] = ["steps", "turns", "trace", "markov", "cotag", "gaussian", "blockage"];

pub(super) fn rate(value: &Value<'_>, files: TraceFiles<'_>) -> Result<RateSpec, ScenarioError> {
    if value.is_text() {
        return Ok(RateSpec::Constant(value.quantity(bitrate)?));
    }
    let (kind, value) = value.table()?.choice(&KINDS)?;
    match kind {
        "steps" => Ok(RateSpec::Steps(schedule(&value)?)),
        "turns" => Ok(RateSpec::Turns(schedule(&value)?)),
        "trace" => Ok(RateSpec::Trace(Arc::new(trace(&value, files)?))),
        "markov" => markov(&value.table()?),
        "cotag" => cotag(&value.table()?),
        "gaussian" => gaussian(&value.table()?),
        _ => blockage(&value.table()?),
    }
}

/// `[["1.5 s", "140 Mbit/s"], …]`
fn schedule(value: &Value<'_>) -> Result<Vec<(Duration, Bitrate)>, ScenarioError> {
    let row = |item: Value<'_>| {
        let [time, rate] = item.pair()?;
        Ok((time.quantity(duration)?, rate.quantity(bitrate)?))
    };
    value.items()?.into_iter().map(row).collect()
}

fn markov(table: &Table<'_>) -> Result<RateSpec, ScenarioError> {
    table.only(&["rates", "deviations", "transitions", "every"])?;
    let list = |value: Value<'_>| value.items()?.iter().map(|rate| rate.quantity(bitrate)).collect();
    let row = |row: Value<'_>| row.items()?.iter().map(Value::probability).collect();
    let transitions = table.required("transitions")?.items()?.into_iter().map(row);
    Ok(RateSpec::Markov {
        rates: list(table.required("rates")?)?,
        deviations: table.optional("deviations").map_or(Ok(Vec::new()), list)?,
        noise: 0,
        transitions: transitions.collect::<Result<Vec<_>, _>>()?,
        every: table.required("every")?.quantity(duration)?,
    })
}

/// `{ link = 1, p = 0.1, q = 0.67 }`, with the paper's rates as defaults.
fn cotag(table: &Table<'_>) -> Result<RateSpec, ScenarioError> {
    table.only(&["link", "p", "q", "high", "high_deviation", "low", "low_deviation", "every"])?;
    let paper = CotagChannel::paper(table.required("p")?.probability()?, table.required("q")?.probability()?);
    let rate = |key, otherwise| table.optional(key).map_or(Ok(otherwise), |value| value.quantity(bitrate));
    let channel = CotagChannel {
        high: (rate("high", paper.high.0)?, rate("high_deviation", paper.high.1)?),
        low: (rate("low", paper.low.0)?, rate("low_deviation", paper.low.1)?),
        every: table.optional("every").map_or(Ok(paper.every), |value| value.quantity(duration))?,
        ..paper
    };
    let link = table.required("link")?;
    match link.whole()? {
        n @ 1..=2 => Ok(channel.rate(n as u32)),
        n => Err(link.refuse(format!("the channel has links 1 and 2, not {n}"))),
    }
}

fn gaussian(table: &Table<'_>) -> Result<RateSpec, ScenarioError> {
    table.only(&["mean", "deviation", "every"])?;
    Ok(RateSpec::Gaussian {
        mean: table.required("mean")?.quantity(bitrate)?,
        deviation: table.required("deviation")?.quantity(bitrate)?,
        every: table.required("every")?.quantity(duration)?,
    })
}

fn blockage(table: &Table<'_>) -> Result<RateSpec, ScenarioError> {
    table.only(&["clear", "blocked", "clear_mean", "shortest", "longest"])?;
    let blocked = table.optional("blocked").map(|value| value.quantity(bitrate)).transpose()?;
    Ok(RateSpec::Blockage {
        clear: table.required("clear")?.quantity(bitrate)?,
        blocked: blocked.unwrap_or(Bitrate::ZERO),
        clear_mean: table.required("clear_mean")?.quantity(duration)?,
        shortest: table.required("shortest")?.quantity(duration)?,
        longest: table.required("longest")?.quantity(duration)?,
    })
}
