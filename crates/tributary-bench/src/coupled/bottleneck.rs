//! Shares of one emulated bottleneck on real sockets.
//!
//! All connections cross one emulated link between two TUN devices, each from an address of its own on the client's
//! device. The link's queue is in the emulator, which takes a packet from the device at once. So the kernel does not
//! count packets of that queue as its own, and TCP's limit for a socket's packets in local queues (TCP small queues)
//! does not hold any socket back: only congestion windows decide who has how much of the queue. A `tbf` on the
//! sender's interface is different: its packets count, so that limit decides, and the rate is split by the number of
//! sockets.
//!
//! Segmentation offload is off on the link's devices in MPTCP's runs, the stranger's too. With it a subflow of kernel MPTCP
//! loses a larger share of its packets in the same queue than plain TCP does, and uncoupled MPTCP has less than two
//! connections' rate.
//!
//! Rates are those of acknowledged payload bytes, read for all connections at the same moments.

use super::contender::{Contender, Transport};
use super::share::{Limits, Run, Share};
use super::subflows::{self, Subflow};
use super::{Settings, UNCOUPLED};
use crate::controllers::Controllers;
use crate::end::{Contestant, Until};
use crate::process::Transfer;
use crate::{BenchError, Progress, in_network};
use core::ops::Range;
use core::time::Duration;
use std::ffi::OsStr;
use std::time::Instant;
use tributary_emu::{Network, Side, Verdict};
use tributary_lab::process::output;
use tributary_lab::{World, kernel};
use tributary_link::{LinkSpec, PathSpec, Scenario};
use tributary_report::stats;
use tributary_types::Bitrate;

/// The only path, and its interface.
const LINE: &str = "line";
const MBPS: u64 = 20;
const RTT: Duration = Duration::from_millis(30);
/// One bandwidth-delay product of queue, so that a window that is halved still fills the line.
const QUEUE: Duration = RTT;
/// Index of the stranger's addresses; the contender has those before it.
const STRANGER: usize = 2;
/// Time for all connections to be established.
const START: Duration = Duration::from_secs(20);
/// Time between two checks for them.
const LOOK: Duration = Duration::from_millis(50);
/// Time from then to the first sample: windows find their size.
const SETTLE: Duration = Duration::from_secs(5);
/// Time between two samples.
const EVERY: Duration = Duration::from_secs(1);
/// Each transfer lasts so much longer than the measurement, because one may begin later than the others.
const MARGIN: Duration = Duration::from_secs(4);

/// One transfer of a run: who, over which addresses, under which congestion control.
struct Party {
    contestant: Contestant,
    paths: Range<usize>,
    congestion: String,
}

/// The connections at one moment.
type Sample = (Instant, Vec<Subflow>);

pub(super) fn run(
    settings: &Settings,
    loaded: &Controllers,
    progress: Progress<'_>,
) -> Result<Vec<Share>, BenchError> {
    let contenders = Contender::at_bottleneck(&settings.coupled());
    let mut runs: Vec<Vec<Run>> = vec![Vec::new(); contenders.len()];
    for round in 1..=settings.rounds {
        for (contender, runs) in contenders.iter().zip(&mut runs) {
            progress(&format!("{contender} at a bottleneck: round {round} of {}", settings.rounds));
            let measure = |network: &Network| once(network, *contender, loaded, settings.seconds);
            let (mut run, audit) = in_network(&scenario(settings.seconds), &mut *progress, measure)?;
            if let Verdict::Invalid { reasons } = audit.verdict() {
                run.invalid.extend(reasons);
            }
            runs.push(run);
        }
    }
    let shares = contenders.into_iter().zip(runs);
    Ok(shares.map(|(contender, runs)| Share::new(World::Emu, contender, runs)).collect())
}

/// Length of each transfer.
fn length(seconds: u32) -> Duration {
    SETTLE + Duration::from_secs(seconds.into()) + MARGIN
}

pub(super) fn scenario(seconds: u32) -> Scenario {
    let link = LinkSpec::constant(Bitrate::from_mbps(MBPS));
    Scenario::new("coupled")
        .with_path(PathSpec::symmetric(LINE, link))
        .with_rtt(RTT)
        .with_queue_time(QUEUE)
        .with_duration(START + length(seconds))
}

/// One run in a new network.
fn once(
    network: &Network,
    contender: Contender,
    loaded: &Controllers,
    seconds: u32,
) -> Result<Run, BenchError> {
    give_addresses(network)?;
    if contender.transport == Transport::Mptcp {
        switch_offload_off(network)?;
        let devices = [LINE.to_owned(), LINE.to_owned()];
        kernel::prepare_mptcp(&|side, program| network.command(side, program), &devices)?;
    }
    let control = loaded.in_kernel(contender.control);
    let connections = contender.transport.connections().into_iter();
    let mut parties: Vec<Party> = connections
        .map(|(contestant, paths)| Party { contestant, paths, congestion: control.clone() })
        .collect();
    parties.push(Party {
        contestant: Contestant::of("tcp"),
        paths: STRANGER..STRANGER + 1,
        congestion: UNCOUPLED.to_owned(),
    });
    let measured = std::thread::scope(|scope| {
        let running: Vec<_> = parties
            .iter()
            .map(|party| scope.spawn(move || party.transfer(network, length(seconds))))
            .collect();
        let ended = || running.iter().any(|transfer| transfer.is_finished());
        let samples = watch(network, contender.transport.flows() + 1, seconds, &ended);
        let groups = tributary_bpf::groups();
        // A failed transfer is the reason for a missing connection, so it is reported first.
        for transfer in running {
            transfer.join().unwrap_or_else(|_| Err("it panicked".to_owned())).map_err(failed)?;
        }
        Ok::<_, BenchError>((samples?, groups?))
    });
    let (samples, groups) = measured?;
    if contender.control != UNCOUPLED && groups == 0 {
        return Err(failed(format!(
            "{contender}: the kernel has no group of siblings, so nothing was coupled"
        )));
    }
    read(&samples, &control)
}

