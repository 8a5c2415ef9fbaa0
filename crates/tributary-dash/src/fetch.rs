//! Requests to one server. HTTP/1.1 over streams: one connection at a time, reopened when it has ended. HTTP/3 over
//! QUIC: one stream per request. Used by the DASH client and by the path controller's client.

mod body;
mod connection;
mod http3;

use std::time::Duration;

use bytes::Bytes;
use http::header::{self, HeaderMap, HeaderName, HeaderValue};
use http::{Method, Response, StatusCode};
use hyper::client::conn::http1::{self, SendRequest};
use hyper_util::rt::TokioIo;
use thiserror::Error;
use tokio::task::JoinSet;
use tributary_net::transport::{Arrivals, TransportError};
use tributary_player::dash::mpd::{ByteRange, Request};

pub use body::HttpError;
pub(crate) use body::Received;
use body::Sent;
pub(crate) use connection::HttpConnection;
use http3::Http3;
pub use http3::Http3Error;

/// Timeout for the headers of a response, and for a small response as a whole.
const ANSWER: Duration = Duration::from_secs(20);

/// Why a request failed.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum FetchError {
    /// The URL is not `http`, and not `https` over QUIC.
    #[error(
        "`{0}` is not a URL that can be fetched; write http://HOST:PORT/PATH, or https:// with --transport quic"
    )]
    Url(String),
    /// The media is on another server.
    #[error("`{url}` is not on {authority}, where the manifest is; one transport reaches one server")]
    Elsewhere {
        /// The URL of the request.
        url: String,
        /// The manifest's server.
        authority: String,
    },
    /// The server refused.
    #[error("{url}: the server answers {status}")]
    Status {
        /// The URL of the request.
        url: String,
        /// Its answer.
        status: StatusCode,
    },
    /// The response has other bytes than the requested ones.
    #[error("{0}: the server did not send the requested bytes")]
    Range(String),
    /// The response is larger than the limit.
    #[error("{url} has more than {most} bytes")]
    TooLarge {
        /// The URL of the request.
        url: String,
        /// The limit.
        most: usize,
    },
    /// The time limit passed.
    #[error("{url}: no answer within {ANSWER:?}")]
    Silent {
        /// The URL of the request.
        url: String,
    },
    /// The transport failed.
    #[error(transparent)]
    Transport(#[from] TransportError),
    /// The connection failed.
    #[error("{url}: {source}")]
    Http {
        /// The URL of the request.
        url: String,
        /// The HTTP library's error.
        source: HttpError,
    },
}

#[derive(Debug)]
struct Open {
    sender: SendRequest<Sent>,
    arrivals: Option<Arrivals>,
    /// Bytes of the stream before the body of the last response.
    before_body: u64,
    /// The task that drives the stream; aborted with this value.
    _driver: JoinSet<()>,
}

/// Counts the bytes of a response's body that have arrived, in any order, whether they have been read or not. The
/// framing of a chunked body counts as well.
#[derive(Clone, Debug)]
pub(crate) struct BodyArrivals {
    stream: Arrivals,
    /// Bytes of the stream before the body.
    before: u64,
}

impl BodyArrivals {
    /// Their present number; zero once the stream has ended.
    pub(crate) fn bytes(&self) -> u64 {
        self.stream.bytes().saturating_sub(self.before)
    }
}

/// Requests to one server over one transport. Dropping it resets the stream it uses.
#[derive(Debug)]
pub(crate) struct Line {
    connection: HttpConnection,
    authority: String,
    /// Headers sent with every request.
    always: HeaderMap,
    open: Option<Open>,
}

/// Splits `http://HOST:PORT/PATH`, or the same with `https`, into the authority and the rest.
pub(crate) fn split(url: &str) -> Result<(String, String), FetchError> {
    let malformed = || FetchError::Url(url.to_owned());
    let uri: http::Uri = url.parse().map_err(|_| malformed())?;
    if !matches!(uri.scheme_str(), Some("http" | "https")) {
        return Err(malformed());
    }
    let authority = uri.authority().ok_or_else(malformed)?.as_str().to_owned();
    let path = uri.path_and_query().map_or("/", http::uri::PathAndQuery::as_str);
    Ok((authority, path.to_owned()))
}

