//! The download of one segment as a task: headers that it depends on, the request, and the segment's bytes.

use std::sync::Arc;

use bytes::Bytes;
use http::header::{self, HeaderMap, HeaderName, HeaderValue};
use http::{Response, StatusCode};
use tokio::sync::mpsc;
use tributary_player::dash::mpd::{ByteRange, Request};

use super::presentation::{Presentation, PresentationError};
use crate::fetch::{BodyArrivals, FetchError, Line, Received, content_range, length, range_value};

/// Maximum size of a segment in memory.
const SEGMENT: u64 = 256 << 20;

/// Messages about a download.
#[derive(Debug)]
pub(super) enum Arrived {
    /// The response began: size of the whole segment, the entity tag, and a counter of its bytes.
    Headers(Option<u64>, Option<HeaderValue>, Option<BodyArrivals>),
    /// Some of its bytes.
    Data(Bytes),
    /// It is complete.
    End,
    /// It failed: whether the bytes received so far can be used, and the reason.
    Failed(bool, String),
}

/// A download to make.
#[derive(Debug)]
pub(super) struct Job {
    pub(super) id: u64,
    pub(super) segment: usize,
    pub(super) quality: usize,
    /// Bytes received before, and the entity tag they belong to.
    pub(super) from: u64,
    pub(super) tag: Option<HeaderValue>,
    /// CMCD headers.
    pub(super) said: Vec<(&'static str, String)>,
}

/// Runs the download and reports its progress. Returns the connection for the next one.
pub(super) async fn load(
    mut line: Line,
    presentation: Arc<Presentation>,
    job: Job,
    tell: mpsc::Sender<(u64, Arrived)>,
) -> Line {
    let last = match transfer(&mut line, &presentation, &job, &tell).await {
        Ok(()) => Arrived::End,
        Err((kept, why)) => {
            line.reset();
            Arrived::Failed(kept, why)
        }
    };
    // The receiver no longer exists after the end of playback.
    let _ = tell.send((job.id, last)).await;
    line
}

type Failure = (bool, String);

async fn transfer(
    line: &mut Line,
    presentation: &Presentation,
    job: &Job,
    tell: &mpsc::Sender<(u64, Arrived)>,
) -> Result<(), Failure> {
    let kept = |error: PresentationError| (true, error.to_string());
    let request = presentation.media(line, (job.segment, job.quality)).await.map_err(kept)?;
    let response =
        line.get(&request.url, &headers(&request, job)).await.map_err(|error| kept(error.into()))?;
    let size = judge(&request, job, &response)?;
    if size.is_some_and(|size| size > SEGMENT) {
        return Err((false, FetchError::TooLarge { url: request.url, most: SEGMENT as usize }.to_string()));
    }
    let tag = response.headers().get(header::ETAG).filter(|tag| tag.as_bytes().starts_with(b"\"")).cloned();
    let _ = tell.send((job.id, Arrived::Headers(size, tag, line.body_arrivals()))).await;
    let mut body = response.into_body();
    let mut arrived = job.from;
    while let Some(piece) = body.next().await {
        let piece = piece.map_err(|error| (true, format!("{}: {error}", request.url)))?;
        arrived += piece.len() as u64;
        if arrived > SEGMENT {
            return Err((
                false,
                FetchError::TooLarge { url: request.url, most: SEGMENT as usize }.to_string(),
            ));
        }
        if tell.send((job.id, Arrived::Data(piece))).await.is_err() {
            break;
        }
    }
    Ok(())
}

fn headers(request: &Request, job: &Job) -> HeaderMap {
    let mut headers = HeaderMap::new();
    let whole = ByteRange { first: 0, last: None };
    if request.range.is_some() || job.from > 0 {
        headers.insert(header::RANGE, range_value(request.range.unwrap_or(whole), job.from));
    }
    if let Some(tag) = job.tag.as_ref().filter(|_| job.from > 0) {
        // The rest of the file is usable only if the file has not changed.
        headers.insert(header::IF_RANGE, tag.clone());
    }
    for (name, value) in &job.said {
        let name = HeaderName::from_bytes(name.as_bytes());
        if let (Ok(name), Ok(value)) = (name, HeaderValue::from_str(value)) {
            headers.insert(name, value);
        }
    }
    headers
}

/// Checks that the response matches the request, and returns the size of the whole segment.
fn judge(request: &Request, job: &Job, response: &Response<Received>) -> Result<Option<u64>, Failure> {
    let status = response.status();
    let partial = request.range.is_some() || job.from > 0;
    let wanted = if partial { StatusCode::PARTIAL_CONTENT } else { StatusCode::OK };
    if status != wanted {
        // The server sent the whole file instead of the rest: it has changed, and the bytes received before
        // are useless.
        let error = FetchError::Status { url: request.url.clone(), status };
        return Err((status != StatusCode::OK, error.to_string()));
    }
    let first = request.range.map_or(0, |range| range.first).saturating_add(job.from);
    if partial && content_range(response.headers()) != Some(first) {
        return Err((false, FetchError::Range(request.url.clone()).to_string()));
    }
    let rest = length(response).map(|rest| rest.saturating_add(job.from));
    Ok(request.range.and_then(|range| range.length()).or(rest))
}
