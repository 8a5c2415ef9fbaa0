//! One download of a viewing: over the connection in use, and behind the bytes that have arrived over the next one.
//! Source: RFC 9110 §13.1.5 (`If-Range`), §14 (ranges).

use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use bytes::Bytes;
use http::header::{self, HeaderMap, HeaderValue};
use http::{Method, Response, StatusCode};
use http_body::{Body, Frame, SizeHint};
use thiserror::Error;
use tokio::sync::mpsc;
use tokio::time::timeout;
use tributary_player::dash::mpd::ByteRange;

use super::{KEPT, Link, Viewing};
use crate::client::FetchError;
use crate::fetch::{Cut, HttpConnection, Line, Received, length, range_value, redirect_target, split};

/// Time without a connection after which a request is given up.
const PATIENCE: Duration = Duration::from_secs(20);
/// Failures in a row after which a download is given up.
const FAILURES: u32 = 6;
/// Pause after a failure, for each one before it.
const PAUSE: Duration = Duration::from_millis(200);
/// Pieces of a body that wait for the browser.
const WAITING: usize = 8;

/// Why a file could not be fetched.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum CarryError {
    /// No viewer has begun, or no transport could be connected.
    #[error("there is no connection to the title's server{}", .0.as_ref().map(|why| format!(": {why}")).unwrap_or_default())]
    NoConnection(Option<String>),
    /// The server does not answer as it should.
    #[error(transparent)]
    Fetch(#[from] FetchError),
    /// The download failed and cannot be continued.
    #[error("{url}: the download failed after {arrived} bytes and cannot be continued: {why}")]
    Broken {
        /// The file.
        url: String,
        /// Bytes that had arrived.
        arrived: u64,
        /// Why.
        why: String,
    },
}

/// The body of a download.
#[derive(Debug)]
pub struct Carried {
    pieces: mpsc::Receiver<Result<Bytes, CarryError>>,
    /// Bytes still to come, if the server said how many.
    left: Option<u64>,
}

impl Body for Carried {
    type Data = Bytes;
    type Error = CarryError;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, CarryError>>> {
        let piece = ready!(self.pieces.poll_recv(cx));
        if let (Some(left), Some(Ok(piece))) = (&mut self.left, &piece) {
            *left = left.saturating_sub(piece.len() as u64);
        }
        Poll::Ready(piece.map(|piece| piece.map(Frame::data)))
    }

    fn is_end_stream(&self) -> bool {
        self.left == Some(0)
    }

    fn size_hint(&self) -> SizeHint {
        self.left.map_or_else(SizeHint::default, SizeHint::with_exact)
    }
}

/// An answer and what it came over.
struct Answered {
    link: u64,
    line: Line,
    response: Response<Received>,
}

/// How a body ended.
enum End {
    Complete,
    /// The browser does not want the rest.
    Unwanted,
    /// Requests go over another connection from now on.
    Moved,
    Failed(String),
}

/// See [`Viewing::get`].
pub(super) async fn get(
    viewing: &Viewing,
    path: &str,
    headers: &HeaderMap,
) -> Result<Response<Carried>, CarryError> {
    let scheme = if viewing.0.config.url.starts_with("https") { "https" } else { "http" };
    let url = format!("{scheme}://{}{path}", viewing.0.authority);
    let range = headers.get(header::RANGE);
    let asked: HeaderMap = range.into_iter().map(|range| (header::RANGE, range.clone())).collect();
    let answered = ask(viewing, &url, &asked).await?;
    let mut answer = Response::new(());
    *answer.status_mut() = answered.response.status();
    for name in [header::CONTENT_RANGE, header::ACCEPT_RANGES, header::ETAG, header::LAST_MODIFIED] {
        if let Some(value) = answered.response.headers().get(&name) {
            answer.headers_mut().insert(name, value.clone());
        }
    }
    if let Some(to) = redirect_target(&url, &answered.response)? {
        let (authority, path) = split(&to)?;
        if authority != viewing.0.authority {
            return Err(FetchError::Elsewhere { url: to, authority: viewing.0.authority.clone() }.into());
        }
        if let Ok(path) = HeaderValue::from_str(&path) {
            answer.headers_mut().insert(header::LOCATION, path);
        }
    }
    let left = length(&answered.response);
    let (tell, pieces) = mpsc::channel(WAITING);
    tokio::spawn(carry(viewing.clone(), url, answered, tell));
    Ok(answer.map(|()| Carried { pieces, left }))
}

/// Sends a request, if need be several times, over the connection that is in use then.
async fn ask(viewing: &Viewing, url: &str, headers: &HeaderMap) -> Result<Answered, CarryError> {
    let mut failures = 0;
    loop {
        let (link, connection) = connection(viewing).await?;
        let kept = viewing.lines().pop().filter(|(of, _)| *of == link).map(|(_, line)| line);
        let mut line = kept.unwrap_or_else(|| Line::new(connection, &viewing.0.authority));
        let error = tokio::select! {
            answered = line.send(&Method::GET, url, headers, Bytes::new()) => match answered {
                Ok(response) => return Ok(Answered { link, line, response }),
                Err(error) => error,
            },
            () = moved(viewing, link) => continue,
        };
        failures += 1;
        if failures == FAILURES || matches!(error, FetchError::Url(_) | FetchError::Elsewhere { .. }) {
            return Err(error.into());
        }
        // Another connection may work at once.
        let _ = timeout(PAUSE * failures, moved(viewing, link)).await;
    }
}

