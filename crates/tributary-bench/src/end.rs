//! One end of a benchmark's transfer, in a separate process so that processor time and memory can be measured for
//! each end.
//!
//! It gets an [`EndTask`] and replies with `EndReply`. Not here: the endpoints of
//! experiments ([`tributary_lab::endpoint`]), which follow workloads.

mod datagrams;
mod kernel;
mod tls;
mod transport;

use super::cpu_time;
use super::procfs::status_kb;
use serde::{Deserialize, Serialize};
use std::net::{Ipv4Addr, SocketAddr};
use std::time::Instant;
use tributary_lab::process::{self, reply};
use tributary_lab::transport::{SessionSettings, label};
use tributary_net::transport::TransportName;

pub(crate) use datagrams::LENGTH as DATAGRAM;

/// Congestion control of both ends in benchmarks that do not compare congestion controls.
pub(crate) const CONGESTION: &str = "cubic";
/// Bytes of one write, and of one read if the caller provides the buffer.
const PIECE: usize = 1 << 20;
/// Number of memory samples in a transfer of known size.
const SAMPLES: u64 = 100;

/// The result of an end's work. Every error is reported as text.
pub(crate) type Outcome<T> = Result<T, Box<dyn std::error::Error>>;

/// The transport or program under test.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Contestant {
    /// A transport of the registry: its name, and its settings if it is a session.
    Transport(String, SessionSettings),
    /// One TLS-over-TCP connection of tokio-rustls, with the cipher that sessions prefer. It is a peer for
    /// comparison and not a transport of the product.
    Rustls,
    /// UDP datagrams of an application.
    Datagrams {
        /// From the end that listens to the one that connects, instead of the other way.
        back: bool,
    },
}

impl Contestant {
    /// A transport of the registry with its usual settings.
    pub fn of(name: &str) -> Self {
        Self::Transport(name.to_owned(), SessionSettings::default())
    }

    /// A session without TLS.
    pub fn plaintext() -> Self {
        Self::Transport("session".to_owned(), SessionSettings { plaintext: true, ..Default::default() })
    }

    /// Name for tables.
    pub fn label(&self) -> String {
        match self {
            Self::Rustls => "tokio-rustls on one TCP".to_owned(),
            Self::Datagrams { .. } => "UDP".to_owned(),
            Self::Transport(_, session) if session.plaintext => "session, plaintext".to_owned(),
            Self::Transport(name, _) if name == "session" => "session, TLS".to_owned(),
            Self::Transport(name, _) => name.parse().map_or_else(|_| name.clone(), |name| label(&name)),
        }
    }

    /// Whether it uses several paths.
    pub fn is_multipath(&self) -> bool {
        match self {
            Self::Transport(name, _) => name.parse::<TransportName>().is_ok_and(|name| name.is_multipath()),
            Self::Rustls | Self::Datagrams { .. } => false,
        }
    }

    /// Whether it is the kernel's multipath TCP.
    pub fn is_mptcp(&self) -> bool {
        *self == Self::of("mptcp")
    }
}

/// When a source stops.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Until {
    /// After this many seconds.
    Seconds(f64),
    /// After this many bytes.
    Bytes(u64),
    /// The source sends nothing for this many seconds.
    Idle(f64),
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum EndRole {
    /// Listens on these addresses and receives.
    Sink(Vec<Ipv4Addr>),
    /// Connects from each address to each server and sends.
    Source(Vec<(Ipv4Addr, SocketAddr)>),
}

/// The work of one end.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct EndTask {
    /// The transport or program under test.
    pub contestant: Contestant,
    /// Congestion control of every socket.
    pub congestion: String,
    /// When the source stops. The sink needs it, too: for its memory samples, and to measure an idle connection.
    pub until: Until,
    pub role: EndRole,
}

/// An answer of an end.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) enum EndReply {
    Ready(Vec<SocketAddr>),
    Done(EndResult),
}

