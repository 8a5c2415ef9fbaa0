//! The server of a run: accepts, serves every stream, accounts for itself at the end of its input.

use super::{
    Counters, EndpointError, Plan, Reply, ServerReport, WindowSample, carrier, input, messages, reply,
    system, usage, windows,
};
use crate::contestant::{Contestant, SessionSettings};
use crate::messages::MessageFlow;
use crate::workload::Video;
use std::net::{Ipv4Addr, SocketAddr};
use std::os::fd::AsFd;
use std::sync::{Arc, Mutex};
use tokio::net::{TcpListener, TcpStream};
use tributary_net::{Limits, ListenConfig, Listener, Session, sockopt};
use tributary_stream::{Ladder, serve};

/// What the tasks of the server leave for its report.
#[derive(Default)]
struct Seen {
    congestion: Vec<String>,
    fallback: bool,
    failure: Option<String>,
    session: Option<Session>,
    last: Option<Counters>,
    windows: Vec<WindowSample>,
}

type Shared = Arc<Mutex<Seen>>;

fn with<T>(shared: &Shared, work: impl FnOnce(&mut Seen) -> T) -> T {
    work(&mut shared.lock().expect("no task panics while it holds the lock"))
}

pub(super) async fn run(
    plan: &Plan,
    addresses: &[Ipv4Addr],
    video: Option<Video>,
) -> Result<(), EndpointError> {
    let ladder = video.map(|video| video.build(&mut |_| ())).transpose()?.map(Arc::new);
    let shared = Shared::default();
    let mut lines = input::lines();
    let listening = match &plan.contestant {
        Contestant::Tributary(settings) => session(plan, settings, addresses, &ladder, &shared).await?,
        Contestant::SinglePath(_) | Contestant::Mptcp => kernel(plan, addresses, &ladder, &shared)?,
    };
    reply(&Reply::Ready(listening));
    let began = usage::cpu_time();
    while lines.recv().await.is_some() {}
    let report = with(&shared, |seen| {
        if let Some(failure) = seen.failure.take() {
            return Reply::Failed(failure);
        }
        let counters = seen.session.as_ref().map(|session| session.stats().session.into());
        Reply::Served(ServerReport {
            cpu_seconds: (usage::cpu_time().saturating_sub(began)).as_secs_f64(),
            congestion: seen.congestion.clone(),
            fallback: seen.fallback,
            session: counters.or(seen.last),
            windows: core::mem::take(&mut seen.windows),
        })
    });
    reply(&report);
    Ok(())
}

fn kernel(
    plan: &Plan,
    addresses: &[Ipv4Addr],
    ladder: &Option<Arc<Ladder>>,
    shared: &Shared,
) -> Result<Vec<SocketAddr>, EndpointError> {
    let mut out = Vec::new();
    for address in addresses {
        let listener = carrier::listen(plan, *address)?;
        out.push(listener.local_addr().map_err(system("asking for a port"))?);
        tokio::spawn(accept(listener, plan.clone(), ladder.clone(), shared.clone()));
    }
    Ok(out)
}

async fn accept(listener: TcpListener, plan: Plan, ladder: Option<Arc<Ladder>>, shared: Shared) {
    // The workload's connection comes first, then one for each kind of messages.
    let mut flows = plan.messages.clone().into_iter();
    let mut first = true;
    while let Ok((stream, _)) = listener.accept().await {
        let checked = carrier::checked_congestion(&plan, &stream);
        with(&shared, |seen| match checked {
            Ok(name) => note(&mut seen.congestion, name),
            Err(error) => seen.failure = Some(error.to_string()),
        });
        if plan.contestant == Contestant::Mptcp {
            let fallback = sockopt::mptcp_state(stream.as_fd()).is_ok_and(|state| state.fallback);
            with(&shared, |seen| seen.fallback |= fallback);
        }
        if !std::mem::take(&mut first)
            && let Some(flow) = flows.next()
        {
            tokio::spawn(messages::push(stream, flow));
            continue;
        }
        if plan.windows && plan.contestant != Contestant::Mptcp {
            tokio::spawn(watched(stream, ladder.clone(), shared.clone()));
        } else {
            // How a stream ends is the client's to judge.
            tokio::spawn(serve(stream, ladder.clone()));
        }
    }
}

/// Serves a stream and notes its window meanwhile.
async fn watched(stream: TcpStream, ladder: Option<Arc<Ladder>>, shared: Shared) {
    let Ok(descriptor) = stream.as_fd().try_clone_to_owned() else { return };
    let note = |sample| with(&shared, |seen| seen.windows.push(sample));
    tokio::select! {
        _ = serve(stream, ladder) => {}
        () = windows::watch(descriptor.as_fd(), note) => {}
    }
}

async fn session(
    plan: &Plan,
    settings: &SessionSettings,
    addresses: &[Ipv4Addr],
    ladder: &Option<Arc<Ladder>>,
    shared: &Shared,
) -> Result<Vec<SocketAddr>, EndpointError> {
    let addresses = addresses.iter().map(|address| SocketAddr::from((*address, 0))).collect();
    let common = carrier::common(plan, settings)?;
    let mut listener = Listener::bind(ListenConfig { addresses, common, limits: Limits::default() }).await?;
    let listening = listener.addresses().to_vec();
    let (ladder, shared, congestion) = (ladder.clone(), shared.clone(), plan.congestion.clone());
    let flows = plan.messages.clone();
    tokio::spawn(async move {
        while let Some((session, _)) = listener.accept().await {
            with(&shared, |seen| {
                note(&mut seen.congestion, congestion.clone());
                seen.session = Some(session.clone());
            });
            tokio::spawn(serve_session(session, ladder.clone(), flows.clone()));
        }
    });
    Ok(listening)
}

/// The workload's stream comes first, then one for each kind of messages.
async fn serve_session(session: Session, ladder: Option<Arc<Ladder>>, flows: Vec<MessageFlow>) {
    let (mut flows, mut first) = (flows.into_iter(), true);
    while let Some(stream) = session.accept_stream().await {
        match flows.as_slice().first().filter(|_| !first) {
            Some(flow) => {
                stream.set_priority(flow.priority);
                tokio::spawn(messages::push(stream, flow.clone()));
                flows.next();
            }
            None => drop(tokio::spawn(serve(stream, ladder.clone()))),
        }
        first = false;
    }
}

/// Adds a name that is not there yet.
pub(super) fn note(names: &mut Vec<String>, name: String) {
    if !names.contains(&name) {
        names.push(name);
    }
}
