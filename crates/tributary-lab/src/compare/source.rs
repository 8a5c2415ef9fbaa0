//! What the user gives: a scenario, or the measured traces of the paths, in any known form.

use super::capture;
use core::time::Duration;
use std::collections::BTreeSet;
use std::path::Path;
use thiserror::Error;
use tributary_link::{
    DelaySpec, KnownForm, KnownTrace, LossSpec, MeasuredLink, MeasuredNetwork, MeasuredPath, Scenario,
    ScenarioError, Trace,
};
use tributary_proto::{scheduler, transport};
use tributary_types::file_text::decode;

/// RTT of a path whose trace has none.
pub const DEFAULT_RTT: Duration = Duration::from_millis(40);
/// Larger files are refused without reading them.
const MOST_BYTES: u64 = 1 << 30;
/// A session's paths.
const MOST_PATHS: usize = 8;
/// Characters of a path's name.
const NAME: usize = 15;
/// Name of a network of traces, and of its file.
const NETWORK: &str = "network";

/// A network to compare transports over.
#[derive(Clone, Debug)]
pub struct Source {
    scenario: Scenario,
    /// The scenario's name in a plan.
    name: String,
    /// The scenario file, if it was made from traces.
    text: Option<String>,
}

/// Why there is no network.
#[derive(Debug, Error)]
pub enum SourceError {
    /// The scenario is invalid.
    #[error(transparent)]
    Scenario(#[from] ScenarioError),
    /// A file cannot be used.
    #[error("{file}: {problem}")]
    File {
        /// The file.
        file: String,
        /// What is wrong, and what to do.
        problem: String,
    },
    /// A line of a file cannot be used.
    #[error("{file}:{line}: {problem}")]
    Line {
        /// The file.
        file: String,
        /// Line, counted from one.
        line: usize,
        /// What is wrong, the column, and what to do.
        problem: String,
    },
    /// The files do not make a network.
    #[error("{0}")]
    Files(String),
}

impl Source {
    /// The network of these arguments: one scenario (a name or a .toml file), or files of traces; `rtt` is the base RTT of
    /// traces without one.
    ///
    /// # Errors
    /// [`SourceError`] names file, line and column, and what to do.
    pub fn read(arguments: &[String], rtt: Option<Duration>) -> Result<Self, SourceError> {
        let is_scenario =
            |name: &String| name.ends_with(".toml") || Scenario::builtin_names().any(|n| n == name);
        match arguments {
            [name] if is_scenario(name) && (name.ends_with(".toml") || !Path::new(name).exists()) => {
                let mut scenario = Scenario::find(name)?;
                if let Some(rtt) = rtt {
                    scenario = scenario.with_rtt(rtt);
                }
                let absolute = std::path::absolute(name).ok().filter(|_| name.ends_with(".toml"));
                let place = absolute.map_or(name.clone(), |path| path.display().to_string());
                Ok(Self { scenario, name: place, text: None })
            }
            several if several.iter().any(|name| name.ends_with(".toml")) => Err(SourceError::Files(
                "a scenario has all its paths: give one .toml file alone, or the traces of the paths"
                    .to_owned(),
            )),
            files => Self::measured(files, rtt.unwrap_or(DEFAULT_RTT)),
        }
    }

    fn measured(files: &[String], rtt: Duration) -> Result<Self, SourceError> {
        let mut paths: Vec<MeasuredPath> = Vec::new();
        let mut told = Vec::new();
        let mut names = BTreeSet::new();
        let ups: Vec<&String> = files.iter().filter(|file| down_of(file, files).is_some()).collect();
        for file in files.iter().filter(|file| !ups.contains(file)) {
            let form = form(file)?;
            let stem =
                Path::new(file).file_stem().map_or(String::new(), |stem| stem.to_string_lossy().into_owned());
            let up = ups.iter().find(|up| down_of(up, files) == Some(file)).map(|up| one(up)).transpose()?;
            told.push(format!("{file} ({})", form.name));
            for trace in form.traces {
                let name = path_name(if trace.name.is_empty() { &stem } else { &trace.name }, &mut names);
                paths.push(measured(name, trace, up.as_ref(), rtt));
            }
        }
        if paths.len() > MOST_PATHS {
            let names: Vec<String> = paths.into_iter().map(|path| path.name).collect();
            return Err(SourceError::Files(format!(
                "{} paths ({}); a network has at most {MOST_PATHS}: give fewer files or columns",
                names.len(),
                names.join(", ")
            )));
        }
        let longest = paths.iter().map(|path| path.down.rate.period()).max().unwrap_or_default();
        let network = MeasuredNetwork {
            name: NETWORK.to_owned(),
            description: format!("From {}", told.join(", ")),
            notes: Vec::new(),
            duration: longest.max(Duration::from_secs(1)),
            paths,
        };
        let text = network.to_toml();
        let scenario = Scenario::parse(&text, &format!("{NETWORK}.toml"))?;
        Ok(Self { scenario, name: format!("{NETWORK}.toml"), text: Some(text) })
    }

