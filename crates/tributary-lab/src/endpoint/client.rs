//! The client of a run: connects over all its paths, waits for the word, measures one workload.

use super::{ClientReport, EndpointError, Plan, Reply, carrier, input, messages, reply, system, usage};
use crate::contestant::{Contestant, SessionSettings};
use crate::messages::{MessageFlow, MessageRecord};
use crate::workload::{Record, Workload};
use core::future::poll_fn;
use core::time::Duration;
use socket2::SockRef;
use std::io;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::os::fd::AsFd;
use std::pin::Pin;
use std::task::{Context, Poll};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;
use tokio::time::{Instant, sleep};
use tributary_net::{ConnectConfig, Local, PathConfig, Session, connect, sockopt};
use tributary_stream::{BulkParams, LiveParams, ObjectParams, Verify, fetch_bulk, fetch_live, fetch_object};

/// Time for every path to come up.
const ALL_PATHS: Duration = Duration::from_secs(8);
/// How often that is looked at.
const POLL_INTERVAL: Duration = Duration::from_millis(5);

/// Receive buffer of a kernel connection with messages. The kernel counts their bookkeeping as well as
/// them: with its own 128 KiB an MPTCP receiver on unequal paths fills up with messages that are
/// out of order, drops the one that they wait for each time it comes, and stands still for ever.
const ROOM: usize = 2 << 20;

type Path = (Ipv4Addr, SocketAddr);

pub(super) async fn run(plan: &Plan, paths: &[Path], workload: &Workload) -> Result<(), EndpointError> {
    match &plan.contestant {
        Contestant::Tributary(settings) => over_session(plan, settings, paths, workload).await,
        Contestant::SinglePath(_) | Contestant::Mptcp => over_kernel(plan, paths, workload).await,
    }
}

async fn over_kernel(plan: &Plan, paths: &[Path], workload: &Workload) -> Result<(), EndpointError> {
    let (local, server) = paths[0];
    let mut stream = carrier::connect(plan, local, server).await?;
    let congestion = vec![carrier::checked_congestion(plan, &stream)?];
    let (paths_up, fallback) = match plan.contestant {
        Contestant::Mptcp => {
            // The kernel joins further paths only after the first data was acknowledged.
            let one = ObjectParams { size: 1, count: 1, pause: Duration::ZERO, limit: ALL_PATHS };
            fetch_object(KeptOpen(&mut stream), &one).await?;
            mptcp_paths(&stream, paths.len()).await?
        }
        _ => (1, false),
    };
    let mut beside = Vec::new();
    for _ in &plan.messages {
        let mut own = carrier::connect(plan, local, server).await?;
        let room = SockRef::from(&own).set_recv_buffer_size(ROOM);
        room.map_err(system("making room for messages"))?;
        messages::introduce(&mut own).await.map_err(system("opening a connection for messages"))?;
        if plan.contestant == Contestant::Mptcp {
            mptcp_paths(&own, paths.len()).await?;
        }
        beside.push(own);
    }
    let (record, messages, cpu_seconds) = begin(stream, workload, (beside, &plan.messages)).await?;
    reply(&Reply::Measured(Box::new(ClientReport {
        record,
        cpu_seconds,
        congestion,
        paths_up,
        fallback,
        session: None,
        messages,
    })));
    Ok(())
}

/// A borrowed stream that stays open when its user is done with it.
struct KeptOpen<'a>(&'a mut TcpStream);

impl AsyncRead for KeptOpen<'_> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut *self.0).poll_read(cx, buf)
    }
}

impl AsyncWrite for KeptOpen<'_> {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut *self.0).poll_write(cx, buf)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut *self.0).poll_flush(cx)
    }

    fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }
}

