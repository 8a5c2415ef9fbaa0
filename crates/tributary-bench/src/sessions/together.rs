//! Clients with a key of their own each, which all download at once over two paths: whether each gets the same, what a scrape of the
//! server's metrics costs with all of them, and whether its memory grows when they come and go.

use super::target::SOURCE;
use super::{Settings, gone, mib};
use crate::daemon::Program;
use crate::{Aim, BenchError, Expectation, Judged, Progress, bounds, failed, median};
use bytes::Bytes;
use core::time::Duration;
use serde::Serialize;
use std::net::{SocketAddr, TcpListener};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;
use tempfile::TempDir;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::task::JoinSet;
use tributary_lab::process::write_secret;
use tributary_net::{Common, ConnectConfig, Keys, PathState, PrivateKey, PublicKey, Session, connect};
use tributary_report::{Table, stats};

/// Jain's index of the clients' bytes in a round.
const EVEN: Expectation = Expectation::AtLeast(0.95);
/// A scrape with all clients connected, milliseconds.
const SCRAPE: Expectation = Expectation::AtMost(50.0);
/// The server's memory: growth from round to round once half of the rounds are over, MiB; a thousand clients come and go in each.
const GROWTH: Expectation = Expectation::AtMost(8.0);
/// Local ends of every client's paths.
const PATHS: [&str; 2] = ["127.0.0.2", "127.0.0.3"];
/// Time for a client to connect while the others do, and for all paths to come up.
const CONNECT: Duration = Duration::from_secs(60);
/// Clients that connect at once.
const AT_ONCE: usize = 32;
/// Downloads run this long before they count, and then this long.
const TIMES: [Duration; 2] = [Duration::from_secs(2), Duration::from_secs(10)];
/// Scrapes in each round before the downloads begin.
const SCRAPES: usize = 5;

/// Results, one of each in every round.
#[derive(Clone, Debug, Serialize)]
pub struct Together {
    /// Clients.
    pub clients: usize,
    /// Goodput of all together, Mbit/s.
    pub mbps: Vec<f64>,
    /// Jain's index of their goodputs.
    pub fairness: Vec<f64>,
    /// Median time of a scrape while all are connected and nothing is transferred, milliseconds.
    pub scrape_ms: Vec<f64>,
    /// Time of a scrape while all download, milliseconds. Not judged: it waits for the processor as they do.
    pub busy_scrape_ms: Vec<f64>,
    /// Anonymous memory of the server at the end of the downloads, MiB.
    pub memory_mib: Vec<f64>,
    aims: Vec<Aim>,
}

/// The server and its clients' keys.
struct Rig {
    server: Program,
    public: PublicKey,
    metrics: SocketAddr,
    keys: Vec<PrivateKey>,
    _directory: TempDir,
}

pub(super) async fn measure(
    settings: &Settings,
    target: &str,
    progress: Progress<'_>,
) -> Result<Together, BenchError> {
    let rig = Rig::new(settings, target)?;
    let mut all = Together {
        clients: rig.keys.len(),
        mbps: Vec::new(),
        fairness: Vec::new(),
        scrape_ms: Vec::new(),
        busy_scrape_ms: Vec::new(),
        memory_mib: Vec::new(),
        aims: Vec::new(),
    };
    for round in 1..=settings.rounds {
        progress(&format!("round {round} of {}: {} clients with own keys", settings.rounds, all.clients));
        rig.round(&mut all).await?;
    }
    let (growth, interval) =
        stats::settled_growth(&all.memory_mib).map_or((f64::NAN, None), |(each, of)| (each, Some(of)));
    let aim = |what: &str, value| Aim { what: what.to_owned(), value };
    all.aims = vec![
        aim("Jain's index of the clients' bytes", Judged::median(&all.fairness, EVEN)),
        aim("a scrape with all connected, ms", Judged::median(&all.scrape_ms, SCRAPE)),
        aim(
            "the server's memory, growth in each round of the second half, MiB",
            Judged::new(growth, interval, GROWTH),
        ),
    ];
    Ok(all)
}

/// A file that only its owner reads.
fn write(file: &Path, text: &str) -> Result<String, BenchError> {
    write_secret(file, text).map_err(|error| failed("a key file", error))?;
    Ok(file.to_string_lossy().into_owned())
}

impl Rig {
    fn new(settings: &Settings, target: &str) -> Result<Self, BenchError> {
        let directory = TempDir::new().map_err(|error| failed("temporary directory", error))?;
        let make = || PrivateKey::generate().map_err(|error| failed("a key", error));
        let own = make()?;
        let keys: Vec<PrivateKey> = (0..settings.clients).map(|_| make()).collect::<Result<_, _>>()?;
        let entry = |(number, key): (usize, &PrivateKey)| {
            format!("[[client]]\nname = \"client-{number}\"\nkey = \"{}\"\n", key.public())
        };
        let key = write(&directory.path().join("server"), &own.to_line())?;
        let list: String = keys.iter().enumerate().map(entry).collect();
        let list = write(&directory.path().join("clients.toml"), &list)?;
        let free = TcpListener::bind("127.0.0.1:0").and_then(|free| free.local_addr());
        let metrics = free.map_err(|error| failed("an address for metrics", error))?;
        let (at, memory) = (metrics.to_string(), format!("{}MiB", settings.memory.limits().memory >> 20));
        let listen = ["serve", "--listen", "127.0.0.1:0", "--forward", target];
        let more = ["--key", &key, "--clients", &list, "--metrics", &at, "--memory", &memory];
        let server = Program::here(&[&listen[..], &more].concat(), directory.path())?;
        Ok(Self { server, public: own.public(), metrics, keys, _directory: directory })
    }

