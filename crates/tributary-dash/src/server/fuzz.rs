//! Body of the fuzz target `http-request`. It is here because the answers are private; not part of the public interface.

use std::sync::Arc;

use http::header::{self, HeaderName, HeaderValue};
use http::{Method, Request, StatusCode};

use super::answer::answer;
use super::body::Content;
use super::files::Store;

/// The file that is served.
const FILE: &str = "/a/b.mp4";
const LENGTH: usize = 1000;
/// What the lines after the path are, in this order.
const HEADERS: [HeaderName; 6] = [
    header::RANGE,
    header::IF_RANGE,
    header::IF_MATCH,
    header::IF_NONE_MATCH,
    header::IF_MODIFIED_SINCE,
    header::IF_UNMODIFIED_SINCE,
];

/// Only the file that is served is answered, and a range of it has as many bytes as its headers say.
///
/// Input: lines with the path (an empty one: the file's), then the values of `HEADERS`; empty ones are not sent.
///
/// # Panics
/// If one of these properties does not hold.
pub fn http_request(data: &[u8]) {
    let mut lines = data.split(|byte| *byte == b'\n');
    let path = lines.next().filter(|path| !path.is_empty()).unwrap_or(FILE.as_bytes());
    let mut request = Request::builder().method(Method::GET).uri(path);
    for (name, value) in HEADERS.into_iter().zip(lines).filter(|(_, value)| !value.is_empty()) {
        let Ok(value) = HeaderValue::from_bytes(value) else { return };
        request = request.header(name, value);
    }
    let Ok(request) = request.body(()) else { return };
    let (parts, ()) = request.into_parts();
    let directory = tempfile::tempdir().expect("a directory");
    std::fs::create_dir(directory.path().join("a")).expect("a directory in it");
    std::fs::write(directory.path().join("a/b.mp4"), [7; LENGTH]).expect("a file");
    let store = Arc::new(Store::open(directory.path()).expect("the directory is there"));
    let runtime = tokio::runtime::Builder::new_current_thread().build().expect("a runtime");
    let response = runtime.block_on(answer(&store, &parts, None));
    let Content::Memory(body) = response.body() else { panic!("a small file is read into memory") };
    let text = |name| response.headers().get(name).and_then(|value: &HeaderValue| value.to_str().ok());
    match response.status() {
        StatusCode::OK => assert_eq!(body.len(), LENGTH),
        StatusCode::PARTIAL_CONTENT => {
            let range = text(header::CONTENT_RANGE).and_then(|text| text.strip_prefix("bytes "));
            let (range, total) = range.and_then(|text| text.split_once('/')).expect("a range has a header");
            let (first, last) = range.split_once('-').expect("a range has two ends");
            let [first, last, total] =
                [first, last, total].map(|number| number.parse::<usize>().expect("a number"));
            assert!(last < total && total == LENGTH && body.len() == last + 1 - first, "{range} of {total}");
        }
        StatusCode::NOT_MODIFIED => assert!(body.is_empty()),
        StatusCode::RANGE_NOT_SATISFIABLE | StatusCode::NOT_FOUND | StatusCode::PRECONDITION_FAILED => {}
        other => panic!("{other}"),
    }
}
