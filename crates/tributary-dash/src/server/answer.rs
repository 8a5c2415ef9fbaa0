//! From a request to its response: methods, conditions, ranges, and the headers that browsers need.
//!
//! Source: RFC 9110 §13 (conditional requests) and §14 (ranges), the Fetch standard (CORS).

use std::io;
use std::sync::Arc;
use std::time::SystemTime;

use bytes::Bytes;
use http::header::{self, HeaderMap, HeaderName, HeaderValue};
use http::request::Parts;
use http::{Method, Response, StatusCode};
use rustix::io::Errno;

use super::body::Content;
use super::files::{Opened, Store};
use super::range::{Asked, asked};
use super::sendfile::Outgoing;
use super::target;

const METHODS: HeaderValue = HeaderValue::from_static("GET, HEAD, OPTIONS");
/// Headers that a page of another origin may send.
const ALLOWED: HeaderValue = HeaderValue::from_static(
    "Range, If-None-Match, If-Modified-Since, If-Range, CMCD-Object, CMCD-Request, CMCD-Session, CMCD-Status",
);
/// Headers that such a page may read.
const EXPOSED: HeaderValue =
    HeaderValue::from_static("Accept-Ranges, Content-Length, Content-Range, Date, ETag, Last-Modified");
/// From this length, the kernel sends a part of a file where it can.
const SENT_BY_KERNEL: u64 = 16 << 10;
const ANY: HeaderValue = HeaderValue::from_static("*");

/// Answers a request. With an `outgoing`, the kernel sends parts of files.
pub(super) async fn answer(
    store: &Arc<Store>,
    request: &Parts,
    outgoing: Option<Outgoing>,
) -> Response<Content> {
    let mut response = match request.method {
        Method::GET | Method::HEAD => match file(store, request, outgoing).await {
            Ok(response) => response,
            Err(status) => plain(status),
        },
        Method::OPTIONS => preflight(),
        _ => {
            let mut response = plain(StatusCode::METHOD_NOT_ALLOWED);
            response.headers_mut().insert(header::ALLOW, METHODS);
            response
        }
    };
    let headers = response.headers_mut();
    headers.insert(header::ACCESS_CONTROL_ALLOW_ORIGIN, ANY);
    headers.insert(header::ACCESS_CONTROL_EXPOSE_HEADERS, EXPOSED);
    headers.insert(HeaderName::from_static("timing-allow-origin"), ANY);
    if request.method == Method::HEAD {
        // A HEAD response keeps the length of the GET response in its headers.
        *response.body_mut() = Content::Memory(Bytes::new());
    }
    response
}

/// The answer to a CORS preflight request.
fn preflight() -> Response<Content> {
    let mut response = empty(StatusCode::NO_CONTENT);
    let headers = response.headers_mut();
    headers.insert(header::ALLOW, METHODS);
    headers.insert(header::ACCESS_CONTROL_ALLOW_METHODS, METHODS);
    headers.insert(header::ACCESS_CONTROL_ALLOW_HEADERS, ALLOWED);
    headers.insert(header::ACCESS_CONTROL_MAX_AGE, HeaderValue::from_static("86400"));
    response
}

fn empty(status: StatusCode) -> Response<Content> {
    let mut response = Response::new(Content::Memory(Bytes::new()));
    *response.status_mut() = status;
    response
}

/// An error response with one line of text.
pub(super) fn plain(status: StatusCode) -> Response<Content> {
    let text = format!("{status}\n");
    let mut response = Response::new(Content::Memory(Bytes::from(text.clone())));
    *response.status_mut() = status;
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("text/plain; charset=utf-8"));
    headers.insert(header::CONTENT_LENGTH, text.len().into());
    response
}

/// Answers a request for a file.
async fn file(
    store: &Arc<Store>,
    request: &Parts,
    outgoing: Option<Outgoing>,
) -> Result<Response<Content>, StatusCode> {
    let path = target::file(request.uri.path()).ok_or(StatusCode::NOT_FOUND)?;
    // Opening is a short system call; contents are read on other threads.
    let opened = store.file(&path).map_err(|error| status_of(&error))?;
    if !wanted(&request.headers, &opened) {
        return Err(StatusCode::PRECONDITION_FAILED);
    }
    if unchanged(&request.headers, &opened) {
        let mut response = empty(StatusCode::NOT_MODIFIED);
        describe(response.headers_mut(), &opened);
        return Ok(response);
    }
    let range = request.headers.get(header::RANGE).filter(|_| request.method == Method::GET);
    let range = range.filter(|_| same(&request.headers, &opened));
    let (status, part) = match asked(range.map(HeaderValue::as_bytes), opened.length) {
        Asked::All => (StatusCode::OK, 0..opened.length),
        Asked::Part(part) => (StatusCode::PARTIAL_CONTENT, part),
        Asked::Unsatisfiable => {
            let mut response = plain(StatusCode::RANGE_NOT_SATISFIABLE);
            let of = value(&format!("bytes */{}", opened.length));
            response.headers_mut().insert(header::CONTENT_RANGE, of);
            return Ok(response);
        }
    };
    let mut response = empty(status);
    let headers = response.headers_mut();
    describe(headers, &opened);
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static(media_type(&path)));
    headers.insert(header::X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    headers.insert(header::CONTENT_LENGTH, (part.end - part.start).into());
    if status == StatusCode::PARTIAL_CONTENT {
        let range = format!("bytes {}-{}/{}", part.start, part.end - 1, opened.length);
        headers.insert(header::CONTENT_RANGE, value(&range));
    }
    if request.method == Method::GET {
        let outgoing = outgoing.filter(|_| part.end - part.start >= SENT_BY_KERNEL);
        let contents = if outgoing.is_some() { None } else { store.contents(&opened).await };
        *response.body_mut() = match contents {
            Some(bytes) => Content::Memory(bytes.slice(part.start as usize..part.end as usize)),
            None => Content::disk(opened, part, outgoing),
        };
    }
    Ok(response)
}

