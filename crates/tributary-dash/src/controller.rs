//! A client of the path controller's REST interface: lists the measured paths, and tells the controller which paths
//! are in use.
//!
//! The answers are checked. An impossible value is an error that names the path and the value, and the caller keeps
//! its previous state. Not here: decisions about the paths ([`tributary_player::engine`]).

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::str::FromStr;
use std::time::Duration;

use bytes::Bytes;
use http::header::{self, HeaderMap, HeaderValue};
use http::{Method, StatusCode};
use serde::Deserialize;
use thiserror::Error;
use tributary_net::transport::{TransportConfig, TransportError, TransportName};
use tributary_net::{PathConfig, PathError};
use tributary_player::dash::mpd::Request;
use tributary_player::engine::PathReport;
use tributary_types::{Instant, PathId, printable};

use crate::fetch::{FetchError, HttpConnection, Line, split};

/// Maximum size of an answer, bytes.
const ANSWER: usize = 1 << 20;
/// Timeout of an answer.
const PATIENCE: Duration = Duration::from_secs(2);
/// Maximum number of paths in an answer.
const PATHS: usize = 64;
/// A path counts as not measured when the time of its measurement has not advanced for this long.
const FRESH: Duration = Duration::from_secs(5);

/// The bearer token of a controller (RFC 6750). `Debug` does not print it.
#[derive(Clone, Debug)]
pub struct Token(HeaderValue);

/// The token contains characters that an HTTP header cannot carry.
#[derive(Clone, Copy, Debug, Error)]
#[error("the controller's token has characters that no HTTP header can carry")]
pub struct TokenError;

impl FromStr for Token {
    type Err = TokenError;

    fn from_str(token: &str) -> Result<Self, TokenError> {
        let mut value = HeaderValue::from_str(&format!("Bearer {token}")).map_err(|_| TokenError)?;
        value.set_sensitive(true);
        Ok(Self(value))
    }
}

/// Why the controller cannot be used.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum ControllerError {
    /// The request failed.
    #[error(transparent)]
    Fetch(#[from] FetchError),
    /// The controller's URL is not valid.
    #[error(transparent)]
    Address(#[from] PathError),
    /// It cannot be reached.
    #[error(transparent)]
    Transport(#[from] TransportError),
    /// The time limit passed.
    #[error("no answer within {PATIENCE:?}")]
    Silent,
    /// The token is absent or wrong.
    #[error(
        "the controller requires its token: give the file that its log names, --controller-token FILE \
         (or the variable TRIBUTARY_CONTROLLER_TOKEN)"
    )]
    Unauthorised,
    /// The controller does not answer to this name.
    #[error(
        "the controller does not know itself as {0}: use the address that it listens on, or start it with --host NAME"
    )]
    Misdirected(String),
    /// The controller answered with an error status.
    #[error("{method} {path} was answered with {status}")]
    Refused {
        /// The request's method.
        method: Method,
        /// The request's path.
        path: String,
        /// Its answer.
        status: StatusCode,
    },
    /// The answer is not a list of paths.
    #[error("the answer is not a list of paths: {0}")]
    Malformed(#[from] serde_json::Error),
    /// Too many paths.
    #[error("it lists {0} paths; at most {PATHS} are supported")]
    Excess(usize),
    /// A value is impossible.
    #[error("path {path}: {name} is {value}, which is impossible")]
    Value {
        /// The path.
        path: String,
        /// The value's name.
        name: &'static str,
        /// The value.
        value: f64,
    },
    /// A path is up but has no measurement.
    #[error("path {0} is up but has not been measured")]
    Unmeasured(String),
    /// The measurement is out of date.
    #[error("path {0} has not been measured for {FRESH:?}")]
    Stale(String),
}

/// A path as the controller describes it.
#[derive(Clone, Debug, PartialEq, Deserialize)]
pub struct Path {
    /// The controller's name for it.
    pub id: String,
    /// The client's address.
    pub local: IpAddr,
    /// The server's address.
    pub remote: IpAddr,
    /// Round-trip time in ms.
    pub rtt_ms: Option<f64>,
    /// Share of probes lost in each direction while no queue was long, 0 to 1.
    pub random_loss: Option<f64>,
    /// Rate in Mbit/s.
    pub rate_mbps: Option<f64>,
    /// Whether both ends reach each other on it.
    pub up: bool,
    /// Time of the last measurement, seconds since 1970 by the controller's clock.
    pub at: Option<f64>,
}

