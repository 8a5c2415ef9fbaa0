//! Requests for files of a directory, answered without a socket.

use std::time::{Duration, SystemTime};

use http::{HeaderMap, Method, Request, Response, StatusCode};
use http_body_util::BodyExt;

use super::answer::answer;
use super::body::Content;
use super::*;

struct Site {
    directory: tempfile::TempDir,
    store: Arc<Store>,
}

/// Larger than the server keeps in memory, with contents that differ from piece to piece.
const LARGE: usize = (4 << 20) + 12_345;

fn large(at: usize) -> u8 {
    (at * 31 + at / 251) as u8
}

impl Site {
    fn new() -> Self {
        let directory = tempfile::tempdir().unwrap();
        let write = |name: &str, bytes: &[u8]| std::fs::write(directory.path().join(name), bytes).unwrap();
        write("a.mpd", b"<MPD/>");
        write("index.html", b"hello");
        write("empty.m4s", b"");
        write("large.mp4", &(0..LARGE).map(large).collect::<Vec<_>>());
        let store = Arc::new(Store::open(directory.path()).unwrap());
        Self { directory, store }
    }

    async fn ask(&self, method: Method, path: &str, headers: &[(&str, &str)]) -> Response<Content> {
        let mut request = Request::builder().method(method).uri(path);
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        answer(&self.store, &request.body(()).unwrap().into_parts().0, None).await
    }

    async fn get(&self, path: &str, headers: &[(&str, &str)]) -> (StatusCode, HeaderMap, Vec<u8>) {
        let (parts, body) = self.ask(Method::GET, path, headers).await.into_parts();
        (parts.status, parts.headers, body.collect().await.unwrap().to_bytes().to_vec())
    }
}

#[tokio::test]
async fn files_have_their_type_length_and_validators() {
    let site = Site::new();
    let (status, headers, body) = site.get("/a.mpd?CMCD=bl%3D1", &[]).await;
    assert_eq!((status, body.as_slice()), (StatusCode::OK, b"<MPD/>".as_slice()));
    assert_eq!(headers["content-type"], "application/dash+xml");
    assert_eq!(headers["content-length"], "6");
    assert_eq!(headers["access-control-allow-origin"], "*");
    assert_eq!(headers["accept-ranges"], "bytes");
    assert!(headers.contains_key("etag") && headers.contains_key("last-modified"));
    assert_eq!(site.get("/", &[]).await.2, b"hello");
    assert_eq!(site.get("/empty.m4s", &[]).await.0, StatusCode::OK);
    for path in ["/none", "/../a.mpd", "/%2e%2e/%2e%2e/etc/passwd", "/.hidden"] {
        assert_eq!(site.get(path, &[]).await.0, StatusCode::NOT_FOUND, "{path}");
    }
}

#[tokio::test]
async fn a_head_has_the_headers_of_a_get_and_other_methods_are_refused() {
    let site = Site::new();
    let head = site.ask(Method::HEAD, "/large.mp4", &[("range", "bytes=0-1")]).await;
    assert_eq!(
        (head.status(), &head.headers()["content-length"]),
        (StatusCode::OK, &LARGE.to_string().parse().unwrap())
    );
    assert!(head.into_body().collect().await.unwrap().to_bytes().is_empty());
    for method in [Method::POST, Method::PUT, Method::DELETE, Method::CONNECT] {
        let refused = site.ask(method, "/a.mpd", &[]).await;
        assert_eq!(refused.status(), StatusCode::METHOD_NOT_ALLOWED);
        assert_eq!(refused.headers()["allow"], "GET, HEAD, OPTIONS");
    }
    let preflight = site.ask(Method::OPTIONS, "/a.mpd", &[("access-control-request-headers", "range")]).await;
    assert_eq!(preflight.status(), StatusCode::NO_CONTENT);
    assert!(preflight.headers()["access-control-allow-headers"].to_str().unwrap().contains("Range"));
}

