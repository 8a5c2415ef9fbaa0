//! Changes of a running network by command: a local socket that takes one JSON object a connection and answers with another.
//!
//! [`Request`] names a path and what it shall be; without a path it only asks. The answer is the [`State`] afterwards, or
//! `{"error": …}`. The same from Python, without a library:
//!
//! ```python
//! with socket.socket(socket.AF_UNIX) as s:
//!     s.connect("emu.sock"); s.sendall(b'{"path": "wifi", "rate_mbps": 5}\n'); print(s.makefile().readline())
//! ```

use crate::network::{Network, system};
use crate::{NetworkError, sys};
use core::time::Duration;
use serde::{Deserialize, Serialize};
use std::io::{self, BufRead, BufReader, ErrorKind, Read, Write};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use thiserror::Error;
use tributary_link::{Change, Direction, MAX_RATE};
use tributary_types::Bitrate;

pub use crate::state::{LinkState, State};

/// Longest request, bytes.
const LONGEST: u64 = 4096;
/// Time for a client to send its request and to take the answer.
const PATIENCE: Duration = Duration::from_secs(1);
/// Time between two looks for a client or for the end.
const LOOK: Duration = Duration::from_millis(20);

/// What a path shall be from now on. What is absent is the scenario's.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Request {
    /// The path; without it nothing changes.
    pub path: Option<String>,
    /// One direction only.
    pub direction: Option<Direction>,
    /// A constant rate of IP packets, Mbit/s.
    pub rate_mbps: Option<f64>,
    /// Independent loss with this probability, 0 to 1.
    pub loss: Option<f64>,
    /// Everything is dropped silently.
    #[serde(default)]
    pub blocked: bool,
}

#[derive(Serialize, Deserialize)]
#[serde(untagged)]
enum Answer {
    Error { error: String },
    State(State),
}

/// Why a request is refused.
#[derive(Debug, Error)]
pub enum RequestError {
    /// A number is out of range.
    #[error("{field}: {value} is not between 0 and {highest}")]
    Range {
        /// The field.
        field: &'static str,
        /// Its value.
        value: f64,
        /// The largest that is allowed.
        highest: f64,
    },
    /// Something shall change, and no path is named.
    #[error("name the path to change: `path`")]
    NoPath,
    /// The network refuses.
    #[error(transparent)]
    Network(#[from] NetworkError),
}

impl Request {
    fn change(&self) -> Result<Change, RequestError> {
        let check = |field, value: Option<f64>, highest| match value {
            Some(value) if !(0.0..=highest).contains(&value) => {
                Err(RequestError::Range { field, value, highest })
            }
            _ => Ok(()),
        };
        check("rate_mbps", self.rate_mbps, MAX_RATE.as_bps() as f64 / 1e6)?;
        check("loss", self.loss, 1.0)?;
        let rate = self.rate_mbps.map(|rate| Bitrate::from_bps((rate * 1e6) as u64));
        Ok(Change { rate, loss: self.loss, blocked: self.blocked })
    }

    /// Changes a network, or only asks it; returns what its links are afterwards.
    ///
    /// # Errors
    /// [`RequestError`]; then nothing has changed.
    pub fn carry_out(&self, network: &Network) -> Result<State, RequestError> {
        let change = self.change()?;
        match &self.path {
            Some(path) => network.change(path, self.direction, change)?,
            None if *self != Self::default() => return Err(RequestError::NoPath),
            None => {}
        }
        Ok(network.state()?)
    }

    /// Asks the network behind a socket.
    ///
    /// # Errors
    /// Nobody listens there, or the network refuses the request.
    pub fn send(&self, socket: &Path) -> io::Result<State> {
        let mut stream = UnixStream::connect(socket)?;
        stream.write_all(format!("{}\n", serde_json::to_string(self)?).as_bytes())?;
        let mut line = String::new();
        BufReader::new(stream).read_line(&mut line)?;
        match serde_json::from_str(&line)? {
            Answer::State(state) => Ok(state),
            Answer::Error { error } => Err(io::Error::new(ErrorKind::InvalidInput, error)),
        }
    }
}

/// A socket for requests, removed when dropped.
#[derive(Debug)]
pub(crate) struct Control {
    listener: UnixListener,
    path: PathBuf,
}

impl Control {
    /// Listens; only this user may connect. A socket that nobody serves any more is replaced.
    pub(crate) fn bind(path: &Path) -> Result<Self, NetworkError> {
        if UnixStream::connect(path).is_err_and(|error| error.kind() == ErrorKind::ConnectionRefused) {
            let _ = std::fs::remove_file(path);
        }
        let bind = || {
            let listener = sys::with_private_files(|| UnixListener::bind(path))?;
            listener.set_nonblocking(true)?;
            Ok(listener)
        };
        let listener = bind().map_err(system(format!("listening on {}", path.display())))?;
        Ok(Self { listener, path: path.to_owned() })
    }

    /// Serves requests, one after the other, until `end` is set.
    pub(crate) fn serve(&self, network: &Network, end: &AtomicBool) {
        while !end.load(Ordering::Relaxed) {
            match self.listener.accept() {
                // A client that leaves early or is too slow gets no answer.
                Ok((stream, _)) => _ = answer(network, &stream),
                Err(_) => std::thread::sleep(LOOK),
            }
        }
    }
}

impl Drop for Control {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.path);
    }
}

fn answer(network: &Network, mut stream: &UnixStream) -> io::Result<()> {
    stream.set_nonblocking(false)?;
    stream.set_read_timeout(Some(PATIENCE))?;
    stream.set_write_timeout(Some(PATIENCE))?;
    let mut line = Vec::new();
    BufReader::new(stream.take(LONGEST)).read_until(b'\n', &mut line)?;
    let answer = match carry_out(network, &line) {
        Ok(state) => Answer::State(state),
        Err(error) => Answer::Error { error },
    };
    stream.write_all(format!("{}\n", serde_json::to_string(&answer)?).as_bytes())
}

fn carry_out(network: &Network, line: &[u8]) -> Result<State, String> {
    let request: Request = serde_json::from_slice(line).map_err(|error| format!("no request: {error}"))?;
    request.carry_out(network).map_err(|error| error.to_string())
}
