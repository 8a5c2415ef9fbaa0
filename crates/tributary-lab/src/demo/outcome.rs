//! The measurements of a demo, and the sentences and tables made from them.

use crate::result::{Goodput, RunResult};
use crate::workload::Record;
use serde::Serialize;
use tributary_link::Scenario;
use tributary_report::{Column, RunInfo, Table, TableCell, stats};
use tributary_stream::LiveRecord;

/// Both measurements of one transport.
#[derive(Clone, Debug, Serialize)]
pub struct Transport {
    /// Display name.
    pub label: String,
    /// Bulk.
    pub bulk: RunResult,
    /// Live video.
    pub live: RunResult,
}

/// Everything a demo measured.
#[derive(Clone, Debug, Serialize)]
pub struct Outcome {
    /// The main result of the product and of kernel MPTCP.
    pub headline: String,
    /// The transports, the product last.
    pub transports: Vec<Transport>,
    /// How it was made.
    pub run: RunInfo,
    /// The network.
    #[serde(skip)]
    pub scenario: Scenario,
}

impl Transport {
    /// The live record; empty if there is none.
    #[must_use]
    pub fn record(&self) -> LiveRecord {
        match &self.live.record {
            Record::Live(record) => record.clone(),
            Record::Bulk(_) | Record::Object(_) => LiveRecord::default(),
        }
    }

    /// Longest silence of the bulk transfer in milliseconds.
    #[must_use]
    pub fn silence(&self) -> f64 {
        self.bulk.longest_silence_ms.unwrap_or(f64::NAN)
    }

    /// Worst whole second of the bulk transfer in Mbit/s.
    #[must_use]
    pub fn worst(&self) -> f64 {
        self.bulk.goodput.as_ref().map_or(f64::NAN, |g| g.worst_second_mbps)
    }
}

impl Outcome {
    pub(super) fn new(scenario: Scenario, transports: Vec<Transport>, run: RunInfo) -> Self {
        let mut outcome = Self { headline: String::new(), transports, run, scenario };
        outcome.headline = outcome.sentence();
        outcome
    }

    /// The transport with this short name.
    #[must_use]
    pub fn transport(&self, name: &str) -> Option<&Transport> {
        self.transports.iter().find(|transport| transport.bulk.transport == name)
    }

    /// The product and kernel MPTCP.
    #[must_use]
    pub fn rivals(&self) -> Option<(&Transport, &Transport)> {
        self.transport("fbdt").zip(self.transport("mptcp"))
    }

    fn sentence(&self) -> String {
        let Some((ours, theirs)) = self.rivals() else { return String::new() };
        let words = |name: &str, transport: &Transport| {
            let live = transport.record();
            format!(
                "{name}: {:.0} Mbit/s, {:.0} in the worst second, {} of {} seconds of live video in time.",
                transport.bulk.mean(),
                transport.worst(),
                live.in_time,
                live.gops.len(),
            )
        };
        format!("{} {}", words("Tributary", ours), words("Kernel MPTCP", theirs))
    }

    /// Sum of the single radios' mean goodputs in Mbit/s.
    #[must_use]
    pub fn sum_of_radios(&self) -> f64 {
        let radios = self.scenario.paths.iter().filter_map(|path| self.transport(&path.name));
        radios.map(|transport| transport.bulk.mean()).sum()
    }

    /// The table of the demo.
    #[must_use]
    pub fn table(&self) -> Table {
        let sum = self.sum_of_radios();
        let rows: Vec<(&Transport, Goodput)> =
            self.transports.iter().map(|of| (of, of.bulk.goodput.clone().unwrap_or_default())).collect();
        Table::of("", &rows)
            .text("transport", |(transport, _)| &transport.label)
            .number(("mean", "Mbit/s"), 1, |(_, goodput)| goodput.mean_mbps)
            .strong()
            .number(("p10", "Mbit/s"), 1, |(_, goodput)| goodput.p10_mbps)
            .number(("worst s", "Mbit/s"), 1, |(_, goodput)| goodput.worst_second_mbps)
            .number(("of the sum", "%"), 0, |(_, goodput)| goodput.mean_mbps / sum.max(1e-9) * 100.0)
            .number(("of capacity", "%"), 0, |(_, goodput)| goodput.share_of_capacity * 100.0)
            .number(("longest silence", "ms"), 0, |(transport, _)| transport.silence())
            .columns([Column::right("GoPs in time"), Column::right("stalls")], |(transport, _)| {
                let live = transport.record();
                let stalls = TableCell::number(f64::from(live.stalls), 0);
                let stalls = if live.stalls == 0 { stalls.good() } else { stalls.bad() };
                [TableCell::text(&format!("{}/{}", live.in_time, live.gops.len())), stalls]
            })
            .number(("played", "Mbit/s"), 1, |(transport, _)| transport.record().played_mbps)
            .number(("CPU", "s/GB"), 1, |(transport, _)| transport.bulk.cpu.seconds_per_gb)
            .highlighted(|(transport, _)| transport.bulk.transport == "fbdt")
            .table()
    }

    /// Bitrate that arrived in time in each second of the live stream, Mbit/s; zero if it was late.
    #[must_use]
    pub fn quality(transport: &Transport) -> Vec<f64> {
        let of =
            |gop: &tributary_stream::GopRecord| if gop.in_time { gop.rate_bps as f64 / 1e6 } else { 0.0 };
        transport.record().gops.iter().map(of).collect()
    }

    /// The live second in which the viewer of kernel MPTCP got the lowest bitrate.
    #[must_use]
    pub fn worst_gop(&self) -> usize {
        let Some((_, theirs)) = self.rivals() else { return 0 };
        let quality = Self::quality(theirs);
        let least = stats::minimum(quality.get(1..).unwrap_or_default()).unwrap_or(0.0);
        // Every transport shows the first GoP in the lowest quality, because the player begins there.
        quality.iter().skip(1).position(|q| *q <= least).map_or(0, |index| index + 1)
    }
}
