//! Pages for the browser of this machine's user: who may read them, and how a page is found and opened. Not here: what they
//! show.
//!
//! A site listens on loopback only. Everything lies below a path with a random token, so that other users of the machine cannot
//! read it; a request that names another host (DNS rebinding) or comes from a page of another origin is refused. A page is one
//! file made from `web/`, and its policy allows requests to its own server only.

pub mod http;

use http_body_util::{BodyExt, Full, combinators::BoxBody};
use hyper::body::{Body, Bytes, Incoming};
use hyper::header::{self, HeaderMap, HeaderName, HeaderValue};
use hyper::http::request::Parts;
use hyper::{Method, Request, Response, StatusCode};
use std::convert::Infallible;
use std::error::Error;
use std::io::{self, Write};
use std::net::{SocketAddr, TcpListener};
use std::process::{Command, Stdio};
use thiserror::Error;

/// Why a body ends early. Whoever reads it learns that it is not complete.
pub type BodyError = Box<dyn Error + Send + Sync>;
/// What a site answers.
pub type Answer = Response<BoxBody<Bytes, BodyError>>;

const ASK: &str = "use the URL that the program printed";

/// Why there is no site.
#[derive(Debug, Error)]
pub enum SiteError {
    /// Other machines reach the address.
    #[error(
        "{address}: the page is for this machine; listen on 127.0.0.1, and from another machine use \
         `ssh -L {port}:127.0.0.1:{port}`",
        port = address.port()
    )]
    Remote {
        /// The address.
        address: SocketAddr,
    },
    /// It is in use.
    #[error(
        "cannot listen on {address}: {source}; give another port, or leave the address out: then the system chooses a port"
    )]
    Listen {
        /// The address.
        address: SocketAddr,
        /// The system's reason.
        source: io::Error,
    },
    /// There is no token.
    #[error("the system gives no random numbers")]
    Random,
}

/// Who may ask.
#[derive(Clone, Debug)]
pub struct Site {
    address: SocketAddr,
    token: String,
}

/// Checks that only this machine reaches an address.
///
/// # Errors
/// [`SiteError::Remote`].
pub fn check(address: SocketAddr) -> Result<(), SiteError> {
    if address.ip().is_loopback() { Ok(()) } else { Err(SiteError::Remote { address }) }
}

impl Site {
    /// Listens; the listener does not block. Needs no runtime yet.
    ///
    /// # Errors
    /// [`SiteError`].
    pub fn bind(address: SocketAddr) -> Result<(Self, TcpListener), SiteError> {
        check(address)?;
        let bind = || {
            let listener = TcpListener::bind(address)?;
            listener.set_nonblocking(true)?;
            Ok((listener.local_addr()?, listener))
        };
        let (address, listener) = bind().map_err(|source| SiteError::Listen { address, source })?;
        Ok((Self::new(address)?, listener))
    }

    fn new(address: SocketAddr) -> Result<Self, SiteError> {
        let mut random = [0; 16];
        aws_lc_rs::rand::fill(&mut random).map_err(|_| SiteError::Random)?;
        let token = random.iter().map(|byte| format!("{byte:02x}")).collect();
        Ok(Self { address, token })
    }

    /// The page's URL, with the token.
    #[must_use]
    pub fn url(&self) -> String {
        format!("http://{}/{}/", self.address, self.token)
    }

    /// Prints the page's URL; without `json` it opens it in the user's browser, too.
    ///
    /// # Errors
    /// Standard output cannot be written.
    pub fn announce(&self, json: bool) -> io::Result<()> {
        let url = self.url();
        // A URL has nothing that JSON would escape.
        let line = if json { format!("{{\"url\":\"{url}\"}}") } else { url.clone() };
        writeln!(io::stdout().lock(), "{line}")?;
        if !json {
            open(&url);
        }
        Ok(())
    }

    /// Answers the requests that may be made, until the future is dropped. `answer` gets the path below the token, from `/` on.
    ///
    /// # Errors
    /// The listener cannot be used with the runtime.
    pub async fn serve<A, F>(self, listener: TcpListener, answer: A) -> io::Result<Infallible>
    where
        A: Fn(String, Request<Incoming>) -> F + Clone + Send + Sync + 'static,
        F: Future<Output = Answer> + Send,
    {
        let listener = tokio::net::TcpListener::from_std(listener)?;
        Ok(http::serve(listener, move |request| {
            let (site, answer) = (self.clone(), answer.clone());
            async move {
                let (parts, body) = request.into_parts();
                match site.below(&parts).map(str::to_owned) {
                    Ok(path) => answer(path, Request::from_parts(parts, body)).await,
                    Err((status, words)) => refuse(status, words),
                }
            }
        })
        .await)
    }