#[derive(Deserialize)]
struct Paths {
    paths: Vec<Path>,
}

/// Checks answers, and gives paths stable numbers.
#[derive(Debug, Default)]
pub struct Judge {
    /// By the controller's path id: the number in this process; the time of the newest measurement, and when it was
    /// first seen.
    known: BTreeMap<String, (PathId, Option<(f64, Instant)>)>,
}

impl Judge {
    /// Checks an answer that arrived at `now`.
    ///
    /// # Errors
    /// [`ControllerError`] names the path and the impossible value.
    pub fn read(&mut self, now: Instant, answer: &[u8]) -> Result<Vec<(Path, PathReport)>, ControllerError> {
        let Paths { mut paths } = serde_json::from_slice(answer)?;
        paths.iter_mut().for_each(|path| path.id = printable(&path.id));
        if paths.len() > PATHS {
            return Err(ControllerError::Excess(paths.len()));
        }
        let mut seen: Vec<(Path, PathReport)> = Vec::new();
        for path in paths {
            if seen.iter().all(|(other, _)| other.local != path.local) {
                let report = self.judge(now, &path)?;
                seen.push((path, report));
            }
        }
        Ok(seen)
    }

    fn judge(&mut self, now: Instant, path: &Path) -> Result<PathReport, ControllerError> {
        let refuse = |name, value| ControllerError::Value { path: path.id.clone(), name, value };
        let check = |name, value: Option<f64>, most: f64| match value {
            Some(value) if !(0.0..=most).contains(&value) => Err(refuse(name, value)),
            _ => Ok(()),
        };
        check("random_loss", path.random_loss, 1.0)?;
        check("rate_mbps", path.rate_mbps, 1e7)?;
        check("at", path.at, 1e12)?;
        let rtt = match path.rtt_ms {
            Some(millis) => {
                Some(PathReport::rtt_from_millis(millis).ok_or_else(|| refuse("rtt_ms", millis))?)
            }
            None => None,
        };
        let count = self.known.len();
        if count > usize::from(u8::MAX) && !self.known.contains_key(&path.id) {
            return Err(ControllerError::Excess(count + 1));
        }
        let (number, measured) =
            self.known.entry(path.id.clone()).or_insert_with(|| (PathId(count as u8), None));
        if !path.up {
            return Ok(PathReport::new(*number, None));
        }
        let (Some(rtt), Some(at)) = (rtt, path.at) else {
            return Err(ControllerError::Unmeasured(path.id.clone()));
        };
        match measured {
            // The clocks of client and controller are not compared. It only matters whether the controller's time
            // advances.
            Some((last, since)) if at <= *last => {
                if now.saturating_since(*since) > FRESH {
                    return Err(ControllerError::Stale(path.id.clone()));
                }
            }
            _ => *measured = Some((at, now)),
        }
        Ok(PathReport { loss: path.random_loss, ..PathReport::new(*number, Some(rtt)) })
    }
}

/// A connection to a controller.
#[derive(Debug)]
pub struct Controller {
    line: Line,
    url: String,
    judge: Judge,
}

impl Controller {
    /// A controller at `http://HOST:PORT`. Tributary's own requires a `token`.
    ///
    /// Cancellation: dropping the future ends the attempt.
    ///
    /// # Errors
    /// [`ControllerError`] when it cannot be reached.
    pub async fn connect(url: &str, token: Option<&Token>) -> Result<Self, ControllerError> {
        let (authority, _) = split(url)?;
        let mut config = TransportConfig::new(TransportName::Tcp(None));
        config.timeout = PATIENCE;
        let path: PathConfig = format!("any={authority}").parse()?;
        let mut line = Line::new(HttpConnection::connect(&config, &[path]).await?, &authority);
        if let Some(token) = token {
            line = line.with(header::AUTHORIZATION, token.0.clone());
        }
        Ok(Self { line, url: format!("http://{authority}"), judge: Judge::default() })
    }

