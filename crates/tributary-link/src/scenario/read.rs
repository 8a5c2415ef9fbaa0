//! Reads a [`Scenario`] from TOML text; every error names file, line and field.

use super::check::{self, Fault, Section};
use super::link_fields::{link, windows};
use super::quantity::duration;
use super::run_fields::{background, run};
use super::table::{Source, Table, Value};
use super::trace_fields::TraceFiles;
use super::{HopSpec, PathSpec, Scenario, ScenarioError};
use std::borrow::Cow;
use std::path::Path;
use toml::de::DeTable;
use tributary_types::file_text::{decode, without_mark};

/// Larger files are refused without reading them.
const MAX_FILE_BYTES: u64 = 256 * 1024 * 1024;

impl Scenario {
    /// Reads a scenario from text; `file` is its name in errors. Trace *files* need [`Scenario::load`].
    pub fn parse(text: &str, file: &str) -> Result<Self, ScenarioError> {
        read(Source { file, text: without_mark(text) }, &|_| {
            Err("a trace file needs a scenario loaded from a file".to_owned())
        })
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

    /// A built-in scenario by name, or else the scenario file at this path.
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
    let bytes = std::fs::read(path).map_err(|error| error.to_string())?;
    decode(&bytes).map(Cow::into_owned).map_err(|error| error.to_string())
}

fn read(source: Source<'_>, files: TraceFiles<'_>) -> Result<Scenario, ScenarioError> {
    let document = DeTable::parse(source.text)
        .map_err(|error| source.refuse(error.span().unwrap_or(0..0), "TOML", error.message()))?;
    let root = Table::root(source, document.get_ref());
    root.only(&["name", "description", "duration", "seed", "rtt", "path", "hop", "background", "run"])?;
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
    let list = |key| root.optional(key).map_or(Ok(Vec::new()), |value| value.items());
    let (hops, sources) = (list("hop")?, list("background")?);
    for value in &hops {
        scenario.hops.push(hop(&value.table()?, files)?);
    }
    for value in &sources {
        scenario.background.push(background(&value.table()?)?);
    }
    let mut workloads = Vec::new();
    if let Some(value) = root.optional("run") {
        (scenario.run, workloads) = run(&value.table()?)?;
    }
    check::check(&scenario).map_err(|fault| {
        let place = match fault.section {
            Section::Whole => None,
            Section::Path(i) => paths.get(i),
            Section::Hop(i) => hops.get(i),
            Section::Background(i) => sources.get(i),
            Section::Workload(i) => workloads.get(i),
        };
        put_in_place(&root, place, fault)
    })?;
    Ok(scenario)
}

/// The error for `fault`, which concerns the part of the file at `place`, or no part.
fn put_in_place(root: &Table<'_>, place: Option<&Value<'_>>, fault: Fault) -> ScenarioError {
    match place {
        Some(part) => {
            let field = format!("{}.{}", part.field, fault.field);
            part.descend(&fault.field).refuse_as(&field, fault.problem)
        }
        None => match root.descend(&fault.field) {
            Some(value) => value.refuse_as(&fault.field, fault.problem),
            None => root.refuse(format!("{}: {}", fault.field, fault.problem)),
        },
    }
}

fn path(table: &Table<'_>, files: TraceFiles<'_>) -> Result<PathSpec, ScenarioError> {
    table.only(&["name", "down", "up", "dead", "absent", "via", "radio"])?;
    let common = common(table, files)?;
    let mut path =
        PathSpec { up: common.up, dead: common.dead, ..PathSpec::symmetric(&common.name, common.down) };
    if let Some(value) = table.optional("absent") {
        path.absent = windows(&value)?;
    }
    if let Some(value) = table.optional("via") {
        for item in value.items()? {
            path.via.push(item.text()?.to_owned());
        }
    }
    path.radio = table.optional("radio").map(|value| value.text()).transpose()?.map(str::to_owned);
    Ok(path)
}

fn hop(table: &Table<'_>, files: TraceFiles<'_>) -> Result<HopSpec, ScenarioError> {
    table.only(&["name", "down", "up", "dead"])?;
    common(table, files)
}

/// The fields that paths and hops have in common.
fn common(table: &Table<'_>, files: TraceFiles<'_>) -> Result<HopSpec, ScenarioError> {
    let name = table.required("name")?.text()?.to_owned();
    let down = link(&table.required("down")?.table()?, files)?;
    let up = match table.optional("up") {
        Some(value) => link(&value.table()?, files)?,
        None => down.clone(),
    };
    let dead = table.optional("dead").map(|value| windows(&value)).transpose()?;
    Ok(HopSpec { name, down, up, dead: dead.unwrap_or_default() })
}
