//! An HTTP server for the files of one directory, as DASH players request them: complete, by byte range, or
//! conditionally.
//!
//! HTTP/1.1, and HTTP/2 for clients that begin with its preface, over every transport with ordered byte
//! streams, and over TLS on TCP with a certificate. HTTP/3 over QUIC. Memory that clients can cause is
//! bounded: [`Limits::connections`] connections, each with the buffers of `hyper` and one piece of a file;
//! files in memory share one budget. Not here: anything but files; nothing is uploaded, listed or run.
//! Source: RFC 9110.

mod answer;
mod body;
mod files;
#[doc(hidden)]
pub mod fuzz;
mod http3;
mod idle_timeout;
mod range;
mod sendfile;
mod slots;
mod target;

use std::convert::Infallible;
use std::future::Future;
use std::io;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use http::header::{self, HeaderValue};
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use hyper_util::server::conn::auto;
use serde::Serialize;
use thiserror::Error;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::task::JoinSet;
use tokio::time::{Instant, timeout};
use tokio_rustls::TlsAcceptor;
use tributary_net::RateLimited;
use tributary_net::places::Source;
use tributary_net::proxy::{Drain, Drained, Ticket};
use tributary_net::transport::{
    Acceptor, Connection, TransportConfig, TransportError, TransportName, TransportStream,
};

use files::Store;
use idle_timeout::IdleTimeout;
use sendfile::{FileSender, Outgoing};
use slots::{Activity, Slot, Slots};

/// Most bytes of request headers on a connection.
const HEADERS: usize = 16 << 10;
/// Concurrent requests on one HTTP/2 connection.
const STREAMS: u32 = 32;
/// Bytes of responses that an HTTP/2 connection buffers per request.
const UNSENT: usize = 128 << 10;
/// Timeout for closing a session in order once its streams have ended.
const CLOSING: Duration = Duration::from_secs(1);

/// Limits for clients.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// Concurrent connections; over a session or multipath QUIC every stream counts as one. One address leaves an
    /// eighth of them to others; when none is free, the one that has been idle for the longest time is closed.
    pub connections: usize,
    /// Timeout for the headers of an HTTP/1.1 request.
    pub headers: Duration,
    /// A connection on which no byte moves for this long is closed. So is one whose client took less than 500 bytes a
    /// second in as much time as it kept the server waiting.
    pub idle: Duration,
}

impl Default for Limits {
    fn default() -> Self {
        Self { connections: 4096, headers: Duration::from_secs(10), idle: Duration::from_secs(60) }
    }
}

/// Settings of a server.
#[derive(Clone, Debug)]
pub struct ServerConfig {
    /// The directory to serve.
    pub directory: PathBuf,
    /// Transports and the addresses to listen on. MPTCP sockets also accept plain TCP clients; on a kernel
    /// without MPTCP, TCP sockets are used, with a warning. With certificates, TCP uses TLS; `quic` uses
    /// HTTP/3 and needs certificates.
    pub listen: Vec<(TransportConfig, Vec<SocketAddr>)>,
    /// Limits for clients.
    pub limits: Limits,
}

/// Why the server cannot start.
#[derive(Debug, Error)]
pub enum ServerError {
    /// The directory cannot be used.
    #[error("cannot serve {}: {source}; name a directory that this user may read", .directory.display())]
    Directory {
        /// The directory.
        directory: PathBuf,
        /// The system's reason.
        source: io::Error,
    },
    /// QUIC without a certificate.
    #[error("HTTP/3 needs a certificate; give one")]
    NoCertificate,
    /// A transport cannot listen.
    #[error(transparent)]
    Transport(#[from] TransportError),
}

/// A listening server.
#[derive(Debug)]
pub struct Server {
    acceptors: Vec<(Acceptor, Option<Secure>)>,
    serving: Serving,
}

/// Counts of a running server's connections.
#[derive(Clone, Debug)]
pub struct Watch(Slots);

/// Connections of a server.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Connections {
    /// Open now.
    pub open: usize,
    /// Most that may be open.
    pub most: usize,
    /// Connections that were refused.
    pub refused: u64,
    /// Idle connections that were ended for others.
    pub ended: u64,
}

impl Watch {
    /// The present counts.
    #[must_use]
    pub fn connections(&self) -> Connections {
        self.0.counts()
    }
}

/// TLS over TCP.
#[derive(Clone, Debug)]
struct Secure {
    settings: Arc<rustls::ServerConfig>,
    /// Where HTTP/3 is available (RFC 7838).
    alternative: Option<HeaderValue>,
}

/// State shared by all connections.
#[derive(Clone, Debug)]
struct Serving {
    store: Arc<Store>,
    limits: Limits,
    slots: Slots,
    refused: Arc<RateLimited>,
    drain: Arc<Drain>,
    http: auto::Builder<TokioExecutor>,
    secure: Option<Secure>,
}

