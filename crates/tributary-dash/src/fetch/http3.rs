//! HTTP/3 requests over one QUIC connection, with 0-RTT where possible.
//!
//! Only requests that are safe to repeat are sent. If the server rejects early data (the ticket has expired,
//! or the server was restarted) or answers 425 (Too Early), the requests are sent again after the handshake.
//! Source: RFC 9114, RFC 8470.

use std::sync::Arc;
use std::time::Duration;

use bytes::{Buf, Bytes};
use h3::client::{RequestStream, SendRequest};
use http::{Response, StatusCode, header};
use thiserror::Error;
use tokio::sync::Mutex;
use tokio::task::JoinSet;
use tributary_net::transport::{Connection, Handshake};

/// Maximum size of response headers.
const HEADERS: u64 = 64 << 10;
/// Time for a server to allow the client's control streams.
const OPENING: Duration = Duration::from_secs(10);

type Sender = SendRequest<h3_quinn::OpenStreams, Bytes>;

/// Why a request failed.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum Http3Error {
    /// The connection failed.
    #[error(transparent)]
    Connection(#[from] h3::error::ConnectionError),
    /// The request failed.
    #[error(transparent)]
    Stream(#[from] h3::error::StreamError),
    /// The server allows no unidirectional streams, which HTTP/3 needs (RFC 9114 §6.2).
    #[error("the server allowed no control streams of HTTP/3 within {0:?}")]
    NoStreams(Duration),
    /// The handshake failed.
    #[error("the connection ended before its handshake was over")]
    Handshake,
    /// The response ended early.
    #[error("the response ended {0} bytes early")]
    Short(u64),
    /// The response is longer than announced.
    #[error("the response is longer than its Content-Length")]
    Long,
}

/// HTTP/3 state. Streams opened before the handshake are lost when the server rejects early data.
struct Open {
    sender: Sender,
    early: bool,
    /// The task that drives the control streams; aborted with this value.
    _driver: JoinSet<()>,
}

/// A QUIC connection for HTTP/3. Clones are handles to the same one.
#[derive(Clone)]
pub(crate) struct Http3 {
    connection: Connection,
    quic: quinn::Connection,
    handshake: Handshake,
    open: Arc<Mutex<Option<Open>>>,
    /// Time limit for opening the control streams.
    opening: Duration,
}

impl std::fmt::Debug for Http3 {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("Http3").field(&self.connection).finish()
    }
}

impl Http3 {
    /// HTTP/3 over this connection; `None` if it is not a `quic` connection.
    pub(crate) fn over(connection: &Connection) -> Option<Self> {
        let (quic, handshake) = (connection.quic()?.clone(), connection.handshake()?.clone());
        let open = Arc::default();
        Some(Self { connection: connection.clone(), quic, handshake, open, opening: OPENING })
    }

    pub(crate) fn connection(&self) -> &Connection {
        &self.connection
    }

    /// Sends a request without a body and waits for the headers of the response.
    pub(crate) async fn ask(&self, request: &http::Request<()>) -> Result<Response<Answer>, Http3Error> {
        loop {
            // The second attempt is never early data.
            let early = !self.handshake.is_over();
            let sender = self.sender().await?;
            let answered = exchange(sender, request.clone()).await;
            let again = match &answered {
                Ok(response) => response.status() == StatusCode::TOO_EARLY,
                Err(_) => true,
            };
            if !early || !again {
                return answered;
            }
            let taken = self.handshake.clone().over().await.ok_or(Http3Error::Handshake)?;
            if answered.is_err() {
                if taken {
                    return answered;
                }
                // The server rejected the early streams; new streams work.
                self.open.lock().await.take_if(|open| open.early);
            }
        }
    }

    async fn sender(&self) -> Result<Sender, Http3Error> {
        let mut open = self.open.lock().await;
        if let Some(open) = open.as_ref() {
            return Ok(open.sender.clone());
        }
        let early = !self.handshake.is_over();
        let mut builder = h3::client::builder();
        builder.max_field_section_size(HEADERS).send_grease(false);
        // Without credit for streams from the server, this waits.
        let building = builder.build(h3_quinn::Connection::new(self.quic.clone()));
        let built = tokio::time::timeout(self.opening, building).await;
        let (mut http, sender) = built.map_err(|_| Http3Error::NoStreams(self.opening))??;
        let (mut driver, mut handshake) = (JoinSet::new(), self.handshake.clone());
        driver.spawn(async move {
            if early && handshake.over().await != Some(true) {
                // Do not drive rejected streams: the server's control stream belongs to the streams that are opened
                // later.
                std::future::pending::<()>().await;
            }
            // The reason why the connection ended is reported by the request that fails.
            let _ = http.wait_idle().await;
        });
        Ok(open.insert(Open { sender, early, _driver: driver }).sender.clone())
    }
}

async fn exchange(mut sender: Sender, request: http::Request<()>) -> Result<Response<Answer>, Http3Error> {
    let mut stream = sender.send_request(request).await?;
    // A server may answer and stop the stream before it has read the whole request; the answer is valid (RFC
    // 9114 §4.1).
    let _ = stream.finish().await;
    let (head, ()) = stream.recv_response().await?.into_parts();
    let length = head.headers.get(header::CONTENT_LENGTH);
    let left = length.and_then(|length| length.to_str().ok()?.parse().ok());
    Ok(Response::from_parts(head, Answer { stream, left }))
}

/// The body of a response. Dropping it early stops the stream (STOP_SENDING).
pub(crate) struct Answer {
    stream: RequestStream<h3_quinn::BidiStream<Bytes>, Bytes>,
    /// Number of bytes still to come, if the headers give it.
    left: Option<u64>,
}

impl Answer {
    pub(crate) fn left(&self) -> Option<u64> {
        self.left
    }

    /// The next bytes; `None` at the end.
    pub(crate) async fn next(&mut self) -> Option<Result<Bytes, Http3Error>> {
        match self.stream.recv_data().await {
            Ok(Some(mut piece)) => {
                let bytes = piece.copy_to_bytes(piece.remaining());
                if let Some(left) = &mut self.left {
                    match left.checked_sub(bytes.len() as u64) {
                        Some(rest) => *left = rest,
                        None => return Some(Err(Http3Error::Long)),
                    }
                }
                Some(Ok(bytes))
            }
            Ok(None) => self.left.take().filter(|left| *left > 0).map(|left| Err(Http3Error::Short(left))),
            Err(error) => Some(Err(error.into())),
        }
    }
}

#[cfg(test)]
mod tests;
