//! State of a running program: local sockets that answer with JSON, `tributary status` that reads them, and a
//! line on the terminal.
//!
//! Every long-running program of ours answers on a socket in every place where `status` looks ([`places`]). Not here:
//! what the programs know about themselves.

mod places;
mod table;
mod web;

use crate::cli::StatusArguments;
use anyhow::{Context, Result, bail};
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use serde_json::Value;
use std::borrow::Cow;
use std::collections::BTreeMap;
use std::fmt::Display;
use std::io::{self, IsTerminal, Read, Write};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};
use tokio::io::AsyncWriteExt;
use tokio::net::UnixListener;
use tributary_cli::output;
use tributary_net::proxy::Watch;

/// Time between two lines of the live view, and between two tables of `--watch`.
const REFRESH: Duration = Duration::from_secs(1);
/// Time for a program to answer.
const ANSWER: Duration = Duration::from_secs(5);

/// The live line, if there is one: log lines are written above it.
static LIVE: OnceLock<ProgressBar> = OnceLock::new();

/// Serves snapshots until dropped.
#[derive(Debug, Default)]
pub(super) struct Shown {
    sockets: Vec<PathBuf>,
    tasks: tokio::task::JoinSet<()>,
}

impl Drop for Shown {
    fn drop(&mut self) {
        self.tasks.abort_all();
        for socket in &self.sockets {
            let _ = std::fs::remove_file(socket);
        }
        if let Some(line) = LIVE.get() {
            line.finish_and_clear();
        }
    }
}

/// Serves the state of a proxy on its sockets and, on a terminal, as a line.
pub(super) fn show_proxy(role: &'static str, listening: &[impl Display], watch: Watch) -> Shown {
    let seen = watch.clone();
    let mut shown = show(role, listening, move || serde_json::to_value(seen.snapshot()).unwrap_or_default());
    if io::stderr().is_terminal() {
        shown.tasks.spawn(live(watch));
    }
    shown
}

/// Serves the state of a program, the object that `describe` returns. If no socket can be opened, it warns.
pub(super) fn show(
    role: &'static str,
    listening: &[impl Display],
    describe: impl Fn() -> Value + Send + Sync + 'static,
) -> Shown {
    let mut shown = Shown::default();
    let since = (Instant::now(), SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default());
    let listening: Vec<String> = listening.iter().map(ToString::to_string).collect();
    let whole = move || {
        let mut snapshot = describe();
        snapshot["role"] = role.into();
        snapshot["pid"] = std::process::id().into();
        snapshot["started"] = since.1.as_secs_f64().into();
        snapshot["uptime_s"] = since.0.elapsed().as_secs_f64().into();
        snapshot["listening"] = listening.clone().into();
        snapshot.to_string()
    };
    let whole: Arc<dyn Fn() -> String + Send + Sync> = Arc::new(whole);
    let mut errors = Vec::new();
    for place in places::places() {
        match listen(&place, role) {
            Ok((path, listener)) => {
                shown.sockets.push(path);
                shown.tasks.spawn(answer(listener, whole.clone()));
            }
            Err(error) => errors.push(format!("{error:#}")),
        }
    }
    if shown.sockets.is_empty() {
        tracing::warn!("`tributary status` cannot show this program: {}", errors.join("; "));
    }
    shown
}

/// What a player is doing, for its status.
#[derive(Clone, Debug, Default)]
pub(super) struct Doing(Arc<Mutex<(f64, String)>>);

impl Doing {
    /// `share` of all work is done, 0 to 1; `text` is the present step.
    pub(super) fn at(&self, share: f64, text: &str) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = (share, text.to_owned());
    }

    /// Serves it, with the server and the paths to it.
    pub(super) fn show(&self, role: &'static str, server: Value) -> Shown {
        let doing = self.clone();
        show(role, &[] as &[String], move || {
            let (share, text) = &*doing.0.lock().unwrap_or_else(PoisonError::into_inner);
            serde_json::json!({ "share": share, "doing": text, "server": server })
        })
    }
}