    /// All paths, including those out of use; of several from the same local address the first. Those share the client's
    /// interface, and a transport has one subflow there. Example: the kernel's MPTCP joins from one address to each address of
    /// the server.
    ///
    /// Cancellation: dropping the future loses the answer.
    ///
    /// # Errors
    /// [`ControllerError`].
    pub async fn paths(&mut self, now: Instant) -> Result<Vec<(Path, PathReport)>, ControllerError> {
        let request = Request { url: format!("{}/v1/paths?all=true", self.url), range: None };
        let fetching = tokio::time::timeout(PATIENCE, self.line.fetch(&request, ANSWER));
        let answer = match fetching.await {
            Ok(Err(FetchError::Status { url, status })) => {
                return Err(self.refusal(status).unwrap_or(FetchError::Status { url, status }.into()));
            }
            Ok(answer) => answer?,
            Err(_) => {
                self.line.reset();
                return Err(ControllerError::Silent);
            }
        };
        self.judge.read(now, &answer)
    }

    /// Sets whether a path is in use.
    ///
    /// Cancellation: when the future is dropped, the controller has done it or not; [`Self::paths`] tells.
    ///
    /// # Errors
    /// [`ControllerError`].
    pub async fn set(&mut self, path: &Path, used: bool) -> Result<(), ControllerError> {
        let (method, resource, body) = if used {
            let pair = serde_json::json!({ "local": path.local, "remote": path.remote });
            (Method::POST, "/v1/paths".to_owned(), Bytes::from(pair.to_string()))
        } else {
            let id = tributary_player::dash::cmcd::percent_encoded(&path.id);
            (Method::DELETE, format!("/v1/paths/{id}"), Bytes::new())
        };
        let json = HeaderValue::from_static("application/json");
        let headers = HeaderMap::from_iter([(header::CONTENT_TYPE, json)]);
        let url = format!("{}{resource}", self.url);
        let sending = tokio::time::timeout(PATIENCE, self.line.send(&method, &url, &headers, body));
        let answered = sending.await;
        // The rest of the answer is not read, so the next request needs a new connection.
        self.line.reset();
        let status = answered.map_err(|_| ControllerError::Silent)??.status();
        if status.is_success() {
            Ok(())
        } else {
            Err(self.refusal(status).unwrap_or(ControllerError::Refused { method, path: resource, status }))
        }
    }

