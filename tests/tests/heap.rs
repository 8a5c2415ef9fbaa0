//! Both ends of a proxy keep no memory for connections that have ended, in order or by a reset of either side.
//!
//! Counts the allocations of one thread, on which both ends, the target and the applications run; so this is the only
//! test of its process. Memory that an allocator holds between allocations is not counted.

use std::net::SocketAddr;
use std::ops::Range;
use std::time::Duration;

use allocation_counter::measure;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::runtime::Handle;
use tokio::task::JoinSet;
use tributary_net::proxy::{ForwardConfig, Forwarder, ServeConfig, Server, Watch};
use tributary_net::{Common, ConnectConfig, Key, ListenConfig, PathConfig};
use tributary_testing::{becomes, in_time};

/// Connections before the counted ones; after them, buffers that are kept for reuse exist.
const WARM_UP: u32 = 300;
/// Connections of each counted part; so many that a queue that grows once, by up to 16 kB, is less than [`SLACK`] for each.
const PART: u32 = 1000;
const PARTS: u32 = 5;
/// Concurrent connections.
const TOGETHER: usize = 8;
/// Bytes for each connection that do not count as kept, for records whose number varies.
const SLACK: i64 = 32;

/// How a connection ends.
#[derive(Clone, Copy, PartialEq, Eq)]
enum End {
    Orderly,
    ApplicationResets,
    TargetResets,
    ApplicationLeavesUnread,
}

/// Connection number `n`: how it ends, and its number of bytes in each direction.
fn plan(n: u32) -> (End, usize) {
    use End::{ApplicationLeavesUnread, ApplicationResets, Orderly, TargetResets};
    let end = [Orderly, ApplicationResets, TargetResets, ApplicationLeavesUnread][n as usize % 4];
    (end, 1 + n as usize * 7919 % 60_000)
}

fn reset(tcp: TcpStream) {
    socket2::SockRef::from(&tcp).set_linger(Some(Duration::ZERO)).unwrap();
}

/// Sends received bytes back. Resets a connection whose head requests it when half of it has arrived.
async fn serve(mut tcp: TcpStream) -> std::io::Result<()> {
    let (resets, length) = (tcp.read_u8().await? == 1, tcp.read_u32().await? as usize);
    let mut bytes = vec![0; if resets { length / 2 } else { length }];
    tcp.read_exact(&mut bytes).await?;
    if resets {
        reset(tcp);
        return Ok(());
    }
    tcp.write_all(&bytes).await?;
    tcp.shutdown().await
}

/// One connection of an application. Either side may reset it, so errors are expected.
async fn live(proxy: SocketAddr, n: u32) {
    let (end, length) = plan(n);
    let mut tcp = TcpStream::connect(proxy).await.unwrap();
    let mut request = vec![u8::from(end == End::TargetResets)];
    request.extend_from_slice(&(length as u32).to_be_bytes());
    request.resize(5 + length, 7);
    if end == End::ApplicationResets {
        let _ = tcp.write_all(&request[..5 + length / 2]).await;
        return reset(tcp);
    }
    let _ = tcp.write_all(&request).await;
    if end != End::ApplicationLeavesUnread {
        let mut answer = Vec::new();
        let outcome = tcp.read_to_end(&mut answer).await;
        assert!(end != End::Orderly || outcome.is_ok() && answer.len() == length, "{n}: {outcome:?}");
    }
}

struct Proxy {
    address: SocketAddr,
    ends: [Watch; 2],
    /// Number of tasks without a connection.
    tasks: usize,
}

impl Proxy {
    async fn start() -> Self {
        let target = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let targets = vec![target.local_addr().unwrap().to_string().parse().unwrap()];
        tokio::spawn(async move {
            while let Ok((tcp, _)) = target.accept().await {
                tokio::spawn(serve(tcp));
            }
        });
        let common = Common::new(Key::from_bytes([42; 32]));
        let addresses = vec!["127.0.0.1:0".parse().unwrap()];
        let listen = ListenConfig::new(addresses, common.clone());
        let server = Server::bind(ServeConfig::new(listen, targets)).await.unwrap();
        let to = server.addresses()[0];
        let paths =
            ["127.0.0.2", "127.0.0.3"].map(|local| format!("{local}={to}").parse::<PathConfig>().unwrap());
        let serving = server.watch();
        tokio::spawn(server.run());
        let connect = ConnectConfig { paths: paths.into(), common, timeout: Duration::from_secs(20) };
        let config = ForwardConfig::new(connect, vec!["127.0.0.1:0".parse().unwrap()]);
        let forwarder = Forwarder::bind(config).await.unwrap();
        let (address, ends) = (forwarder.addresses()[0], [serving, forwarder.watch()]);
        tokio::spawn(forwarder.run());
        let mut proxy = Self { address, ends, tasks: usize::MAX };
        // A server's session lists its paths once they are up.
        let is_up =
            |end: &Watch| end.snapshot().sessions.first().is_some_and(|session| session.paths.len() == 2);
        becomes("both ends have both paths", || proxy.ends.iter().all(is_up)).await;
        proxy.carry(0..1).await;
        proxy.tasks = Handle::current().metrics().num_alive_tasks();
        proxy
    }

    /// Carries these connections to their ends, and waits until no task or stream of them is left.
    async fn carry(&self, numbers: Range<u32>) {
        let mut lives = JoinSet::new();
        for n in numbers {
            if lives.len() >= TOGETHER {
                lives.join_next().await.unwrap().unwrap();
            }
            lives.spawn(live(self.address, n));
        }
        while let Some(lived) = lives.join_next().await {
            lived.unwrap();
        }
        let streams =
            || self.ends.iter().flat_map(|end| end.snapshot().sessions).map(|s| s.streams).sum::<usize>();
        let tasks = || Handle::current().metrics().num_alive_tasks();
        becomes("no task or stream is left", || streams() == 0 && tasks() <= self.tasks).await;
    }
}

#[test]
fn connections_that_have_ended_leave_nothing_allocated() {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let in_time = |proxy: &Proxy, numbers| runtime.block_on(in_time(proxy.carry(numbers)));
    let proxy = runtime.block_on(Proxy::start());
    in_time(&proxy, 0..WARM_UP);
    let kept: Vec<_> = (0..PARTS)
        .map(|part| WARM_UP + part * PART)
        .map(|first| measure(|| in_time(&proxy, first..first + PART)))
        .map(|kept| (kept.count_current, kept.bytes_current))
        .collect();
    // What a connection leaves shows in every part, and as an allocation of its own or as bytes of a larger one. In some parts a
    // subflow takes another buffer, which it keeps for reuse.
    let mut counts: Vec<_> = kept.iter().map(|(count, _)| *count).collect();
    counts.sort_unstable();
    let least = kept.iter().map(|(_, bytes)| *bytes).min().unwrap();
    assert!(
        counts[counts.len() / 2] < i64::from(PART) / 20 && least < SLACK * i64::from(PART),
        "allocations and bytes kept after {PART} connections each: {kept:?}"
    );
}
