//! `tributary dash play --web`: a page in which dash.js plays the title, and whose requests this program makes. Not here: who may read
//! it (`tributary-site`), and the viewing (`tributary_dash::viewing`).

use std::net::SocketAddr;
use std::process::ExitCode;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use anyhow::Result;
use http_body_util::{BodyExt, Full, Limited};
use hyper::body::{Bytes, Incoming};
use hyper::header::{self, HeaderValue};
use hyper::{Method, Request, StatusCode};
use serde::Deserialize;
use serde_json::{Value, json};
use tributary_dash::client::FetchError;
use tributary_dash::viewing::{CarryError, PlayerReport, ReportError, Viewing};
use tributary_site::{self as site, Answer, Site};
use tributary_stream::viewing::Radios;

use crate::commands::stop;
use crate::service::ending::Ending;
use crate::service::{Control, Service};

const PAGE: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/dash.html.gz"));
/// dash.js as its authors publish it, compressed.
const DASH_JS: &[u8] = include_bytes!("dash.js.gz");
const DASH_JS_LICENCE: &str = include_str!("dash.js.licence.txt");
/// Longest text of a report, bytes.
const MOST_REPORT: usize = 4096;
/// Time between two looks at the radios.
const LOOK: Duration = Duration::from_millis(250);
/// Files of the title's server are below this path.
const TITLE: &str = "/title";

/// What the page asks for.
#[derive(Clone)]
struct Shown {
    viewing: Viewing,
    /// The paths of the connection in use, as the status has them.
    radios: Arc<Mutex<Value>>,
}

/// Serves the page until ended; prints its URL and opens it in the user's browser.
///
/// # Errors
/// The address is not on loopback or is in use.
pub(super) async fn run(
    viewing: Viewing,
    (address, json): (SocketAddr, bool),
    service: Service,
) -> Result<ExitCode> {
    let (site, listener) = Site::bind(address)?;
    let ending = Ending::default();
    let shown = Shown { viewing, radios: Arc::default() };
    let (described, asked) = (shown.clone(), shown.clone());
    let _shown =
        service.show("dash play", &[address], Control::new(&ending, None), move || described.status());
    let mut signals = stop::Signals::new()?;
    site.announce(json)?;
    tokio::select! {
        () = shown.viewing.run() => {}
        () = shown.look() => {}
        served = site.serve(listener, move |path, request| answer(path, request, asked.clone())) => drop(served?),
        (_, name) = signals.next() => tracing::info!("{name} received; ended"),
        () = ending.requested() => tracing::info!("asked to end; ended"),
    }
    Ok(ExitCode::SUCCESS)
}

impl Shown {
    /// The viewing as `docs/guide/status.md` describes it.
    fn status(&self) -> Value {
        let mut status = serde_json::to_value(self.viewing.status()).unwrap_or_default();
        status["radios"] = self.radios.lock().unwrap_or_else(PoisonError::into_inner).clone();
        status
    }

    /// Follows the paths of the connection in use.
    async fn look(&self) {
        let mut radios = Radios::default();
        let mut ticks = tokio::time::interval(LOOK);
        loop {
            ticks.tick().await;
            let now = match self.viewing.connection() {
                Some(connection) => radios.look(&connection).map(|radios| json!(radios)),
                None => {
                    radios = Radios::default();
                    Some(json!([]))
                }
            };
            if let Some(now) = now {
                *self.radios.lock().unwrap_or_else(PoisonError::into_inner) = now;
            }
        }
    }
}

