//! The local sockets on which a program answers, and asking them.
//!
//! Every long-running program of ours answers on a socket in every place where `tributary status` looks ([`places`]).

use super::places::{self, SocketDirectory};
use anyhow::{Context, Result, bail};
use serde_json::Value;
use std::collections::BTreeMap;
use std::io::{self, BufRead, BufReader, Write};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::time::Duration;
use tokio::net::UnixListener;

/// Time for a program to answer.
const ANSWER: Duration = Duration::from_secs(5);

/// Opens the program's socket in this place.
pub(super) fn listen(place: &SocketDirectory, role: &str) -> Result<(PathBuf, UnixListener)> {
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

/// State of every running program of this user, each once. Sockets without a server are removed; a program that does not
/// answer is named on standard error.
pub(crate) fn ask_all() -> Vec<Value> {
    ask_all_in(&places::places_to_look())
}

fn ask_all_in(places: &[SocketDirectory]) -> Vec<Value> {
    programs_in(places).into_iter().map(|(program, _)| program).collect()
}

/// The running programs of this user with their state, each once.
pub(crate) fn programs() -> Vec<(Value, Connection)> {
    programs_in(&places::places_to_look())
}

fn programs_in(places: &[SocketDirectory]) -> Vec<(Value, Connection)> {
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
                Ok(stream) => match Connection::new(stream).and_then(Connection::with_status) {
                    Ok((program, connection)) => {
                        let one = ["role", "pid", "started"].map(|key| program[key].to_string());
                        programs.insert(one, (program, connection));
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

/// A connection to a program's socket.
#[derive(Debug)]
pub(crate) struct Connection(BufReader<UnixStream>);

impl Connection {
    fn new(stream: UnixStream) -> Result<Self> {
        stream.set_read_timeout(Some(ANSWER))?;
        stream.set_write_timeout(Some(ANSWER))?;
        Ok(Self(BufReader::new(stream)))
    }

    fn with_status(mut self) -> Result<(Value, Self)> {
        Ok((self.call("status", &Value::Null)?, self))
    }

    /// The result of a method.
    ///
    /// # Errors
    /// The program refuses, with its reason, or does not answer.
    pub(crate) fn call(&mut self, method: &str, params: &Value) -> Result<Value> {
        let mut request = serde_json::json!({ "jsonrpc": "2.0", "id": 1, "method": method });
        if !params.is_null() {
            request["params"] = params.clone();
        }
        self.0.get_mut().write_all(format!("{request}\n").as_bytes())?;
        let mut line = String::new();
        self.0.read_line(&mut line)?;
        let mut answer: Value = serde_json::from_str(&line).context("it is no program of this version")?;
        match answer["error"]["message"].as_str() {
            Some(reason) => bail!("{reason}"),
            None => Ok(answer["result"].take()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::rpc;
    use super::*;
    use std::os::unix::net::UnixListener;
    use std::sync::Arc;

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
        assert!(ask_all_in(&[SocketDirectory::at(directory.path())]).is_empty());
        assert!(!path.exists());
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn a_program_with_sockets_in_two_places_is_shown_once() {
        let directory = tempfile::tempdir().unwrap();
        let places = ["one", "two"].map(|name| SocketDirectory::at(&directory.path().join(name)));
        let answers: super::super::metrics::Describe =
            Arc::new(|| serde_json::json!({ "role": "serve", "pid": 7, "started": 1.5 }));
        let mut tasks = tokio::task::JoinSet::new();
        for place in &places {
            let (_, listener) = listen(place, "serve").unwrap();
            tasks.spawn(rpc::serve(listener, answers.clone(), Arc::new(rpc::NoMethods)));
        }
        let programs = tokio::task::spawn_blocking(move || ask_all_in(&places)).await.unwrap();
        assert_eq!(programs.len(), 1, "{programs:?}");
    }
}
