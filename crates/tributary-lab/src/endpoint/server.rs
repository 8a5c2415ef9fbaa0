//! The server of a run: accepts connections, serves every stream, and reports when its input ends.

use super::{
    Counters, EndpointError, Reply, ServerReport, Task, WindowSample, datagrams, inner, input, messages,
    reply, system, usage, windows,
};
use crate::messages::MessageFlow;
use crate::transport::listen;
use crate::workload::Video;
use std::net::Ipv4Addr;
use std::sync::{Arc, Mutex};
use tokio::io::AsyncReadExt;
use tributary_net::Session;
use tributary_net::transport::{Connection, TransportName, TransportStream};
use tributary_stream::{Ladder, serve};

/// Data that the server's tasks collect for its report.
#[derive(Default)]
struct Seen {
    fallback: bool,
    session: Option<Session>,
    windows: Vec<WindowSample>,
}

/// State shared by all tasks of the server.
#[derive(Clone)]
struct Shared {
    flows: Arc<[MessageFlow]>,
    ladder: Option<Arc<Ladder>>,
    /// Whether the window of the workload's connection is recorded.
    windows: bool,
    seen: Arc<Mutex<Seen>>,
}

impl Shared {
    fn note<T>(&self, work: impl FnOnce(&mut Seen) -> T) -> T {
        work(&mut self.seen.lock().expect("no task panics while it holds the lock"))
    }
}

pub(super) async fn run(
    task: &Task,
    addresses: &[Ipv4Addr],
    video: Option<Video>,
) -> Result<(), EndpointError> {
    let ladder = video.map(|video| video.build(&mut |_| ())).transpose()?.map(Arc::new);
    let shared = Shared {
        flows: task.messages.clone().into(),
        ladder,
        windows: task.windows
            && (task.inner_quic().is_some()
                || matches!(task.transport, TransportName::Tcp(_) | TransportName::Quic(_))),
        seen: Arc::default(),
    };
    let mut lines = input::lines();
    let (mut acceptor, listening) = match task.inner_quic() {
        Some(congestion) => inner::listen(task, congestion, addresses).await?,
        None => listen(&task.config()?, addresses).await?,
    };
    if let TransportName::Tcp(_) = task.transport {
        datagrams::serve_udp(&listening, &shared.flows).await.map_err(system("binding UDP"))?;
    }
    reply(&Reply::Ready(listening));
    let began = usage::cpu_time();
    loop {
        tokio::select! {
            line = lines.recv() => if line.is_none() { break },
            accepted = acceptor.accept() => {
                let Some((connection, _)) = accepted else { break };
                tokio::spawn(serve_connection(connection, shared.clone()));
            }
        }
    }
    let cpu_seconds = usage::cpu_time().saturating_sub(began).as_secs_f64();
    reply(&Reply::Served(shared.note(|seen| ServerReport {
        cpu_seconds,
        fallback: seen.fallback,
        session: seen.session.as_ref().map(|session| Counters::from(session.stats().session)),
        windows: core::mem::take(&mut seen.windows),
    })));
    Ok(())
}

async fn serve_connection(connection: Connection, shared: Shared) {
    shared.note(|seen| {
        seen.fallback |= connection.stats().fallback;
        seen.session = connection.session().cloned();
    });
    if let Some(session) = connection.session() {
        tokio::spawn(datagrams::serve_flows(session.clone(), shared.flows.clone()));
    }
    while let Ok(stream) = connection.accept_stream().await {
        tokio::spawn(serve_stream(stream, connection.clone(), shared.clone()));
    }
}

/// The first byte gives the purpose of a stream. Errors at its end are ignored here, because the client reports them.
async fn serve_stream(mut stream: TransportStream, connection: Connection, shared: Shared) {
    let Ok(kind) = stream.read_u8().await else { return };
    let Some(flow) = usize::from(kind).checked_sub(1) else {
        let serving = serve(stream, shared.ladder.clone());
        if shared.windows {
            let note = |sample| shared.note(|seen| seen.windows.push(sample));
            tokio::select! {
                _ = serving => {}
                () = windows::watch(&connection, note) => {}
            }
        } else {
            drop(serving.await);
        }
        return;
    };
    if let Some(flow) = shared.flows.get(flow) {
        stream.send.set_priority(flow.priority);
        messages::push(stream, flow.clone()).await;
    }
}
