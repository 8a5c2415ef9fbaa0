//! The live stream over both transports: the server that makes a frame every 40 ms, and the client that notes arrivals.

use bytes::Bytes;
use core::time::Duration;
use std::net::{IpAddr, SocketAddr};
use std::sync::mpsc::Sender;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;
use tributary_emu::Side;
use tributary_net::transport::{Acceptor, Connection};
use tributary_net::{Event, Key, Local, PathConfig, SessionEvent, SessionEventKind};

use super::{CONGESTION, FRAME, FRAME_TIME, MPTCP, PATHS, SESSION};

/// Time beyond the stream's own before a client gives up.
const GRACE: Duration = Duration::from_secs(20);

/// What a client saw.
#[derive(Clone, Debug, Default)]
pub(super) struct Recording {
    /// When bytes arrived, and how many.
    pub arrivals: Vec<(Instant, usize)>,
    /// Interfaces' names: when a connection was begun, when a path was removed.
    pub dialled: Vec<(Instant, String)>,
    pub removed: Vec<(Instant, String)>,
    /// The stream did not come to its end.
    pub cut_short: Option<String>,
}

/// Addresses of the session's server on each path, and address of the MPTCP server.
pub(super) type Servers = ([SocketAddr; 2], SocketAddr);

type Outcome<T> = Result<T, String>;

fn words(error: impl ToString) -> String {
    error.to_string()
}

/// Both ends are this program on one machine, so the key is not secret.
fn key() -> Key {
    Key::from_bytes([7; 32])
}

fn run<T>(work: impl Future<Output = Outcome<T>>) -> Outcome<T> {
    tokio::runtime::Builder::new_current_thread().enable_all().build().map_err(words)?.block_on(work)
}

/// Sends over both transports for this time.
pub(super) fn server(length: Duration, ready: Sender<Servers>) -> Outcome<()> {
    run(async {
        let at = |path| SocketAddr::new(IpAddr::V4(Side::Server.address(path)), 0);
        let cubic = |config: &mut tributary_net::transport::TransportConfig| {
            config.congestion = Some(CONGESTION.to_owned());
        };
        let session = Acceptor::server(SESSION).key(key()).listen(at(0)).listen(at(1)).configure(cubic);
        let mut session = session.bind().await.map_err(words)?;
        let mut mptcp = Acceptor::server(MPTCP).listen(at(0)).configure(cubic).bind().await.map_err(words)?;
        let addresses = session.addresses();
        let servers = ([addresses[0], addresses[1]], mptcp.addresses()[0]);
        ready.send(servers).map_err(words)?;
        let (ours, theirs) = tokio::join!(send(&mut session, length), send(&mut mptcp, length));
        // A client that gave up reports the reason itself.
        drop((ours, theirs));
        Ok(())
    })
}

async fn send(acceptor: &mut Acceptor, length: Duration) -> Outcome<()> {
    let accepted = tokio::time::timeout(GRACE, acceptor.accept()).await.map_err(words)?;
    let (connection, _) = accepted.ok_or("no client connected")?;
    let stream = connection.accept_stream().await.map_err(words)?;
    let (mut request, mut frames) = stream.into_split();
    request.read_chunk().await.map_err(words)?;
    let frame = Bytes::from(vec![0; FRAME]);
    // A frame that had to wait does not delay the next frames more than necessary.
    let mut ticks = tokio::time::interval(FRAME_TIME);
    for _ in 0..super::frames(length) {
        ticks.tick().await;
        frames.write_chunk(frame.clone()).await.map_err(words)?;
    }
    tokio::io::AsyncWriteExt::shutdown(&mut frames).await.map_err(words)?;
    // The client ends the connection when it has everything.
    let _ = tokio::time::timeout(GRACE, request.read_chunk()).await;
    connection.close().await;
    Ok(())
}

/// Receives over both transports. Sends a message to `begun` when both streams have begun.
pub(super) fn client(
    (session, mptcp): Servers,
    length: Duration,
    begun: Sender<()>,
) -> Outcome<(Recording, Recording)> {
    run(async {
        let mut ours = Connection::client(SESSION).key(key());
        for (name, server) in PATHS.iter().zip(session) {
            ours = ours.path(PathConfig::new(Local::Interface((*name).to_owned()), server));
        }
        let ours = ours.connect().await.map_err(words)?;
        // Bound to its address, as the kernel's own subflows are.
        let theirs =
            Connection::client(MPTCP).path(PathConfig::new(IpAddr::V4(Side::Client.address(0)), mptcp));
        let theirs = theirs.connect().await.map_err(words)?;
        let heard = Arc::new(Mutex::new(Recording::default()));
        if let Some(session) = ours.session() {
            tokio::spawn(listen(session.events(), heard.clone()));
        }
        let within = length + GRACE;
        let (ours, theirs) =
            tokio::join!(receive(&ours, within, begun.clone()), receive(&theirs, within, begun));
        let heard = heard.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let Recording { dialled, removed, .. } = heard;
        Ok((Recording { dialled, removed, ..ours? }, theirs?))
    })
}

async fn receive(connection: &Connection, within: Duration, begun: Sender<()>) -> Outcome<Recording> {
    let stream = connection.open_stream(0).await.map_err(words)?;
    let (mut frames, mut request) = stream.into_split();
    request.write_chunk(Bytes::from_static(b"play")).await.map_err(words)?;
    let mut recording = Recording::default();
    let receiving = async {
        loop {
            match frames.read_chunk().await {
                Ok(Some(chunk)) => {
                    if recording.arrivals.is_empty() {
                        // The receiver is gone if the benchmark has failed; then this ends by itself.
                        let _ = begun.send(());
                    }
                    recording.arrivals.push((Instant::now(), chunk.len()));
                }
                Ok(None) => return None,
                Err(error) => return Some(error.to_string()),
            }
        }
    };
    let ended = tokio::time::timeout(within, receiving).await;
    recording.cut_short = ended.unwrap_or_else(|_| Some("it did not end in time".to_owned()));
    // Fails if the connection has ended already.
    let _ = tokio::io::AsyncWriteExt::shutdown(&mut request).await;
    let _ = tokio::time::timeout(GRACE, connection.close()).await;
    Ok(recording)
}

/// Records what the session does with its paths.
async fn listen(mut events: tokio::sync::broadcast::Receiver<SessionEvent>, heard: Arc<Mutex<Recording>>) {
    while let Ok(event) = events.recv().await {
        let now = Instant::now();
        let name = event.radio.as_deref().and_then(|radio| radio.split('=').next()).unwrap_or_default();
        let mut heard = heard.lock().unwrap_or_else(PoisonError::into_inner);
        match event.kind {
            SessionEventKind::Session(Event::OpenSubflow { .. }) => {
                heard.dialled.push((now, name.to_owned()))
            }
            SessionEventKind::Session(Event::PathRemoved { .. }) => {
                heard.removed.push((now, name.to_owned()))
            }
            _ => {}
        }
    }
}
