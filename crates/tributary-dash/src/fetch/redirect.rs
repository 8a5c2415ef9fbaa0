//! Redirects: where to repeat a request. Source: RFC 9110 §15.4, RFC 3986 §5.

use http::header::{self, HeaderMap};
use http::{Response, StatusCode};
use tributary_player::dash::mpd;

use super::body::Received;
use super::{FetchError, split};

/// Most redirects of one request; a server that sends more sends the client in a circle.
pub(super) const MOST: usize = 10;
/// Largest rest of a body that is read to keep the connection.
const BODY: usize = 64 << 10;

/// The URL to which a response redirects a request of `url`; `None` if it is no redirect.
pub(crate) fn target(url: &str, response: &Response<Received>) -> Result<Option<String>, FetchError> {
    let redirects = matches!(
        response.status(),
        StatusCode::MOVED_PERMANENTLY
            | StatusCode::FOUND
            | StatusCode::SEE_OTHER
            | StatusCode::TEMPORARY_REDIRECT
            | StatusCode::PERMANENT_REDIRECT
    );
    if !redirects {
        return Ok(None);
    }
    let malformed =
        |to: &str| FetchError::Redirect { url: url.to_owned(), to: to.chars().take(200).collect() };
    let to = location(response.headers()).ok_or_else(|| malformed(""))?;
    let resolved = mpd::resolve(url, &to).map_err(|_| malformed(&to))?;
    split(&resolved)?;
    Ok(Some(resolved))
}

fn location(headers: &HeaderMap) -> Option<String> {
    // Servers also write other characters than ASCII.
    Some(String::from_utf8_lossy(headers.get(header::LOCATION)?.as_bytes()).into_owned())
}

/// Reads the rest of a response; returns whether the connection can take another request.
pub(crate) async fn drain(mut body: Received) -> bool {
    if body.left().is_some_and(|left| left > BODY as u64) {
        return false;
    }
    let mut read = 0;
    while let Some(piece) = body.next().await {
        match piece {
            Ok(piece) => read += piece.len(),
            Err(_) => return false,
        }
        if read > BODY {
            return false;
        }
    }
    true
}

/// Whether two authorities are the same server, with or without the scheme's port.
pub(super) fn same_server(url: &str, one: &str, other: &str) -> bool {
    let port = if url.starts_with("https") { ":443" } else { ":80" };
    let bare = |authority: &str| authority.strip_suffix(port).unwrap_or(authority).to_ascii_lowercase();
    bare(one) == bare(other)
}
