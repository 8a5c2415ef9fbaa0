//! Every benchmark by name, with its settings as the command line takes them.

use crate::flood::frames;
use crate::proxy::http;
use crate::simulator::{self, speed};
use crate::{
    BenchError, Progress, churn, coding, coupled, dash, emulator, end, flood, handoff, hop, idle, memory,
    objects, proxy, sessions, stalled, tunnel, unshaped,
};
use clap::{Subcommand, ValueEnum};
use serde::Serialize;
use tributary_report::Table;

/// A benchmark.
#[derive(Debug, Subcommand)]
#[expect(missing_docs, reason = "the documentation of the settings is the command's help")]
pub enum Benchmark {
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
    fn new<R: Serialize>(name: &'static str, report: &R, tables: fn(&R) -> Vec<Table>) -> Self {
        let json = serde_json::to_string(report).expect("reports have string keys only");
        Self { name, tables: tables(report), json }
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
            Self::Unshaped(of) => {
                Measured::new("unshaped", &unshaped::run(of, progress)?, unshaped::Report::tables)
            }
            Self::Objects(of) => {
                Measured::new("objects", &objects::run(of, progress)?, objects::Report::tables)
            }
            Self::Idle(of) => Measured::new("idle", &idle::run(of, progress)?, idle::Report::tables),
            Self::Memory(of) => Measured::new("memory", &memory::run(of, progress)?, memory::Report::tables),
            Self::Sessions(of) => {
                Measured::new("sessions", &sessions::run(of, progress)?, sessions::Report::tables)
            }
            Self::Stalled(of) => {
                Measured::new("stalled", &stalled::run(of, progress)?, stalled::Report::tables)
            }
            Self::Churn(of) => Measured::new("churn", &churn::run(of, progress)?, churn::Report::tables),
            Self::Coding(of) => Measured::new("coding", &coding::run(of, progress)?, coding::Report::tables),
            Self::Coupled(of) => {
                Measured::new("coupled", &coupled::run(of, &prefix, progress)?, coupled::Report::tables)
            }
            Self::Dash(of) => Measured::new("dash", &dash::run(of, progress)?, dash::Report::tables),
            Self::Tunnel(of) => Measured::new("tunnel", &tunnel::run(of, progress)?, tunnel::Report::tables),
            Self::Flood(of) => match of.hostile {
                Some(hostile) => {
                    Measured::new("flood", &frames::run(hostile, of, progress)?, frames::Report::tables)
                }
                None => Measured::new("flood", &flood::run(of, progress)?, flood::Report::tables),
            },
            Self::Hop(of) => Measured::new("hop", &hop::run(of, progress)?, hop::Report::tables),
            Self::Handoff(of) => {
                Measured::new("handoff", &handoff::run(of, progress)?, handoff::Report::tables)
            }
            Self::Proxy(of) => Measured::new("proxy", &proxy::run(of, progress)?, proxy::Report::tables),
            Self::ProxyHttp(of) => {
                Measured::new("proxy-http", &http::run(of, progress)?, http::Report::tables)
            }
            Self::Emulator(of) => {
                let report = emulator::run(of, rattan.as_deref(), progress)?;
                Measured::new("emulator", &report, emulator::Report::tables)
            }
            Self::Simulator(of) => {
                Measured::new("simulator", &speed::run(of, progress)?, speed::Report::tables)
            }
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
