//! Every benchmark by name, with its settings as the command line takes them.

use crate::flood::frames;
use crate::proxy::http;
use crate::simulator::{self, speed};
use crate::{
    BenchError, Progress, Tables, application, churn, coding, coupled, dash, emulator, end, flood, handoff,
    hop, idle, memory, objects, proxy, record, sessions, stalled, tunnel, unshaped,
};
use clap::{Subcommand, ValueEnum};
use serde::Serialize;
use tributary_report::Table;

/// A benchmark.
#[derive(Debug, Subcommand)]
#[expect(missing_docs, reason = "the documentation of the settings is the command's help")]
pub enum Benchmark {
    Application(application::Settings),
    Unshaped(unshaped::Settings),
    Objects(objects::Settings),
    Idle(idle::Settings),
    Memory(memory::Settings),
    Churn(churn::Settings),
    Dash(dash::Settings),
    Flood(flood::Settings),
    Handoff(handoff::Settings),
    Hop(hop::Settings),
    Proxy(proxy::Settings),
    ProxyHttp(http::Settings),
    Record(record::Settings),
    Sessions(sessions::Settings),
    Stalled(stalled::Settings),
    Emulator(emulator::Settings),
    Coding(coding::Settings),
    Coupled(coupled::Settings),
    Tunnel(tunnel::Settings),
    Simulator(speed::Settings),
}

/// What a benchmark measured.
#[derive(Debug)]
pub struct Measured {
    /// Name of the benchmark.
    pub name: &'static str,
    /// The tables.
    pub tables: Vec<Table>,
    /// Everything, every round included, as one JSON object.
    pub json: String,
}

impl Measured {
    fn new(name: &'static str, report: &(impl Serialize + Tables)) -> Self {
        let json = serde_json::to_string(report).expect("reports have string keys only");
        Self { name, tables: report.tables(), json }
    }
}

/// What an endpoint process does; the laboratory and the benchmarks start them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Endpoint {
    /// Server or client of a run.
    Run,
    /// One end of a benchmark's transfer.
    End,
    /// Clients of the benchmark `sessions`.
    Hostile,
    /// One run of the benchmark `simulator`.
    Bottleneck,
}

impl Endpoint {
    /// Carries out the task on standard input. Returns whether it succeeded; a failure was reported.
    #[must_use]
    pub fn run(self) -> bool {
        match self {
            Self::Run => tributary_lab::endpoint::run(),
            Self::End => end::run(),
            Self::Hostile => sessions::run_hostile(),
            Self::Bottleneck => simulator::run_alone(),
        }
    }
}

impl Benchmark {
    /// Runs it. Call this before any thread is started: most benchmarks isolate the program first.
    ///
    /// # Errors
    /// [`BenchError`]. A promise that fails is a result.
    pub fn run(&self, progress: Progress<'_>) -> Result<Measured, BenchError> {
        // Names of controllers belong to the whole machine; numbers of processes begin again at one after isolation.
        let prefix = coupled::prefix();
        // The crate registry cannot be reached after isolation.
        let rattan = match self {
            Self::Emulator(settings) => settings.rattan.as_deref().map(tributary_emu::bench::install_rattan),
            _ => None,
        };
        let rattan = rattan.transpose()?;
        if self.is_emulated() {
            tributary_emu::isolate()?;
        }
        Ok(match self {
            Self::Application(of) => Measured::new("application", &application::run(of, progress)?),
            Self::Unshaped(of) => Measured::new("unshaped", &unshaped::run(of, progress)?),
            Self::Objects(of) => Measured::new("objects", &objects::run(of, progress)?),
            Self::Idle(of) => Measured::new("idle", &idle::run(of, progress)?),
            Self::Memory(of) => Measured::new("memory", &memory::run(of, progress)?),
            Self::Record(of) => Measured::new("record", &record::run(of, progress)?),
            Self::Sessions(of) => Measured::new("sessions", &sessions::run(of, progress)?),
            Self::Stalled(of) => Measured::new("stalled", &stalled::run(of, progress)?),
            Self::Churn(of) => Measured::new("churn", &churn::run(of, progress)?),
            Self::Coding(of) => Measured::new("coding", &coding::run(of, progress)?),
            Self::Coupled(of) => Measured::new("coupled", &coupled::run(of, &prefix, progress)?),
            Self::Dash(of) => Measured::new("dash", &dash::run(of, progress)?),
            Self::Tunnel(of) => Measured::new("tunnel", &tunnel::run(of, progress)?),
            Self::Flood(of) => match of.hostile {
                Some(hostile) => Measured::new("flood", &frames::run(hostile, of, progress)?),
                None => Measured::new("flood", &flood::run(of, progress)?),
            },
            Self::Hop(of) => Measured::new("hop", &hop::run(of, progress)?),
            Self::Handoff(of) => Measured::new("handoff", &handoff::run(of, progress)?),
            Self::Proxy(of) => Measured::new("proxy", &proxy::run(of, progress)?),
            Self::ProxyHttp(of) => Measured::new("proxy-http", &http::run(of, progress)?),
            Self::Emulator(of) => Measured::new("emulator", &emulator::run(of, rattan.as_deref(), progress)?),
            Self::Simulator(of) => Measured::new("simulator", &speed::run(of, progress)?),
        })
    }

    /// Whether it measures in namespaces of its own.
    fn is_emulated(&self) -> bool {
        match self {
            Self::Sessions(_) | Self::Churn(_) | Self::Coding(_) | Self::Dash(_) | Self::Simulator(_) => {
                false
            }
            Self::Flood(of) => of.hostile.is_none(),
            _ => true,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Command;

    #[test]
    fn a_setting_out_of_range_is_refused_by_name_with_its_range() {
        for (bench, setting, value, range) in [
            ("idle", "--seconds", "5", "20 to 3600"),
            ("sessions", "--sessions", "5000", "1..=1020"),
            ("objects", "--count", "1", "10..=10000"),
            ("churn", "--rate", "1e6", "0.1 to 100"),
            ("stalled", "--stalled", "501", "0..=500"),
            ("dash", "--clients", "0", "1..=10000"),
            ("proxy-http", "--connections", "0", "1..=1000"),
            ("tunnel", "--loss", "NaN", "0 to 0.5"),
        ] {
            let parser = Benchmark::augment_subcommands(Command::new("bench"));
            let error =
                parser.try_get_matches_from(["bench", bench, setting, value]).unwrap_err().to_string();
            assert!(error.contains(setting) && error.contains(range), "{error}");
        }
    }
}