    /// The network.
    #[must_use]
    pub fn scenario(&self) -> &Scenario {
        &self.scenario
    }

    /// What a plan calls it: a built-in name, the whole path of a file, or the name of the file to be written beside the plan.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The scenario file to be written beside the plan as [`Self::name`], if the network was made from traces.
    #[must_use]
    pub fn text(&self) -> Option<&str> {
        self.text.as_deref()
    }
}

/// The file of the same path's other direction: Mahimahi's traces are `NAME.up` and `NAME.down`.
fn down_of<'a>(file: &str, files: &'a [String]) -> Option<&'a String> {
    let down = format!("{}.down", file.strip_suffix(".up")?);
    files.iter().find(|other| **other == down)
}

/// Reads a file in any known form.
pub(super) fn form(file: &str) -> Result<KnownForm, SourceError> {
    let refuse = |problem: String| SourceError::File { file: file.to_owned(), problem };
    let about = std::fs::metadata(file).map_err(|error| {
        refuse(format!("{error}; give a file, or a scenario of `tributary-lab emu list`"))
    })?;
    if !about.is_file() {
        return Err(refuse("not a regular file; give a scenario or a trace".to_owned()));
    }
    if about.len() > MOST_BYTES {
        return Err(refuse("larger than 1 GiB; cut it, for example with editcap or head".to_owned()));
    }
    let bytes = std::fs::read(file).map_err(|error| refuse(error.to_string()))?;
    if capture::is_capture(&bytes) {
        let traces = capture::read(&bytes).map_err(refuse)?;
        return Ok(KnownForm { name: "packet capture", traces });
    }
    let text = decode(&bytes).map_err(|error| {
        refuse(format!("{error}; known are scenarios, Mahimahi, CSV, pcap, pcapng, Sabre, E3PO, Lumos5G and Starlink logs"))
    })?;
    KnownForm::read(&text).map_err(|error| SourceError::Line {
        file: file.to_owned(),
        line: error.line,
        problem: error.problem,
    })
}

/// The one trace of a file in any known form.
///
/// # Errors
/// [`SourceError`] names file, line and column, and what to do.
pub fn one(file: &str) -> Result<Trace, SourceError> {
    let mut traces = form(file)?.traces;
    match (traces.pop(), traces.is_empty()) {
        (Some(trace), true) => Ok(trace.down),
        _ => Err(SourceError::File {
            file: file.to_owned(),
            problem: "has several columns of rates; leave one".to_owned(),
        }),
    }
}

fn measured(name: String, trace: KnownTrace, up: Option<&Trace>, rtt: Duration) -> MeasuredPath {
    let one_way = |(since, rtt): &(Duration, Duration)| (*since, *rtt / 2);
    let base = trace.rtt.first().map_or(rtt, |first| first.1) / 2;
    let changes = trace.rtt.iter().skip(1).map(one_way).collect();
    let delay = DelaySpec { base, changes, ..DelaySpec::default() };
    let link = |rate: Trace| MeasuredLink { rate, delay: delay.clone(), loss: LossSpec::None };
    let up = trace.up.or_else(|| up.cloned()).map(link);
    MeasuredPath { name, down: link(trace.down), up }
}

/// The name of a path in a scenario after `wanted`: none of `names`, to which it is added, and no transport's.
pub fn path_name(wanted: &str, names: &mut BTreeSet<String>) -> String {
    let plain = |c: char| if c.is_ascii_alphanumeric() { c.to_ascii_lowercase() } else { '-' };
    let words: String = wanted.chars().map(plain).collect();
    let words = words.split('-').filter(|word| !word.is_empty()).collect::<Vec<_>>().join("-");
    let cut = |text: &str, most: usize| {
        text.chars().take(most).collect::<String>().trim_end_matches('-').to_owned()
    };
    let mut name = cut(&words, NAME);
    if name.is_empty()
        || name == "lo"
        || transport::names().contains(&name.as_str())
        || scheduler::is_known(&name)
    {
        name = cut(&format!("path-{name}"), NAME);
    }
    let mut number = 2;
    let base = name.clone();
    while !names.insert(name.clone()) {
        let ending = format!("-{number}");
        name = format!("{}{ending}", cut(&base, NAME - ending.len()));
        number += 1;
    }
    name
}
