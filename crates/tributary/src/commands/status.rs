//! State of a running proxy: a local socket that answers with JSON, `tributary status` that reads it, and a
//! line on the terminal.

use crate::cli::StatusArguments;
use anyhow::{Context, Result, bail};
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use serde_json::Value;
use std::borrow::Cow;
use std::io::{self, IsTerminal, Read, Write};
use std::net::SocketAddr;
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::OnceLock;
use std::time::Duration;
use tokio::io::AsyncWriteExt;
use tokio::net::UnixListener;
use tributary_cli::output;
use tributary_net::proxy::Watch;

/// Time between two lines of the live view, and between two tables of `--watch`.
const REFRESH: Duration = Duration::from_secs(1);

/// The live line, if there is one: log lines are written above it.
static LIVE: OnceLock<ProgressBar> = OnceLock::new();

/// Directory of the sockets of this user's proxies: in `XDG_RUNTIME_DIR` if the system sets it.
fn directory() -> Result<PathBuf> {
    if let Some(base) = std::env::var_os("XDG_RUNTIME_DIR").filter(|base| !base.is_empty()) {
        return Ok(Path::new(&base).join("tributary"));
    }
    let user = std::fs::metadata("/proc/self").context("cannot read the user's id")?.uid();
    Ok(std::env::temp_dir().join(format!("tributary-{user}")))
}

/// Serves snapshots until dropped.
pub(super) struct Shown {
    socket: Option<PathBuf>,
    tasks: tokio::task::JoinSet<()>,
}

impl Drop for Shown {
    fn drop(&mut self) {
        self.tasks.abort_all();
        if let Some(socket) = &self.socket {
            let _ = std::fs::remove_file(socket);
        }
        if let Some(line) = LIVE.get() {
            line.finish_and_clear();
        }
    }
}

/// Serves the state of a proxy on its socket and, on a terminal, as a line. If the socket cannot be opened, it warns.
pub(super) fn show(role: &'static str, listening: &[SocketAddr], watch: Watch) -> Shown {
    let mut shown = Shown { socket: None, tasks: tokio::task::JoinSet::new() };
    match listen(role) {
        Ok((path, listener)) => {
            shown.socket = Some(path);
            let listening: Vec<String> = listening.iter().map(ToString::to_string).collect();
            shown.tasks.spawn(answer(listener, (role, listening), watch.clone()));
        }
        Err(error) => tracing::warn!("`tributary status` cannot show this program: {error:#}"),
    }
    if io::stderr().is_terminal() {
        shown.tasks.spawn(live(watch));
    }
    shown
}

fn listen(role: &str) -> Result<(PathBuf, UnixListener)> {
    let directory = directory()?;
    std::fs::DirBuilder::new()
        .recursive(true)
        .mode(0o700)
        .create(&directory)
        .with_context(|| format!("cannot make {}", directory.display()))?;
    own(&directory)?;
    for path in sockets(&directory)?.iter().filter(|path| is_left(path)) {
        let _ = std::fs::remove_file(path);
    }
    let path = directory.join(format!("{role}-{}.sock", std::process::id()));
    // Other programs see the socket only once it listens. Until then they would take it for a stale one.
    let unseen = path.with_extension("new");
    let _ = std::fs::remove_file(&unseen);
    let listener = UnixListener::bind(&unseen)
        .and_then(|listener| std::fs::rename(&unseen, &path).map(|()| listener))
        .with_context(|| format!("cannot listen on {}", path.display()))?;
    Ok((path, listener))
}

fn sockets(directory: &Path) -> Result<Vec<PathBuf>> {
    let entries =
        std::fs::read_dir(directory).with_context(|| format!("cannot read {}", directory.display()))?;
    let mut paths: Vec<PathBuf> = entries.filter_map(|entry| Some(entry.ok()?.path())).collect();
    paths.retain(|path| path.extension().is_some_and(|extension| extension == "sock"));
    paths.sort();
    Ok(paths)
}

/// Whether a program that was killed left this socket: no process listens on it. The process number in its name proves
/// nothing, because it may be that of another process or of another namespace.
fn is_left(path: &Path) -> bool {
    UnixStream::connect(path).is_err_and(|error| error.kind() == io::ErrorKind::ConnectionRefused)
}

/// Refuses a directory of another user, because that user could replace the socket.
fn own(directory: &Path) -> Result<()> {
    let made = std::fs::symlink_metadata(directory)?;
    let user = std::fs::metadata("/proc/self").context("cannot read the user's id")?.uid();
    if !made.is_dir() || made.uid() != user || made.mode() & 0o077 != 0 {
        bail!("{} is not a directory that only this user may enter; remove it", directory.display());
    }
    Ok(())
}

