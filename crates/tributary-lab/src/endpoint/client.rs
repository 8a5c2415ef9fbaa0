//! The client of a run: connects over all its paths, waits for the start, measures one workload.

use super::{
    ClientReport, EndpointError, Reply, Task, datagrams, inner, input, messages, reply, system, usage,
};
use crate::messages::{MessageFlow, MessageRecord};
use crate::transport::Paths;
use crate::workload::{Record, Workload};
use core::future::poll_fn;
use core::time::Duration;
use std::net::{Ipv4Addr, SocketAddr};
use std::pin::Pin;
use std::task::{Context, Poll};
use tokio::io::AsyncWriteExt;
use tributary_net::transport::{Connection, TransportConfig, TransportStream};
use tributary_stream::{BulkParams, LiveParams, ObjectParams, Verify, fetch_bulk, fetch_live, fetch_object};

/// Receive buffer of a kernel connection with messages. The kernel also counts its own data for each message. With
/// the default of 128 KiB, an MPTCP receiver on unequal paths fills up with out-of-order messages, drops the missing
/// one each time it arrives, and never continues.
const ROOM: usize = 2 << 20;

type Path = (Ipv4Addr, SocketAddr);

pub(super) async fn run(task: &Task, paths: &[Path], workload: &Workload) -> Result<(), EndpointError> {
    let config = task.config()?;
    let to = Paths::new(&task.transport, paths);
    if let Some(congestion) = task.inner_quic() {
        let (connection, session, up) = inner::connect(task, congestion, paths).await?;
        let stream = introduced(&connection, 0, 0).await?;
        let (record, _, cpu_seconds) = begin(stream, workload, (Vec::new(), &[])).await?;
        let session = Some(session.stats().session.into());
        let (paths_up, fallback, messages) = (up, false, Vec::new());
        let report = ClientReport { record, cpu_seconds, paths_up, fallback, session, messages };
        reply(&Reply::Measured(Box::new(report)));
        return Ok(());
    }
    let connection = to.connect(&config).await?;
    let stream = introduced(&connection, 0, 0).await?;
    let stats = to.all_up(&connection).await?;
    let (mut ends, mut connections) = (Vec::new(), Vec::new());
    for (flow, kind) in task.messages.iter().zip(1..) {
        if flow.datagrams {
            ends.push(Beside::Datagrams(datagrams::End::open(&connection, paths).await?, kind));
            continue;
        }
        let own = beside(&connection, &config, &to).await?;
        ends.push(Beside::Stream(introduced(&own, kind, flow.priority).await?));
        to.all_up(&own).await?;
        connections.push(own);
    }
    let (record, messages, cpu_seconds) = begin(stream, workload, (ends, &task.messages)).await?;
    reply(&Reply::Measured(Box::new(ClientReport {
        record,
        cpu_seconds,
        paths_up: stats.paths.len(),
        fallback: stats.fallback,
        session: connection.session().map(|session| session.stats().session.into()),
        messages,
    })));
    if let Some(session) = connection.session() {
        session.abort(0, "the measurement is over");
    }
    Ok(())
}

/// What carries one kind of messages; datagrams with its number.
enum Beside {
    Stream(TransportStream),
    Datagrams(datagrams::End, u8),
}

impl Beside {
    async fn receive(&mut self, flow: &MessageFlow, received: &mut messages::Received) {
        match self {
            Self::Stream(stream) => messages::receive(stream, flow, received).await,
            Self::Datagrams(end, kind) => end.record(*kind, received).await,
        }
    }
}

/// The connection for one kind of messages: the given one, or a new one if the transport has no streams.
async fn beside(
    connection: &Connection,
    config: &TransportConfig,
    to: &Paths,
) -> Result<Connection, EndpointError> {
    if config.name.has_streams() {
        return Ok(connection.clone());
    }
    let mut config = config.clone();
    config.sockets.receive_buffer = Some(ROOM);
    Ok(to.connect(&config).await?)
}

/// Opens a stream and sends its purpose in one byte: 0 for the workload, n for the n-th kind of messages. This first
/// byte also lets the kernel join further MPTCP paths.
async fn introduced(
    connection: &Connection,
    kind: u8,
    priority: u8,
) -> Result<TransportStream, EndpointError> {
    let mut stream = connection.open_stream(priority).await?;
    stream.write_u8(kind).await.map_err(system("opening a stream"))?;
    Ok(stream)
}

/// Reports that it is connected, waits for the start, runs the workload and the messages beside it.
async fn begin(
    stream: TransportStream,
    workload: &Workload,
    (mut beside, flows): (Vec<Beside>, &[MessageFlow]),
) -> Result<(Record, Vec<MessageRecord>, f64), EndpointError> {
    let mut lines = input::lines();
    reply(&Reply::Connected);
    if lines.recv().await.is_none() {
        return Err(EndpointError::Ended);
    }
    let began = usage::cpu_time();
    let mut received: Vec<messages::Received> = flows.iter().map(|_| Default::default()).collect();
    let mut receiving: Vec<Pin<Box<dyn Future<Output = ()> + '_>>> = Vec::new();
    for ((end, flow), received) in beside.iter_mut().zip(flows).zip(&mut received) {
        receiving.push(Box::pin(end.receive(flow, received)));
    }
    let record = tokio::select! {
        record = fetch(stream, workload) => record?,
        never = poll_fn(|cx| poll_all(&mut receiving, cx)) => never,
    };
    drop(receiving);
    let messages = flows.iter().zip(&received).map(|(flow, received)| received.record(flow));
    Ok((record, messages.collect(), usage::cpu_time().saturating_sub(began).as_secs_f64()))
}

/// Polls all futures; they run until the workload ends.
fn poll_all<T>(futures: &mut [Pin<Box<dyn Future<Output = ()> + '_>>], cx: &mut Context<'_>) -> Poll<T> {
    for future in futures {
        let _ = future.as_mut().poll(cx);
    }
    Poll::Pending
}

async fn fetch(stream: TransportStream, workload: &Workload) -> Result<Record, EndpointError> {
    Ok(match *workload {
        Workload::Bulk { .. } => {
            let params = BulkParams { duration: workload.duration(), verify: Verify::Stamps };
            Record::Bulk(fetch_bulk(stream, &params).await?)
        }
        Workload::Object { size, count, pause_ms, .. } => {
            let pause = Duration::from_millis(pause_ms);
            let params = ObjectParams { size, count, pause, limit: workload.duration() };
            Record::Object(fetch_object(stream, &params).await?)
        }
        Workload::Live { gops, start_up_ms } => {
            let params = LiveParams { gops, start_up: Duration::from_millis(start_up_ms) };
            Record::Live(fetch_live(stream, &params, |_, _| ()).await?)
        }
    })
}
