//! A browser without a window, steered by the DevTools protocol: it opens a page, runs scripts in it, and passes its pictures on.
//!
//! Messages are JSON texts, each ended by a zero byte, on the browser's descriptors 3 and 4. Source:
//! <https://chromedevtools.github.io/devtools-protocol/>. Not here: what is done in the page.

use core::time::Duration;
use std::io::{self, BufRead, BufReader, Write};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::Instant;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};
use tempfile::TempDir;
use thiserror::Error;

/// Time for an answer of the browser, which has two 360° videos to draw.
const ANSWER: Duration = Duration::from_secs(60);
/// Quality of a picture, per cent.
const QUALITY: u32 = 90;
/// The variable that names another program than Chromium, as in the tests of the pages.
const CHROMIUM: &str = "CHROMIUM";

/// Why the browser cannot be recorded.
#[derive(Debug, Error)]
pub enum BrowserError {
    /// It does not start.
    #[error(
        "cannot start `{program}`: {source}; install the Debian package chromium, or name your Chromium with the variable CHROMIUM"
    )]
    Start {
        /// The program.
        program: String,
        /// The system's reason.
        source: io::Error,
    },
    /// It has ended, or does not answer.
    #[error("the browser {0}")]
    Gone(&'static str),
    /// It refuses a command, or the page's script failed.
    #[error("the browser refuses {method}: {reason}")]
    Refused {
        /// The command.
        method: String,
        /// Its reason.
        reason: String,
    },
}

/// A running browser with one page. Killed when dropped.
#[derive(Debug)]
pub(super) struct Browser {
    child: Child,
    input: ChildStdin,
    messages: Receiver<Value>,
    number: u64,
    session: Value,
    /// The newest picture of the page, JPEG.
    pub(super) picture: Vec<u8>,
    _profile: TempDir,
}

impl Browser {
    /// Opens a page in a window of this size.
    pub(super) fn open(url: &str, (width, height): (u32, u32)) -> Result<Self, BrowserError> {
        let program = std::env::var(CHROMIUM).unwrap_or_else(|_| "chromium".to_owned());
        let failed = |source| BrowserError::Start { program: program.clone(), source };
        let profile = tempfile::tempdir().map_err(failed)?;
        // `sh` would start, and say only to its error output that there is no such program.
        Command::new(&program)
            .arg("--version")
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .status()
            .map_err(failed)?;
        let mut child = Command::new("sh")
            .args(["-c", "exec \"$@\" 3<&0 4>&1 </dev/null >/dev/null 2>&1", "sh", &program])
            .args([
                "--headless=new",
                "--disable-gpu",
                "--enable-unsafe-swiftshader",
                "--remote-debugging-pipe",
            ])
            // Its own sandbox needs a user who is not root. It shows one page, which the stand has made.
            .args(["--no-sandbox", "--no-first-run", "--hide-scrollbars", "--mute-audio"])
            .arg(format!("--window-size={width},{height}"))
            .arg(format!("--user-data-dir={}", profile.path().display()))
            .arg("about:blank")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .map_err(failed)?;
        let input = child.stdin.take().expect("standard input was piped");
        let messages = messages_of(child.stdout.take().expect("standard output was piped"));
        let picture = Vec::new();
        let mut browser =
            Self { child, input, messages, number: 0, session: Value::Null, picture, _profile: profile };
        // An empty page first: a page that is being loaded may not be attached to any more when it has come.
        let target =
            browser.call("Target.createTarget", &json!({ "url": "about:blank" }))?["targetId"].take();
        let attach = json!({ "targetId": target, "flatten": true });
        browser.session = browser.call("Target.attachToTarget", &attach)?["sessionId"].take();
        let size = json!({ "width": width, "height": height, "deviceScaleFactor": 1, "mobile": false });
        browser.call("Emulation.setDeviceMetricsOverride", &size)?;
        browser.call("Page.navigate", &json!({ "url": url }))?;
        Ok(browser)
    }

    /// Takes pictures of the page from now on; returns when there is one.
    pub(super) fn film(&mut self) -> Result<(), BrowserError> {
        self.call("Page.startScreencast", &json!({ "format": "jpeg", "quality": QUALITY }))?;
        let until = Instant::now() + ANSWER;
        while self.picture.is_empty() {
            let Some(message) = self.next(until)? else { return Err(BrowserError::Gone("sends no picture")) };
            self.heard(&message)?;
        }
        Ok(())
    }

    /// Runs a script in the page, and returns its value.
    pub(super) fn evaluate(&mut self, script: &str) -> Result<Value, BrowserError> {
        let method = "Runtime.evaluate";
        let mut answer = self.call(method, &json!({ "expression": script, "returnByValue": true }))?;
        match answer.get("exceptionDetails") {
            Some(details) => {
                Err(BrowserError::Refused { method: method.to_owned(), reason: details.to_string() })
            }
            None => Ok(answer["result"]["value"].take()),
        }
    }

    /// Takes the page's pictures until this moment.
    pub(super) fn watch(&mut self, until: Instant) -> Result<(), BrowserError> {
        while let Some(message) = self.next(until)? {
            self.heard(&message)?;
        }
        Ok(())
    }

    fn call(&mut self, method: &str, params: &Value) -> Result<Value, BrowserError> {
        let number = self.send(method, params)?;
        let until = Instant::now() + ANSWER;
        while let Some(mut message) = self.next(until)? {
            if message["id"] != number {
                self.heard(&message)?;
            } else if let Some(error) = message.get("error") {
                return Err(BrowserError::Refused { method: method.to_owned(), reason: error.to_string() });
            } else {
                return Ok(message["result"].take());
            }
        }
        Err(BrowserError::Gone("does not answer"))
    }

    fn send(&mut self, method: &str, params: &Value) -> Result<u64, BrowserError> {
        self.number += 1;
        let mut message = json!({ "id": self.number, "method": method, "params": params });
        if !self.session.is_null() {
            message["sessionId"] = self.session.clone();
        }
        let sent = write!(self.input, "{message}\0").and_then(|()| self.input.flush());
        sent.map(|()| self.number).map_err(|_| BrowserError::Gone("has ended"))
    }

    /// The next message until this moment.
    fn next(&self, until: Instant) -> Result<Option<Value>, BrowserError> {
        match self.messages.recv_timeout(until.saturating_duration_since(Instant::now())) {
            Ok(message) => Ok(Some(message)),
            Err(RecvTimeoutError::Timeout) => Ok(None),
            Err(RecvTimeoutError::Disconnected) => Err(BrowserError::Gone("has ended")),
        }
    }

    /// Keeps a picture; the browser sends the next one when it is told that this one has arrived.
    fn heard(&mut self, message: &Value) -> Result<(), BrowserError> {
        let (method, params) = (&message["method"], &message["params"]);
        if method != "Page.screencastFrame" {
            return Ok(());
        }
        if let Some(picture) = params["data"].as_str().and_then(|text| STANDARD.decode(text).ok()) {
            self.picture = picture;
        }
        self.send("Page.screencastFrameAck", &json!({ "sessionId": params["sessionId"] })).map(drop)
    }
}

impl Drop for Browser {
    fn drop(&mut self) {
        // Both fail if it has ended.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn messages_of(output: impl io::Read + Send + 'static) -> Receiver<Value> {
    let (sender, messages) = channel();
    std::thread::spawn(move || {
        for text in BufReader::new(output).split(0).map_while(Result::ok) {
            let Ok(message) = serde_json::from_slice(&text) else { break };
            if sender.send(message).is_err() {
                break;
            }
        }
    });
    messages
}
