//! Starts the two ends of a transfer and collects what they measured; never waits without limit.

use super::end::{Contestant, EndReply, EndResult, EndRole, EndTask, Until};
use super::{BenchError, Progress};
use core::ops::Range;
use core::time::Duration;
use std::ffi::OsStr;
use tributary_emu::{Side, VethNetwork};
use tributary_lab::kernel::{self, InNamespace};
use tributary_lab::process::{Process, ProcessError, own_program};

/// Time for an end to start.
const START: Duration = Duration::from_secs(15);
/// Time beyond the transfer's own. A transfer of known size may take a second for 20 MB.
const GRACE: Duration = Duration::from_secs(20);

/// One transfer between two namespaces.
pub(super) struct Transfer<'a> {
    /// Makes a command of one side.
    pub command: InNamespace<'a>,
    /// Indices of the addresses of the paths between them. A contestant that has only one path uses the first.
    pub paths: Range<usize>,
    pub contestant: Contestant,
    /// Congestion control of every socket of both ends.
    pub congestion: &'a str,
    pub until: Until,
}

impl Transfer<'_> {
    /// Carries it out; the client is the source. Returns what source and sink measured.
    pub(super) fn run(&self) -> Result<(EndResult, EndResult), BenchError> {
        let used = if self.contestant.is_multipath() { self.paths.len() } else { 1 };
        let used = self.paths.clone().take(used);
        let servers = used.clone().map(|path| Side::Server.address(path)).collect();
        let sink = self.start(Side::Server, EndRole::Sink(servers))?;
        let listening = match sink.reply(START)? {
            EndReply::Ready(addresses) => addresses,
            other => return Err(unexpected(&sink, &other).into()),
        };
        let paths = used.zip(listening).map(|(path, server)| (Side::Client.address(path), server));
        let source = self.start(Side::Client, EndRole::Source(paths.collect()))?;
        let within = GRACE + self.longest();
        Ok((result(&source, within)?, result(&sink, within)?))
    }

    fn longest(&self) -> Duration {
        match self.until {
            Until::Seconds(seconds) | Until::Idle(seconds) => Duration::from_secs_f64(seconds),
            Until::Bytes(bytes) => Duration::from_secs(bytes / 20_000_000),
        }
    }

    fn start(&self, side: Side, role: EndRole) -> Result<Process, ProcessError> {
        let (contestant, congestion) = (self.contestant.clone(), self.congestion.to_owned());
        let task = EndTask { contestant, congestion, until: self.until, role };
        let command = (self.command)(side, own_program()?.as_os_str());
        let end = if side == Side::Server { "sink" } else { "source" };
        Process::endpoint(format!("{end} of {}", self.contestant.label()), command, "end", &task)
    }
}

fn result(end: &Process, within: Duration) -> Result<EndResult, ProcessError> {
    match end.reply(within)? {
        EndReply::Done(result) => Ok(result),
        other => Err(unexpected(end, &other)),
    }
}

fn unexpected(end: &Process, reply: &EndReply) -> ProcessError {
    end.failed(format!("answered out of turn: {reply:?}"))
}

/// Paths between the namespaces of [`over_veth`].
pub(super) const PATHS: usize = 2;
/// A stalled transfer of kernel MPTCP is repeated at most this many times.
const STALLS: u32 = 3;

/// One transfer between new namespaces, joined by pairs of veth interfaces, which have no queue that fills.
pub(super) fn over_veth(
    contestant: &Contestant,
    congestion: &str,
    until: Until,
) -> Result<(EndResult, EndResult), BenchError> {
    let network = VethNetwork::create(PATHS)?;
    if contestant.is_mptcp() {
        let devices: Vec<String> = (0..PATHS).map(VethNetwork::interface).collect();
        kernel::prepare_mptcp(&|side, program| network.command(side, program), &devices)?;
    }
    let command = |side: Side, program: &OsStr| network.command(side, program);
    let contestant = contestant.clone();
    Transfer { command: &command, paths: 0..PATHS, contestant, congestion, until }.run()
}

/// As [`over_veth`], and once more if it stalled until its time was over. This happens occasionally to writers of kernel
/// MPTCP, with every congestion control; with every other contestant it is an error at once.
pub(super) fn over_veth_unless_stalled(
    (contestant, congestion): (&Contestant, &str),
    seconds: f64,
    stalls: &mut u32,
    progress: Progress<'_>,
) -> Result<(EndResult, EndResult), BenchError> {
    loop {
        match over_veth(contestant, congestion, Until::Seconds(seconds)) {
            Err(error) if contestant.is_mptcp() && *stalls < STALLS => {
                *stalls += 1;
                progress(&format!("{error}: once more"));
            }
            outcome => return outcome,
        }
    }
}
