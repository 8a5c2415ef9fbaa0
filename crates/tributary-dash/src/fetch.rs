//! Requests to one server. HTTP/1.1 over streams: one connection at a time, reopened when it has ended. HTTP/3 over
//! QUIC: one stream per request. Used by the DASH client and by the path controller's client.

mod body;
mod connection;
mod http3;
mod range;
mod redirect;

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
pub(crate) use range::Cut;
pub(crate) use redirect::{drain, target as redirect_target};

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
    /// The media is on another server, or a redirect leads there.
    #[error(
        "`{url}` is not on {authority}, where the manifest is; one transport reaches one server: give that URL"
    )]
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
    /// A redirect without a usable address.
    #[error("{url}: the server redirects to `{to}`, which is not a URL")]
    Redirect {
        /// The URL of the request.
        url: String,
        /// The address in the response.
        to: String,
    },
    /// Redirects without an end.
    #[error("{0}: the server redirects more than {most} times", most = redirect::MOST)]
    Redirects(String),
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
    /// The server sent a whole file for a range.
    ignores_ranges: bool,
}

/// URL of the response after redirects, among its extensions.
#[derive(Clone, Debug)]
struct Final(String);

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
        Self {
            connection,
            authority: authority.to_owned(),
            always: HeaderMap::new(),
            open: None,
            ignores_ranges: false,
        }
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

    /// Requests a resource and waits for the headers of the response; follows redirects on the same server. If the
    /// server closed the connection before it read the request, it is sent once more on a new connection.
    pub(crate) async fn get(
        &mut self,
        url: &str,
        headers: &HeaderMap,
    ) -> Result<Response<Received>, FetchError> {
        let mut at = url.to_owned();
        for _ in 0..=redirect::MOST {
            let mut response = self.send(&Method::GET, &at, headers, Bytes::new()).await?;
            let target = redirect::target(&at, &response);
            let Ok(None) = target else {
                let drained = tokio::time::timeout(ANSWER, redirect::drain(response.into_body())).await;
                if drained != Ok(true) {
                    self.open = None;
                }
                at = target?.unwrap_or_default();
                continue;
            };
            response.extensions_mut().insert(Final(at));
            return Ok(response);
        }
        Err(FetchError::Redirects(url.to_owned()))
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
        if !redirect::same_server(url, &authority, &self.authority) {
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
        let (bytes, _) = self.collect(request, most).await?;
        let expected = request.range.and_then(|range| range.length());
        if expected.is_some_and(|expected| expected != bytes.len() as u64) {
            return Err(FetchError::Range(request.url.clone()));
        }
        Ok(bytes)
    }

    /// Fetches a small resource with the URL that it has after redirects.
    pub(crate) async fn fetch_located(
        &mut self,
        url: &str,
        most: usize,
    ) -> Result<(Bytes, String), FetchError> {
        self.collect(&Request { url: url.to_owned(), range: None }, most).await
    }

    /// Fetches the first `count` bytes of a resource, or all if it has fewer.
    pub(crate) async fn fetch_start(&mut self, url: &str, count: usize) -> Result<Bytes, FetchError> {
        let range = ByteRange { first: 0, last: Some(count.saturating_sub(1) as u64) };
        Ok(self.collect(&Request { url: url.to_owned(), range: Some(range) }, count).await?.0)
    }

    /// Fetches a resource or a range of it, in several requests if the server sends less than it is asked for, and
    /// its URL after redirects. Fewer bytes than asked for are returned where the resource ends.
    async fn collect(&mut self, request: &Request, most: usize) -> Result<(Bytes, String), FetchError> {
        let url = &request.url;
        let mut all = Vec::new();
        loop {
            let got = all.len();
            let wanted = request.range.map(|range| range.from(got as u64));
            let mut headers = HeaderMap::new();
            if let Some(range) = wanted {
                headers.insert(header::RANGE, range_value(range, 0));
            }
            let response = self.get(url, &headers).await?;
            let located = response.extensions().get::<Final>().map_or_else(|| url.clone(), |at| at.0.clone());
            let cut = Cut::of(url, wanted, &response);
            // Unless the body is read to its end, it would be read as the next response on this connection.
            let open = self.open.take();
            let mut cut = cut?;
            self.ignores_ranges |= cut.whole;
            let reading = read_part(&mut cut, response.into_body(), (&mut all, most), url);
            let read = tokio::time::timeout(ANSWER, reading).await;
            let reusable = read.unwrap_or_else(|_| Err(FetchError::Silent { url: url.clone() }))?;
            self.open = open.filter(|_| reusable);
            if !cut.short || cut.ends || all.len() == got {
                return Ok((all.into(), located));
            }
        }
    }

    /// Whether the server has sent a whole file for a range of it.
    pub(crate) fn ignores_ranges(&self) -> bool {
        self.ignores_ranges
    }

    /// The server sent a whole file for a range of it.
    pub(crate) fn note_ignored_range(&mut self) {
        self.ignores_ranges = true;
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

/// Reads the wanted part of a body. Returns whether the connection can take another request.
async fn read_part(
    cut: &mut Cut,
    mut body: Received,
    (all, most): (&mut Vec<u8>, usize),
    url: &str,
) -> Result<bool, FetchError> {
    while let Some(piece) = cut.next(&mut body).await {
        let piece = piece.map_err(|source| FetchError::Http { url: url.to_owned(), source })?;
        if all.len() + piece.len() > most {
            return Err(FetchError::TooLarge { url: url.to_owned(), most });
        }
        all.extend_from_slice(&piece);
    }
    Ok(drain(body).await)
}

#[cfg(test)]
mod tests;
