//! The share of a bottleneck that a contender takes beside a stranger's TCP connection, and what limited its subflows.

use super::contender::Contender;
use crate::Judged;
use crate::{median, middle};
use serde::Serialize;
use tributary_lab::World;
use tributary_report::{Rows, Table};

/// What limited the contender's subflows: evidence for why a ratio is below the number of subflows. A subflow that
/// something else than its congestion window limits takes less than a TCP connection's share, whatever its congestion
/// control.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct Limits {
    /// Share of the busy time in which the receiver's window was the limit.
    pub receiver: f64,
    /// Share of the busy time in which the send buffer was the limit.
    pub buffer: f64,
    /// Share of the samples in which a subflow's window had room and no data was waiting for it. With MPTCP this includes
    /// time in which the receive window of the whole connection was the limit, because it keeps data from the subflows.
    pub application: f64,
    /// Bytes sent again over bytes delivered: how often the windows were cut.
    pub again: f64,
    /// The same of the stranger.
    pub stranger_again: f64,
    /// Mean congestion window of a subflow, in segments.
    pub window: f64,
    /// Mean congestion window of the stranger, in segments.
    pub stranger_window: f64,
}

#[derive(Clone, Debug, PartialEq)]
pub(super) struct Run {
    pub mbps: f64,
    pub stranger_mbps: f64,
    /// Share of the contender's bytes on its smaller subflow; NaN with one connection.
    pub smaller: f64,
    /// Only on real sockets.
    pub limits: Option<Limits>,
    /// Why the run does not count: the emulated network was not what it asked for, or a connection was replaced.
    pub invalid: Vec<String>,
}

impl Run {
    /// A run without values.
    pub(super) fn left_out(reason: String) -> Self {
        let nothing = f64::NAN;
        Self { mbps: nothing, stranger_mbps: nothing, smaller: nothing, limits: None, invalid: vec![reason] }
    }
}

/// One contender over all rounds. Rounds with an invalid network have no values.
#[derive(Clone, Debug, Serialize)]
pub struct Share {
    /// Emulator or simulator.
    pub world: World,
    /// Transport and congestion control.
    pub contender: Contender,
    /// Its rate over the stranger's.
    pub ratio: Judged,
    /// Its rate in each round, in Mbit/s.
    pub mbps: Vec<f64>,
    /// The stranger's rate in each round, in Mbit/s.
    pub stranger_mbps: Vec<f64>,
    /// Share of its bytes on the smaller of two subflows, in each round.
    pub smaller: Vec<f64>,
    /// What limited its subflows in each round; on real sockets.
    pub limits: Vec<Limits>,
    /// Reasons why rounds were left out.
    pub left_out: Vec<String>,
}

impl Share {
    pub(super) fn new(world: World, contender: Contender, runs: Vec<Run>) -> Self {
        let (valid, invalid): (Vec<Run>, Vec<Run>) = runs.into_iter().partition(|run| run.invalid.is_empty());
        let mbps: Vec<f64> = valid.iter().map(|run| run.mbps).collect();
        let stranger_mbps: Vec<f64> = valid.iter().map(|run| run.stranger_mbps).collect();
        Self {
            world,
            contender,
            ratio: Judged::ratio(&mbps, &stranger_mbps, contender.wanted()),
            mbps,
            stranger_mbps,
            smaller: valid.iter().map(|run| run.smaller).collect(),
            limits: valid.iter().filter_map(|run| run.limits).collect(),
            left_out: invalid.into_iter().map(|run| run.invalid.join("; ")).collect(),
        }
    }
}

/// Name of a world for tables.
pub(super) fn world_name(world: World) -> &'static str {
    match world {
        World::Emu => "real",
        World::Sim => "simulated",
    }
}

/// A table of these contenders, with their names.
fn named<'a>(title: &str, shares: impl IntoIterator<Item = &'a Share>) -> Rows<&'a Share> {
    Table::of(title, shares)
        .text("world", |share| world_name(share.world))
        .text("connections", |share| share.contender.transport.label())
        .text("control", |share| share.contender.control)
}

/// Rates and ratios.
pub(super) fn table(shares: &[Share]) -> Table {
    let title = "Two subflows and a stranger's Reno TCP connection at one bottleneck; medians of the rounds";
    named(title, shares)
        .number(("rate", "Mbit/s"), 2, |share| median(&share.mbps))
        .number(("stranger", "Mbit/s"), 2, |share| median(&share.stranger_mbps))
        .number("smaller subflow", 2, |share| median(&share.smaller))
        .judged("rate over stranger's", |share| share.ratio.cells(3))
        .number("rounds left out", 0, |share| share.left_out.len() as f64)
        .table()
}

/// What limited the subflows on real sockets.
pub(super) fn limits(shares: &[Share]) -> Table {
    let title = "What limited the subflows on real sockets, besides their congestion window; medians";
    let middle = |of: fn(&Limits) -> f64| move |share: &Share| middle(&share.limits, of);
    named(title, shares.iter().filter(|share| !share.limits.is_empty()))
        .number(("receiver's window", "% of busy time"), 1, middle(|limits| limits.receiver * 100.0))
        .number(("send buffer", "% of busy time"), 1, middle(|limits| limits.buffer * 100.0))
        .number(("nothing to send", "% of samples"), 1, middle(|limits| limits.application * 100.0))
        .number(("sent again", "%"), 2, middle(|limits| limits.again * 100.0))
        .number(("stranger's", "%"), 2, middle(|limits| limits.stranger_again * 100.0))
        .number(("window", "segments"), 1, middle(|limits| limits.window))
        .number(("stranger's", "segments"), 1, middle(|limits| limits.stranger_window))
        .table()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Verdict;
    use crate::coupled::contender::Transport;

    #[test]
    fn an_invalid_round_counts_for_nothing_but_is_named() {
        let run = |mbps, invalid: &[&str]| Run {
            mbps,
            stranger_mbps: 9.0,
            smaller: 0.5,
            limits: Some(Limits::default()),
            invalid: invalid.iter().map(ToString::to_string).collect(),
        };
        let mut runs: Vec<_> = [9.1, 9.0, 9.2, 9.0, 9.1].map(|mbps| run(mbps, &[])).into();
        runs.insert(1, run(90.0, &["late", "dropped"]));
        let contender = Contender { transport: Transport::Session, control: "lia" };
        let shares = [Share::new(World::Emu, contender, runs)];
        assert_eq!((shares[0].mbps.len(), shares[0].ratio.verdict), (5, Verdict::Holds));
        assert_eq!(shares[0].left_out, ["late; dropped"]);
        assert_eq!((table(&shares).len(), limits(&shares).len()), (1, 1));
    }
}