    /// The refusals of any request that the user can mend.
    fn refusal(&self, status: StatusCode) -> Option<ControllerError> {
        match status {
            StatusCode::UNAUTHORIZED => Some(ControllerError::Unauthorised),
            StatusCode::MISDIRECTED_REQUEST => Some(ControllerError::Misdirected(self.url.clone())),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader};

    fn at(seconds: u64) -> Instant {
        Instant::from_millis(seconds * 1000)
    }

    #[test]
    fn a_token_is_a_header_and_is_not_shown() {
        let token: Token = "let-me-in".parse().unwrap();
        assert_eq!(token.0.as_bytes(), b"Bearer let-me-in");
        assert!(!format!("{token:?}").contains("let-me-in"));
        assert!("two\nlines".parse::<Token>().is_err());
    }

    /// Answers every request with this status.
    async fn refusing(status: &'static str) -> String {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                let mut stream = BufReader::new(stream);
                let mut line = String::new();
                while stream.read_line(&mut line).await.unwrap() > 2 {
                    line.clear();
                }
                let head = format!("HTTP/1.1 {status}\r\nConnection: close\r\nContent-Length: 0\r\n\r\n");
                stream.write_all(head.as_bytes()).await.unwrap();
            }
        });
        url
    }

    #[tokio::test]
    async fn a_refusal_says_what_the_controller_wants() {
        let mut judge = Judge::default();
        let path = judge.read(at(0), &answer("p1", "5", GOOD)).unwrap().remove(0).0;
        for (status, way) in [
            ("401 no access", "--controller-token FILE"),
            ("421 wrong host", "--host NAME"),
            ("503 too many connections", "503"),
        ] {
            let url = refusing(status).await;
            let mut controller = Controller::connect(&url, None).await.unwrap();
            let error = controller.paths(at(0)).await.unwrap_err().to_string();
            assert!(error.contains(way), "{error}");
            let error = controller.set(&path, false).await.unwrap_err().to_string();
            assert!(error.contains(way), "{error}");
        }
    }

    fn answer(id: &str, rtt: &str, more: &str) -> Vec<u8> {
        format!(
            "{{\"paths\":[{{\"id\":\"{id}\",\"local\":\"10.0.0.2\",\"remote\":\"10.0.0.1\",\"rtt_ms\":{rtt},{more}}}]}}"
        )
        .into_bytes()
    }

    const GOOD: &str = "\"random_loss\":0.01,\"rate_mbps\":2.5,\"up\":true,\"at\":100.5,\"via\":[\"1\"]";

    #[test]
    fn path_numbers_are_stable_and_a_path_that_is_down_has_no_rtt() {
        let mut judge = Judge::default();
        let first = judge.read(at(0), &answer("p7", "12.5", GOOD)).unwrap();
        assert_eq!(first[0].1.rtt, Some(Duration::from_micros(12_500)));
        let other = judge.read(at(1), &answer("p8", "3", GOOD)).unwrap();
        assert_ne!(first[0].1.path, other[0].1.path);
        let down = GOOD.replace("true", "false");
        let again = judge.read(at(2), &answer("p7", "null", &down)).unwrap();
        assert_eq!((again[0].1.path, again[0].1.rtt), (first[0].1.path, None));
    }

    #[test]
    fn of_paths_from_the_same_local_address_the_first_counts() {
        let mut judge = Judge::default();
        let path = |id: &str, local: &str| {
            format!("{{\"id\":\"{id}\",\"local\":\"{local}\",\"remote\":\"10.0.0.1\",\"rtt_ms\":5,{GOOD}}}")
        };
        let all = [path("p1", "10.0.0.2"), path("p2", "10.0.1.2"), path("p3", "10.0.0.2")].join(",");
        let seen = judge.read(at(0), format!("{{\"paths\":[{all}]}}").as_bytes()).unwrap();
        assert_eq!(seen.iter().map(|(path, _)| path.id.as_str()).collect::<Vec<_>>(), ["p1", "p2"]);
    }

    #[test]
    fn impossible_values_are_refused_by_name() {
        let mut judge = Judge::default();
        for (rtt, more, part) in [
            ("NaN", GOOD, "not a list of paths"),
            ("-1", GOOD, "rtt_ms is -1"),
            ("0", GOOD, "rtt_ms is 0"),
            ("1e9", GOOD, "rtt_ms is 1000000000"),
            ("1e999", GOOD, "not a list of paths"),
            ("null", GOOD, "has not been measured"),
            ("5", &GOOD.replace("0.01", "1.5"), "random_loss is 1.5"),
            ("5", &GOOD.replace("2.5", "-2"), "rate_mbps is -2"),
            ("5", &GOOD.replace("100.5", "null"), "has not been measured"),
        ] {
            let error = judge.read(at(0), &answer("p1", rtt, more)).unwrap_err().to_string();
            assert!(error.contains(part), "{rtt}: {error}");
        }
        for text in ["", "[]", "{\"paths\":{}}", "<html>"] {
            assert!(judge.read(at(0), text.as_bytes()).is_err(), "{text}");
        }
        let one = String::from_utf8(answer("p1", "5", GOOD)).unwrap();
        let one = &one["{\"paths\":[".len()..one.len() - 2];
        let many = format!("{{\"paths\":[{}]}}", vec![one; PATHS + 1].join(","));
        assert!(judge.read(at(0), many.as_bytes()).unwrap_err().to_string().contains("65 paths"));
    }

    #[test]
    fn a_measurement_that_is_not_updated_is_refused_after_its_lifetime() {
        let mut judge = Judge::default();
        for second in 0..=5 {
            assert!(judge.read(at(second), &answer("p1", "5", GOOD)).is_ok(), "{second}");
        }
        let error = judge.read(at(6), &answer("p1", "5", GOOD)).unwrap_err().to_string();
        assert!(error.contains("p1 has not been measured for 5s"), "{error}");
        assert!(judge.read(at(7), &answer("p1", "5", &GOOD.replace("100.5", "101"))).is_ok());
    }
}
