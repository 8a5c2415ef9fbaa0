//! Fuzz targets of files that users write. Included by `entry.rs`.

use clap::Parser;
use std::path::{Path, PathBuf};
use tributary_cli::settings::Document;
use tributary_lab::reproduce::{Paper, Selection};
use tributary_video::head::{self, Format};

/// A command line with every kind of argument.
#[derive(Debug, Parser)]
enum Cli {
    Serve {
        #[arg(long, required = true)]
        listen: Vec<std::net::SocketAddr>,
        #[arg(long, conflicts_with = "shared_key")]
        key: Option<String>,
        #[arg(long)]
        shared_key: Option<String>,
        #[arg(long, default_value_t = 10, value_parser = clap::value_parser!(u32).range(0..=3600))]
        drain: u32,
        #[arg(long, value_parser = ["json", "text"])]
        log_format: Option<String>,
        #[arg(long)]
        plaintext: bool,
        directory: Option<PathBuf>,
    },
}

/// A settings file is refused with its name, or gives the same command line each time.
pub fn settings(data: &[u8]) {
    let Ok(text) = core::str::from_utf8(data) else { return };
    let read = || {
        let document = Document::of_text::<Cli>(Path::new("fuzz.toml"), text, &["serve"], Vec::new())?;
        document.parse::<Cli>().map(|command| format!("{command:?}"))
    };
    match (read(), read()) {
        (Ok(one), Ok(other)) => assert_eq!(one, other),
        (Err(error), Err(_)) => {
            let said = format!("{error:#}");
            assert!(said.starts_with("fuzz.toml:"), "the error names no file: {said}");
        }
        (one, other) => panic!("{one:?}, then {other:?}"),
    }
}

/// A plan of experiments is refused with the file's name, or has cells.
pub fn plan(data: &[u8]) {
    let Ok(text) = core::str::from_utf8(data) else { return };
    match Paper::parse(text, "fuzz.toml") {
        Ok(paper) => _ = paper.cells(&Selection::default()),
        Err(error) => assert!(error.to_string().contains("fuzz.toml"), "the error names no file: {error}"),
    }
}

/// A head movement is refused with a line, or its samples are in order and each time has an orientation.
///
/// Input: a byte for the format, then the file.
pub fn head_trace(data: &[u8]) {
    let Some((format, file)) = data.split_first() else { return };
    let renamed = ["plain:time_s=t,yaw_deg=y,pitch_deg=p"];
    let names: Vec<&str> = Format::NAMES.into_iter().chain(renamed).collect();
    let format = names[usize::from(*format) % names.len()].parse().expect("the format is known");
    let Ok(trace) = head::read(file, format) else { return };
    let end = trace.duration_s();
    assert!(end.is_finite() && end >= 0.0);
    for time in [-1.0, 0.0, end / 2.0, end, end + 1.0] {
        let at = trace.at(time);
        assert!([at.yaw, at.pitch, at.roll].iter().all(|angle| angle.is_finite()), "{at:?}");
    }
}