    async fn round(&self, all: &mut Together) -> Result<(), BenchError> {
        let sessions = self.connect().await?;
        let mut scrapes = Vec::new();
        for _ in 0..SCRAPES {
            scrapes.push(self.scrape().await?);
        }
        all.scrape_ms.push(median(&scrapes));
        let counts: Vec<Arc<AtomicU64>> = sessions.iter().map(|_| Arc::default()).collect();
        let mut downloads = JoinSet::new();
        for (session, count) in sessions.iter().zip(&counts) {
            downloads.spawn(download(session.clone(), count.clone()));
        }
        let count = || counts.iter().map(|count| count.load(Ordering::Relaxed) as f64).collect::<Vec<_>>();
        tokio::time::sleep(TIMES[0]).await;
        let (before, began) = (count(), Instant::now());
        all.busy_scrape_ms.push(self.scrape().await?);
        tokio::time::sleep(TIMES[1].saturating_sub(began.elapsed())).await;
        let (after, seconds) = (count(), began.elapsed().as_secs_f64());
        all.memory_mib.push(mib(self.server.memory_kb()? << 10));
        if let Some(ended) = downloads.try_join_next() {
            return Err(failed("a client", format!("its download ended: {ended:?}")));
        }
        let bytes: Vec<f64> = after.iter().zip(before).map(|(after, before)| after - before).collect();
        all.mbps.push(bytes.iter().sum::<f64>() * 8e-6 / seconds);
        all.fairness.extend(stats::fairness(&bytes));
        downloads.shutdown().await;
        sessions.iter().for_each(|session| session.abort(0, "the round is over"));
        gone(&self.server, 0).await
    }

    /// All clients, with both paths up.
    async fn connect(&self) -> Result<Vec<Session>, BenchError> {
        let lost = |error: &dyn std::fmt::Display| failed("a client", error);
        let mut sessions = Vec::new();
        for group in self.keys.chunks(AT_ONCE) {
            let mut connecting = JoinSet::new();
            for own in group {
                let mut common = Common::new(Keys::Client { own: own.clone(), server: self.public });
                // So that the windows of all fit into the memory.
                common.session.receive_credit = 1 << 20;
                let paths = PATHS.map(|local| format!("{local}={}", self.server.listening()[0]).parse());
                let paths = paths.into_iter().collect::<Result<_, _>>().map_err(|error| lost(&error))?;
                connecting.spawn(connect(ConnectConfig { paths, common, timeout: CONNECT }));
            }
            for session in connecting.join_all().await {
                sessions.push(session.map_err(|error| lost(&error))?);
            }
        }
        let began = Instant::now();
        let is_up = |session: &Session| {
            session.stats().paths.iter().filter(|path| path.state == PathState::Up).count() == PATHS.len()
        };
        while !sessions.iter().all(is_up) {
            if began.elapsed() > CONNECT {
                return Err(lost(&"one of its paths does not come up"));
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
        Ok(sessions)
    }

    /// The time of a scrape, milliseconds.
    async fn scrape(&self) -> Result<f64, BenchError> {
        let began = Instant::now();
        let get = async {
            let mut tcp = TcpStream::connect(self.metrics).await?;
            let head =
                format!("GET /metrics HTTP/1.1\r\nHost: {}\r\nConnection: close\r\n\r\n", self.metrics);
            tcp.write_all(head.as_bytes()).await?;
            let mut text = String::new();
            tcp.read_to_string(&mut text).await?;
            std::io::Result::Ok(text)
        };
        let text = get.await.map_err(|error| failed("a scrape", error))?;
        let took = began.elapsed().as_secs_f64() * 1e3;
        let clients = text.lines().filter(|line| line.starts_with("tributary_client_sessions{")).count();
        match clients == self.keys.len() {
            true => Ok(took),
            false => Err(failed("a scrape", format!("it has {clients} clients"))),
        }
    }
}

/// Reads as fast as it comes. Returns why it ended.
async fn download(session: Session, count: Arc<AtomicU64>) -> String {
    let run = async {
        let mut stream = session.open_stream(0).await.map_err(|error| error.to_string())?;
        let head = Bytes::from_static(&[0, SOURCE]);
        stream.write_chunk(head).await.map_err(|error| error.to_string())?;
        while let Some(chunk) = stream.read_chunk().await.map_err(|error| error.to_string())? {
            count.fetch_add(chunk.len() as u64, Ordering::Relaxed);
        }
        Err::<(), _>("the target ended".to_owned())
    };
    run.await.err().unwrap_or_default()
}

impl Together {
    pub(super) fn tables(&self) -> Vec<Table> {
        let title = format!("{} clients with own keys, two paths each, all download", self.clients);
        let rounds = Table::of(&title, 0..self.mbps.len())
            .number(("all together", "Mbit/s"), 0, |round| self.mbps[round])
            .number("Jain's index", 3, |round| self.fairness[round])
            .number(("scrape", "ms"), 1, |round| self.scrape_ms[round])
            .number(("while they download", "ms"), 1, |round| self.busy_scrape_ms[round])
            .number(("server", "MiB"), 1, |round| self.memory_mib[round])
            .table();
        let rows = self.aims.iter().map(|aim| (aim.what.as_str(), &aim.value, 3));
        vec![rounds, bounds("Their bounds; medians of the rounds", ["what", "here"], rows)]
    }
}
