//! Settings files over a small command line, with every kind of argument.

use super::fuzz::{Cli, Dash};
use super::*;

const COMMANDS: &[&str] = &["serve", "dash serve"];

fn document(text: &str, flags: &[&str]) -> Result<Document> {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("x.toml");
    std::fs::write(&file, text).unwrap();
    let mut document = Document::read::<Cli>(&file, COMMANDS, flags.iter().map(OsString::from).collect())
        .map_err(|error| anyhow!("{error:#}").context("").root_cause().to_string())
        .map_err(|said| anyhow!("{}", said.replace(&file.display().to_string(), "x.toml")))?;
    document.file = "x.toml".into();
    Ok(document)
}

fn read(text: &str, flags: &[&str]) -> Result<Cli, String> {
    document(text, flags).and_then(|document| document.parse()).map_err(|error| error.to_string())
}

const SERVE: &str = "command = \"serve\"\nlisten = [\"127.0.0.1:1\",\n  \"[::1]:2\"]\n";

#[test]
fn a_file_stands_for_a_command_line() {
    let text = format!("{SERVE}key = \"a file\"\ndrain = 0x1E\nweights = \"-1,-2\"\nplaintext = true\n");
    let Ok(Cli::Serve(serve)) = read(&text, &[]) else { panic!("it is valid") };
    assert_eq!((serve.listen.len(), serve.key.as_deref(), serve.drain), (2, Some("a file"), 30));
    assert_eq!((serve.weights.as_deref(), serve.plaintext), (Some("-1,-2"), true));
    let Ok(Cli::Serve(serve)) = read(&format!("{SERVE}plaintext = false"), &[]) else {
        panic!("it is valid")
    };
    assert!(!serve.plaintext && serve.drain == 10, "defaults are the command's");
    let text = "command = \"dash serve\"\ndirectory = \"-video\"\nidle = 5";
    let Ok(Cli::Dash(Dash::Serve { directory, idle })) = read(text, &[]) else { panic!("it is valid") };
    assert_eq!((directory, idle), ("-video".into(), Some(5)));
}

#[test]
fn a_flag_replaces_the_files_value() {
    let text = format!("{SERVE}drain = 5000\n");
    let Ok(Cli::Serve(serve)) = read(&text, &["--drain", "7", "--listen=[::1]:9"]) else {
        panic!("it is valid")
    };
    assert_eq!((serve.drain, serve.listen), (7, vec!["[::1]:9".parse().unwrap()]));
    let wrong = read(SERVE, &["--drian", "7"]).unwrap_err();
    assert!(wrong.contains("--drian"), "{wrong}");
}

#[test]
fn every_fault_is_named_with_its_file_line_and_key() {
    let refused = |more: &str| read(&format!("{SERVE}{more}"), &[]).unwrap_err();
    for (more, expected) in [
        ("drian = 5", "x.toml:4: unknown key `drian`; did you mean `drain`?"),
        ("shared-key = 'k'", "x.toml:4: unknown key `shared-key`; did you mean `shared_key`?"),
        (
            "zzz = 5",
            "x.toml:4: unknown key `zzz`; there are listen, key, shared_key, drain, weights, log_format, plaintext",
        ),
        ("secret = true", "x.toml:4: unknown key `secret`"),
        ("\n\ndrain = 5000", "x.toml:6: `drain`: `5000`: "),
        ("drain = [1]", "x.toml:4: `drain`: expected one value, not a list"),
        ("drain = true", "x.toml:4: `drain`: expected a value, not true or false"),
        ("drain = 2026-01-01", "x.toml:4: `drain`: expected a value, not a date"),
        ("[drain]\na = 1", "x.toml:4: `drain`: expected a string or a number"),
        ("plaintext = 'yes'", "x.toml:4: `plaintext`: expected true or false"),
        ("log_format = 'xml'", "x.toml:4: `log_format`: `xml` is not one of json, text"),
        ("key = 'a'\nshared_key = 'b'", "cannot be together with `"),
        ("key = 'a", "x.toml:4: "),
        ("drain = 1\ndrain = 2", "x.toml:5: "),
    ] {
        let said = refused(more);
        assert!(
            said.starts_with(expected) || expected.starts_with("cannot") && said.contains(expected),
            "{more}: {said}"
        );
    }
    let second = SERVE.replace("[::1]:2", "here");
    assert!(
        read(&second, &[]).unwrap_err().starts_with("x.toml:3: `listen`: `here`: invalid socket address")
    );
    assert_eq!(read("command = 'serve'", &[]).unwrap_err(), "x.toml: missing: `listen`");
    assert!(read("listen = 'x'", &[]).unwrap_err().starts_with("x.toml: the key `command` is missing"));
    let said = read("\ncommand = 'exec'", &[]).unwrap_err();
    assert!(said.starts_with("x.toml:2: `command = \"…\"` names the command: serve, dash serve"), "{said}");
}

#[test]
fn an_error_found_later_gets_the_line_of_the_setting_that_it_quotes() {
    let document = document(&format!("{SERVE}key = 'no/file'\n"), &[]).unwrap();
    let located = |said: &str| document.locate(anyhow!("{said}")).to_string();
    assert_eq!(located("cannot read no/file"), "x.toml:4: `key`: cannot read no/file");
    assert_eq!(located("--listen is too long"), "x.toml:2: `listen`: --listen is too long");
    assert_eq!(located("no memory"), "x.toml: no memory");
}

#[test]
fn changes_are_those_of_values_in_force() {
    let of = |text: &str, flags: &[&str]| document(text, flags).unwrap();
    let before = of(&format!("{SERVE}drain = 5\nkey = 'a'"), &["--key", "z"]);
    let after = of(&format!("# a comment\n{SERVE}drain = 6\nplaintext = true\nkey = 'b'"), &["--key", "z"]);
    assert_eq!(before.changed(&after), ["drain", "plaintext"]);
    assert!(before.changed(&before).is_empty());
}