impl Line {
    pub(crate) fn new(connection: HttpConnection, authority: &str) -> Self {
        Self { connection, authority: authority.to_owned(), always: HeaderMap::new(), open: None }
    }

    /// Adds a header to every request.
    pub(crate) fn with(mut self, name: HeaderName, value: HeaderValue) -> Self {
        self.always.insert(name, value);
        self
    }

    /// Returns a connection that can take a request.
    async fn ready(&mut self, url: &str) -> Result<&mut Open, FetchError> {
        let usable = match &mut self.open {
            Some(open) => open.sender.ready().await.is_ok(),
            None => false,
        };
        if !usable {
            let HttpConnection::Streams(connection) = &self.connection else {
                return Err(FetchError::Url(url.to_owned()));
            };
            let stream = connection.open_stream(0).await?;
            let failed = |error: hyper::Error| FetchError::Http { url: url.to_owned(), source: error.into() };
            let arrivals = stream.recv.arrivals();
            let (mut sender, connection) = http1::handshake(TokioIo::new(stream)).await.map_err(failed)?;
            // The reason why the connection ended is reported by the request that fails.
            let mut driver = JoinSet::new();
            driver.spawn(async move { drop(connection.await) });
            sender.ready().await.map_err(failed)?;
            self.open = Some(Open { sender, arrivals, before_body: 0, _driver: driver });
        }
        // The connection exists: it was opened above, or was still usable.
        self.open.as_mut().ok_or_else(|| FetchError::Url(url.to_owned()))
    }

    /// Requests a resource and waits for the headers of the response. If the server closed the connection
    /// before it read the request, it is sent once more on a new connection.
    pub(crate) async fn get(
        &mut self,
        url: &str,
        headers: &HeaderMap,
    ) -> Result<Response<Received>, FetchError> {
        self.send(&Method::GET, url, headers, Bytes::new()).await
    }

    /// Sends a request that is safe to repeat.
    pub(crate) async fn send(
        &mut self,
        method: &Method,
        url: &str,
        headers: &HeaderMap,
        body: Bytes,
    ) -> Result<Response<Received>, FetchError> {
        let (authority, path) = split(url)?;
        if authority != self.authority {
            return Err(FetchError::Elsewhere { url: url.to_owned(), authority: self.authority.clone() });
        }
        if let HttpConnection::Http3(http) = &self.connection {
            return ask(http, url, (method, &authority, &path), headers).await;
        }
        if url.starts_with("https") {
            return Err(FetchError::Url(url.to_owned()));
        }
        for attempt in 0..2 {
            let malformed = || FetchError::Url(url.to_owned());
            let request = http::Request::builder().method(method).uri(&path).header(header::HOST, &authority);
            let mut request = request.body(Sent(body.clone())).map_err(|_| malformed())?;
            request.headers_mut().extend(self.always.clone());
            request.headers_mut().extend(headers.clone());
            let reused = self.open.is_some();
            let answering = async {
                let open = self.ready(url).await?;
                // All responses before this one have been read to their ends.
                let before = open.arrivals.as_ref().map_or(0, Arrivals::bytes);
                let answered = open.sender.send_request(request).await;
                open.before_body = before + answered.as_ref().map_or(0, head_length);
                Ok::<_, FetchError>(answered)
            };
            let answered = tokio::time::timeout(ANSWER, answering).await;
            match answered.map_err(|_| FetchError::Silent { url: url.to_owned() })?? {
                Ok(response) => return Ok(response.map(Received::Http1)),
                Err(_) if attempt == 0 && reused => self.open = None,
                Err(error) => return Err(FetchError::Http { url: url.to_owned(), source: error.into() }),
            }
        }
        Err(FetchError::Silent { url: url.to_owned() })
    }

