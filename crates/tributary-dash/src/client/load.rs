//! The download of one segment as a task: headers that it depends on, the request, and the segment's bytes.

use std::sync::Arc;

use bytes::Bytes;
use http::header::{self, HeaderMap, HeaderName, HeaderValue};
use http::{Response, StatusCode};
use tokio::sync::mpsc;
use tributary_player::dash::mpd::{ByteRange, Request};

use super::presentation::{Presentation, PresentationError};
use crate::fetch::{BodyArrivals, Cut, FetchError, Line, Received, drain, length, range_value};

/// Maximum size of a segment in memory.
const SEGMENT: u64 = 256 << 20;

/// Messages about a download.
#[derive(Debug)]
pub(super) enum Arrived {
    /// The response began: size of the whole segment, the entity tag, and a counter of its bytes.
    Headers(Option<u64>, Option<HeaderValue>, Option<BodyArrivals>),
    /// The server sent the whole file in place of a range.
    Whole,
    /// Bytes of the file before those that were asked for.
    Skipped,
    /// Some of its bytes.
    Data(Bytes),
    /// The segment does not exist and is not needed, for this reason.
    Missing(String),
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
        Ok(last) => last,
        Err((kept, why)) => {
            line.reset();
            Arrived::Failed(kept, why)
        }
    };
    // The receiver no longer exists after the end of playback.
    let _ = tell.send((job.id, last)).await;
    line
}

/// Whether the bytes that arrived can be used, and the reason of the failure.
type Failure = (bool, String);

/// The bytes of a segment that this job has delivered.
struct Delivery<'a> {
    job: &'a Job,
    tell: &'a mpsc::Sender<(u64, Arrived)>,
    /// Bytes of the segment that the player has.
    arrived: u64,
    /// Whether the player knows that the response has begun.
    begun: bool,
}

async fn transfer(
    line: &mut Line,
    presentation: &Presentation,
    job: &Job,
    tell: &mpsc::Sender<(u64, Arrived)>,
) -> Result<Arrived, Failure> {
    let kept = |error: PresentationError| (true, error.to_string());
    let request = presentation.media(line, (job.segment, job.quality)).await.map_err(kept)?;
    let mut delivery = Delivery { job, tell, arrived: job.from, begun: false };
    loop {
        let had = delivery.arrived;
        let asked = headers(&request, job, had);
        let response = line.get(&request.url, &asked).await.map_err(|error| kept(error.into()))?;
        let status = response.status();
        let gone = matches!(status, StatusCode::NOT_FOUND | StatusCode::GONE | StatusCode::FORBIDDEN);
        if gone && presentation.may_be_missing((job.segment, job.quality)) {
            if !drain(response.into_body()).await {
                line.reset();
            }
            return Ok(Arrived::Missing(format!("{}: the server answers {status}", request.url)));
        }
        let cut = delivery.receive(line, &request, response).await?;
        // A server may send less than it is asked for; the rest is asked for again.
        if !cut.short || cut.ends || delivery.arrived == had {
            return Ok(Arrived::End);
        }
    }
}

impl Delivery<'_> {
    /// Tells the player; `false` if it has ended.
    async fn say(&self, what: Arrived) -> bool {
        self.tell.send((self.job.id, what)).await.is_ok()
    }

    /// Passes the wanted bytes of a response on.
    async fn receive(
        &mut self,
        line: &mut Line,
        request: &Request,
        response: Response<Received>,
    ) -> Result<Cut, Failure> {
        let (mut cut, size) = judge(request, self.job, self.arrived, &response)?;
        let too_large =
            || (false, FetchError::TooLarge { url: request.url.clone(), most: SEGMENT as usize }.to_string());
        if size.is_some_and(|size| size > SEGMENT) {
            return Err(too_large());
        }
        if cut.whole {
            line.note_ignored_range();
            self.say(Arrived::Whole).await;
        }
        let tag =
            response.headers().get(header::ETAG).filter(|tag| tag.as_bytes().starts_with(b"\"")).cloned();
        // The transport's counter is of the whole body, so it is of no use when a part is cut out.
        let counter = line.body_arrivals().filter(|_| !cut.whole && !cut.skips() && !cut.short);
        let mut begin = (!self.begun).then_some(Arrived::Headers(size, tag, counter));
        let mut body = response.into_body();
        loop {
            // The segment begins with its response, or where the bytes before it end.
            if !cut.skips()
                && let Some(message) = begin.take()
            {
                self.begun = true;
                self.say(message).await;
            }
            let Some(piece) = cut.next(&mut body).await else { break };
            let piece = piece.map_err(|error| (true, format!("{}: {error}", request.url)))?;
            if piece.is_empty() {
                self.say(Arrived::Skipped).await;
                continue;
            }
            if let Some(message) = begin.take() {
                self.begun = true;
                self.say(message).await;
            }
            self.arrived += piece.len() as u64;
            if self.arrived > SEGMENT {
                return Err(too_large());
            }
            if !self.say(Arrived::Data(piece)).await {
                break;
            }
        }
        if !drain(body).await {
            line.reset();
        }
        Ok(cut)
    }
}

/// The headers of a request for a segment without its first `from` bytes.
fn headers(request: &Request, job: &Job, from: u64) -> HeaderMap {
    let mut headers = HeaderMap::new();
    let whole = ByteRange { first: 0, last: None };
    if request.range.is_some() || from > 0 {
        headers.insert(header::RANGE, range_value(request.range.unwrap_or(whole), from));
    }
    if let Some(tag) = job.tag.as_ref().filter(|_| from > 0) {
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

/// Checks that the response matches a request for a segment without its first `from` bytes. Returns how it is cut, and
/// the size of the whole segment.
fn judge(
    request: &Request,
    job: &Job,
    from: u64,
    response: &Response<Received>,
) -> Result<(Cut, Option<u64>), Failure> {
    let wanted = match request.range {
        Some(range) => Some(range.from(from)),
        None if from > 0 => Some(ByteRange { first: from, last: None }),
        None => None,
    };
    let cut = Cut::of(&request.url, wanted, response);
    let kept = |error: &FetchError| !matches!(error, FetchError::Range(_));
    let cut = cut.map_err(|error| (kept(&error), error.to_string()))?;
    let tag = response.headers().get(header::ETAG);
    if cut.whole && from > 0 && (tag.is_none() || tag != job.tag.as_ref()) {
        // The whole file in place of the rest: it may have changed, and then the bytes before are useless.
        let why =
            "the server sends the whole file in place of the rest, and does not say that it is the same";
        return Err((false, format!("{}: {why}", request.url)));
    }
    let before = if cut.whole { request.range.map_or(0, |range| range.first) } else { 0 };
    let rest =
        length(response).map(|length| if cut.whole { length.saturating_sub(before) } else { length + from });
    let open_end = if cut.short { None } else { rest };
    Ok((cut, request.range.and_then(|range| range.length()).or(open_end)))
}
