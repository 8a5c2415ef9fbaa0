//! Checks of the repository: `cargo xtask tidy [--fast]` checks the project's rules, `cargo xtask tests` runs the test programs,
//! `cargo xtask book` makes the documents a book.
//!
//! Not a build system: building and set-up are `make test`, `make demo` and `scripts/`.

mod book;
mod programs;
mod tidy;

use std::process::ExitCode;

const USAGE: &str = "\
usage: cargo xtask tidy [--fast]
       cargo xtask tests [--beside=COMMAND]… [options of cargo test]
       cargo xtask book

tidy    formatting, clippy, rustdoc, and the rules of CONTRIBUTING.md
--fast  leave out clippy and rustdoc (a few seconds)
tests   the test programs; those that only compute, and the commands, run beside those that wait
book    the documents as HTML pages in target/book";

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let outcome = match arguments.as_slice() {
        ["tidy"] => tidy::run(tidy::Depth::Full),
        ["tidy", "--fast"] => tidy::run(tidy::Depth::Fast),
        ["tests", options @ ..] => programs::run(options),
        ["book"] => book::run(),
        ["help" | "--help" | "-h"] => {
            println!("{USAGE}");
            return ExitCode::SUCCESS;
        }
        [] => {
            eprintln!("{USAGE}");
            return ExitCode::from(2);
        }
        other => {
            eprintln!("unknown arguments `{}`\n{USAGE}", other.join(" "));
            return ExitCode::from(2);
        }
    };
    match outcome {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::FAILURE
        }
    }
}
