//! Tests: every command of `tributary` in a document is one that the program knows.

use crate::commands::Cli;
use clap::Parser;
use clap::error::ErrorKind;
use tributary_testing::documents::{Written, commands};

/// Errors of a command that leaves arguments out.
const LEFT_OUT: [ErrorKind; 3] = [
    ErrorKind::MissingRequiredArgument,
    ErrorKind::MissingSubcommand,
    ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand,
];
/// What follows the project's name in labels of keys, which are no commands.
const LABELS: [&str; 3] = ["cotag", "ticket", "certificate"];

/// What is wrong with a command.
fn fault(written: &Written) -> Option<String> {
    let error = Cli::try_parse_from(&written.words).err()?;
    let fine = match error.kind() {
        ErrorKind::DisplayHelp | ErrorKind::DisplayVersion => true,
        kind if written.partial && LEFT_OUT.contains(&kind) => true,
        // A value is left out.
        ErrorKind::InvalidValue if written.partial && error.to_string().contains("a value is required") => {
            true
        }
        ErrorKind::InvalidSubcommand if LABELS.contains(&written.words[1].as_str()) => true,
        ErrorKind::ValueValidation | ErrorKind::InvalidValue | ErrorKind::InvalidSubcommand => {
            written.has_placeholder()
        }
        _ => false,
    };
    (!fine).then(|| error.to_string())
}

#[test]
fn every_command_of_the_documents_is_known() {
    let written = commands("tributary");
    let faults: Vec<String> = written
        .iter()
        .filter_map(|written| {
            let Written { file, line, words, .. } = written;
            Some(format!("{file}:{line}: {}\n  {}", words.join(" "), fault(written)?))
        })
        .collect();
    assert!(faults.is_empty(), "{} of {} commands:\n{}", faults.len(), written.len(), faults.join("\n"));
}

#[test]
fn what_does_not_exist_is_found() {
    for (line, partial, good) in [
        ("tributary keygen", false, true),
        ("tributary keygen --no-such-option", true, false),
        ("tributary no-such-command", true, false),
        ("tributary serve", true, true),
        ("tributary serve", false, false),
        ("tributary help COMMAND", false, true),
    ] {
        let words = line.split(' ').map(str::to_owned).collect();
        let written = Written { file: String::new(), line: 1, words, partial };
        assert_eq!(fault(&written).is_none(), good, "{line}: {:?}", fault(&written));
    }
}
