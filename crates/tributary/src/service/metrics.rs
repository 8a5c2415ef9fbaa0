//! `--metrics`: a program's status for Prometheus, and whether it lives and is ready.
//!
//! The values are those of the status that `tributary status --json` shows, taken when the scrape arrives. Source of the text:
//! Prometheus exposition format 0.0.4. Not here: which value becomes which metric ([`families`]).

mod families;

use super::fields::list;
use anyhow::{Context, Result, bail};
use clap::Args;
use http_body_util::Full;
use hyper::body::{Bytes, Incoming};
use hyper::header::{self, HeaderValue};
use hyper::{Method, Request, Response, StatusCode};
use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, NoLabelSet, prometheus_text};
use prometheus_client::metrics::MetricType;
use prometheus_client::registry::Registry;
use serde_json::Value;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::sync::Arc;
use tributary_net::passed::{PassedSockets, Port};
use tributary_site::http;

/// The status of the program.
pub(crate) type Describe = Arc<dyn Fn() -> Value + Send + Sync>;

/// Where metrics are served.
#[derive(Clone, Debug, Default, Args)]
pub(crate) struct MetricsArguments {
    /// Serve Prometheus metrics on this address: /metrics, /healthz and /readyz
    #[arg(long, value_name = "ADDRESS:PORT")]
    pub(crate) metrics: Option<SocketAddr>,
    /// Let --metrics listen on an address that other machines reach; there is no password
    #[arg(long, requires = "metrics")]
    pub(crate) metrics_remote: bool,
}

impl MetricsArguments {
    /// Listens, if metrics are wanted.
    ///
    /// # Errors
    /// Other machines reach the address, or it is in use.
    pub(crate) fn bind(&self, passed: &PassedSockets) -> Result<Option<Endpoint>> {
        let Some(address) = self.check()? else { return Ok(None) };
        let listener = match passed.take(Port::Tcp(address)).context("--metrics")? {
            Some(socket) => socket.into(),
            None => std::net::TcpListener::bind(address).with_context(|| {
                format!(
                    "--metrics {address}: cannot listen there; choose an address of this machine and a free port"
                )
            })?,
        };
        listener.set_nonblocking(true).context("--metrics")?;
        Ok(Some(Endpoint { address: listener.local_addr().context("--metrics")?, listener }))
    }

    /// The address, if it may be used.
    ///
    /// # Errors
    /// Other machines reach it.
    pub(crate) fn check(&self) -> Result<Option<SocketAddr>> {
        match self.metrics {
            Some(address) if !address.ip().to_canonical().is_loopback() && !self.metrics_remote => bail!(
                "--metrics {address}: other machines reach this address, and there is no password; listen on 127.0.0.1, or add \
                 --metrics-remote"
            ),
            metrics => Ok(metrics),
        }
    }
}

/// A bound address, on which nothing is answered yet.
#[derive(Debug)]
pub(crate) struct Endpoint {
    address: SocketAddr,
    listener: std::net::TcpListener,
}

impl Endpoint {
    /// Answers until the future is dropped. Says where it does.
    pub(crate) async fn serve(self, role: &'static str, describe: Describe) {
        let listener = match tokio::net::TcpListener::from_std(self.listener) {
            Ok(listener) => listener,
            Err(error) => return tracing::error!("--metrics {}: {error}", self.address),
        };
        tracing::info!("metrics on http://{}/metrics", self.address);
        let site = Arc::new(Site { turn: Default::default(), local: self.address.ip(), role, describe });
        http::serve(listener, move |request| site.clone().answer(request)).await;
    }
}

struct Site {
    /// One answer at a time, so that scrapes take one processor at most.
    turn: tokio::sync::Mutex<()>,
    local: IpAddr,
    role: &'static str,
    describe: Describe,
}

impl Site {
    async fn answer(self: Arc<Self>, request: Request<Incoming>) -> Response<Full<Bytes>> {
        let turn = self.clone();
        let _turn = turn.turn.lock().await;
        // On another thread: a scrape of a server with many sessions takes milliseconds, in which they would not be served.
        let answer = tokio::task::spawn_blocking(move || self.answer_now(&request));
        let (status, text) =
            answer.await.unwrap_or((StatusCode::INTERNAL_SERVER_ERROR, "the answer failed\n".to_owned()));
        let mut response = Response::new(Full::new(Bytes::from(text)));
        *response.status_mut() = status;
        let kind = HeaderValue::from_static("text/plain; version=0.0.4; charset=utf-8");
        response.headers_mut().insert(header::CONTENT_TYPE, kind);
        response.headers_mut().insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
        response
    }

