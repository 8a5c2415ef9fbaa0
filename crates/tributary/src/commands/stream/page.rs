//! `tributary stream play --web`: a page that shows the video while it arrives, and whose viewer looks around. Not here: who may
//! read it (`tributary-site`), and the viewing (`tributary_stream::viewing`).

use std::convert::Infallible;
use std::net::SocketAddr;
use std::pin::Pin;
use std::process::ExitCode;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use anyhow::Result;
use http_body_util::{BodyExt, Empty, Limited};
use hyper::body::{Body, Bytes, Frame, Incoming};
use hyper::{Method, Request, StatusCode};
use serde::Deserialize;
use tributary_site::{self as site, Answer, Site};
use tributary_stream::viewing::{self, Feed, PlayConfig, Subscription, Viewpoint};
use tributary_tiles::TiledVideo;
use tributary_video::sphere::Orientation;

use crate::commands::stop;
use crate::service::ending::Ending;
use crate::service::{Control, Service};

const PAGE: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/play.html.gz"));
/// Longest text of an orientation, bytes.
const MOST_LOOK: usize = 256;
/// Time for pages to learn that the viewing has ended.
const FAREWELL: Duration = Duration::from_millis(500);

/// Serves the page and plays while it is open; prints its URL and opens it in the user's browser.
///
/// # Errors
/// The address is not on loopback or is in use.
pub(super) async fn run(
    (config, viewpoint): (PlayConfig, Viewpoint),
    reference: Option<TiledVideo>,
    (address, json): (SocketAddr, bool),
    service: Service,
) -> Result<ExitCode> {
    let (site, listener) = Site::bind(address)?;
    let (feed, ending) = (Feed::default(), Ending::default());
    let (shown, asked) = (feed.clone(), feed.clone());
    let _shown = service.show("stream play", &[address], Control::new(&ending, None), move || shown.status());
    let mut signals = stop::Signals::new()?;
    site.announce(json)?;
    let lost = |cause: &str| tracing::warn!("no connection: {cause}; trying again");
    tokio::select! {
        () = viewing::watch(&viewpoint, (&config, reference), &feed, lost) => tokio::time::sleep(FAREWELL).await,
        served = site.serve(listener, move |path, request| answer(path, request, asked.clone())) => drop(served?),
        (_, name) = signals.next() => tracing::info!("{name} received; ended"),
        () = ending.requested() => tracing::info!("asked to end; ended"),
    }
    Ok(ExitCode::SUCCESS)
}

async fn answer(path: String, request: Request<Incoming>, feed: Feed) -> Answer {
    match (path.as_str(), request.method()) {
        ("/", &Method::GET) => {
            // While the browser starts the page, the connection is made and the first tiles arrive.
            feed.expect();
            site::compressed_page(PAGE)
        }
        ("/", &Method::HEAD) => site::compressed_page(PAGE),
        ("/feed", &Method::GET) => site::answer("application/octet-stream", Messages::new(feed.subscribe())),
        ("/look", &Method::POST) => match Limited::new(request.into_body(), MOST_LOOK).collect().await {
            Ok(text) => look(&text.to_bytes(), &feed),
            Err(_) => site::refuse(StatusCode::PAYLOAD_TOO_LARGE, "too long for an orientation"),
        },
        ("/low", &Method::POST) if feed.fall_back() => {
            tracing::warn!("a page cannot decode the tiles: low resolution");
            site::answer("text/plain", Empty::new())
        }
        ("/low", &Method::POST) => {
            site::refuse(StatusCode::CONFLICT, "this video has no low-resolution stream")
        }
        _ => site::nothing(request.method()),
    }
}

/// Where the viewer looks, degrees.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Look {
    yaw: f64,
    pitch: f64,
    roll: f64,
}

fn look(text: &[u8], feed: &Feed) -> Answer {
    match serde_json::from_slice(text) {
        Ok(Look { yaw, pitch, roll }) if [yaw, pitch, roll].iter().all(|angle| angle.abs() <= 360.0) => {
            feed.look(Orientation::from_degrees(yaw, pitch, roll));
            site::answer("text/plain", Empty::new())
        }
        _ => site::refuse(StatusCode::BAD_REQUEST, "not yaw, pitch and roll in degrees, -360 to 360"),
    }
}

/// The messages to one page, as a body without end.
struct Messages(Pin<Box<dyn Future<Output = (Subscription, Bytes)> + Send + Sync>>);

impl Messages {
    fn new(mut from: Subscription) -> Self {
        Self(Box::pin(async move {
            let message = from.next().await;
            (from, message)
        }))
    }
}

impl Body for Messages {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        let (from, message) = ready!(self.0.as_mut().poll(cx));
        *self = Self::new(from);
        Poll::Ready(Some(Ok(Frame::data(message))))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_page_has_no_foreign_address() {
        site::assert_alone(include_str!("play.html"));
    }

    #[tokio::test]
    async fn only_angles_turn_the_head() {
        let feed = Feed::default();
        assert_eq!(look(br#"{"yaw":90,"pitch":-10,"roll":0}"#, &feed).status(), StatusCode::OK);
        for bad in ["", "[]", r#"{"yaw":1e9,"pitch":0,"roll":0}"#, r#"{"yaw":null,"pitch":0,"roll":0}"#] {
            assert_eq!(look(bad.as_bytes(), &feed).status(), StatusCode::BAD_REQUEST, "{bad}");
        }
    }

    #[tokio::test]
    async fn a_page_counts_until_its_connection_ends() {
        let feed = Feed::default();
        let mut messages = Messages::new(feed.subscribe());
        assert!(messages.frame().await.unwrap().unwrap().into_data().unwrap().ends_with(b"}"));
        assert_eq!(feed.pages(), 1);
        drop(messages);
        assert_eq!(feed.pages(), 0);
    }
}