#[tokio::test]
async fn ranges_bring_exactly_their_bytes_from_memory_and_from_disk() {
    let site = Site::new();
    let (status, headers, body) = site.get("/a.mpd", &[("range", "bytes=1-3")]).await;
    assert_eq!((status, body.as_slice()), (StatusCode::PARTIAL_CONTENT, b"MPD".as_slice()));
    assert_eq!(headers["content-range"], "bytes 1-3/6");
    for (range, from, to) in [
        ("bytes=0-0", 0, 1),
        ("bytes=131071-131072", 131_071, 131_073),
        ("bytes=-5", LARGE - 5, LARGE),
        ("bytes=1000-", 1000, LARGE),
    ] {
        let (status, headers, body) = site.get("/large.mp4", &[("range", range)]).await;
        assert_eq!(status, StatusCode::PARTIAL_CONTENT);
        assert_eq!(headers["content-range"], format!("bytes {from}-{}/{LARGE}", to - 1).as_str());
        assert!(body.iter().copied().eq((from..to).map(large)), "{range}");
    }
    for path in ["/a.mpd", "/empty.m4s", "/large.mp4"] {
        let (status, headers, _) = site.get(path, &[("range", "bytes=99999999-")]).await;
        assert_eq!(status, StatusCode::RANGE_NOT_SATISFIABLE);
        assert!(headers["content-range"].to_str().unwrap().starts_with("bytes */"));
    }
    assert_eq!(site.get("/a.mpd", &[("range", "bytes=3-1")]).await.0, StatusCode::OK);
}

#[tokio::test]
async fn a_range_may_depend_on_a_date_of_any_day_of_the_week() {
    let site = Site::new();
    let path = site.directory.path().join("a.mpd");
    for day in 0..7 {
        let modified = SystemTime::UNIX_EPOCH + Duration::from_secs(1_700_000_000 + day * 24 * 3600);
        std::fs::File::options().write(true).open(&path).unwrap().set_modified(modified).unwrap();
        let date = httpdate::fmt_http_date(modified);
        let status = site.get("/a.mpd", &[("range", "bytes=0-1"), ("if-range", &date)]).await.0;
        assert_eq!(status, StatusCode::PARTIAL_CONTENT, "{date}");
    }
}

#[tokio::test]
async fn conditional_requests_skip_or_refuse_the_transfer() {
    let site = Site::new();
    let (_, headers, _) = site.get("/a.mpd", &[]).await;
    let tag = headers["etag"].to_str().unwrap().to_owned();
    let date = headers["last-modified"].to_str().unwrap().to_owned();
    let later = httpdate::fmt_http_date(SystemTime::now() + Duration::from_secs(100));
    let weak = format!("\"x\", W/{tag}");
    use StatusCode as S;
    let range = ("range", "bytes=0-1");
    let table: &[(&[(&str, &str)], S)] = &[
        (&[("if-none-match", &tag)], S::NOT_MODIFIED),
        (&[("if-none-match", &weak)], S::NOT_MODIFIED),
        (&[("if-none-match", "*")], S::NOT_MODIFIED),
        (&[("if-none-match", "\"x\"")], S::OK),
        (&[("if-none-match", "\"x\""), ("if-modified-since", &later)], S::OK),
        (&[("if-modified-since", &date)], S::NOT_MODIFIED),
        (&[("if-modified-since", &later)], S::NOT_MODIFIED),
        (&[("if-modified-since", "Thu, 01 Jan 1970 00:00:00 GMT")], S::OK),
        (&[("if-modified-since", "yesterday")], S::OK),
        (&[("if-match", &tag)], S::OK),
        (&[("if-match", "\"x\"")], S::PRECONDITION_FAILED),
        (&[("if-unmodified-since", "Thu, 01 Jan 1970 00:00:00 GMT")], S::PRECONDITION_FAILED),
        (&[range, ("if-range", &tag)], S::PARTIAL_CONTENT),
        (&[range, ("if-range", &date)], S::PARTIAL_CONTENT),
        (&[range, ("if-range", "\"x\"")], S::OK),
        (&[range, ("if-range", &later)], S::OK),
        (&[range, ("if-range", &format!("W/{tag}"))], S::OK),
    ];
    for (conditions, expected) in table {
        let (status, headers, body) = site.get("/a.mpd", conditions).await;
        assert_eq!(status, *expected, "{conditions:?}");
        if status == S::NOT_MODIFIED {
            assert!(body.is_empty());
            assert_eq!(headers["etag"], tag.as_str());
        }
    }
}
