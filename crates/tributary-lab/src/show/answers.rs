//! What the stand's site answers: its page, the numbers of both sides, changes of a radio, and below each side's name the page of its
//! player.

use std::error::Error;
use std::sync::{Arc, PoisonError};

use bytes::Bytes;
use http_body_util::{BodyExt, Empty, Full, Limited};
use hyper::body::Incoming;
use hyper::client::conn::http1;
use hyper::{Method, Request, Response, StatusCode, header};
use hyper_util::rt::TokioIo;
use serde::Serialize;
use serde_json::Value;
use tributary_emu::control::{LinkState, Request as Change, RequestError};
use tributary_emu::{NetworkError, Side as End};
use tributary_site::{self as site, Answer};

use super::{Shown, Side};

const PAGE: &str = include_str!("show.html");
/// Longest change, bytes.
const MOST_CHANGE: usize = 1024;
/// The highest rate that the page offers, as a multiple of the highest of the scenario.
const MOST_RATE: f64 = 2.0;

pub(super) async fn answer(shown: Arc<Shown>, path: String, request: Request<Incoming>) -> Answer {
    match (path.as_str(), request.method()) {
        ("/", &Method::GET | &Method::HEAD) => site::page(PAGE),
        ("/now", &Method::GET | &Method::HEAD) => match apart(move || shown.now()).await {
            Ok(json) => site::answer("application/json", Full::new(Bytes::from(json))),
            Err(error) => site::refuse(StatusCode::INTERNAL_SERVER_ERROR, error.to_string()),
        },
        ("/change", &Method::POST) => match Limited::new(request.into_body(), MOST_CHANGE).collect().await {
            Ok(text) => change(shown, text.to_bytes()).await,
            Err(_) => site::refuse(StatusCode::PAYLOAD_TOO_LARGE, "too long for a change"),
        },
        _ => match shown.page_of_player(&path) {
            Some((side, below)) => player(side, below, request).await,
            None => site::nothing(request.method()),
        },
    }
}

/// Does what blocks on a thread of its own.
async fn apart<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> T {
    tokio::task::spawn_blocking(work).await.expect("it does not panic, and the runtime runs")
}

async fn change(shown: Arc<Shown>, text: Bytes) -> Answer {
    let change: Change = match serde_json::from_slice(&text) {
        Ok(change) => change,
        Err(error) => return site::refuse(StatusCode::BAD_REQUEST, format!("no change of a radio: {error}")),
    };
    match apart(move || shown.change(&change)).await {
        Ok(()) => site::answer("text/plain", Empty::new()),
        Err(RequestError::Network(NetworkError::Stopped)) => {
            site::refuse(StatusCode::INTERNAL_SERVER_ERROR, "an emulated network has ended")
        }
        Err(error) => site::refuse(StatusCode::BAD_REQUEST, error.to_string()),
    }
}

/// Everything that the page shows beside the players' pages.
#[derive(Serialize)]
struct Now<'a> {
    scenario: &'a str,
    description: &'a str,
    radios: Vec<Radio>,
    sides: Vec<SideNow<'a>>,
}

#[derive(Serialize)]
struct Radio {
    name: String,
    /// The client's address on it, with which the players' names of their paths begin.
    address: String,
    /// Upper end of the rates to choose from, Mbit/s.
    most_mbps: f64,
    /// What the viewer asked for; absent is what the scenario says.
    asked: Change,
}

#[derive(Serialize)]
struct SideNow<'a> {
    name: &'a str,
    label: &'a str,
    links: Vec<LinkState>,
    /// The player in `tributary status --json`; `null`: it does not run.
    player: Option<Value>,
    /// Why this network does not match the scenario.
    inexact: Vec<String>,
}

impl Shown {
    fn now(&self) -> Result<String, NetworkError> {
        let asked = self.asked.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let radio = |(index, path): (usize, &tributary_link::PathSpec)| Radio {
            name: path.name.clone(),
            address: End::Client.address(index).to_string(),
            most_mbps: MOST_RATE * path.down.rate.max().as_bps() as f64 / 1e6,
            asked: asked.get(&path.name).cloned().unwrap_or_default(),
        };
        let sides = self.sides.iter().map(|side| {
            Ok(SideNow {
                name: side.over.name,
                label: side.over.label,
                links: side.network.state()?.links,
                player: side.status(),
                inexact: side.inexact()?,
            })
        });
        let now = Now {
            scenario: &self.scenario.name,
            description: &self.scenario.description,
            radios: self.scenario.paths.iter().enumerate().map(radio).collect(),
            sides: sides.collect::<Result<_, NetworkError>>()?,
        };
        Ok(serde_json::to_string(&now).expect("all keys are text"))
    }

    /// The side whose name begins a path, and the rest of the path, from `/` on.
    fn page_of_player(&self, path: &str) -> Option<(Arc<Side>, String)> {
        let (name, _) = path.strip_prefix('/')?.split_once('/')?;
        let side = self.sides.iter().find(|side| side.over.name == name)?;
        Some((side.clone(), path[1 + name.len()..].to_owned()))
    }
}

/// The answer of a player's page, which the stand's page may show in a frame.
async fn player(side: Arc<Side>, below: String, request: Request<Incoming>) -> Answer {
    let label = side.over.label;
    match ask(side, &below, request).await {
        Ok(answer) => site::embeddable(answer),
        Err(error) => {
            site::refuse(StatusCode::BAD_GATEWAY, format!("the player over {label} does not answer: {error}"))
        }
    }
}

async fn ask(
    side: Arc<Side>,
    below: &str,
    request: Request<Incoming>,
) -> Result<Answer, Box<dyn Error + Send + Sync>> {
    let (address, token) = side.page.clone();
    let stream = tokio::net::TcpStream::from_std(apart(move || side.connect()).await?)?;
    let (mut sender, connection) = http1::handshake(TokioIo::new(stream)).await?;
    // It ends with the answer, or when the page has gone.
    tokio::spawn(connection);
    let (parts, body) = request.into_parts();
    // Of the browser's headers none is passed on: the stand's site has judged them, and the player knows another address.
    let asked = Request::builder()
        .method(parts.method)
        .uri(format!("/{token}{below}"))
        .header(header::HOST, address.to_string())
        .body(body)?;
    let (mut parts, body) = sender.send_request(asked).await?.into_parts();
    // Concerns the connection to the player only (RFC 9110 §7.6.1).
    parts.headers.remove(header::TRANSFER_ENCODING);
    Ok(Response::from_parts(parts, body.map_err(Into::into).boxed()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_page_has_no_foreign_address() {
        site::assert_alone(PAGE);
    }
}