    fn answer_now<B>(&self, request: &Request<B>) -> (StatusCode, String) {
        // On a loopback address, a name that leads to it may be that of a web page's server (DNS rebinding).
        let host = request.headers().get(header::HOST).and_then(|host| host.to_str().ok());
        if self.local.to_canonical().is_loopback() && !host.is_some_and(names_an_address) {
            return (
                StatusCode::MISDIRECTED_REQUEST,
                "use the address of this server, not a name\n".to_owned(),
            );
        }
        if !matches!(*request.method(), Method::GET | Method::HEAD) {
            return (StatusCode::METHOD_NOT_ALLOWED, "only GET and HEAD\n".to_owned());
        }
        match request.uri().path() {
            "/metrics" => (StatusCode::OK, text(self.role, (self.describe)())),
            "/healthz" => (StatusCode::OK, "ok\n".to_owned()),
            "/readyz" => match unready(&(self.describe)()) {
                None => (StatusCode::OK, "ready\n".to_owned()),
                Some(why) => (StatusCode::SERVICE_UNAVAILABLE, format!("not ready: {why}\n")),
            },
            _ => (StatusCode::NOT_FOUND, "there are /metrics, /healthz and /readyz\n".to_owned()),
        }
    }
}

/// Whether a request's `Host` is an address or `localhost` (RFC 9110 §7.2).
fn names_an_address(host: &str) -> bool {
    let name = match host.rsplit_once(':') {
        Some((name, port)) if port.parse::<u16>().is_ok() => name,
        _ => host,
    };
    let bare = name.strip_prefix('[').and_then(|name| name.strip_suffix(']'));
    name.eq_ignore_ascii_case("localhost")
        || name.parse::<Ipv4Addr>().is_ok()
        || bare.is_some_and(|name| name.parse::<Ipv6Addr>().is_ok())
}

/// Why a program with this status is not ready; `None` if it is. A client end of sessions is ready when a path is up, a COTAG node
/// when a hop is up, any other program until it ends.
fn unready(status: &Value) -> Option<&'static str> {
    let is_up = |path: &Value| path["state"] == "up";
    let has_path = |session: &Value| list(session, "paths").iter().any(is_up);
    if status["draining"] == true {
        return Some("the program is ending");
    }
    // Servers count their clients.
    let is_client = status["sessions"].is_array() && !status["clients"].is_array();
    if is_client && !list(status, "sessions").iter().any(has_path) {
        return Some("no path is up");
    }
    let links = list(status, "links");
    (!links.is_empty() && !links.iter().any(|link| link["up"] == true)).then_some("no hop is up")
}

/// A status, as a collector for one scrape.
#[derive(Debug)]
struct Scrape(Value);

impl Collector for Scrape {
    fn encode(&self, mut encoder: DescriptorEncoder) -> Result<(), std::fmt::Error> {
        for family in families::FAMILIES {
            let rows = family.rows(&self.0);
            for metric in family.metrics {
                let mut samples =
                    rows.iter().filter_map(|(labels, row)| Some((labels, metric.value(row)?))).peekable();
                if samples.peek().is_none() {
                    continue;
                }
                let (kind, unit) = (metric.kind(), metric.unit());
                let mut all = encoder.encode_descriptor(metric.name, metric.help, unit.as_ref(), kind)?;
                for (labels, value) in samples {
                    let mut one = all.encode_family(labels)?;
                    match kind {
                        MetricType::Counter => one.encode_counter::<NoLabelSet, f64, f64>(&value, None)?,
                        _ => one.encode_gauge(&value)?,
                    }
                }
            }
        }
        Ok(())
    }
}

/// The text of a scrape.
fn text(role: &'static str, status: Value) -> String {
    let labels = [("role".into(), role.into())];
    let mut registry = Registry::with_prefix_and_labels("tributary", labels.into_iter());
    registry.register_collector(Box::new(Scrape(status)));
    let mut text = String::new();
    prometheus_text::encode(&mut text, &registry).expect("a string takes any text");
    text
}

#[cfg(test)]
mod tests;
