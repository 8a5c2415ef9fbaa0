//! Kernel TCP and MPTCP: every stream is a separate connection, without encryption.
//!
//! `TCP_NOTSENT_LOWAT` keeps the unsent data of a socket small, so that a sender can still change the order or
//! drop messages, unless [`Sockets`] says otherwise. For tokio an MPTCP socket is a TCP socket.

use std::io;
use std::net::SocketAddr;
use std::os::fd::AsFd;
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::Duration;

use socket2::{Protocol, SockRef, Type};
use tokio::net::{TcpListener, TcpSocket, TcpStream};
use tokio::sync::{mpsc, watch};
use tokio::task::{JoinHandle, JoinSet};

use super::socket::{Reader, Socket, Writer};
use super::stream::{Recv, RecvHalf, Send, SendHalf};
use super::{
    Accepted, ConnectionClosed, Kind, Sockets, TransportConfig, TransportError, TransportStats,
    TransportStream, bound_to, system,
};
use crate::config::{Limits, PathConfig};
use crate::dial::{bind_local, race};
use crate::places::{Full, Places, Shares, Source};
use crate::rate_limited::RateLimited;
use crate::sockopt;
use tributary_proto::transport::{MPTCP_DEFAULT, TransportName};

/// Connections the kernel queues for each address.
const BACKLOG: i32 = 1024;
/// Pause after a failed `accept`: when no descriptors are left, the next call would fail as well.
const ACCEPT_REST: Duration = Duration::from_millis(20);

/// Settings with which the client makes further connections.
#[derive(Clone, Debug)]
struct Dialer {
    name: TransportName,
    path: PathConfig,
    congestion: Option<String>,
    timeout: Duration,
    sockets: Sockets,
}

#[derive(Debug)]
struct Inner {
    dialer: Option<Dialer>,
    /// A connection that has not been returned as a stream yet.
    waiting: Mutex<Option<Arc<Socket>>>,
    streams: Mutex<Vec<Weak<Socket>>>,
    is_closed: watch::Sender<bool>,
}

/// A client's connections to one server, or one accepted connection.
#[derive(Clone, Debug)]
pub(super) struct Connection(Arc<Inner>);

fn stream(socket: Arc<Socket>) -> TransportStream {
    let send = SendHalf::new(Send::Kernel(Writer(socket.clone())));
    TransportStream { recv: RecvHalf::new(Recv::Kernel(Reader(socket))), send }
}

fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Connection {
    fn new(dialer: Option<Dialer>, socket: Socket) -> Self {
        let socket = Arc::new(socket);
        let streams = Mutex::new(vec![Arc::downgrade(&socket)]);
        let is_closed = watch::Sender::new(false);
        Self(Arc::new(Inner { dialer, waiting: Mutex::new(Some(socket)), streams, is_closed }))
    }

    pub(super) async fn dial(config: &TransportConfig, path: &PathConfig) -> Result<Self, TransportError> {
        let dialer = Dialer {
            name: config.name.clone(),
            path: path.clone(),
            congestion: config.congestion.clone(),
            timeout: config.timeout,
            sockets: config.sockets,
        };
        let stream = dialer.dial().await?;
        Ok(Self::new(Some(dialer), Socket { stream, _slot: None }))
    }

    pub(super) async fn open_stream(&self) -> Result<TransportStream, TransportError> {
        if let Some(closed) = self.close_reason() {
            return Err(closed.into());
        }
        let Some(dialer) = &self.0.dialer else { return Err(TransportError::ClientOpens) };
        let waiting = lock(&self.0.waiting).take();
        let socket = match waiting {
            Some(socket) => socket,
            None => {
                let socket = Arc::new(Socket { stream: dialer.dial().await?, _slot: None });
                let mut streams = lock(&self.0.streams);
                streams.retain(|stream| stream.strong_count() > 0);
                streams.push(Arc::downgrade(&socket));
                socket
            }
        };
        Ok(stream(socket))
    }

    pub(super) fn accept_stream(&self) -> Result<TransportStream, ConnectionClosed> {
        if let Some(closed) = self.close_reason() {
            return Err(closed);
        }
        let waiting = if self.0.dialer.is_none() { lock(&self.0.waiting).take() } else { None };
        waiting.map(stream).ok_or(ConnectionClosed::NoMoreStreams)
    }

    pub(super) fn stats(&self) -> TransportStats {
        let mut stats = TransportStats::default();
        for socket in lock(&self.0.streams).iter().filter_map(Weak::upgrade) {
            socket.stats(&mut stats);
        }
        stats
    }

    /// No stream can be opened afterwards; the kernel still delivers what was written.
    pub(super) fn close(&self) {
        lock(&self.0.waiting).take();
        self.0.is_closed.send_replace(true);
    }

    pub(super) fn close_reason(&self) -> Option<ConnectionClosed> {
        self.0.is_closed.borrow().then(ConnectionClosed::here)
    }

    pub(super) async fn closed(&self) -> ConnectionClosed {
        // Its sender lives as long as this connection.
        let _ = self.0.is_closed.subscribe().wait_for(|closed| *closed).await;
        ConnectionClosed::here()
    }
}