/// The connection in use; waits for one.
async fn connection(viewing: &Viewing) -> Result<(u64, HttpConnection), CarryError> {
    if !viewing.0.wanted.borrow().now {
        return Err(CarryError::NoConnection(None));
    }
    let mut links = viewing.0.link.subscribe();
    let up = links.wait_for(|link| matches!(link, Link::Up(..)));
    if let Ok(Ok(link)) = timeout(PATIENCE, up).await
        && let Link::Up(number, connection) = &*link
    {
        return Ok((*number, connection.clone()));
    }
    let why = match &*viewing.0.link.borrow() {
        Link::Down(why) => Some(why.clone()),
        _ => None,
    };
    Err(CarryError::NoConnection(why))
}

/// Waits until this connection is not the one in use any more.
async fn moved(viewing: &Viewing, link: u64) {
    let mut links = viewing.0.link.subscribe();
    // The sender is in `viewing`, so it is not gone.
    let _ = links.wait_for(|now| !matches!(now, Link::Up(number, _) if *number == link)).await;
}

/// Passes a body on, to its end.
async fn carry(
    viewing: Viewing,
    url: String,
    answered: Answered,
    tell: mpsc::Sender<Result<Bytes, CarryError>>,
) {
    let status = answered.response.status();
    let headers = answered.response.headers();
    let tag = headers.get(header::ETAG).filter(|tag| tag.as_bytes().starts_with(b"\"")).cloned();
    let first = match status {
        StatusCode::OK => Some(0),
        StatusCode::PARTIAL_CONTENT => first_byte(headers),
        _ => None,
    };
    let last = first.zip(length(&answered.response)).and_then(|(first, size)| (first + size).checked_sub(1));
    // What is asked for again, and how its bytes are told from those of another version.
    let again = first.zip(last).zip(tag);
    let (mut answered, mut cut) = (answered, None);
    let (mut arrived, mut failures) = (0, 0);
    loop {
        let before = arrived;
        let Answered { link, line, response } = answered;
        let end = pass(&viewing, (link, response, cut.take()), &tell, &mut arrived).await;
        let why = match end {
            End::Complete => {
                let mut lines = viewing.lines();
                lines.push((link, line));
                let excess = lines.len().saturating_sub(KEPT);
                lines.drain(..excess);
                return;
            }
            End::Unwanted => return,
            End::Moved => "the transport has changed".to_owned(),
            End::Failed(why) => {
                failures = if arrived > before { 1 } else { failures + 1 };
                why
            }
        };
        drop(line);
        let next = match &again {
            Some(((first, last), tag)) if failures < FAILURES => {
                let rest = ByteRange { first: first + arrived, last: Some(*last) };
                go_on(&viewing, (&url, tag), rest).await
            }
            _ => Err(why),
        };
        match next {
            Ok((next, part)) => {
                viewing.count(|counters| counters.continued += 1);
                (answered, cut) = (next, Some(part));
            }
            Err(why) => {
                viewing.count(|counters| counters.failed += 1);
                let _ = tell.send(Err(CarryError::Broken { url, arrived, why })).await;
                return;
            }
        }
    }
}

/// Passes one response's body on.
async fn pass(
    viewing: &Viewing,
    (link, response, mut cut): (u64, Response<Received>, Option<Cut>),
    tell: &mpsc::Sender<Result<Bytes, CarryError>>,
    arrived: &mut u64,
) -> End {
    let mut body = response.into_body();
    loop {
        let next = async {
            match &mut cut {
                Some(cut) => cut.next(&mut body).await,
                None => body.next().await,
            }
        };
        let piece = tokio::select! {
            piece = next => piece,
            () = moved(viewing, link) => return End::Moved,
            () = tell.closed() => return End::Unwanted,
        };
        match piece {
            None if cut.as_ref().is_some_and(|cut| !cut.is_complete()) => {
                return End::Failed("the server sent less than was asked for".to_owned());
            }
            None => return End::Complete,
            Some(Err(error)) => return End::Failed(error.to_string()),
            Some(Ok(piece)) => {
                *arrived += piece.len() as u64;
                viewing.count(|counters| counters.bytes += piece.len() as u64);
                if tell.send(Ok(piece)).await.is_err() {
                    return End::Unwanted;
                }
            }
        }
    }
}

/// Asks for the rest of a file that must not have changed.
async fn go_on(
    viewing: &Viewing,
    (url, tag): (&str, &HeaderValue),
    rest: ByteRange,
) -> Result<(Answered, Cut), String> {
    let headers = [(header::RANGE, range_value(rest, 0)), (header::IF_RANGE, tag.clone())];
    let answered = ask(viewing, url, &headers.into_iter().collect()).await.map_err(|e| e.to_string())?;
    let cut = Cut::of(url, Some(rest), &answered.response).map_err(|error| error.to_string())?;
    if answered.response.headers().get(header::ETAG) != Some(tag) {
        return Err("the file has changed".to_owned());
    }
    Ok((answered, cut))
}

/// The first byte of a partial response, `bytes FIRST-LAST/TOTAL`.
fn first_byte(headers: &HeaderMap) -> Option<u64> {
    let value = headers.get(header::CONTENT_RANGE)?.to_str().ok()?;
    value.trim().strip_prefix("bytes")?.split_once('-')?.0.trim().parse().ok()
}
