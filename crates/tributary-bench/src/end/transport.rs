//! Ends of a session, of QUIC and of multipath QUIC, through the product's interface: one stream of bulk data, or
//! an idle connection. Not here: TCP and kernel MPTCP (`kernel.rs`).

use super::{EndReply, EndResult, EndRole, EndTask, Meter, Outcome, PIECE, Until, cpu_time};
use bytes::Bytes;
use core::time::Duration;
use std::net::{Ipv4Addr, SocketAddr};
use std::time::Instant;
use tokio::io::AsyncWriteExt;
use tributary_lab::transport::{Paths, SessionSettings, config, listen};
use tributary_net::Key;
use tributary_net::transport::{Connection, TransportConfig, TransportName};

/// Pause before an idle connection is measured.
const SETTLE: Duration = Duration::from_secs(1);

/// Runs one end. A sink calls `ready` with its addresses.
pub(super) async fn run(
    task: &EndTask,
    name: &TransportName,
    session: &SessionSettings,
    ready: impl FnOnce(&EndReply),
) -> Outcome<EndResult> {
    // Both ends are this program on one machine, so the key is not secret.
    let config = config(name, &task.congestion, Key::from_bytes([7; 32]), session);
    match &task.role {
        EndRole::Sink(addresses) => sink(task, &config, addresses, ready).await,
        EndRole::Source(paths) => source(task, &config, paths).await,
    }
}

/// Payload bytes that a session holds; zero for other transports, which do not report it.
fn held(connection: &Connection) -> u64 {
    let stats = connection.session().map(|session| session.stats().session);
    stats.map_or(0, |stats| stats.send_held + stats.receive_held)
}

async fn sink(
    task: &EndTask,
    config: &TransportConfig,
    addresses: &[Ipv4Addr],
    ready: impl FnOnce(&EndReply),
) -> Outcome<EndResult> {
    let (mut acceptor, listening) = listen(config, addresses).await?;
    ready(&EndReply::Ready(listening));
    let (connection, _) = acceptor.accept().await.ok_or("the listener ended without a connection")?;
    if let Until::Idle(seconds) = task.until {
        return Ok(idle(&connection, seconds).await);
    }
    let mut stream = connection.accept_stream().await?;
    let mut meter = Meter::new(task.until);
    let mut paths = 0;
    while let Some(chunk) = stream.recv.read_chunk().await? {
        meter.add(chunk.len());
        meter.sample(|| held(&connection));
        if paths == 0 {
            paths = connection.stats().paths.len();
        }
    }
    let result = meter.finish(paths);
    // The source waits for the end of the other direction, which is sent only while the runtime runs. So this end
    // waits until the source has closed the connection.
    stream.shutdown().await?;
    while connection.accept_stream().await.is_ok() {}
    Ok(result)
}

async fn source(
    task: &EndTask,
    config: &TransportConfig,
    paths: &[(Ipv4Addr, SocketAddr)],
) -> Outcome<EndResult> {
    let paths = Paths::new(&config.name, paths);
    let connection = paths.connect(config).await?;
    if let Until::Idle(seconds) = task.until {
        paths.all_up(&connection).await?;
        let result = idle(&connection, seconds).await;
        // The sink may still be measuring its idle connection.
        tokio::time::sleep(SETTLE).await;
        return Ok(result);
    }
    let mut stream = connection.open_stream(0).await?;
    let chunk = Bytes::from(vec![1; PIECE]);
    paths.all_up(&connection).await?;
    let mut meter = Meter::new(task.until);
    meter.begin();
    while !meter.is_over() {
        // When memory is measured, every write gets a new buffer, so that data held by the transport uses memory
        // of its own.
        let fresh = matches!(task.until, Until::Bytes(_)).then(|| Bytes::from(vec![1; PIECE]));
        stream.send.write_chunk(fresh.unwrap_or_else(|| chunk.clone())).await?;
        meter.add(PIECE);
        meter.sample(|| held(&connection));
    }
    // The measurement is valid only if the transport uses all its paths.
    let up = paths.all_up(&connection).await?;
    stream.shutdown().await?;
    stream.recv.read_chunk().await?;
    connection.close().await;
    Ok(meter.finish(up.paths.len()))
}

/// Measures a connection without payload.
async fn idle(connection: &Connection, seconds: f64) -> EndResult {
    tokio::time::sleep(SETTLE).await;
    let subflows = connection.stats().paths.len();
    let (at, cpu) = (Instant::now(), cpu_time());
    tokio::time::sleep(Duration::from_secs_f64(seconds)).await;
    EndResult {
        cpu_seconds: cpu_time().saturating_sub(cpu).as_secs_f64(),
        seconds: at.elapsed().as_secs_f64(),
        subflows,
        ..EndResult::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::mpsc;

    const BYTES: u64 = 3 << 20;

    /// Runs one end on a separate runtime.
    fn alone(name: &str, role: EndRole, ready: impl FnOnce(&EndReply)) -> Result<EndResult, String> {
        let contestant = super::super::Contestant::of(name);
        let congestion = super::super::CONGESTION.to_owned();
        let task = EndTask { contestant, congestion, until: Until::Bytes(BYTES), role };
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let (transport, session) = (name.parse().unwrap(), SessionSettings::default());
        let running = run(&task, &transport, &session, ready);
        runtime.block_on(running).map_err(|error| format!("{name}: {error}"))
    }

    #[test]
    fn a_sink_stays_until_the_source_has_its_answer() {
        for name in ["session", "quic", "mpquic"] {
            let (tell, told) = mpsc::channel();
            let addresses = vec![Ipv4Addr::LOCALHOST];
            let sink = std::thread::spawn(move || {
                alone(name, EndRole::Sink(addresses), |ready| tell.send(ready.clone()).unwrap())
            });
            let EndReply::Ready(servers) = told.recv().unwrap() else { panic!("{name}: not ready") };
            let paths = vec![(Ipv4Addr::LOCALHOST, servers[0])];
            let source = alone(name, EndRole::Source(paths), |_| ()).unwrap();
            let sink = sink.join().unwrap().unwrap();
            assert_eq!((source.bytes, sink.bytes), (BYTES, BYTES), "{name}");
        }
    }
}