impl Server {
    /// Opens the directory and listens.
    ///
    /// Cancellation: dropping the future listens nowhere.
    ///
    /// # Errors
    /// [`ServerError`] names the directory or the address.
    pub async fn bind(config: ServerConfig) -> Result<Self, ServerError> {
        let ServerConfig { directory, listen, limits } = config;
        let store = Store::open(&directory).map_err(|source| ServerError::Directory { directory, source })?;
        let mut acceptors = Vec::new();
        for (mut transport, addresses) in listen {
            transport.limits.sessions = match transport.name {
                TransportName::Session { .. } => limits.connections,
                // Every connection gets one of this server's places, which decide. The transport's only limit what waits.
                _ => 2 * limits.connections,
            };
            let tls = transport.certificates.as_ref().and_then(|certificates| certificates.server.clone());
            let quic = matches!(transport.name, TransportName::Quic(_));
            if quic && tls.is_none() {
                return Err(ServerError::NoCertificate);
            }
            transport.early = quic;
            let bound = match Acceptor::bind(&transport, &addresses).await {
                Err(TransportError::NoMptcp(reason)) => {
                    tracing::warn!("listening with TCP alone: this kernel has no MPTCP ({reason})");
                    transport.name = TransportName::Tcp(None);
                    Acceptor::bind(&transport, &addresses).await
                }
                bound => bound,
            };
            acceptors.push((bound?, tls.filter(|_| !quic), quic));
        }
        let port = acceptors.iter().find(|(.., quic)| *quic).map(|(quic, ..)| quic.addresses()[0].port());
        let alternative = port.and_then(|port| HeaderValue::from_str(&format!("h3=\":{port}\"")).ok());
        let secure = |settings| Secure { settings, alternative: alternative.clone() };
        let acceptors = acceptors.into_iter().map(|(acceptor, tls, _)| (acceptor, tls.map(secure))).collect();
        let serving = Serving {
            store: Arc::new(store),
            limits,
            slots: Slots::new(limits.connections),
            refused: Arc::default(),
            drain: Arc::new(Drain::new()),
            http: http(&limits),
            secure: None,
        };
        Ok(Self { acceptors, serving })
    }

    /// The addresses of each transport, in the order of the configuration, with the ports the system chose.
    #[must_use]
    pub fn addresses(&self) -> Vec<Vec<SocketAddr>> {
        self.acceptors.iter().map(|(acceptor, _)| acceptor.addresses().to_vec()).collect()
    }

    /// A handle to its counts of connections.
    #[must_use]
    pub fn watch(&self) -> Watch {
        Watch(self.serving.slots.clone())
    }

    /// Serves until `stop`. Responses in progress then have `drain` to finish; the rest is reset.
    ///
    /// Cancellation: dropping the future ends every connection.
    pub async fn run_until(self, stop: impl Future<Output = ()>, drain: Duration) -> Drained {
        let Self { acceptors, serving } = self;
        let mut accepting = JoinSet::new();
        for (acceptor, secure) in acceptors {
            accepting.spawn(accept(acceptor, Serving { secure, ..serving.clone() }));
        }
        stop.await;
        let ending = &serving.drain;
        let connections = serving.slots.counts().open;
        tracing::info!(connections, "ending; responses have {drain:?} to finish");
        let reset = ending.finish(Instant::now() + drain).await;
        ending.close_sessions(Instant::now() + CLOSING);
        // An acceptor ends when its connections have ended.
        let _ = timeout(2 * CLOSING, async { while accepting.join_next().await.is_some() {} }).await;
        Drained { reset, undelivered: 0 }
    }
}

fn http(limits: &Limits) -> auto::Builder<TokioExecutor> {
    let mut builder = auto::Builder::new(TokioExecutor::new());
    builder
        .http1()
        .timer(TokioTimer::new())
        .header_read_timeout(limits.headers)
        .max_buf_size(HEADERS)
        .writev(true)
        .http2()
        .timer(TokioTimer::new())
        .max_header_list_size(HEADERS as u32)
        .max_concurrent_streams(STREAMS)
        .max_send_buf_size(UNSENT);
    builder
}

/// Accepts connections until the server stops, then waits for them to end.
async fn accept(mut acceptor: Acceptor, serving: Serving) {
    let mut connections = JoinSet::new();
    let mut waiting = serving.drain.ticket();
    loop {
        tokio::select! {
            accepted = acceptor.accept() => {
                let Some((connection, from)) = accepted else { break };
                connections.spawn(streams(connection, from, serving.clone()));
            }
            Some(_) = connections.join_next() => {}
            () = waiting.draining() => break,
        }
    }
    drop((acceptor, waiting));
    while connections.join_next().await.is_some() {}
}