fn listen(place: &places::SocketDirectory, role: &str) -> Result<(PathBuf, UnixListener)> {
    let directory = place.make()?;
    for path in sockets(directory)?.iter().filter(|path| is_left(path)) {
        let _ = std::fs::remove_file(path);
    }
    let path = directory.join(format!("{}-{}.sock", role.replace(' ', "-"), std::process::id()));
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

async fn answer(listener: UnixListener, describe: Arc<dyn Fn() -> String + Send + Sync>) {
    loop {
        let Ok((mut stream, _)) = listener.accept().await else {
            tokio::time::sleep(REFRESH).await;
            continue;
        };
        // One at a time. A client that does not read cannot block others: the answer fits into the socket's buffer or
        // is truncated.
        let _ = tokio::time::timeout(REFRESH, stream.write_all(describe().as_bytes())).await;
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
            show_line(table::summary(&snapshot));
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
    if let Some(address) = arguments.web {
        return web::run(address, arguments.json);
    }
    loop {
        let programs = ask_all(&places::places());
        if programs.is_empty() {
            bail!("no long-running `tributary` program of this user is running");
        }
        if arguments.json {
            output::line(&serde_json::json!({ "programs": programs }).to_string())?;
        } else {
            if arguments.watch && io::stdout().is_terminal() {
                // Cursor to the top left, and clear to the end of the screen.
                print!("\x1b[H\x1b[J");
            }
            output::line(programs.iter().map(table::table).collect::<Vec<_>>().join("\n").trim_end())?;
        }
        if !arguments.watch {
            return Ok(ExitCode::SUCCESS);
        }
        std::thread::sleep(REFRESH);
    }
}

/// State of every running program, each once. Sockets without a server are removed; a program that does not answer is
/// named on standard error.
fn ask_all(places: &[places::SocketDirectory]) -> Vec<Value> {
    let mut programs = BTreeMap::new();
    for place in places {
        let paths = match place.existing().and_then(|there| there.map_or(Ok(Vec::new()), sockets)) {
            Ok(paths) => paths,
            Err(error) => {
                eprintln!("tributary: not looked at: {error:#}");
                continue;
            }
        };
        for path in paths {
            match UnixStream::connect(&path).map_err(|error| (error.kind(), error)) {
                Ok(stream) => match ask(stream) {
                    Ok(program) => {
                        let one = ["role", "pid", "started"].map(|key| program[key].to_string());
                        programs.insert(one, program);
                    }
                    Err(error) => eprintln!("tributary: {} does not answer: {error:#}", path.display()),
                },
                Err((io::ErrorKind::ConnectionRefused, _)) => _ = std::fs::remove_file(&path),
                Err((_, error)) => eprintln!("tributary: {}: {error}", path.display()),
            }
        }
    }
    programs.into_values().collect()
}

fn ask(mut stream: UnixStream) -> Result<Value> {
    stream.set_read_timeout(Some(ANSWER))?;
    let mut text = String::new();
    stream.read_to_string(&mut text)?;
    Ok(serde_json::from_str(&text)?)
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
        assert!(ask_all(&[places::SocketDirectory::at(directory.path())]).is_empty());
        assert!(!path.exists());
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn a_program_with_sockets_in_two_places_is_shown_once() {
        let directory = tempfile::tempdir().unwrap();
        let places = ["one", "two"].map(|name| places::SocketDirectory::at(&directory.path().join(name)));
        let answers: Arc<dyn Fn() -> String + Send + Sync> =
            Arc::new(|| serde_json::json!({ "role": "serve", "pid": 7, "started": 1.5 }).to_string());
        let mut tasks = tokio::task::JoinSet::new();
        for place in &places {
            let (_, listener) = listen(place, "serve").unwrap();
            tasks.spawn(answer(listener, answers.clone()));
        }
        let programs = tokio::task::spawn_blocking(move || ask_all(&places)).await.unwrap();
        assert_eq!(programs.len(), 1, "{programs:?}");
    }
}