/// What one end measured.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct EndResult {
    /// Payload bytes sent or received.
    pub bytes: u64,
    /// Time between the first and the last of them; the measured time if the connection is idle.
    pub seconds: f64,
    /// Processor seconds in that time.
    pub cpu_seconds: f64,
    /// Number of paths in use. With kernel MPTCP only the source reports it.
    pub subflows: usize,
    /// Resident memory before the connection, kB.
    pub rss_before_kb: u64,
    /// Peak resident memory, kB.
    pub rss_peak_kb: u64,
    /// Memory during a transfer of known size.
    pub samples: Vec<MemorySample>,
}

/// Memory of one end at one moment.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct MemorySample {
    /// Payload bytes so far.
    pub bytes: u64,
    /// Resident memory, kB.
    pub rss_kb: u64,
    /// Payload bytes the session holds: written and not acknowledged, or received and not read.
    pub held: u64,
}

/// Runs one end, as an endpoint process. Returns whether it succeeded; a failure was reported.
pub(crate) fn run() -> bool {
    process::carry_out(|task: EndTask| -> Outcome<()> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        let rss_before_kb = status_kb("self", "VmRSS:")?;
        let result = match &task.contestant {
            Contestant::Rustls => runtime.block_on(tls::run(&task)),
            Contestant::Datagrams { back } => datagrams::run(&task, *back),
            Contestant::Transport(name, session) => match name.parse::<TransportName>()? {
                TransportName::Tcp(_) => kernel::run(&task, false),
                TransportName::Mptcp { .. } => kernel::run(&task, true),
                name => runtime.block_on(transport::run(&task, &name, session, reply::<EndReply>)),
            },
        };
        let rss_peak_kb = status_kb("self", "VmHWM:")?;
        reply(&EndReply::Done(EndResult { rss_before_kb, rss_peak_kb, ..result? }));
        Ok(())
    })
}

/// Counts payload and measures time, beginning with the first bytes.
struct Meter {
    until: Until,
    began: Option<(Instant, core::time::Duration)>,
    result: EndResult,
}

impl Meter {
    fn new(until: Until) -> Self {
        Self { until, began: None, result: EndResult::default() }
    }

    /// Starts the clocks at the first call.
    fn begin(&mut self) {
        self.began.get_or_insert_with(|| (Instant::now(), cpu_time()));
    }

    fn add(&mut self, bytes: usize) {
        self.begin();
        self.result.bytes += bytes as u64;
    }

    /// Whether a source has sent enough.
    fn is_over(&self) -> bool {
        match (self.until, self.began) {
            (Until::Seconds(seconds), Some((at, _))) => at.elapsed().as_secs_f64() >= seconds,
            (Until::Bytes(bytes), _) => self.result.bytes >= bytes,
            _ => false,
        }
    }

    /// Samples the memory when a sample is due. `held` is called only then.
    fn sample(&mut self, held: impl FnOnce() -> u64) {
        let Until::Bytes(all) = self.until else { return };
        let due = (self.result.samples.len() as u64 + 1) * (all / SAMPLES).max(1);
        if self.result.bytes >= due {
            let (bytes, rss_kb) = (self.result.bytes, status_kb("self", "VmRSS:").unwrap_or(0));
            self.result.samples.push(MemorySample { bytes, rss_kb, held: held() });
        }
    }

    fn finish(mut self, subflows: usize) -> EndResult {
        if let Some((at, cpu)) = self.began {
            self.result.seconds = at.elapsed().as_secs_f64();
            self.result.cpu_seconds = cpu_time().saturating_sub(cpu).as_secs_f64();
        }
        self.result.subflows = subflows;
        self.result
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_meter_stops_at_its_bytes_and_samples_evenly() {
        let mut meter = Meter::new(Until::Bytes(1000));
        let mut asked = 0;
        while !meter.is_over() {
            meter.add(5);
            meter.sample(|| {
                asked += 1;
                7
            });
        }
        let result = meter.finish(2);
        assert_eq!((result.bytes, result.subflows, asked), (1000, 2, 100));
        assert_eq!((result.samples.len(), result.samples[99].bytes, result.samples[0].held), (100, 1000, 7));
    }
}
