//! `tributary status --web`: a page that shows every running program of this user, each second.
//!
//! The server listens on loopback only. Page and data lie below a path with a random token, so that other users of the
//! machine cannot read them; a request that names another host (DNS rebinding) or comes from a page of another origin is
//! refused. The page is one file made from `web/`, and its policy allows requests to this server only.

use std::net::SocketAddr;
use std::process::{Command, ExitCode, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use http_body_util::Full;
use hyper::body::{Bytes, Incoming};
use hyper::header::{self, HeaderMap, HeaderName, HeaderValue};
use hyper::http::request::Parts;
use hyper::{Method, Request, Response, StatusCode};
use tokio::net::TcpListener;
use tokio::sync::Mutex;
use tributary_cli::output;

use crate::service::{http, sockets};

const PAGE: &str = include_str!("dashboard.html");
/// Several pages share an answer of this age.
const FRESH: Duration = Duration::from_millis(500);

/// Serves the page until the process is ended; prints its URL and opens it in the user's browser.
///
/// # Errors
/// The address is not on loopback or is in use.
pub(super) fn run(address: SocketAddr, json: bool) -> Result<ExitCode> {
    if !address.ip().is_loopback() {
        bail!(
            "--web {address}: the page is for this machine; listen on 127.0.0.1, and from another machine use \
             `ssh -L {port}:127.0.0.1:{port}`",
            port = address.port()
        );
    }
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(async {
        let listener =
            TcpListener::bind(address).await.with_context(|| format!("cannot listen on {address}"))?;
        let site = Arc::new(Site::new(listener.local_addr()?)?);
        let url = site.url();
        output::line(&if json { serde_json::json!({ "url": url }).to_string() } else { url.clone() })?;
        if !json {
            open(&url);
        }
        http::serve(listener, move |request| {
            let site = site.clone();
            async move { site.answer(request).await }
        })
        .await;
        Ok(ExitCode::SUCCESS)
    })
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

#[derive(Debug)]
struct Site {
    address: SocketAddr,
    token: String,
    /// The programs' last answer, and when they gave it.
    programs: Mutex<Option<(Instant, Bytes)>>,
}

/// What a request may have.
#[derive(Debug, PartialEq, Eq)]
enum Wanted {
    Page,
    Programs,
}

impl Site {
    fn new(address: SocketAddr) -> Result<Self> {
        let mut random = [0; 16];
        aws_lc_rs::rand::fill(&mut random).context("the system gives no random numbers")?;
        let token = random.iter().map(|byte| format!("{byte:02x}")).collect();
        Ok(Self { address, token, programs: Mutex::new(None) })
    }

    fn url(&self) -> String {
        format!("http://{}/{}/", self.address, self.token)
    }

    /// What the request asks for, if it may.
    fn wanted(&self, request: &Parts) -> Result<Wanted, (StatusCode, &'static str)> {
        let port = self.address.port();
        let named = |host: &str| host == self.address.to_string() || host == format!("localhost:{port}");
        let text = |name: HeaderName| request.headers.get(name).map(HeaderValue::to_str);
        if !matches!(text(header::HOST), Some(Ok(host)) if named(host)) {
            return Err((
                StatusCode::FORBIDDEN,
                "another host; use the URL that `tributary status --web` printed",
            ));
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
        let wanted = match below {
            Some("/") => Wanted::Page,
            Some("/programs") => Wanted::Programs,
            _ => return Err((StatusCode::NOT_FOUND, "use the URL that `tributary status --web` printed")),
        };
        match request.method {
            Method::GET | Method::HEAD => Ok(wanted),
            _ => Err((StatusCode::METHOD_NOT_ALLOWED, "only GET and HEAD")),
        }
    }

    async fn answer(&self, request: Request<Incoming>) -> Response<Full<Bytes>> {
        let (request, _) = request.into_parts();
        let (status, kind, body) = match self.wanted(&request) {
            Ok(Wanted::Page) => {
                (StatusCode::OK, "text/html; charset=utf-8", Bytes::from_static(PAGE.as_bytes()))
            }
            Ok(Wanted::Programs) => match self.programs().await {
                Ok(programs) => (StatusCode::OK, "application/json", programs),
                Err(_) => {
                    (StatusCode::INTERNAL_SERVER_ERROR, "text/plain", Bytes::from_static(b"try again\n"))
                }
            },
            Err((status, words)) => (status, "text/plain", Bytes::from(format!("{words}\n"))),
        };
        let mut response = Response::new(Full::new(body));
        *response.status_mut() = status;
        secure(response.headers_mut(), kind);
        response
    }

    async fn programs(&self) -> Result<Bytes> {
        let mut known = self.programs.lock().await;
        if let Some((at, answer)) = &*known
            && at.elapsed() < FRESH
        {
            return Ok(answer.clone());
        }
        let programs = tokio::task::spawn_blocking(sockets::ask_all).await?;
        let answer = Bytes::from(serde_json::json!({ "programs": programs }).to_string());
        *known = Some((Instant::now(), answer.clone()));
        Ok(answer)
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

#[cfg(test)]
mod tests {
    use super::*;

    fn site() -> Site {
        Site { token: "secret".to_owned(), ..Site::new(([127, 0, 0, 1], 4711).into()).unwrap() }
    }

    fn asked(method: &str, path: &str, headers: &[(&str, &str)]) -> Result<Wanted, StatusCode> {
        let mut request = Request::builder().method(method).uri(path);
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        site().wanted(&request.body(()).unwrap().into_parts().0).map_err(|(status, _)| status)
    }

    const HOST: (&str, &str) = ("host", "127.0.0.1:4711");

    #[test]
    fn the_token_opens_page_and_data() {
        assert_eq!(asked("GET", "/secret/", &[HOST]), Ok(Wanted::Page));
        assert_eq!(asked("GET", "/secret/programs", &[("host", "localhost:4711")]), Ok(Wanted::Programs));
        let own = [HOST, ("origin", "http://127.0.0.1:4711"), ("sec-fetch-site", "same-origin")];
        assert_eq!(asked("GET", "/secret/programs", &own), Ok(Wanted::Programs));
    }

    #[test]
    fn without_the_token_there_is_nothing() {
        for path in ["/", "/programs", "/secre/", "/secret", "/secret/../programs", "/other/programs"] {
            assert_eq!(asked("GET", path, &[HOST]), Err(StatusCode::NOT_FOUND), "{path}");
        }
        assert_eq!(asked("POST", "/secret/", &[HOST]), Err(StatusCode::METHOD_NOT_ALLOWED));
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
            assert_eq!(asked("GET", "/secret/programs", &headers), Err(StatusCode::FORBIDDEN), "{headers:?}");
        }
    }

    #[test]
    fn every_site_has_a_token_of_its_own() {
        let token = || Site::new(([127, 0, 0, 1], 1).into()).unwrap().token;
        assert!(token().len() == 32 && token() != token());
    }

    #[test]
    fn an_address_that_others_reach_is_refused_with_the_way_out() {
        let error = run("0.0.0.0:8080".parse().unwrap(), false).unwrap_err().to_string();
        assert!(error.contains("ssh -L 8080:127.0.0.1:8080"), "{error}");
    }

    #[test]
    fn the_page_has_no_foreign_address() {
        for foreign in ["src=\"http", "href=\"http", "url(http", "import(", "eval("] {
            assert!(!PAGE.contains(foreign), "{foreign}");
        }
        assert!(PAGE.contains("default-src 'none'; script-src 'sha256-"));
    }
}