/// Gives both ends of the link the addresses of all parties. The first is there already.
fn give_addresses(network: &Network) -> Result<(), BenchError> {
    for path in 1..=STRANGER {
        for side in [Side::Client, Side::Server] {
            ip(network, side, &["address", "add", &format!("{}/24", side.address(path)), "dev", LINE])?;
        }
    }
    Ok(())
}

fn switch_offload_off(network: &Network) -> Result<(), BenchError> {
    for side in [Side::Client, Side::Server] {
        ip(network, side, &["link", "set", "dev", LINE, "gso_max_segs", "1"])?;
    }
    Ok(())
}

fn ip(network: &Network, side: Side, arguments: &[&str]) -> Result<(), BenchError> {
    let mut command = network.command(side, "ip");
    command.args(arguments);
    output(command, "iproute2")?;
    Ok(())
}

impl Party {
    /// Carries out the transfer. Errors are texts, so that they can leave the thread.
    fn transfer(&self, network: &Network, length: Duration) -> Result<(), String> {
        let command = |side: Side, program: &OsStr| network.command(side, program);
        let transfer = Transfer {
            command: &command,
            paths: self.paths.clone(),
            contestant: self.contestant.clone(),
            congestion: &self.congestion,
            until: Until::Seconds(length.as_secs_f64()),
        };
        transfer.run().map(drop).map_err(|error| error.to_string())
    }
}

fn failed(reason: impl ToString) -> BenchError {
    crate::failed("transfers at the bottleneck", reason)
}

/// Samples the connections every second, once all of them are established and have settled.
fn watch(
    network: &Network,
    flows: usize,
    seconds: u32,
    ended: &dyn Fn() -> bool,
) -> Result<Vec<Sample>, BenchError> {
    let began = Instant::now();
    loop {
        let found = subflows::snapshot(network)?.len();
        if found >= flows {
            break;
        }
        if ended() || began.elapsed() > START {
            return Err(failed(format!("only {found} of {flows} connections were established")));
        }
        std::thread::sleep(LOOK);
    }
    std::thread::sleep(SETTLE);
    let begin = Instant::now();
    let mut samples = Vec::new();
    for second in 0..=seconds {
        std::thread::sleep((EVERY * second).saturating_sub(begin.elapsed()));
        samples.push((Instant::now(), subflows::snapshot(network)?));
    }
    Ok(samples)
}

/// What the samples say about the time from the first to the last. A run counts only if its connections lasted that long:
/// a session replaces a subflow that is stuck.
fn read(samples: &[Sample], control: &str) -> Result<Run, BenchError> {
    let [(from, first), .., (to, last)] = samples else { return Err(failed("too few samples")) };
    let seconds = to.duration_since(*from).as_secs_f64();
    let is_stranger = |flow: &Subflow| flow.address() == Some(Side::Client.address(STRANGER));
    let (mut rates, mut stranger_mbps, mut limits) = (Vec::new(), 0.0, Limits::default());
    let (mut busy_ms, mut receiver_ms, mut buffer_ms) = (0.0, 0.0, 0.0);
    let (mut acked, mut again) = (0.0, 0.0);
    for flow in last {
        let wanted = if is_stranger(flow) { UNCOUPLED } else { control };
        if !flow.runs(wanted) {
            return Err(failed(format!("the connection from {} does not run `{wanted}`", flow.local)));
        }
        let Some(before) = first.iter().find(|one| one.local == flow.local) else {
            return Ok(Run::left_out(format!(
                "the connection from {} was replaced by another one",
                flow.local
            )));
        };
        let delivered = flow.acked.saturating_sub(before.acked) as f64;
        let repeated = flow.again.saturating_sub(before.again) as f64;
        let mbps = delivered * 8e-6 / seconds;
        if is_stranger(flow) {
            stranger_mbps = mbps;
            limits.stranger_again = repeated / delivered;
            continue;
        }
        acked += delivered;
        again += repeated;
        rates.push(mbps);
        busy_ms += flow.busy_ms - before.busy_ms;
        receiver_ms += flow.receiver_ms - before.receiver_ms;
        buffer_ms += flow.buffer_ms - before.buffer_ms;
    }
    if last.len() != first.len() || stranger_mbps <= 0.0 {
        return Ok(Run::left_out("a connection ended during the measurement".to_owned()));
    }
    limits.receiver = receiver_ms / busy_ms;
    limits.buffer = buffer_ms / busy_ms;
    limits.again = again / acked;
    let (strangers, ours): (Vec<&Subflow>, Vec<&Subflow>) =
        samples.iter().flat_map(|(_, flows)| flows).partition(|flow| is_stranger(flow));
    let mean = |flows: &[&Subflow], of: fn(&Subflow) -> f64| {
        stats::mean(&flows.iter().map(|flow| of(flow)).collect::<Vec<_>>()).unwrap_or(f64::NAN)
    };
    limits.application = mean(&ours, |flow| f64::from(u8::from(flow.lacks_data())));
    limits.window = mean(&ours, |flow| flow.window);
    limits.stranger_window = mean(&strangers, |flow| flow.window);
    let mbps: f64 = rates.iter().sum();
    let smaller = stats::minimum(&rates).filter(|_| rates.len() > 1).map_or(f64::NAN, |least| least / mbps);
    Ok(Run { mbps, stranger_mbps, smaller, limits: Some(limits), invalid: Vec::new() })
}

#[cfg(test)]
mod tests;