/// Headers that identify this version of the file.
fn describe(headers: &mut HeaderMap, opened: &Opened) {
    let (tag, modified) = &opened.headers;
    headers.insert(header::ETAG, tag.clone());
    headers.insert(header::LAST_MODIFIED, modified.clone());
    headers.insert(header::ACCEPT_RANGES, HeaderValue::from_static("bytes"));
}

/// A header value of printable ASCII.
fn value(text: &str) -> HeaderValue {
    HeaderValue::from_str(text).unwrap_or_else(|_| HeaderValue::from_static(""))
}

fn status_of(error: &io::Error) -> StatusCode {
    match error.kind() {
        io::ErrorKind::PermissionDenied => StatusCode::FORBIDDEN,
        // No descriptors, no memory, or a concurrent rename: the client may retry.
        _ if matches!(
            Errno::from_io_error(error),
            Some(Errno::NOMEM | Errno::NFILE | Errno::MFILE | Errno::AGAIN)
        ) =>
        {
            StatusCode::SERVICE_UNAVAILABLE
        }
        _ => StatusCode::NOT_FOUND,
    }
}

/// A header as text, if it is present and is text.
fn text(headers: &HeaderMap, name: HeaderName) -> Option<&str> {
    headers.get(name)?.to_str().ok()
}

fn date(headers: &HeaderMap, name: HeaderName) -> Option<SystemTime> {
    httpdate::parse_http_date(text(headers, name)?).ok()
}

/// Whether a list of entity tags contains this one. `weak` also accepts tags marked `W/`.
fn lists(list: &str, tag: &str, weak: bool) -> bool {
    list.trim() == "*"
        || list.split(',').any(|one| {
            let one = one.trim();
            one == tag || (weak && one.strip_prefix("W/") == Some(tag))
        })
}

/// Evaluates `If-Match`, else `If-Unmodified-Since`.
fn wanted(headers: &HeaderMap, opened: &Opened) -> bool {
    match text(headers, header::IF_MATCH) {
        Some(list) => lists(list, &opened.tag, false),
        None => date(headers, header::IF_UNMODIFIED_SINCE).is_none_or(|since| opened.modified <= since),
    }
}

/// Evaluates `If-None-Match`, else `If-Modified-Since`: whether the client already has this version.
fn unchanged(headers: &HeaderMap, opened: &Opened) -> bool {
    match text(headers, header::IF_NONE_MATCH) {
        Some(list) => lists(list, &opened.tag, true),
        None => date(headers, header::IF_MODIFIED_SINCE).is_some_and(|since| opened.modified <= since),
    }
}

/// Evaluates `If-Range`: a range is useful only if the client has the rest of the same version.
fn same(headers: &HeaderMap, opened: &Opened) -> bool {
    match text(headers, header::IF_RANGE).map(str::trim) {
        None => !headers.contains_key(header::IF_RANGE),
        // A date may begin with "Wed".
        Some(tag) if tag.starts_with('"') || tag.starts_with("W/") => tag == opened.tag,
        Some(_) => date(headers, header::IF_RANGE) == Some(opened.modified),
    }
}

/// The media type by the ending of the file's name.
fn media_type(path: &str) -> &'static str {
    let ending = path.rsplit_once('.').map_or("", |(_, ending)| ending).to_ascii_lowercase();
    match ending.as_str() {
        "mpd" => "application/dash+xml",
        "m4s" => "video/iso.segment",
        "mp4" | "m4v" | "cmfv" => "video/mp4",
        "m4a" | "cmfa" => "audio/mp4",
        "webm" => "video/webm",
        "m3u8" => "application/vnd.apple.mpegurl",
        "vtt" => "text/vtt",
        "html" | "htm" => "text/html; charset=utf-8",
        "css" => "text/css; charset=utf-8",
        "js" | "mjs" => "text/javascript; charset=utf-8",
        "json" | "map" => "application/json",
        "xml" => "application/xml",
        "txt" => "text/plain; charset=utf-8",
        "svg" => "image/svg+xml",
        "png" => "image/png",
        "jpg" | "jpeg" => "image/jpeg",
        _ => "application/octet-stream",
    }
}
