//! One end of a benchmark's transfer: a process, so that processor time and memory are its own.
//!
//! It gets its [`EndPlan`] as an argument and answers with JSON lines on standard output. Not here: the
//! endpoints of experiments ([`tributary_lab::endpoint`]), which are paced by workloads.

mod kernel;
mod tls;
mod transport;

use super::cpu_time;
use serde::{Deserialize, Serialize};
use std::io::Write;
use std::net::{Ipv4Addr, SocketAddr};
use std::time::Instant;
use tributary_lab::transport::{SessionSettings, label};
use tributary_net::transport::TransportName;

/// Congestion control of every socket of both ends.
const CONGESTION: &str = "cubic";
/// Bytes of one write, and of one read where the caller brings the buffer.
const PIECE: usize = 1 << 20;
/// Memory is looked at this often in a transfer of known size.
const SAMPLES: u64 = 100;

/// Any failure of an end; it is reported in words.
pub(crate) type Outcome<T> = Result<T, Box<dyn std::error::Error>>;

/// What carries the bytes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Contestant {
    /// A transport of the registry: its name, and how it is set up when it is a session.
    Transport(String, SessionSettings),
    /// One TLS-over-TCP connection of tokio-rustls, with the cipher that sessions prefer: no transport of the
    /// product, a peer of it.
    Rustls,
}

impl Contestant {
    /// A transport of the registry as it usually is.
    #[must_use]
    pub fn of(name: &str) -> Self {
        Self::Transport(name.to_owned(), SessionSettings::default())
    }

    /// A session without TLS.
    #[must_use]
    pub fn plaintext() -> Self {
        Self::Transport("session".to_owned(), SessionSettings { plaintext: true, ..Default::default() })
    }

    /// Name for tables.
    #[must_use]
    pub fn label(&self) -> String {
        match self {
            Self::Rustls => "tokio-rustls on one TCP".to_owned(),
            Self::Transport(_, session) if session.plaintext => "session, plaintext".to_owned(),
            Self::Transport(name, _) if name == "session" => "session, TLS".to_owned(),
            Self::Transport(name, _) => name.parse().map_or_else(|_| name.clone(), |name| label(&name)),
        }
    }

    /// Whether it runs on several paths.
    #[must_use]
    pub fn is_multipath(&self) -> bool {
        match self {
            Self::Transport(name, _) => name.parse::<TransportName>().is_ok_and(|name| name.is_multipath()),
            Self::Rustls => false,
        }
    }

    /// Whether it is the kernel's multipath TCP.
    #[must_use]
    pub fn is_mptcp(&self) -> bool {
        *self == Self::of("mptcp")
    }
}

/// When a source stops.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Until {
    /// After so many seconds.
    Seconds(f64),
    /// After so many bytes.
    Bytes(u64),
    /// Sends nothing, for so many seconds.
    Idle(f64),
}

/// Which end.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum EndRole {
    /// Listens, receives.
    Sink(Vec<Ipv4Addr>),
    /// Connects from each address to each server, sends.
    Source(Vec<(Ipv4Addr, SocketAddr)>),
}

/// What one end does.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct EndPlan {
    /// What carries the bytes.
    pub contestant: Contestant,
    /// When the source stops; the sink must know it for its memory samples and for idling.
    pub until: Until,
    /// Which end.
    pub role: EndRole,
}

/// What an end says.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) enum EndReply {
    Ready(Vec<SocketAddr>),
    Done(EndResult),
    Failed(String),
}

/// What one end measured.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct EndResult {
    /// Payload bytes sent or received.
    pub bytes: u64,
    /// Between the first and the last of them; the time measured when idling.
    pub seconds: f64,
    /// Processor seconds in that time.
    pub cpu_seconds: f64,
    /// Paths in use; of kernel MPTCP at its source.
    pub subflows: usize,
    /// Resident memory before the connection, kB.
    pub rss_before_kb: u64,
    /// Most resident memory ever, kB.
    pub rss_peak_kb: u64,
    /// Memory on the way, of sessions in a transfer of known size.
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

/// Runs one end; `plan` is an [`EndPlan`] in JSON. Failures are reported to whoever started it.
#[must_use]
pub fn run(plan: &str) -> bool {
    let result = serde_json::from_str(plan).map_err(Into::into).and_then(carry_out);
    let done = result.is_ok();
    reply(&match result {
        Ok(result) => EndReply::Done(EndResult { rss_peak_kb: memory_kb("VmHWM:"), ..result }),
        Err(error) => EndReply::Failed(error.to_string()),
    });
    done
}

fn carry_out(plan: EndPlan) -> Outcome<EndResult> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let rss_before_kb = memory_kb("VmRSS:");
    let result = match &plan.contestant {
        Contestant::Rustls => runtime.block_on(tls::run(&plan)),
        Contestant::Transport(name, session) => match name.parse::<TransportName>()? {
            TransportName::Tcp(_) => kernel::run(&plan, false),
            TransportName::Mptcp { .. } => kernel::run(&plan, true),
            name => runtime.block_on(transport::run(&plan, &name, session, reply)),
        },
    };
    Ok(EndResult { rss_before_kb, ..result? })
}

fn reply(reply: &EndReply) {
    let line = serde_json::to_string(reply).expect("replies have string keys only");
    let mut out = std::io::stdout().lock();
    // Whoever started this end may be gone; then nobody needs the answer.
    let _ = writeln!(out, "{line}").and_then(|()| out.flush());
}

/// A line of `/proc/self/status` in kB.
fn memory_kb(name: &str) -> u64 {
    let text = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = text.lines().find_map(|line| line.strip_prefix(name));
    line.and_then(|rest| rest.split_whitespace().next()?.parse().ok()).unwrap_or(0)
}

/// Counts payload from its first piece on.
struct Meter {
    until: Until,
    began: Option<(Instant, core::time::Duration)>,
    result: EndResult,
}

impl Meter {
    fn new(until: Until) -> Self {
        Self { until, began: None, result: EndResult::default() }
    }

    /// Starts the clocks, once.
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

    /// Looks at the memory now and then; `held` is asked only when it does.
    fn sample(&mut self, held: impl FnOnce() -> u64) {
        let Until::Bytes(all) = self.until else { return };
        let due = (self.result.samples.len() as u64 + 1) * (all / SAMPLES).max(1);
        if self.result.bytes >= due {
            let (bytes, rss_kb) = (self.result.bytes, memory_kb("VmRSS:"));
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

    #[test]
    fn a_broken_plan_is_an_answer_and_no_panic() {
        assert!(!run("{"));
        assert!(memory_kb("VmRSS:") > 0);
    }
}