fn socket(
    name: &TransportName,
    address: SocketAddr,
    congestion: Option<&str>,
) -> Result<socket2::Socket, TransportError> {
    let domain = socket2::Domain::for_address(address);
    let socket = match name {
        TransportName::Mptcp { scheduler } if scheduler != MPTCP_DEFAULT => {
            return Err(TransportError::KernelScheduler(scheduler.clone()));
        }
        TransportName::Mptcp { .. } => sockopt::mptcp_socket(domain).map_err(TransportError::NoMptcp)?,
        _ => socket2::Socket::new(domain, Type::STREAM, Some(Protocol::TCP)).map_err(system("socket"))?,
    };
    socket.set_nonblocking(true).map_err(system("making a socket non-blocking"))?;
    prepare_socket(&socket, congestion)?;
    Ok(socket)
}

fn prepare_socket(socket: &socket2::Socket, congestion: Option<&str>) -> Result<(), TransportError> {
    if let Some(name) = congestion {
        // Before `listen` and before `connect`: a socket switched later stays paced by its first controller.
        sockopt::set_congestion(socket.as_fd(), name)?;
    }
    socket.set_tcp_nodelay(true).map_err(system("TCP_NODELAY"))
}

fn prepare(stream: &TcpStream, sockets: Sockets) -> io::Result<()> {
    stream.set_nodelay(true)?;
    if let Some(bytes) = sockets.receive_buffer {
        SockRef::from(stream).set_recv_buffer_size(bytes)?;
    }
    sockets.unsent.map_or(Ok(()), |bytes| SockRef::from(stream).set_tcp_notsent_lowat(bytes))
}

impl Dialer {
    /// Connects to the first of the server's addresses that answers.
    async fn dial(&self) -> Result<TcpStream, TransportError> {
        let failed = || system(format!("connecting over {}", self.path));
        let dialling = async {
            let addresses = self.path.resolve().await.map_err(failed())?;
            let outcome = race(addresses, |server| {
                let dialer = self.clone();
                async move { dialer.dial_address(server).await }
            });
            outcome.await.unwrap_or_else(|| Err(failed()(io::ErrorKind::NotFound.into())))
        };
        match tokio::time::timeout(self.timeout, dialling).await {
            Ok(outcome) => outcome,
            Err(_) => Err(failed()(io::ErrorKind::TimedOut.into())),
        }
    }

    async fn dial_address(&self, server: SocketAddr) -> Result<TcpStream, TransportError> {
        let path = &self.path;
        let socket = socket(&self.name, server, self.congestion.as_deref())?;
        let bound = bind_local(&socket, &path.local, server);
        bound.map_err(system(format!("binding to {}", path.local_name())))?;
        let failed = || system(format!("connecting over {path}"));
        let connecting = TcpSocket::from_std_stream(socket.into()).connect(server);
        let stream = connecting.await.map_err(failed())?;
        prepare(&stream, self.sockets).map_err(failed())?;
        Ok(stream)
    }
}

