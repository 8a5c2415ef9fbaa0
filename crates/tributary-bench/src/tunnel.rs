//! The COTAG tunnel on real sockets: its speed without shaped links, and compared with TCP and kernel MPTCP
//! over emulated ones.
//!
//! All hosts and nodes run on this machine's cores, so the speed without shaped links is that of a sender,
//! four nodes and a receiver together. Peers have the same links in the same run: CUBIC over both (half of
//! the connections on each), and kernel MPTCP from server to device.

mod aims;
mod condition;
mod flows;
mod turn;

use super::{Aim, BenchError, Progress, Tables, median};
use clap::Args;
use condition::CONDITIONS;
use serde::Serialize;
use tributary_cli::quantity;
use tributary_nodes::Mode;
use tributary_report::Table;

/// Rate of the stream's links; the stream has a quarter of both together.
const STREAM_LINK: u64 = 100;

/// The COTAG tunnel: speed and added delay, and beside TCP and kernel MPTCP over emulated links.
#[derive(Clone, Debug, Args)]
pub struct Settings {
    /// Rounds; each contestant runs once per round
    #[arg(long, default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..=100))]
    pub rounds: u32,
    /// Seconds of each transfer
    #[arg(long, default_value_t = 4.0, value_parser = quantity::part_seconds_in(0.5..=600.0))]
    pub seconds: f64,
    /// Rate of each of the two links in Mbit/s
    #[arg(long, default_value_t = 400.0, value_parser = quantity::number_in(1.0..=10_000.0))]
    pub rate: f64,
    /// TCP connections at the same time
    #[arg(long, default_value_t = 10, value_parser = clap::value_parser!(u32).range(2..=200))]
    pub flows: u32,
    /// Base round-trip time of the lossy links in milliseconds
    #[arg(long, default_value_t = 10.0, value_parser = quantity::fine_millis_in(0.0..=1000.0))]
    pub rtt: f64,
    /// Loss on the lossy links, per packet
    #[arg(long, default_value_t = 0.001, value_parser = quantity::number_in(0.0..=0.5))]
    pub loss: f64,
    /// Only this condition: bare (without links), lossy, clean, blocked (links in turn), shared (with a rival), stream
    #[arg(long)]
    pub only: Option<String>,
}

/// One contestant under one condition.
#[derive(Clone, Debug, Default, Serialize)]
pub struct ContestantReport {
    /// `bare`, `lossy`, `clean`, `blocked` (both links in turn for 0.4 s of every second) or `shared` (with a rival).
    pub condition: &'static str,
    /// Name of the contestant.
    pub name: &'static str,
    /// Goodput of each round at the device, Mbit/s.
    pub mbps: Vec<f64>,
    /// For tunnels: share of redundant packets in what the radios sent, in each round.
    pub redundant: Vec<f64>,
    /// Retransmission time-outs of the server's TCP, in each round.
    pub timeouts: Vec<f64>,
    /// Goodput of the rival, one TCP connection over the first link beside the contestant, in each round; Mbit/s.
    pub rival: Vec<f64>,
    /// Processor seconds of all hosts per gigabyte, in each round.
    pub cpu_per_gb: Vec<f64>,
    /// Rounds in which the emulator was not exact; they have no values (NaN).
    pub invalid: u32,
}

/// A steady stream of datagrams through lossy links.
#[derive(Clone, Debug, Default, Serialize)]
pub struct StreamReport {
    /// Name of the contestant.
    pub name: &'static str,
    /// Share that arrived, in each round.
    pub delivered: Vec<f64>,
    /// One-way delay in each round, ms: median.
    pub delay_median: Vec<f64>,
    /// One-way delay in each round, ms: 99th percentile.
    pub delay_p99: Vec<f64>,
    /// Rounds in which the emulator was not exact; they have no values (NaN).
    pub invalid: u32,
}

impl ContestantReport {
    /// Leaves the last round out, because the emulator was not exact.
    fn leave_out(&mut self) {
        self.invalid += 1;
        let each =
            [&mut self.mbps, &mut self.redundant, &mut self.timeouts, &mut self.rival, &mut self.cpu_per_gb];
        for last in each.into_iter().filter_map(|values| values.last_mut()) {
            *last = f64::NAN;
        }
    }
}

#[derive(Clone, Debug, Serialize)]
pub struct Report {
    /// Rate of each link, Mbit/s, connections, base round-trip time in ms, and loss of the lossy condition.
    pub links: (f64, u32, f64, f64),
    /// Congestion control of every socket.
    pub congestion: &'static str,
    /// Every contestant under every condition.
    pub contestants: Vec<ContestantReport>,
    /// The stream at 5 % loss.
    pub streams: Vec<StreamReport>,
    /// The values that have to be reached.
    pub aims: Vec<Aim>,
}