async fn answer(path: String, request: Request<Incoming>, shown: Shown) -> Answer {
    if let Some(below) = path.strip_prefix(TITLE).filter(|below| below.starts_with('/')) {
        return title(below, &request, &shown.viewing).await;
    }
    match (path.as_str(), request.method()) {
        ("/", &Method::GET | &Method::HEAD) => site::compressed_page(PAGE),
        ("/dash.js", &Method::GET) => site::compressed("text/javascript", DASH_JS),
        ("/licence", &Method::GET) => site::answer(
            "text/plain; charset=utf-8",
            Full::new(Bytes::from_static(DASH_JS_LICENCE.as_bytes())),
        ),
        ("/now", &Method::GET) => said(&shown.status()),
        ("/begin", &Method::POST) => {
            let viewing = shown.viewing.begin();
            said(
                &json!({ "viewing": viewing, "manifest": format!("{}{}", &TITLE[1..], shown.viewing.manifest()) }),
            )
        }
        ("/report" | "/end", &Method::POST) => {
            let text = match Limited::new(request.into_body(), MOST_REPORT).collect().await {
                Ok(text) => text.to_bytes(),
                Err(_) => return site::refuse(StatusCode::PAYLOAD_TOO_LARGE, "too long for a report"),
            };
            if path == "/end" { end(&text, &shown) } else { report(&text, &shown) }
        }
        _ => site::nothing(request.method()),
    }
}

fn said(value: &Value) -> Answer {
    site::answer("application/json", Full::new(Bytes::from(value.to_string())))
}

/// What the player in the page says; the answer is the status, which then has it.
fn report(text: &[u8], shown: &Shown) -> Answer {
    let report: PlayerReport = match serde_json::from_slice(text) {
        Ok(report) => report,
        Err(error) => {
            return site::refuse(StatusCode::BAD_REQUEST, format!("no report of a player: {error}"));
        }
    };
    match shown.viewing.report(report) {
        Ok(()) => said(&shown.status()),
        Err(error @ ReportError::Impossible) => site::refuse(StatusCode::BAD_REQUEST, error.to_string()),
        Err(error @ ReportError::Superseded) => site::refuse(StatusCode::CONFLICT, error.to_string()),
    }
}

/// The viewer who leaves.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Left {
    viewing: u32,
}

fn end(text: &[u8], shown: &Shown) -> Answer {
    match serde_json::from_slice(text) {
        Ok(Left { viewing }) => {
            shown.viewing.end(viewing);
            said(&shown.status())
        }
        Err(error) => site::refuse(StatusCode::BAD_REQUEST, format!("no end of a viewing: {error}")),
    }
}

/// A file of the title's server.
async fn title(below: &str, request: &Request<Incoming>, viewing: &Viewing) -> Answer {
    if request.method() != Method::GET {
        return site::refuse(StatusCode::METHOD_NOT_ALLOWED, "only GET");
    }
    let query = request.uri().query().map(|query| format!("?{query}")).unwrap_or_default();
    match viewing.get(&format!("{below}{query}"), request.headers()).await {
        Ok(mut got) => {
            let to = got.headers_mut().remove(header::LOCATION);
            let (parts, body) = got.into_parts();
            let mut answer = site::foreign(body);
            *answer.status_mut() = parts.status;
            answer.headers_mut().extend(parts.headers);
            if let Some(to) = to.as_ref().and_then(|to| moved(request.uri().path(), below, to)) {
                answer.headers_mut().insert(header::LOCATION, to);
            }
            answer
        }
        Err(error @ CarryError::Fetch(FetchError::Url(_))) => {
            site::refuse(StatusCode::BAD_REQUEST, error.to_string())
        }
        Err(error) => site::refuse(StatusCode::BAD_GATEWAY, error.to_string()),
    }
}

/// Where a redirect of the title's server leads here: `asked` is the whole path that ends with the one there.
fn moved(asked: &str, below: &str, to: &HeaderValue) -> Option<HeaderValue> {
    let here = asked.strip_suffix(below)?;
    HeaderValue::from_str(&format!("{here}{}", to.to_str().ok()?)).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_page_has_no_foreign_address() {
        site::assert_alone(include_str!("dash.html"));
    }

    #[test]
    fn a_redirect_stays_below_the_token() {
        let to = HeaderValue::from_static("/other/a.mpd");
        let moved = moved("/token/title/a.mpd", "/a.mpd", &to).unwrap();
        assert_eq!(moved, "/token/title/other/a.mpd");
    }
}