/// Waits until the kernel has joined every path.
async fn mptcp_paths(stream: &TcpStream, wanted: usize) -> Result<(usize, bool), EndpointError> {
    let until = Instant::now() + ALL_PATHS;
    loop {
        let state =
            sockopt::mptcp_state(stream.as_fd()).map_err(super::system("asking for the MPTCP state"))?;
        let up = 1 + usize::from(state.extra_subflows);
        if up >= wanted || state.fallback {
            return Ok((up, state.fallback));
        }
        if Instant::now() >= until {
            return Err(EndpointError::Paths { up, wanted, seconds: ALL_PATHS.as_secs() });
        }
        sleep(POLL_INTERVAL).await;
    }
}

async fn over_session(
    plan: &Plan,
    settings: &SessionSettings,
    paths: &[Path],
    workload: &Workload,
) -> Result<(), EndpointError> {
    let common = carrier::common(plan, settings)?;
    let path = |(local, server): &Path| PathConfig {
        local: Local::Address(IpAddr::V4(*local)),
        server: (*server).into(),
    };
    let config = ConnectConfig { paths: paths.iter().map(path).collect(), common, timeout: ALL_PATHS };
    let session = connect(config).await?;
    let paths_up = session_paths(&session, paths.len()).await?;
    let stream = session.open_stream(0).await?;
    let mut beside = Vec::new();
    for flow in &plan.messages {
        let mut own = session.open_stream(flow.priority).await?;
        messages::introduce(&mut own).await.map_err(system("opening a stream for messages"))?;
        beside.push(own);
    }
    let (record, messages, cpu_seconds) = begin(stream, workload, (beside, &plan.messages)).await?;
    let counters = session.stats().session.into();
    reply(&Reply::Measured(Box::new(ClientReport {
        record,
        cpu_seconds,
        congestion: vec![plan.congestion.clone()],
        paths_up,
        fallback: false,
        session: Some(counters),
        messages,
    })));
    session.abort(0, "the measurement is over");
    Ok(())
}

async fn session_paths(session: &Session, wanted: usize) -> Result<usize, EndpointError> {
    let until = Instant::now() + ALL_PATHS;
    loop {
        let up = session.stats().subflows.len();
        if up >= wanted {
            return Ok(up);
        }
        if Instant::now() >= until {
            return Err(EndpointError::Paths { up, wanted, seconds: ALL_PATHS.as_secs() });
        }
        sleep(POLL_INTERVAL).await;
    }
}

/// Says that it is connected, waits for the word, runs the workload and the messages beside it.
async fn begin<S, M>(
    stream: S,
    workload: &Workload,
    (mut beside, flows): (Vec<M>, &[MessageFlow]),
) -> Result<(Record, Vec<MessageRecord>, f64), EndpointError>
where
    S: AsyncRead + AsyncWrite + Unpin,
    M: AsyncRead + AsyncWrite + Unpin,
{
    let mut lines = input::lines();
    reply(&Reply::Connected);
    if lines.recv().await.is_none() {
        return Err(EndpointError::Plan("the lab went away".to_owned()));
    }
    let began = usage::cpu_time();
    let mut received: Vec<messages::Received> = flows.iter().map(|_| Default::default()).collect();
    let mut receiving: Vec<Pin<Box<dyn Future<Output = ()> + '_>>> = Vec::new();
    for ((stream, flow), received) in beside.iter_mut().zip(flows).zip(&mut received) {
        receiving.push(Box::pin(messages::receive(stream, flow, received)));
    }
    let record = tokio::select! {
        record = fetch(stream, workload) => record?,
        never = poll_fn(|cx| poll_all(&mut receiving, cx)) => never,
    };
    drop(receiving);
    let messages = flows.iter().zip(&received).map(|(flow, received)| received.record(flow));
    Ok((record, messages.collect(), usage::cpu_time().saturating_sub(began).as_secs_f64()))
}

/// Lets all go on; the workload's end is the end.
fn poll_all<T>(futures: &mut [Pin<Box<dyn Future<Output = ()> + '_>>], cx: &mut Context<'_>) -> Poll<T> {
    for future in futures {
        let _ = future.as_mut().poll(cx);
    }
    Poll::Pending
}

async fn fetch<S>(stream: S, workload: &Workload) -> Result<Record, EndpointError>
where
    S: AsyncRead + AsyncWrite + Unpin,
{
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
