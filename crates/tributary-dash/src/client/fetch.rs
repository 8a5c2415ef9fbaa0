//! HTTP/1.1 requests over streams of a transport: one connection at a time, opened again when it has ended.

use std::time::Duration;

use bytes::Bytes;
use http::header::{self, HeaderMap, HeaderValue};
use http::{Method, Response, StatusCode};
use http_body::Body;
use hyper::body::Incoming;
use hyper::client::conn::http1::{self, SendRequest};
use hyper_util::rt::TokioIo;
use thiserror::Error;
use tokio::task::JoinSet;
use tributary_net::transport::{Connection, TransportError};
use tributary_player::dash::mpd::{ByteRange, Request};

use crate::body::{Sent, next};

/// Time for the headers of a response, and for a small response as a whole.
const ANSWER: Duration = Duration::from_secs(20);

/// Why a request brought nothing.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum FetchError {
    /// The URL is no `http` URL.
    #[error("`{0}` is no URL that can be fetched; write http://HOST:PORT/PATH")]
    Url(String),
    /// The media is on another server.
    #[error("`{url}` is not on {authority}, where the manifest is; one transport reaches one server")]
    Elsewhere {
        /// What was asked for.
        url: String,
        /// The manifest's server.
        authority: String,
    },
    /// The server refused.
    #[error("{url}: the server answers {status}")]
    Status {
        /// What was asked for.
        url: String,
        /// Its answer.
        status: StatusCode,
    },
    /// The server sent something other than the bytes asked for.
    #[error("{0}: the server did not send the bytes that were asked for")]
    Range(String),
    /// The response is larger than anything useful.
    #[error("{url} has more than {most} bytes")]
    TooLarge {
        /// What was asked for.
        url: String,
        /// The limit.
        most: usize,
    },
    /// No answer.
    #[error("{url}: no answer within {ANSWER:?}")]
    Silent {
        /// What was asked for.
        url: String,
    },
    /// The transport failed.
    #[error(transparent)]
    Transport(#[from] TransportError),
    /// The connection failed.
    #[error("{url}: {source}")]
    Http {
        /// What was asked for.
        url: String,
        /// What hyper says.
        source: hyper::Error,
    },
}

#[derive(Debug)]
struct Open {
    sender: SendRequest<Sent>,
    /// Drives the stream; ends with its owner.
    _driver: JoinSet<()>,
}

/// Requests to one server over one transport. Dropping it resets the stream it uses.
#[derive(Debug)]
pub(crate) struct Line {
    transport: Connection,
    authority: String,
    open: Option<Open>,
}

/// Splits `http://HOST:PORT/PATH` into the authority and the rest.
pub(crate) fn split(url: &str) -> Result<(String, String), FetchError> {
    let malformed = || FetchError::Url(url.to_owned());
    let uri: http::Uri = url.parse().map_err(|_| malformed())?;
    if uri.scheme_str() != Some("http") {
        return Err(malformed());
    }
    let authority = uri.authority().ok_or_else(malformed)?.as_str().to_owned();
    let path = uri.path_and_query().map_or("/", http::uri::PathAndQuery::as_str);
    Ok((authority, path.to_owned()))
}

impl Line {
    pub(crate) fn new(transport: Connection, authority: &str) -> Self {
        Self { transport, authority: authority.to_owned(), open: None }
    }

    /// A connection that can take a request.
    async fn ready(&mut self, url: &str) -> Result<&mut SendRequest<Sent>, FetchError> {
        let usable = match &mut self.open {
            Some(open) => open.sender.ready().await.is_ok(),
            None => false,
        };
        if !usable {
            let stream = self.transport.open_stream(0).await?;
            let failed = |source| FetchError::Http { url: url.to_owned(), source };
            let (mut sender, connection) = http1::handshake(TokioIo::new(stream)).await.map_err(failed)?;
            // Why it ended is told by the request that fails.
            let mut driver = JoinSet::new();
            driver.spawn(async move { drop(connection.await) });
            sender.ready().await.map_err(failed)?;
            self.open = Some(Open { sender, _driver: driver });
        }
        // It is there: made above, or found usable.
        self.open.as_mut().map(|open| &mut open.sender).ok_or_else(|| FetchError::Url(url.to_owned()))
    }