    /// Fetches a small resource completely.
    pub(crate) async fn fetch(&mut self, request: &Request, most: usize) -> Result<Bytes, FetchError> {
        let url = &request.url;
        let mut headers = HeaderMap::new();
        if let Some(range) = request.range {
            headers.insert(header::RANGE, range_value(range, 0));
        }
        let response = self.get(url, &headers).await?;
        let wanted = if request.range.is_some() { StatusCode::PARTIAL_CONTENT } else { StatusCode::OK };
        if response.status() != wanted {
            // The rest of the body would be read as the next response on this connection.
            self.open = None;
            return Err(FetchError::Status { url: url.clone(), status: response.status() });
        }
        let mut body = response.into_body();
        let mut all = Vec::new();
        let reading = async {
            while let Some(piece) = body.next().await {
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

    /// A counter of the last response's body, where the transport counts bytes after a gap.
    pub(crate) fn body_arrivals(&self) -> Option<BodyArrivals> {
        let open = self.open.as_ref()?;
        Some(BodyArrivals { stream: open.arrivals.clone()?, before: open.before_body })
    }

    /// Ends the connection in use; the next request opens another.
    pub(crate) fn reset(&mut self) {
        self.open = None;
    }
}

/// Sends a request over HTTP/3.
async fn ask(
    http: &Http3,
    url: &str,
    (method, authority, path): (&Method, &str, &str),
    headers: &HeaderMap,
) -> Result<Response<Received>, FetchError> {
    let uri = http::Uri::builder().scheme("https").authority(authority).path_and_query(path).build();
    let malformed = |_| FetchError::Url(url.to_owned());
    let mut request = http::Request::new(());
    *request.uri_mut() = uri.map_err(malformed)?;
    request.method_mut().clone_from(method);
    request.headers_mut().clone_from(headers);
    let answered = tokio::time::timeout(ANSWER, http.ask(&request)).await;
    match answered.map_err(|_| FetchError::Silent { url: url.to_owned() })? {
        Ok(response) => Ok(response.map(|answer| Received::Http3(Box::new(answer)))),
        Err(error) => Err(FetchError::Http { url: url.to_owned(), source: error.into() }),
    }
}

/// The `Range` header for `range` without its first `from` bytes.
pub(crate) fn range_value(range: ByteRange, from: u64) -> HeaderValue {
    let last = range.last.map_or(String::new(), |last| last.to_string());
    let text = format!("bytes={}-{last}", range.first.saturating_add(from));
    HeaderValue::from_str(&text).unwrap_or_else(|_| HeaderValue::from_static("bytes=0-"))
}

/// The length of a response's head in HTTP/1.1 (RFC 9112 §2.1), as servers write it: one space after each colon.
fn head_length(response: &Response<hyper::body::Incoming>) -> u64 {
    let reason =
        response.extensions().get::<hyper::ext::ReasonPhrase>().map(|phrase| phrase.as_bytes().len());
    let reason = reason.or(response.status().canonical_reason().map(str::len)).unwrap_or_default();
    let fields = response.headers().iter();
    let fields: usize = fields.map(|(name, value)| name.as_str().len() + value.len() + ": \r\n".len()).sum();
    ("HTTP/1.1 200 \r\n\r\n".len() + reason + fields) as u64
}

/// The length of a complete response, if its headers give it.
pub(crate) fn length(response: &Response<Received>) -> Option<u64> {
    response.body().left()
}

/// The first byte of a 206 response, and the length of the file.
pub(crate) fn content_range(headers: &HeaderMap) -> Option<u64> {
    let value = headers.get(header::CONTENT_RANGE)?.to_str().ok()?;
    value.strip_prefix("bytes ")?.split_once('-')?.0.parse().ok()
}

#[cfg(test)]
mod tests;
