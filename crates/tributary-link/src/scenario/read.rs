//! From TOML text to a [`Scenario`]; every refusal names file, line and field.

use super::quantity::{duration, share, size};
use super::rate_fields::rate;
use super::table::{Source, Table, Value};
use super::{LinkSpec, Moment, PathSpec, Scenario, ScenarioError, check};
use crate::{DelaySpec, LossSpec, QueueSpec};
use core::time::Duration;
use std::path::Path;
use toml::de::DeTable;

/// Finds the text of a trace file named in a scenario.
pub(super) type TraceFiles<'a> = &'a dyn Fn(&str) -> Result<String, String>;

/// Files larger than this are refused unread.
const MAX_FILE_BYTES: u64 = 256 * 1024 * 1024;

impl Scenario {
    /// Reads a scenario from text; `file` is named in errors. Trace *files* need [`Scenario::load`].
    pub fn parse(text: &str, file: &str) -> Result<Self, ScenarioError> {
        read(Source { file, text }, &|_| Err("a trace file needs a scenario loaded from a file".to_owned()))
    }

    /// Reads a scenario file. Trace files are looked for beside it.
    pub fn load(path: impl AsRef<Path>) -> Result<Self, ScenarioError> {
        let path = path.as_ref();
        let file = path.display().to_string();
        let text =
            read_file(path).map_err(|problem| ScenarioError::Unreadable { file: file.clone(), problem })?;
        let folder = path.parent().unwrap_or(Path::new(""));
        read(Source { file: &file, text: &text }, &|name| read_file(&folder.join(name)))
    }

    /// A shipped scenario by its name, or else the scenario file of that path.
    pub fn find(name_or_path: &str) -> Result<Self, ScenarioError> {
        let is_path = name_or_path.ends_with(".toml") || name_or_path.contains('/');
        if is_path { Self::load(name_or_path) } else { Self::builtin(name_or_path) }
    }
}

fn read_file(path: &Path) -> Result<String, String> {
    let about = std::fs::metadata(path).map_err(|error| error.to_string())?;
    if !about.is_file() {
        return Err("not a regular file".to_owned());
    }
    if about.len() > MAX_FILE_BYTES {
        return Err("larger than 256 MiB".to_owned());
    }
    std::fs::read_to_string(path).map_err(|error| error.to_string())
}

fn read(source: Source<'_>, files: TraceFiles<'_>) -> Result<Scenario, ScenarioError> {
    let document = DeTable::parse(source.text)
        .map_err(|error| source.refuse(error.span().unwrap_or(0..0), "TOML", error.message()))?;
    let root = Table::root(source, document.get_ref());
    root.only(&["name", "description", "duration", "seed", "rtt", "path"])?;
    let name = root.required("name")?.text()?;
    let description = root.optional("description").map(|value| value.text()).transpose()?;
    let mut scenario = Scenario {
        description: description.unwrap_or_default().to_owned(),
        duration: root.required("duration")?.quantity(duration)?,
        ..Scenario::new(name)
    };
    if let Some(value) = root.optional("seed") {
        scenario.seed = value.whole()?;
    }
    if let Some(value) = root.optional("rtt") {
        scenario.rtt = value.quantity(duration)?;
    }
    let paths = root.required("path")?.items()?;
    for value in &paths {
        scenario.paths.push(path(&value.table()?, files)?);
    }
    check::check(&scenario).map_err(|fault| {
        let (place, parent) = match fault.path.and_then(|i| paths.get(i)) {
            Some(path) => (path.descend(&fault.field), path.field.clone() + "."),
            None => (root.optional(&fault.field), String::new()),
        };
        match place {
            Some(value) => value.refuse_as(&(parent + &fault.field), fault.problem),
            None => root.refuse(format!("{}: {}", fault.field, fault.problem)),
        }
    })?;
    Ok(scenario)
}

fn path(table: &Table<'_>, files: TraceFiles<'_>) -> Result<PathSpec, ScenarioError> {
    table.only(&["name", "down", "up", "dead"])?;
    let name = table.required("name")?.text()?.to_owned();
    let down = link(&table.required("down")?.table()?, files)?;
    let up = match table.optional("up") {
        Some(value) => link(&value.table()?, files)?,
        None => down.clone(),
    };
    let dead = table.optional("dead").map(|value| windows(&value)).transpose()?;
    Ok(PathSpec { name, down, up, dead: dead.unwrap_or_default() })
}

fn link(table: &Table<'_>, files: TraceFiles<'_>) -> Result<LinkSpec, ScenarioError> {
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
    table.only(&["packets", "time", "floor"])?;
    match (table.optional("packets"), table.optional("time"), table.optional("floor")) {
        (Some(packets), None, None) => Ok(QueueSpec::Packets(packets.whole()?)),
        (None, Some(time), floor) => {
            let floor = floor.map(|value| value.quantity(size)).transpose()?;
            let floor = floor.unwrap_or(QueueSpec::DEFAULT_FLOOR);
            Ok(QueueSpec::Time { time: time.quantity(duration)?, floor })
        }
        _ => Err(table.refuse("give a size such as \"256 KiB\", { packets = … } or { time = …, floor = … }")),
    }
}

fn windows(value: &Value<'_>) -> Result<Vec<(Moment, Moment)>, ScenarioError> {
    let window = |item: Value<'_>| {
        let [from, to] = item.pair()?;
        Ok((moment(&from)?, moment(&to)?))
    };
    value.items()?.into_iter().map(window).collect()
}

fn moment(value: &Value<'_>) -> Result<Moment, ScenarioError> {
    if value.text()?.trim_end().ends_with('%') {
        Ok(Moment::Share(value.quantity(share)?))
    } else {
        Ok(Moment::At(value.quantity(duration)?))
    }
}
