//! The commands that add OpenFlow switches and the path controller to an emulated network.
//!
//! The Python package in `controller/` starts switches and controller (`tributary_controller.lab.emulated`). Not here: OpenFlow,
//! and how the emulator runs the commands.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use thiserror::Error;

/// The path controller's Python interpreter, relative to the root of the source tree; created by `scripts/setup
/// --sdn`.
const PYTHON: &str = "controller/.venv/bin/python";

/// The controller's REST interface, for programs beside the client. They also find it in the variable
/// `TRIBUTARY_CONTROLLER`, and the file with its token in `TRIBUTARY_CONTROLLER_TOKEN`.
pub const CONTROLLER: &str = "http://127.0.0.1:8181";

/// The programs for each side of the emulated network.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sides {
    /// Program and arguments for the client's side.
    pub client: Vec<OsString>,
    /// Shell command for the server's side.
    pub server: Option<String>,
}

/// Why switches and controller cannot be started.
#[derive(Debug, Error)]
pub enum SdnError {
    /// The controller is not installed.
    #[error("no {PYTHON} above this directory; go to the source tree and run scripts/setup --sdn there")]
    Absent,
    /// A path that is not UTF-8 cannot be part of a shell command.
    #[error("{} is not UTF-8; rename the directory", .0.display())]
    Name(PathBuf),
}

/// Wraps the commands of client and server in those of the path controller's laboratory: the program and arguments of the
/// client, and a shell command for the server.
///
/// # Errors
/// [`SdnError`]. The programs that the laboratory needs are checked when it is started.
pub fn sides(client: &[OsString], server: Option<&str>) -> Result<Sides, SdnError> {
    let starts = [std::env::current_dir().ok(), std::env::current_exe().ok()];
    let root = starts.into_iter().flatten().find_map(|start| root_above(&start)).ok_or(SdnError::Absent)?;
    wrap(&root, client, server)
}

fn root_above(start: &Path) -> Option<PathBuf> {
    start.ancestors().find(|root| root.join(PYTHON).exists()).map(Path::to_path_buf)
}

/// The laboratory runs beside the client and also starts the server's command. The emulator's server side is only a
/// process that keeps running, so that the laboratory finds the server's network namespace.
fn wrap(root: &Path, client: &[OsString], server: Option<&str>) -> Result<Sides, SdnError> {
    let mut packages = OsString::from("PYTHONPATH=");
    packages.push(root.join("controller"));
    let python = root.join(PYTHON).into_os_string();
    let module = |name: &str| -> Vec<OsString> {
        vec!["env".into(), packages.clone(), python.clone(), "-m".into(), name.into()]
    };
    let mut inside = module("tributary_controller.lab.emulated");
    if let Some(line) = server {
        // As one word, because a command may begin with a hyphen.
        inside.push(format!("--server={line}").into());
    }
    inside.push("--".into());
    inside.extend_from_slice(client);
    let words: Option<Vec<String>> =
        module("tributary_controller.lab.stay").iter().map(|word| word.to_str().map(quoted)).collect();
    let words = words.ok_or_else(|| SdnError::Name(root.to_owned()))?;
    // With `exec` the process is a direct child of the emulator, as the laboratory expects.
    Ok(Sides { client: inside, server: Some(format!("exec {}", words.join(" "))) })
}

/// A word as a shell reads it unchanged.
#[must_use]
pub fn quoted(word: &str) -> String {
    format!("'{}'", word.replace('\'', "'\\''"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_shell_reads_quoted_words_unchanged() {
        let root = Path::new("/a b/it's $HOME");
        let sides = wrap(root, &["echo".into()], Some("serve 'x'")).unwrap();
        let line = sides.server.unwrap().replace("exec ", "printf '%s|' ");
        let output = std::process::Command::new("sh").args(["-c", &line]).output().unwrap();
        let python = "/a b/it's $HOME/controller/.venv/bin/python";
        let expected =
            format!("env|PYTHONPATH=/a b/it's $HOME/controller|{python}|-m|tributary_controller.lab.stay|");
        assert_eq!(String::from_utf8_lossy(&output.stdout), expected);
        let tail = ["--server=serve 'x'", "--", "echo"].map(OsString::from);
        assert!(sides.client.ends_with(&tail), "{:?}", sides.client);
    }

    #[test]
    fn a_directory_without_the_controller_is_refused() {
        assert_eq!(root_above(Path::new("/nowhere/at/all")), None);
    }
}