    /// Asks for a resource and waits for the headers of the response. A connection that the server closed before it
    /// read the request is opened once more.
    pub(super) async fn get(
        &mut self,
        url: &str,
        headers: &HeaderMap,
    ) -> Result<Response<Incoming>, FetchError> {
        self.send(&Method::GET, url, headers, Bytes::new()).await
    }

    /// Sends any request that may be carried out twice.
    pub(crate) async fn send(
        &mut self,
        method: &Method,
        url: &str,
        headers: &HeaderMap,
        body: Bytes,
    ) -> Result<Response<Incoming>, FetchError> {
        let (authority, path) = split(url)?;
        if authority != self.authority {
            return Err(FetchError::Elsewhere { url: url.to_owned(), authority: self.authority.clone() });
        }
        for attempt in 0..2 {
            let malformed = || FetchError::Url(url.to_owned());
            let request = http::Request::builder().method(method).uri(&path).header(header::HOST, &authority);
            let mut request = request.body(Sent(body.clone())).map_err(|_| malformed())?;
            request.headers_mut().extend(headers.clone());
            let reused = self.open.is_some();
            let answering = async { Ok::<_, FetchError>(self.ready(url).await?.send_request(request).await) };
            let answered = tokio::time::timeout(ANSWER, answering).await;
            match answered.map_err(|_| FetchError::Silent { url: url.to_owned() })?? {
                Ok(response) => return Ok(response),
                Err(_) if attempt == 0 && reused => self.open = None,
                Err(source) => return Err(FetchError::Http { url: url.to_owned(), source }),
            }
        }
        Err(FetchError::Silent { url: url.to_owned() })
    }

    /// Fetches something small as a whole.
    pub(crate) async fn fetch(&mut self, request: &Request, most: usize) -> Result<Bytes, FetchError> {
        let url = &request.url;
        let mut headers = HeaderMap::new();
        if let Some(range) = request.range {
            headers.insert(header::RANGE, range_value(range, 0));
        }
        let response = self.get(url, &headers).await?;
        let wanted = if request.range.is_some() { StatusCode::PARTIAL_CONTENT } else { StatusCode::OK };
        if response.status() != wanted {
            // What is left of the body would come before the next response.
            self.open = None;
            return Err(FetchError::Status { url: url.clone(), status: response.status() });
        }
        let mut body = response.into_body();
        let mut all = Vec::new();
        let reading = async {
            while let Some(piece) = next(&mut body).await {
                let piece = piece.map_err(|source| FetchError::Http { url: url.clone(), source })?;
                if all.len() + piece.len() > most {
                    return Err(FetchError::TooLarge { url: url.clone(), most });
                }
                all.extend_from_slice(&piece);
            }
            Ok(())
        };
        let read = tokio::time::timeout(ANSWER, reading).await;
        let read = read.unwrap_or_else(|_| Err(FetchError::Silent { url: url.clone() }));
        if read.is_err() {
            self.open = None;
        }
        read?;
        let expected = request.range.and_then(|range| range.length());
        if expected.is_some_and(|expected| expected != all.len() as u64) {
            return Err(FetchError::Range(url.clone()));
        }
        Ok(all.into())
    }

    /// Ends the connection in use; the next request opens another.
    pub(crate) fn reset(&mut self) {
        self.open = None;
    }
}

/// The `Range` header for `range` without its first `from` bytes.
pub(super) fn range_value(range: ByteRange, from: u64) -> HeaderValue {
    let last = range.last.map_or(String::new(), |last| last.to_string());
    let text = format!("bytes={}-{last}", range.first.saturating_add(from));
    HeaderValue::from_str(&text).unwrap_or_else(|_| HeaderValue::from_static("bytes=0-"))
}

/// The bytes of a whole response, where its headers say so.
pub(super) fn length(response: &Response<Incoming>) -> Option<u64> {
    response.body().size_hint().exact()
}

/// The first byte that a 206 response has, and the length of the file.
pub(super) fn content_range(headers: &HeaderMap) -> Option<u64> {
    let value = headers.get(header::CONTENT_RANGE)?.to_str().ok()?;
    value.strip_prefix("bytes ")?.split_once('-')?.0.parse().ok()
}