fn describe((role, listening): &(&'static str, Vec<String>), watch: &Watch) -> Result<Value> {
    let mut snapshot = serde_json::to_value(watch.snapshot())?;
    snapshot["role"] = (*role).into();
    snapshot["pid"] = std::process::id().into();
    snapshot["listening"] = listening.clone().into();
    Ok(snapshot)
}

async fn answer(listener: UnixListener, about: (&'static str, Vec<String>), watch: Watch) {
    loop {
        let Ok((mut stream, _)) = listener.accept().await else {
            tokio::time::sleep(REFRESH).await;
            continue;
        };
        if let Ok(snapshot) = describe(&about, &watch) {
            // A client that does not read cannot block others: the answer fits into the socket's buffer or is
            // truncated.
            let _ = tokio::time::timeout(REFRESH, stream.write_all(snapshot.to_string().as_bytes())).await;
        }
    }
}

/// Replaces the live line; log lines are written above it.
pub(super) fn show_line(text: String) {
    let bar = LIVE.get_or_init(|| {
        let style = ProgressStyle::with_template("{wide_msg}").expect("the template is well-formed");
        ProgressBar::with_draw_target(None, ProgressDrawTarget::stderr()).with_style(style)
    });
    bar.set_message(text);
    bar.tick();
}

async fn live(watch: Watch) {
    loop {
        if let Ok(snapshot) = serde_json::to_value(watch.snapshot()) {
            show_line(summary(&snapshot));
        }
        tokio::time::sleep(REFRESH).await;
    }
}

/// Writes a log line above the live line.
#[derive(Debug)]
pub(super) struct LogWriter;

/// The log's formatter passes one message at a time. A message stays one line, whoever wrote parts of it.
fn one_line(message: &[u8]) -> Cow<'_, [u8]> {
    let (text, end) = match message.strip_suffix(b"\n") {
        Some(text) => (text, &b"\n"[..]),
        None => (message, &b""[..]),
    };
    if !text.iter().any(|byte| matches!(byte, b'\n' | b'\r')) {
        return Cow::Borrowed(message);
    }
    let escaped = text.iter().flat_map(|byte| match byte {
        b'\n' => &b"\\n"[..],
        b'\r' => &b"\\r"[..],
        byte => std::slice::from_ref(byte),
    });
    Cow::Owned(escaped.chain(end).copied().collect())
}

impl Write for LogWriter {
    fn write(&mut self, text: &[u8]) -> io::Result<usize> {
        let line = one_line(text);
        match LIVE.get() {
            Some(bar) => bar.suspend(|| io::stderr().write_all(&line))?,
            None => io::stderr().write_all(&line)?,
        }
        Ok(text.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        io::stderr().flush()
    }
}

pub(super) fn run(arguments: &StatusArguments) -> Result<ExitCode> {
    loop {
        let proxies = ask_all(&directory()?)?;
        if proxies.is_empty() {
            bail!("no `tributary connect` or `tributary serve` of this user is running");
        }
        if arguments.json {
            output::line(&serde_json::json!({ "proxies": proxies }).to_string())?;
        } else {
            if arguments.watch && io::stdout().is_terminal() {
                // Cursor to the top left, and clear to the end of the screen.
                print!("\x1b[H\x1b[J");
            }
            output::line(proxies.iter().map(table).collect::<Vec<_>>().join("\n").trim_end())?;
        }
        if !arguments.watch {
            return Ok(ExitCode::SUCCESS);
        }
        std::thread::sleep(REFRESH);
    }
}

/// State of every running proxy. Sockets without a server are removed.
fn ask_all(directory: &Path) -> Result<Vec<Value>> {
    if !directory.exists() {
        return Ok(Vec::new());
    }
    own(directory)?;
    let mut proxies = Vec::new();
    for path in sockets(directory)? {
        match UnixStream::connect(&path) {
            Ok(stream) => proxies.push(ask(stream).with_context(|| format!("asking {}", path.display()))?),
            Err(error) if error.kind() == io::ErrorKind::ConnectionRefused => {
                let _ = std::fs::remove_file(&path);
            }
            Err(error) => eprintln!("tributary: {}: {error}", path.display()),
        }
    }
    Ok(proxies)
}

fn ask(mut stream: UnixStream) -> Result<Value> {
    stream.set_read_timeout(Some(Duration::from_secs(5)))?;
    let mut text = String::new();
    stream.read_to_string(&mut text)?;
    Ok(serde_json::from_str(&text)?)
}

fn list<'a>(value: &'a Value, name: &str) -> &'a [Value] {
    value[name].as_array().map_or(&[], Vec::as_slice)
}

fn number(value: &Value, name: &str) -> f64 {
    value[name].as_f64().unwrap_or_default()
}

fn word<'a>(value: &'a Value, name: &str) -> &'a str {
    value[name].as_str().unwrap_or("-")
}

/// The local part of a path.
fn radio(path: &Value) -> &str {
    word(path, "radio").split('=').next().unwrap_or_default()
}

