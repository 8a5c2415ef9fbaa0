//! Byte ranges as servers answer them: the range, a shorter or a longer one, or the whole file. Source: RFC 9110 §14.2
//! (a server may ignore `Range`) and §15.3.7 (a partial response may be shorter than asked for).

use bytes::Bytes;
use http::header::{self, HeaderMap};
use http::{Response, StatusCode};
use tributary_player::dash::mpd::ByteRange;

use super::body::Received;
use super::{FetchError, HttpError};

/// How the wanted bytes are cut out of a response.
#[derive(Debug)]
pub(crate) struct Cut {
    /// Bytes of the body before the wanted ones.
    skip: u64,
    /// Wanted bytes that have not come yet; `None`: all to the end.
    left: Option<u64>,
    /// Whether the response is the whole file, although a part was asked for.
    pub(crate) whole: bool,
    /// Whether the server announces fewer bytes than wanted.
    pub(crate) short: bool,
    /// Whether the file ends with this response.
    pub(crate) ends: bool,
}

/// `Content-Range: bytes 0-99/1000`.
struct ContentRange {
    first: u64,
    last: u64,
    total: Option<u64>,
}

impl Cut {
    /// The cut for a response to a request of `wanted`; `None`: the whole resource was asked for.
    ///
    /// # Errors
    /// The status is neither 200 nor 206, or the response has other bytes.
    pub(crate) fn of(
        url: &str,
        wanted: Option<ByteRange>,
        response: &Response<Received>,
    ) -> Result<Self, FetchError> {
        let (status, headers) = (response.status(), response.headers());
        let others = || FetchError::Range(url.to_owned());
        let first = wanted.map_or(0, |range| range.first);
        let left = wanted.and_then(|range| range.length());
        match status {
            StatusCode::OK => {
                Ok(Self { skip: first, left, whole: wanted.is_some(), short: false, ends: true })
            }
            StatusCode::PARTIAL_CONTENT => {
                let sent = content_range(headers).ok_or_else(others)?;
                let skip = first.checked_sub(sent.first).ok_or_else(others)?;
                let has = (sent.last + 1).checked_sub(first).ok_or_else(others)?;
                let ends = sent.total.is_some_and(|total| sent.last.saturating_add(1) >= total);
                let short = match left {
                    Some(left) => has < left,
                    None => !ends && sent.total.is_some(),
                };
                Ok(Self { skip, left, whole: false, short, ends })
            }
            status => Err(FetchError::Status { url: url.to_owned(), status }),
        }
    }

    /// Whether bytes come before the wanted ones.
    pub(crate) fn skips(&self) -> bool {
        self.skip > 0
    }

    /// Whether everything wanted has come.
    pub(crate) fn is_complete(&self) -> bool {
        self.left == Some(0)
    }

    /// The next wanted bytes, empty while others are skipped; `None` at the end.
    pub(crate) async fn next(&mut self, body: &mut Received) -> Option<Result<Bytes, HttpError>> {
        if self.is_complete() {
            return None;
        }
        let mut piece = match body.next().await? {
            Ok(piece) => piece,
            Err(error) => return Some(Err(error)),
        };
        let skipped = self.skip.min(piece.len() as u64);
        self.skip -= skipped;
        let mut piece = piece.split_off(skipped as usize);
        if let Some(left) = &mut self.left {
            piece.truncate(usize::try_from(*left).unwrap_or(usize::MAX));
            *left -= piece.len() as u64;
        }
        Some(Ok(piece))
    }
}

fn content_range(headers: &HeaderMap) -> Option<ContentRange> {
    let value = headers.get(header::CONTENT_RANGE)?.to_str().ok()?;
    let (range, total) = value.trim().strip_prefix("bytes")?.trim_start().split_once('/')?;
    let (first, last) = range.split_once('-')?;
    let (first, last) =
        (first.trim().parse().ok()?, last.trim().parse().ok().filter(|last| *last < u64::MAX)?);
    (first <= last).then(|| ContentRange { first, last, total: total.trim().parse().ok() })
}