/// Listens with kernel sockets.
pub(super) fn listen(
    config: &TransportConfig,
    addresses: &[SocketAddr],
) -> Result<(Accepted, Vec<SocketAddr>), TransportError> {
    let (tell, fresh) = mpsc::channel(config.limits.sessions.max(1));
    let serving = Serving {
        limits: config.limits,
        slots: Shares::new(config.limits.sessions),
        refused: Arc::default(),
        silent: Arc::default(),
        tell,
    };
    // A silent connection holds little beside its socket, and many clients may share an address.
    let silent = Arc::new(Mutex::new(Silent { places: Places::new(config.limits.sessions), accepted: 0 }));
    let mut tasks = JoinSet::new();
    let mut bound = Vec::new();
    for &address in addresses {
        let socket = listening(config, address)?;
        let listener = TcpListener::from_std(socket.into()).map_err(system("registering a listener"))?;
        bound.push(listener.local_addr().map_err(system("asking for a listener's address"))?);
        tasks.spawn(accept_loop(listener, config.sockets, serving.clone(), silent.clone()));
    }
    Ok((Accepted { fresh, _tasks: tasks }, bound))
}

/// A socket that listens there, a passed one if there is one.
fn listening(config: &TransportConfig, address: SocketAddr) -> Result<socket2::Socket, TransportError> {
    if let Some(socket) = config.passed.take(config.port(address)).map_err(bound_to(address))? {
        prepare_socket(&socket, config.congestion.as_deref())?;
        return Ok(socket);
    }
    let socket = socket(&config.name, address, config.congestion.as_deref())?;
    socket.set_reuse_address(true).map_err(system("SO_REUSEADDR"))?;
    socket.bind(&address.into()).map_err(bound_to(address))?;
    socket.listen(BACKLOG).map_err(bound_to(address))?;
    Ok(socket)
}

/// A task that ends with its owner.
struct AbortOnDrop(JoinHandle<()>);

impl Drop for AbortOnDrop {
    fn drop(&mut self) {
        self.0.abort();
    }
}

/// Connections that have sent nothing yet: at most as many as may be served. Beyond that, the address with the most of
/// them loses its oldest.
struct Silent {
    places: Places<AbortOnDrop>,
    /// Connections accepted so far.
    accepted: u64,
}

/// What a connection needs to be served.
#[derive(Clone)]
struct Serving {
    limits: Limits,
    /// One place for each connection that is served, shared by address. A silent connection has none.
    slots: Shares,
    refused: Arc<RateLimited>,
    silent: Arc<RateLimited>,
    tell: mpsc::Sender<(super::Connection, SocketAddr)>,
}

impl Serving {
    /// Returns a connection to the application once it has sent something. The time limit is that of a session's
    /// handshake.
    async fn hear(self, stream: TcpStream, from: SocketAddr) {
        let within = self.limits.handshake;
        // `readable` may return while there is nothing to read; the connection would then count as served.
        if !matches!(tokio::time::timeout(within, stream.peek(&mut [0])).await, Ok(Ok(1))) {
            self.silent.tell(|more| tracing::info!(%from, "connection refused: silent for {within:?}{more}"));
            return;
        }
        let slot = match self.slots.enter(&[Source::of(from)]) {
            Ok(slot) => slot,
            Err(full) => return self.refuse(from, full),
        };
        let socket = Socket { stream, _slot: Some(slot) };
        let connection = Kind::Kernel(Connection::new(None, socket)).into();
        // An error means that the listener has been dropped; the connection then ends.
        let _ = self.tell.send((connection, from)).await;
    }

    fn refuse(&self, from: SocketAddr, full: Full) {
        self.refused.tell(|more| tracing::warn!(%from, "connection refused: {full}{more}"));
    }
}

async fn accept_loop(listener: TcpListener, sockets: Sockets, serving: Serving, silent: Arc<Mutex<Silent>>) {
    let starved = RateLimited::default();
    loop {
        let (stream, from) = match listener.accept().await {
            Ok(accepted) => accepted,
            Err(error) => {
                starved.tell(|more| {
                    let advice = "is the descriptor limit reached? see ulimit -n";
                    tracing::warn!("cannot accept connections: {error}; {advice}{more}");
                });
                tokio::time::sleep(ACCEPT_REST).await;
                continue;
            }
        };
        // Dropped at once: the client sees its connection end and does not wait for another one to end.
        if serving.slots.taken() == serving.slots.most() {
            serving.refuse(from, Full::All(serving.slots.most()));
            continue;
        }
        if prepare(&stream, sockets).is_err() {
            continue;
        }
        let task = AbortOnDrop(tokio::spawn(serving.clone().hear(stream, from)));
        let mut silent = lock(&silent);
        silent.places.retain(|task| !task.0.is_finished());
        silent.accepted += 1;
        let number = silent.accepted;
        drop(silent.places.enter(Source::of(from), number, task));
    }
}
