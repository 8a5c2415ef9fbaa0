//! The client of a run: connects over all its paths, waits for the word, measures one workload.

use super::{ClientReport, EndpointError, Plan, Reply, carrier, input, reply, usage};
use crate::contestant::{Contestant, SessionSettings};
use crate::workload::{Record, Workload};
use core::time::Duration;
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
const LOOK: Duration = Duration::from_millis(5);

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
    let (record, cpu_seconds) = begin(stream, workload).await?;
    reply(&Reply::Measured(Box::new(ClientReport {
        record,
        cpu_seconds,
        congestion,
        paths_up,
        fallback,
        session: None,
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
        sleep(LOOK).await;
    }
}

async fn over_session(
    plan: &Plan,
    settings: &SessionSettings,
    paths: &[Path],
    workload: &Workload,
) -> Result<(), EndpointError> {
    let common = carrier::common(plan, settings)?;
    let path =
        |(local, server): &Path| PathConfig { local: Local::Address(IpAddr::V4(*local)), server: *server };
    let config = ConnectConfig { paths: paths.iter().map(path).collect(), common, timeout: ALL_PATHS };
    let session = connect(config).await?;
    let paths_up = session_paths(&session, paths.len()).await?;
    let stream = session.open_stream(0).await?;
    let (record, cpu_seconds) = begin(stream, workload).await?;
    let counters = session.stats().session.into();
    reply(&Reply::Measured(Box::new(ClientReport {
        record,
        cpu_seconds,
        congestion: vec![plan.congestion.clone()],
        paths_up,
        fallback: false,
        session: Some(counters),
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
        sleep(LOOK).await;
    }
}

/// Says that it is connected, waits for the word, runs the workload.
async fn begin<S>(stream: S, workload: &Workload) -> Result<(Record, f64), EndpointError>
where
    S: AsyncRead + AsyncWrite + Unpin,
{
    let mut lines = input::lines();
    reply(&Reply::Connected);
    if lines.recv().await.is_none() {
        return Err(EndpointError::Plan("the lab went away".to_owned()));
    }
    let began = usage::cpu_time();
    let record = fetch(stream, workload).await?;
    Ok((record, usage::cpu_time().saturating_sub(began).as_secs_f64()))
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
