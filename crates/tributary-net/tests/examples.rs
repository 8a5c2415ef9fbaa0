//! Every example runs to its end. `cargo test -p tributary-net` builds them before this test.

use std::process::Command;

fn output_of(example: &str) -> String {
    let test = std::env::current_exe().expect("a test has a path");
    let directory = test.parent().and_then(|deps| deps.parent()).expect("tests are in target/PROFILE/deps");
    let program = directory.join("examples").join(example);
    let run = Command::new(&program).output();
    let run = run.unwrap_or_else(|error| {
        panic!("{}: {error}; build it with cargo build -p tributary-net --examples", program.display())
    });
    assert!(run.status.success(), "{example}: {}", String::from_utf8_lossy(&run.stderr));
    String::from_utf8_lossy(&run.stdout).into_owned()
}

#[test]
fn the_examples_do_what_they_say() {
    assert!(output_of("echo").contains("over all radios at once"));
    assert!(output_of("file_copy").contains("bytes copied"));
    let statistics = output_of("live_statistics");
    for name in ["tcp", "session", "quic", "mpquic"] {
        assert!(statistics.lines().any(|line| line.starts_with(name)), "{statistics}");
    }
    assert!(output_of("deadlines").contains("messages accepted"));
}