/// Serves every stream of a transport connection; TCP and MPTCP have one.
async fn streams(connection: Connection, from: SocketAddr, serving: Serving) {
    let who = Source::of_client(connection.client_key(), from);
    if let Some(quic) = connection.quic().zip(connection.handshake()) {
        if let Some(slot) = slot((who, from), &serving) {
            tokio::select! {
                () = http3::serve(quic, (from, &slot.activity), &serving, serving.drain.ticket()) => {}
                () = slot.lost() => tracing::debug!(%from, "connection ended: idle, and its place is needed"),
            }
        }
        return drop(timeout(CLOSING, connection.close()).await);
    }
    let mut streams = JoinSet::new();
    let mut accepting = true;
    loop {
        tokio::select! {
            stream = connection.accept_stream(), if accepting => match stream {
                Ok(stream) if !serving.drain.is_draining() => serve_slot(stream, (who, from), &serving, &mut streams),
                // The server is stopping: the stream is dropped and so reset.
                Ok(_) => {}
                Err(_) => accepting = false,
            },
            Some(_) = streams.join_next() => {}
            _ = serving.drain.closing() => break,
        }
        if !accepting && streams.is_empty() {
            break;
        }
    }
    // Close the session in order; a peer that does not answer in time is dropped.
    let _ = timeout(CLOSING, connection.close()).await;
}

/// A place for another connection, if there is one.
fn slot((who, from): (Source, SocketAddr), serving: &Serving) -> Option<Slot> {
    let slot = serving.slots.enter(who);
    slot.inspect_err(|full| {
        serving
            .refused
            .tell(|more| tracing::warn!(%from, "connection refused: {full}; see --connections{more}"));
    })
    .ok()
}

/// Serves a stream if there is a place for it.
fn serve_slot(
    stream: TransportStream,
    (who, from): (Source, SocketAddr),
    serving: &Serving,
    streams: &mut JoinSet<()>,
) {
    let Some(slot) = slot((who, from), serving) else { return };
    let (serving, ticket) = (serving.clone(), serving.drain.ticket());
    streams.spawn(async move {
        tokio::select! {
            () = serve((stream, &slot.activity), from, &serving, ticket) => {}
            // Dropping the connection resets it.
            () = slot.lost() => tracing::debug!(%from, "connection ended: idle, and its place is needed"),
        }
    });
}

/// Serves one HTTP/1.1 or HTTP/2 connection until it ends.
async fn serve(
    (stream, activity): (TransportStream, &Activity),
    from: SocketAddr,
    serving: &Serving,
    ticket: Ticket,
) {
    let Some(secure) = &serving.secure else {
        let stream = FileSender::new(stream);
        let outgoing = stream.outgoing();
        let stream = IdleTimeout::new(stream, serving.limits.idle, activity.clone());
        return converse((stream, outgoing), from, serving, ticket).await;
    };
    let stream = IdleTimeout::new(stream, serving.limits.idle, activity.clone());
    let shaking = TlsAcceptor::from(secure.settings.clone()).accept(stream);
    match timeout(serving.limits.headers, shaking).await {
        Ok(Ok(stream)) => converse((stream, None), from, serving, ticket).await,
        Ok(Err(error)) => tracing::debug!(%from, "connection ended: TLS handshake: {error}"),
        Err(_) => tracing::debug!(%from, "connection ended: no TLS handshake in time"),
    }
}

/// Answers requests, to the end of the connection. With an `Outgoing`, the kernel sends parts of files over HTTP/1.1.
async fn converse<S>(
    (stream, outgoing): (S, Option<Outgoing>),
    from: SocketAddr,
    serving: &Serving,
    mut ticket: Ticket,
) where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let store = serving.store.clone();
    let alternative = serving.secure.as_ref().and_then(|secure| secure.alternative.clone());
    let service = service_fn(move |request: http::Request<hyper::body::Incoming>| {
        let (store, alternative) = (store.clone(), alternative.clone());
        let outgoing = outgoing.clone().filter(|_| request.version() < http::Version::HTTP_2);
        async move {
            // A body is not read: nothing is uploaded.
            let (request, _) = request.into_parts();
            let mut response = answer::answer(&store, &request, outgoing).await;
            response.headers_mut().extend(alternative.map(|value| (header::ALT_SVC, value)));
            tracing::debug!(%from, method = %request.method, uri = %request.uri, status = response.status().as_u16());
            Ok::<_, Infallible>(response)
        }
    });
    let mut connection = std::pin::pin!(serving.http.serve_connection(TokioIo::new(stream), service));
    tokio::select! {
        ended = connection.as_mut() => return note(from, ended),
        () = ticket.draining() => connection.as_mut().graceful_shutdown(),
    }
    tokio::select! {
        ended = connection.as_mut() => note(from, ended),
        // Dropping the connection resets it.
        () = ticket.cut() => {}
    }
}

fn note(from: SocketAddr, ended: Result<(), Box<dyn std::error::Error + Send + Sync>>) {
    if let Err(error) = ended {
        tracing::debug!(%from, "connection ended: {error}");
    }
}

#[cfg(test)]
mod tests;
