//! Scenario and trace files as other programs write them: encodings, and errors that name the file.

use std::path::{Path, PathBuf};
use tributary_link::{Direction, Scenario};
use tributary_types::Instant;

/// Writes a file into the tests' own folder.
fn write(name: &str, bytes: &[u8]) -> PathBuf {
    let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
    std::fs::write(&path, bytes).expect("the folder is writable");
    path
}

fn utf_16(text: &str) -> Vec<u8> {
    format!("\u{feff}{text}").encode_utf16().flat_map(u16::to_le_bytes).collect()
}

fn scenario(trace: &str) -> String {
    format!(
        "name = \"t\"\nduration = \"6 s\"\n[[path]]\nname = \"wifi\"\ndown.rate = {{ trace = {trace} }}\n"
    )
}

#[test]
fn files_in_every_encoding_are_the_same_network() {
    let rows = "time (s)\trate (Mbit/s)\r\n0\t20\r\n1\t20\r\n";
    write("unicode.csv", &utf_16(rows));
    write("marked.csv", format!("\u{feff}{rows}").as_bytes());
    write("unicode.txt", &utf_16(rows));
    let named =
        |file: &str| format!("{{ file = \"{file}\", time = \"time (s)\", rate = \"rate (Mbit/s)\" }}");
    for (at, trace) in
        ["\"unicode.csv\"".to_owned(), "\"marked.csv\"".to_owned(), named("unicode.txt"), named("marked.csv")]
            .iter()
            .enumerate()
    {
        for (form, bytes) in [utf_16(&scenario(trace)), scenario(trace).into_bytes()].iter().enumerate() {
            let path = write(&format!("encoding-{at}-{form}.toml"), bytes);
            let network = Scenario::load(&path).unwrap_or_else(|error| panic!("{trace}: {error}"));
            let carried = network.capacity(0, Direction::Down, Instant::ZERO, Instant::from_millis(2000));
            assert_eq!(carried.as_bytes(), 5_000_000, "{trace}");
        }
    }
}

#[test]
fn errors_name_the_trace_s_file_and_line() {
    write("bad.csv", b"0,20\n1,fast\n");
    write("latin.csv", b"0,20\n1,\xe9\n");
    for (file, said) in [
        ("bad.csv", "bad.csv: trace line 2: column 2: `fast` is not a number"),
        ("latin.csv", "latin.csv: line 2 (byte 7) is not UTF-8 text; save the file as UTF-8"),
    ] {
        let path = write(&format!("{file}.toml"), scenario(&format!("\"{file}\"")).as_bytes());
        let error = Scenario::load(&path).expect_err(file).to_string();
        assert!(error.contains(said) && error.contains(".toml:5: path[0].down.rate"), "{error}");
    }
}
