//! HTTP/3 requests over one QUIC connection, where possible before its handshake is over (0-RTT).
//!
//! Only requests that may be carried out twice are sent. A server that does not take early data, because the ticket has
//! expired or it has been restarted, gets them again once the handshake is over; one that answers 425 (Too Early), too.
//! Source: RFC 9114, RFC 8470.

use std::sync::Arc;

use bytes::{Buf, Bytes};
use h3::client::{RequestStream, SendRequest};
use http::{Response, StatusCode, header};
use thiserror::Error;
use tokio::sync::Mutex;
use tokio::task::JoinSet;
use tributary_net::transport::{Connection, Handshake};

/// Bytes of the headers of a response.
const HEADERS: u64 = 64 << 10;

type Sender = SendRequest<h3_quinn::OpenStreams, Bytes>;

/// Why a request brought nothing.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum Http3Error {
    /// The connection failed.
    #[error(transparent)]
    Connection(#[from] h3::error::ConnectionError),
    /// The request failed.
    #[error(transparent)]
    Stream(#[from] h3::error::StreamError),
    /// The handshake failed.
    #[error("the connection ended before its handshake was over")]
    Handshake,
    /// The response ended early.
    #[error("the response ended {0} bytes early")]
    Short(u64),
    /// The server sent more than it announced.
    #[error("the response is longer than its Content-Length")]
    Long,
}

/// HTTP/3 on the streams of one moment: those opened before the handshake are gone when the server refuses them.
struct Open {
    sender: Sender,
    early: bool,
    /// Drives the control streams; ends with its owner.
    _driver: JoinSet<()>,
}

/// A QUIC connection for HTTP/3. Clones are handles to the same one.
#[derive(Clone)]
pub(crate) struct Http3 {
    connection: Connection,
    quic: quinn::Connection,
    handshake: Handshake,
    open: Arc<Mutex<Option<Open>>>,
}

impl std::fmt::Debug for Http3 {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("Http3").field(&self.connection).finish()
    }
}

impl Http3 {
    /// HTTP/3 over this connection; `None` when it is not one of `quic`.
    pub(crate) fn over(connection: &Connection) -> Option<Self> {
        let (quic, handshake) = (connection.quic()?.clone(), connection.handshake()?.clone());
        Some(Self { connection: connection.clone(), quic, handshake, open: Arc::default() })
    }

    pub(crate) fn connection(&self) -> &Connection {
        &self.connection
    }

    /// Sends a request without a body and waits for the headers of the response.
    pub(crate) async fn ask(&self, request: &http::Request<()>) -> Result<Response<Answer>, Http3Error> {
        loop {
            // A second round is never early.
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
                // The server refused the streams of before the handshake; those that follow are good.
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
        let (mut http, sender) = builder.build(h3_quinn::Connection::new(self.quic.clone())).await?;
        let (mut driver, mut handshake) = (JoinSet::new(), self.handshake.clone());
        driver.spawn(async move {
            if early && handshake.over().await != Some(true) {
                // Refused streams are not driven: the server's control stream is for those that follow.
                std::future::pending::<()>().await;
            }
            // Why it ended is told by the request that fails.
            let _ = http.wait_idle().await;
        });
        Ok(open.insert(Open { sender, early, _driver: driver }).sender.clone())
    }
}

async fn exchange(mut sender: Sender, request: http::Request<()>) -> Result<Response<Answer>, Http3Error> {
    let mut stream = sender.send_request(request).await?;
    // A server that answers before it has read the request to its end may stop it; the answer counts (RFC 9114 §4.1).
    let _ = stream.finish().await;
    let (head, ()) = stream.recv_response().await?.into_parts();
    let length = head.headers.get(header::CONTENT_LENGTH);
    let left = length.and_then(|length| length.to_str().ok()?.parse().ok());
    Ok(Response::from_parts(head, Answer { stream, left }))
}

/// The body of a response. Dropping it before its end asks the server to stop.
pub(crate) struct Answer {
    stream: RequestStream<h3_quinn::BidiStream<Bytes>, Bytes>,
    /// Bytes that are to come, where the headers say so.
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