const BARE: [(&str, Mode); 2] = [("tunnel, coding on", Mode::Systematic), ("tunnel, coding off", Mode::Off)];
/// Contestants of the stream, with their redundancy limits.
const STREAMS: [(&str, Mode, f64); 2] =
    [("coding on", Mode::Systematic, 0.3), ("coding off", Mode::Off, 0.0)];
const COTAG: &str = "COTAG";
const NODES: &str = "the same nodes, coding off";
const CUBIC: &str = "CUBIC over both";
const MPTCP: &str = "kernel MPTCP";

pub fn run(settings: &Settings, progress: Progress<'_>) -> Result<Report, BenchError> {
    let wanted = |name: &str| settings.only.as_ref().is_none_or(|only| only == name);
    let names: Vec<&str> =
        CONDITIONS.iter().map(|condition| condition.name).chain(["bare", "stream"]).collect();
    if let Some(only) = settings.only.as_ref().filter(|only| !names.contains(&only.as_str())) {
        let reason = format!("no such condition; known: {}", names.join(", "));
        return Err(BenchError::Program { program: only.clone(), reason });
    }
    let mut contestants = Vec::new();
    let mut streams = Vec::new();
    for round in 1..=settings.rounds {
        for (name, mode) in BARE.into_iter().filter(|_| wanted("bare")) {
            progress(&format!("{name}, without links, round {round} of {}", settings.rounds));
            turn::bare(settings, mode, entry(&mut contestants, "bare", name))?;
        }
        for condition in CONDITIONS.into_iter().filter(|condition| wanted(condition.name)) {
            for name in [COTAG, NODES, CUBIC, MPTCP] {
                progress(&format!("{name}, {} links, round {round} of {}", condition.name, settings.rounds));
                turn::one_contestant(
                    settings,
                    &condition,
                    name,
                    entry(&mut contestants, condition.name, name),
                )?;
            }
        }
        for (name, mode, redundancy) in STREAMS.into_iter().filter(|_| wanted("stream")) {
            progress(&format!("a stream at 5 % loss, {name}, round {round} of {}", settings.rounds));
            turn::one_stream(settings, (name, mode, redundancy), &mut streams)?;
        }
    }
    let aims = aims::aims(&contestants, &streams);
    let links = (settings.rate, settings.flows, settings.rtt, settings.loss);
    Ok(Report { links, congestion: flows::CONGESTION, contestants, streams, aims })
}

fn entry<'a>(
    all: &'a mut Vec<ContestantReport>,
    condition: &'static str,
    name: &'static str,
) -> &'a mut ContestantReport {
    let same = |known: &ContestantReport| known.condition == condition && known.name == name;
    let at = all.iter().position(same).unwrap_or_else(|| {
        all.push(ContestantReport { condition, name, ..ContestantReport::default() });
        all.len() - 1
    });
    &mut all[at]
}

impl Tables for Report {
    fn tables(&self) -> Vec<Table> {
        let (rate, flows, rtt, loss) = self.links;
        let title = format!(
            "{flows} connections, {}; two links of {rate} Mbit/s; lossy: {rtt} ms, loss {} %; blocked: {rtt} ms, each link \
             blocked for 0.4 s of every second; shared: {rtt} ms, one TCP connection beside on the first link; medians",
            self.congestion,
            loss * 100.0
        );
        let known = |each: &[f64]| (!each.is_empty()).then(|| median(each));
        let speeds = Table::of(&title, &self.contestants)
            .text("links", |c| c.condition)
            .text("", |c| c.name)
            .number(("goodput", "Mbit/s"), 0, |c| median(&c.mbps))
            .strong()
            .number(("redundant", "%"), 1, |c| known(&c.redundant).map(|share| share * 100.0))
            .number("time-outs", 0, |c| median(&c.timeouts))
            .number(("rival", "Mbit/s"), 0, |c| known(&c.rival))
            .number(("CPU, all hosts", "s/GB"), 2, |c| median(&c.cpu_per_gb))
            .number("rounds with an invalid audit, left out", 0, |c| f64::from(c.invalid))
            .table();
        let title = format!("A stream of {} Mbit/s, 5 % loss on each link; medians", STREAM_LINK / 2);
        let streams = Table::of(&title, &self.streams)
            .text("", |s| s.name)
            .number(("delivered", "%"), 2, |s| median(&s.delivered) * 100.0)
            .number(("delay, median", "ms"), 1, |s| median(&s.delay_median))
            .number(("p99", "ms"), 1, |s| median(&s.delay_p99))
            .number("rounds with an invalid audit, left out", 0, |s| f64::from(s.invalid))
            .table();
        vec![speeds, streams, aims::table(&self.aims)]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_unknown_condition_lists_the_known_ones() {
        let settings = Settings { only: Some("lozzy".to_owned()), ..crate::defaults() };
        let error = run(&settings, &mut |_| ()).unwrap_err().to_string();
        assert!(error.contains("lossy, clean, blocked, shared, bare, stream"), "{error}");
    }
}