/// A summary of all sessions in one line.
fn summary(snapshot: &Value) -> String {
    let sessions = list(snapshot, "sessions");
    if sessions.is_empty() {
        return "no session".to_owned();
    }
    if sessions.len() > 2 {
        let sum = |name: &str| {
            sessions
                .iter()
                .flat_map(|session| list(session, "paths"))
                .map(|path| number(path, name))
                .sum::<f64>()
        };
        let (sent, received) = (sum("send_mbps"), sum("receive_mbps"));
        return format!("{} sessions, ↑ {sent:.1} ↓ {received:.1} Mbit/s", sessions.len());
    }
    let sessions = sessions.iter().map(|session| {
        let paths = list(session, "paths").iter().map(|path| match word(path, "state") {
            "up" => format!(
                "{} up ↑ {:.1} ↓ {:.1} Mbit/s {:.0} ms",
                radio(path),
                number(path, "send_mbps"),
                number(path, "receive_mbps"),
                number(path, "rtt_ms")
            ),
            state => match path["cause"].as_str() {
                Some(cause) => format!("{} {state}: {cause}", radio(path)),
                None => format!("{} {state} for {:.0} s", radio(path), number(path, "since_s")),
            },
        });
        let connections = count(session["connections"].as_u64().unwrap_or_default(), "connection");
        std::iter::once(connections).chain(paths).collect::<Vec<_>>().join(" | ")
    });
    sessions.collect::<Vec<_>>().join(" || ")
}

/// A proxy as a table.
fn table(proxy: &Value) -> String {
    let listening = list(proxy, "listening").iter().filter_map(Value::as_str).collect::<Vec<_>>().join(", ");
    let mut text = format!(
        "{} (pid {}) listening on {listening}, up {:.0} s, {}\n",
        word(proxy, "role"),
        proxy["pid"],
        number(proxy, "uptime_s"),
        count(list(proxy, "sessions").len() as u64, "session")
    );
    if let Some(memory) = proxy.get("memory").filter(|memory| memory.is_object()) {
        text += &format!(
            "  memory of all sessions: {} of {}, {} refused, {} given back\n",
            bytes(number(memory, "taken")),
            bytes(number(memory, "bound")),
            count(memory["refused"].as_u64().unwrap_or_default(), "request"),
            count(memory["gave_way"].as_u64().unwrap_or_default(), "window")
        );
    }
    for session in list(proxy, "sessions") {
        let from = session["peer"].as_str().map_or_else(String::new, |peer| format!(" from {peer}"));
        text += &format!(
            "  session {}{from}: {:.0} s, {}, {} sent, {} received\n",
            word(session, "session"),
            number(session, "age_s"),
            count(session["connections"].as_u64().unwrap_or_default(), "connection"),
            bytes(number(session, "sent")),
            bytes(number(session, "received"))
        );
        text += &format!(
            "    {:<34} {:<11} {:>9} {:>9} {:>8} {:>10} {:>10}\n",
            "path", "state", "send Mb/s", "recv Mb/s", "RTT ms", "sent", "received"
        );
        for path in list(session, "paths") {
            let rtt = path["rtt_ms"].as_f64().map_or_else(|| "-".to_owned(), |rtt| format!("{rtt:.1}"));
            text += &format!(
                "    {:<34} {:<11} {:>9.2} {:>9.2} {rtt:>8} {:>10} {:>10}\n",
                word(path, "radio"),
                word(path, "state"),
                number(path, "send_mbps"),
                number(path, "receive_mbps"),
                bytes(number(path, "sent")),
                bytes(number(path, "received"))
            );
            if let Some(cause) = path["cause"].as_str() {
                text += &format!("      for {:.0} s: {cause}\n", number(path, "since_s"));
            }
        }
    }
    text
}

fn count(number: u64, what: &str) -> String {
    format!("{number} {what}{}", if number == 1 { "" } else { "s" })
}

fn bytes(count: f64) -> String {
    match count {
        0.0..1e3 => format!("{count:.0} B"),
        1e3..1e6 => format!("{:.1} kB", count / 1e3),
        1e6..1e9 => format!("{:.1} MB", count / 1e6),
        _ => format!("{:.2} GB", count / 1e9),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::net::UnixListener;

    #[test]
    fn a_log_message_stays_one_line() {
        assert_eq!(*one_line(b"INFO a message\n"), *b"INFO a message\n");
        assert_eq!(*one_line(b"INFO done\nINFO forged\r\n"), *b"INFO done\\nINFO forged\\r\n");
    }

    #[test]
    fn a_socket_on_which_no_process_listens_is_removed() {
        let directory = tempfile::tempdir().unwrap();
        std::fs::set_permissions(directory.path(), std::os::unix::fs::PermissionsExt::from_mode(0o700))
            .unwrap();
        // The number of a running process, as after a restart or from another namespace.
        let path = directory.path().join(format!("serve-{}.sock", std::process::id()));
        let listener = UnixListener::bind(&path).unwrap();
        assert!(!is_left(&path), "this process listens");
        drop(listener);
        assert!(is_left(&path));
        assert!(!is_left(&directory.path().join("other.sock")), "does not exist");
        assert!(ask_all(directory.path()).unwrap().is_empty());
        assert!(!path.exists());
    }
}
