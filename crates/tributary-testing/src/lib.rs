//! What tests share: waiting for a state that nobody announces, a guard against hangs, test programs without threads, what a
//! command line refuses, the commands in documents, and tests that cannot run here or lack their data.
//!
//! Only tests depend on it. `cargo xtask tidy` (rule `waiting`) sends every other wait of a test here. Not here:
//! networks and sessions for tests, which each crate builds for itself.

pub mod documents;

use std::fmt::Display;
use std::net::{SocketAddr, TcpListener};
use std::path::{Path, PathBuf};
use std::process::{ExitCode, Output};
use std::time::Duration;
use tokio::time::{sleep, timeout};

/// Ends a test that hangs. Long enough for any machine, so that a correct program never reaches it.
pub const HANG: Duration = Duration::from_secs(60);
/// Time between two looks at a state.
const LOOK: Duration = Duration::from_millis(2);

/// Waits until `so` is true: an effect that no call reports, such as a line in another program's log or an entry in
/// one of the kernel's tables.
///
/// # Panics
/// After [`HANG`], with `what`.
#[track_caller]
pub fn until(what: &str, mut so: impl FnMut() -> bool) {
    let begin = std::time::Instant::now();
    while !so() {
        assert!(begin.elapsed() < HANG, "not within {HANG:?}: {what}");
        std::thread::sleep(LOOK);
    }
}

/// [`until`] in a task: other tasks run meanwhile.
///
/// # Panics
/// After [`HANG`], with `what`.
pub async fn becomes(what: &str, mut so: impl FnMut() -> bool) {
    let waiting = async {
        while !so() {
            sleep(LOOK).await;
        }
    };
    assert!(timeout(HANG, waiting).await.is_ok(), "not within {HANG:?}: {what}");
}

/// Waits until an attempt succeeds: the effect shows only in what a request, a connection or a write meets.
///
/// # Panics
/// After [`HANG`], with `what`.
pub async fn succeeds(what: &str, mut attempt: impl AsyncFnMut() -> bool) {
    let trying = async {
        while !attempt().await {
            sleep(LOOK).await;
        }
    };
    assert!(timeout(HANG, trying).await.is_ok(), "not within {HANG:?}: {what}");
}

/// The result of `work`.
///
/// # Panics
/// After [`HANG`].
pub async fn in_time<T>(work: impl Future<Output = T>) -> T {
    timeout(HANG, work).await.expect("the test hangs")
}

/// A TCP service on loopback that sends back what it gets, until the test ends.
///
/// # Panics
/// When the machine has no free port.
pub fn echo() -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let address = listener.local_addr().expect("bound");
    std::thread::spawn(move || {
        for tcp in listener.incoming().flatten() {
            std::thread::spawn(move || std::io::copy(&mut tcp.try_clone()?, &mut &tcp));
        }
    });
    address
}

/// Says why a test cannot run on this machine. `make test` sets `CI=true`: it runs every test or fails.
///
/// # Panics
/// If `CI=true`.
#[track_caller]
pub fn not_run(why: &str) {
    println!("not run: {why}");
    assert!(std::env::var("CI").as_deref() != Ok("true"), "with CI=true every test must run: {why}");
}

/// The `main` of a test program that isolates itself: that must come before any thread, and the standard harness starts
/// threads. Arguments select cases by parts of their names; `--list` lists them, as the standard harness does. When `prepare`
/// fails, nothing runs. A panic of a case ends the program with a failure.
///
/// # Panics
/// As [`not_run`], with the error of `prepare`.
pub fn run_cases<C, T, E: Display>(
    cases: &[(&str, C)],
    prepare: impl FnOnce() -> Result<T, E>,
    run: impl Fn(&C, &T),
) -> ExitCode {
    if std::env::args().any(|word| word == "--list") {
        cases.iter().for_each(|(name, _)| println!("{name}: test"));
        return ExitCode::SUCCESS;
    }
    let prepared = match prepare() {
        Ok(prepared) => prepared,
        Err(error) => {
            not_run(&error.to_string());
            return ExitCode::SUCCESS;
        }
    };
    let wanted: Vec<String> = std::env::args().skip(1).filter(|word| !word.starts_with('-')).collect();
    for (name, case) in cases {
        if wanted.is_empty() || wanted.iter().any(|word| name.contains(word.as_str())) {
            run(case, &prepared);
            println!("case {name} ... ok");
        }
    }
    ExitCode::SUCCESS
}

/// Asserts that a program ended with this exit code, without a panic, and that its standard error holds all of `parts`; with exit
/// code 1 on one line of its own.
///
/// # Panics
/// If it did not.
#[track_caller]
pub fn refused(program: &str, output: &Output, code: i32, parts: &[&str]) {
    let text = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(code), "{text}");
    assert!(!text.contains("panicked"), "{text}");
    for part in parts {
        assert!(text.contains(part), "`{part}` is not in: {text}");
    }
    if code == 1 {
        let own = text.lines().filter(|line| line.starts_with(&format!("{program}: "))).count();
        assert_eq!(own, 1, "{text}");
    }
}

/// A temporary path as an argument.
///
/// # Panics
/// If it is not UTF-8.
#[must_use]
pub fn text(path: &Path) -> &str {
    path.to_str().expect("temporary paths are UTF-8")
}

/// A folder of the data sets that others made, which lie beside the checkout and are no part of it; `None` without it.
///
/// # Panics
/// Without the folder if `TRIBUTARY_DATA=required`.
#[track_caller]
pub fn data(folder: &str) -> Option<PathBuf> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared/data").join(folder);
    if path.is_dir() {
        return Some(path);
    }
    println!("not run: there is no folder ../shared/data/{folder} beside the checkout");
    let required = std::env::var("TRIBUTARY_DATA").as_deref() == Ok("required");
    assert!(!required, "with TRIBUTARY_DATA=required the data sets must be there");
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_state_that_comes_ends_the_wait() {
        let mut looks = 0;
        until("the third look", || {
            looks += 1;
            looks == 3
        });
    }

    #[tokio::test(start_paused = true)]
    async fn a_state_that_comes_ends_the_wait_of_a_task() {
        let mut looks = 0;
        let mut look = || {
            looks += 1;
            looks % 3 == 0
        };
        becomes("the third look", &mut look).await;
        succeeds("the sixth look", async || look()).await;
    }

    #[tokio::test(start_paused = true)]
    #[should_panic(expected = "the moon is full")]
    async fn a_state_that_never_comes_is_named() {
        becomes("the moon is full", || false).await;
    }

    #[tokio::test(start_paused = true)]
    #[should_panic(expected = "the test hangs")]
    async fn work_that_never_ends_is_a_hang() {
        in_time(std::future::pending::<()>()).await;
    }
}
