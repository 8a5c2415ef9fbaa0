//! Head movement and sound beside live video: the latency of head-movement messages, by scheduler. This module
//! measures; `page.rs` describes the results.

mod page;

use super::{DemoError, Progress, START_UP, Settings};
use crate::audits;
use crate::cell::Run;
use crate::messages::MessageFlow;
use crate::result::RunResult;
use crate::run::run as measure;
use crate::workload::{Record, Workload};
use page::Row;
use serde::Serialize;
use std::time::Instant;
use tributary_proto::transport::TransportName;
use tributary_report::machine;
use tributary_report::{RunInfo, Table};

/// Kernel MPTCP with a connection for each flow, its scheduler in a session, and the product's scheduler; sessions
/// with and without priorities.
const TRANSPORTS: [&str; 5] = ["mptcp", "linux-default", "avira+linux-default", "fbdt", "avira+fbdt"];

/// Result of a run.
#[derive(Clone, Debug, Serialize)]
pub struct ImuOutcome {
    /// One run per transport.
    pub runs: Vec<RunResult>,
    /// How it was measured.
    pub run: RunInfo,
}

/// Runs live video, 1000 messages of head movement a second and 50 frames of sound over each transport.
///
/// # Errors
/// [`DemoError`]; bad performance is a result, not an error.
pub fn run(settings: &Settings, progress: Progress<'_>) -> Result<ImuOutcome, DemoError> {
    let began = Instant::now();
    let video = settings.encoded();
    video.build(&mut |part| progress(part * 0.1, "encoding the video"))?;
    let mut runs = Vec::new();
    for (index, name) in TRANSPORTS.iter().enumerate() {
        let share = 0.1 + 0.9 * index as f64 / TRANSPORTS.len() as f64;
        progress(share, &format!("{name}: live video, head movement and sound"));
        let transport = TransportName::find(name, None, &settings.scenario.path_names())?;
        let start_up_ms = START_UP.as_millis() as u64;
        let live = Workload::Live { gops: settings.seconds.max(3), start_up_ms };
        let mut cell = Run::new(&settings.scenario, &transport, &settings.congestion, &live);
        cell.video = Some(video.clone());
        cell.messages = vec![MessageFlow::imu(), MessageFlow::audio()];
        runs.push(measure(&cell)?);
    }
    let mut run = machine::run_info(&settings.command);
    run.seconds = Some(began.elapsed().as_secs_f64());
    run.seeds = vec![settings.scenario.seed];
    run.congestion.clone_from(&settings.congestion);
    run.audit = Some(audits::of_runs(runs.iter()));
    let scenario = format!("{}: {}", settings.scenario.name, settings.scenario.description);
    run.configuration.insert("scenario".to_owned(), scenario);
    let messages = "imu: 1000 messages of 64 bytes a second; audio: 50 of 320";
    run.configuration.insert("messages".to_owned(), messages.to_owned());
    Ok(ImuOutcome { runs, run })
}

impl ImuOutcome {
    fn rows(&self) -> Vec<Row<'_>> {
        let rows = self.runs.iter().filter_map(|run| {
            let Record::Live(video) = &run.record else { return None };
            Some(Row {
                transport: &run.transport,
                label: run.label.clone(),
                flows: &run.messages,
                played_mbps: video.played_mbps,
                stalls: video.stalls,
            })
        });
        rows.collect()
    }

    /// Latencies of each flow, and results of the video.
    #[must_use]
    pub fn table(&self) -> Table {
        page::table(&self.rows())
    }

    /// The report as one HTML file.
    #[must_use]
    pub fn page(&self) -> String {
        page::render(&self.rows(), &self.run)
    }
}