    /// The path of a request below the token, if the request may be made.
    fn below<'a>(&self, request: &'a Parts) -> Result<&'a str, (StatusCode, &'static str)> {
        let port = self.address.port();
        let named = |host: &str| host == self.address.to_string() || host == format!("localhost:{port}");
        let text = |name: HeaderName| request.headers.get(name).map(HeaderValue::to_str);
        if !matches!(text(header::HOST), Some(Ok(host)) if named(host)) {
            return Err((StatusCode::FORBIDDEN, "another host; use the URL that the program printed"));
        }
        let same = |origin: &str| origin.strip_prefix("http://").is_some_and(named);
        let own_page = match text(header::ORIGIN) {
            Some(origin) => origin.is_ok_and(same),
            None => true,
        };
        let site = text(HeaderName::from_static("sec-fetch-site"));
        if !own_page || !matches!(site, None | Some(Ok("same-origin" | "none"))) {
            return Err((StatusCode::FORBIDDEN, "a page of another origin"));
        }
        let below = request.uri.path().strip_prefix('/').and_then(|path| path.strip_prefix(&self.token));
        below.filter(|path| path.starts_with('/')).ok_or((StatusCode::NOT_FOUND, ASK))
    }
}

/// An answer that only the page itself may read.
pub fn answer<B>(kind: &'static str, body: B) -> Answer
where
    B: Body<Data = Bytes, Error: Into<BodyError>> + Send + Sync + 'static,
{
    let mut response = Response::new(body.map_err(Into::into).boxed());
    secure(response.headers_mut(), kind);
    response
}

/// Content type of pages.
const HTML: &str = "text/html; charset=utf-8";

/// A page.
#[must_use]
pub fn page(text: &'static str) -> Answer {
    answer(HTML, Full::new(Bytes::from_static(text.as_bytes())))
}

/// A file that was compressed with gzip when the program was built. Every browser reads it.
#[must_use]
pub fn compressed(kind: &'static str, file: &'static [u8]) -> Answer {
    let mut answer = answer(kind, Full::new(Bytes::from_static(file)));
    answer.headers_mut().insert(header::CONTENT_ENCODING, HeaderValue::from_static("gzip"));
    answer
}

/// A page that was compressed with gzip when the program was built.
#[must_use]
pub fn compressed_page(file: &'static [u8]) -> Answer {
    compressed(HTML, file)
}

/// Lets pages of the same site show this one in a frame.
#[must_use]
pub fn embeddable(mut answer: Answer) -> Answer {
    let own = HeaderValue::from_static("frame-ancestors 'self'");
    answer.headers_mut().insert(header::CONTENT_SECURITY_POLICY, own);
    answer
}

/// A file of another server for the page's own scripts. Opened as a page, it can do nothing.
pub fn foreign<B>(body: B) -> Answer
where
    B: Body<Data = Bytes, Error: Into<BodyError>> + Send + Sync + 'static,
{
    let mut answer = answer("application/octet-stream", body);
    let nothing = HeaderValue::from_static("default-src 'none'; sandbox; frame-ancestors 'none'");
    answer.headers_mut().insert(header::CONTENT_SECURITY_POLICY, nothing);
    answer
}

/// A refusal with its reason.
pub fn refuse(status: StatusCode, words: impl Into<String>) -> Answer {
    let mut response =
        answer("text/plain; charset=utf-8", Full::new(Bytes::from(format!("{}\n", words.into()))));
    *response.status_mut() = status;
    response
}

/// The refusal of a request for nothing, or with another method.
#[must_use]
pub fn nothing(method: &Method) -> Answer {
    match *method {
        Method::GET | Method::HEAD | Method::POST => refuse(StatusCode::NOT_FOUND, ASK),
        _ => refuse(StatusCode::METHOD_NOT_ALLOWED, "only GET, HEAD and POST"),
    }
}

/// Opens the page in the desktop's browser, if there is a desktop.
fn open(url: &str) {
    if std::env::var_os("DISPLAY").or_else(|| std::env::var_os("WAYLAND_DISPLAY")).is_none() {
        return;
    }
    let mut command = Command::new("xdg-open");
    command.arg(url).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    // Without it the user opens the URL that was printed.
    if let Ok(mut child) = command.spawn() {
        std::thread::spawn(move || child.wait());
    }
}

fn secure(headers: &mut HeaderMap, kind: &'static str) {
    for (name, value) in [
        (header::CONTENT_TYPE, kind),
        (header::CACHE_CONTROL, "no-store"),
        (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
        (header::REFERRER_POLICY, "no-referrer"),
        (header::CONTENT_SECURITY_POLICY, "frame-ancestors 'none'"),
        (HeaderName::from_static("cross-origin-resource-policy"), "same-origin"),
        (HeaderName::from_static("cross-origin-opener-policy"), "same-origin"),
    ] {
        headers.insert(name, HeaderValue::from_static(value));
    }
}

/// For tests of pages: asserts that a page loads and asks nothing but its own server.
///
/// # Panics
/// It does.
pub fn assert_alone(page: &str) {
    for foreign in ["src=\"http", "href=\"http", "url(http", "import(", "eval("] {
        assert!(!page.contains(foreign), "{foreign}");
    }
    assert!(page.contains("default-src 'none'; script-src 'sha256-"));
}

#[cfg(test)]
mod tests {
    use super::*;

    fn site() -> Site {
        Site { token: "secret".to_owned(), address: ([127, 0, 0, 1], 4711).into() }
    }

    fn asked(path: &str, headers: &[(&str, &str)]) -> Result<String, StatusCode> {
        let mut request = Request::builder().uri(path);
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        let parts = request.body(()).unwrap().into_parts().0;
        site().below(&parts).map(str::to_owned).map_err(|(status, _)| status)
    }

    const HOST: (&str, &str) = ("host", "127.0.0.1:4711");

    #[test]
    fn the_token_opens_page_and_data() {
        assert_eq!(asked("/secret/", &[HOST]), Ok("/".to_owned()));
        assert_eq!(asked("/secret/programs", &[("host", "localhost:4711")]), Ok("/programs".to_owned()));
        let own = [HOST, ("origin", "http://127.0.0.1:4711"), ("sec-fetch-site", "same-origin")];
        assert_eq!(asked("/secret/programs", &own), Ok("/programs".to_owned()));
    }

    #[test]
    fn without_the_token_there_is_nothing() {
        for path in ["/", "/programs", "/secre/", "/secret", "/secretprograms", "/other/programs"] {
            assert_eq!(asked(path, &[HOST]), Err(StatusCode::NOT_FOUND), "{path}");
        }
        assert_eq!(nothing(&Method::GET).status(), StatusCode::NOT_FOUND);
        assert_eq!(nothing(&Method::PUT).status(), StatusCode::METHOD_NOT_ALLOWED);
    }

    #[test]
    fn pages_of_others_are_refused() {
        let refused = [
            vec![],
            vec![("host", "evil.example:4711")],
            vec![("host", "127.0.0.1:80")],
            vec![HOST, ("origin", "http://evil.example")],
            vec![HOST, ("origin", "null")],
            vec![HOST, ("sec-fetch-site", "cross-site")],
            vec![HOST, ("sec-fetch-site", "same-site")],
        ];
        for headers in refused {
            assert_eq!(asked("/secret/programs", &headers), Err(StatusCode::FORBIDDEN), "{headers:?}");
        }
    }

    #[test]
    fn every_site_has_a_token_of_its_own() {
        let token = || Site::new(([127, 0, 0, 1], 1).into()).unwrap().token;
        assert!(token().len() == 32 && token() != token());
    }

    #[test]
    fn an_address_that_others_reach_is_refused_with_the_way_out() {
        let error = check("0.0.0.0:8080".parse().unwrap()).unwrap_err().to_string();
        assert!(error.contains("ssh -L 8080:127.0.0.1:8080"), "{error}");
    }

    #[test]
    fn a_port_in_use_is_named_with_the_way_out() {
        let (first, _listener) = Site::bind(([127, 0, 0, 1], 0).into()).unwrap();
        let error = Site::bind(first.address).unwrap_err().to_string();
        assert!(error.contains(&first.address.to_string()) && error.contains("give another port"), "{error}");
    }

    #[test]
    fn nobody_else_reads_an_answer() {
        let headers = page("x").headers().clone();
        assert_eq!(headers["cross-origin-resource-policy"], "same-origin");
        assert_eq!(headers["content-security-policy"], "frame-ancestors 'none'");
        let framed = embeddable(page("x"));
        assert_eq!(framed.headers()["content-security-policy"], "frame-ancestors 'self'");
        let others = foreign(Full::new(Bytes::from("<script>"))).headers().clone();
        assert_eq!(others["content-type"], "application/octet-stream");
        assert!(others["content-security-policy"].to_str().unwrap().contains("sandbox"));
    }
}
