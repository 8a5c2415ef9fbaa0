//! One cell in simulator or kernel, in the same form: bytes in bins, windows.

use super::super::super::BenchError;
use super::grid::Probe;
use core::time::Duration;
use serde::{Deserialize, Serialize};
use tributary_lab::process::ProcessError;
use tributary_lab::result::RunResult;
use tributary_lab::simulate::Simulation;
use tributary_lab::workload::Workload;
use tributary_lab::{Cell, LabError, run};
use tributary_link::Scenario;
use tributary_sim::run::{Outcome, TransportName};
use tributary_sim::workload::BIN;

/// A window at one time.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Window {
    /// Seconds since the request reached the server.
    pub at: f64,
    /// Congestion window in bytes.
    pub window: u64,
}

/// One run.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Sample {
    /// Payload bytes delivered in order in each 10 ms.
    pub bins: Vec<u64>,
    /// Whether the emulator's audit called the run valid; always true in the simulator.
    pub valid: bool,
    /// The window of a single connection.
    pub windows: Vec<Window>,
}

impl Sample {
    /// Mean goodput from this time on, Mbit/s.
    #[must_use]
    pub fn mean(&self, from: Duration) -> f64 {
        let skip = (from.as_nanos() / BIN.as_nanos()) as usize;
        let bins = self.bins.get(skip..).unwrap_or_default();
        if bins.is_empty() {
            return f64::NAN;
        }
        let seconds = bins.len() as f64 * BIN.as_secs_f64();
        (bins.iter().sum::<u64>() * 8) as f64 / 1e6 / seconds
    }
}

fn transport(probe: &Probe, scenario: &Scenario) -> Result<TransportName, BenchError> {
    TransportName::find(&probe.transport, None, &scenario.path_names()).map_err(|unknown| refused(&unknown))
}

/// With the kernel's stacks. `congestion`: the name in the kernel.
pub(super) fn kernel(probe: &Probe, congestion: &str, seed: u64) -> Result<Sample, BenchError> {
    let scenario = probe.scenario.clone().with_seed(seed);
    let transport = transport(probe, &scenario)?;
    let workload = Workload::Bulk { seconds: probe.seconds };
    let mut cell = Cell::new(&scenario, &transport, congestion, &workload);
    cell.windows = true;
    let result = match run(&cell) {
        // A busy machine may have starved an endpoint: try once more.
        Err(LabError::Process(ProcessError::Failed { .. })) => run(&cell)?,
        result => result?,
    };
    Ok(from_kernel(probe, &result))
}

fn from_kernel(probe: &Probe, result: &RunResult) -> Sample {
    let mut bins = result.record.arrivals().map(|arrivals| arrivals.bytes.clone()).unwrap_or_default();
    bins.resize(probe.bins(), 0);
    let window = |sample: &tributary_lab::endpoint::WindowSample| Window {
        at: sample.at_ms / 1e3,
        window: sample.window,
    };
    Sample { bins, valid: result.audit.valid, windows: result.windows.iter().map(window).collect() }
}

/// In the simulator.
pub(super) fn simulator(probe: &Probe, seed: u64) -> Result<Sample, BenchError> {
    let scenario = probe.scenario.clone().with_seed(seed);
    let length = Duration::from_secs_f64(probe.seconds) + probe.handshake();
    let scenario = scenario.with_duration(length);
    let transport = transport(probe, &scenario)?;
    let mut simulation = Simulation::bulk(&scenario, &transport, &probe.congestion);
    simulation.options.trace = true;
    let outcome = simulation.cell().run().map_err(|error| refused(&error))?;
    Ok(from_simulator(probe, &outcome))
}

fn from_simulator(probe: &Probe, outcome: &Outcome) -> Sample {
    let skip = (probe.handshake().as_nanos() / BIN.as_nanos()) as usize;
    let mut bins: Vec<u64> = outcome.arrivals().bins.into_iter().skip(skip).collect();
    bins.resize(probe.bins(), 0);
    // The handshake takes a round trip, the request half of one.
    let request = probe.scenario.rtt.as_secs_f64() * 1.5;
    let trace = outcome.trace.iter().flat_map(|trace| &trace.samples);
    let windows = trace
        .map(|sample| Window { at: sample.at.as_nanos() as f64 / 1e9 - request, window: sample.path.window });
    Sample { bins, valid: outcome.conserved, windows: windows.filter(|window| window.at >= 0.0).collect() }
}

fn refused(error: &dyn std::fmt::Display) -> BenchError {
    BenchError::Program { program: "simulator".to_owned(), reason: error.to_string() }
}
