//! Tests: every command of `tributary-lab` in a document is one that the program knows, and so are its scenarios, papers and plans; every
//! algorithm that can be chosen by name has a model page.

use crate::cli::Emu;
use crate::commands::{Cli, Command};
use clap::Parser;
use clap::error::ErrorKind;
use std::path::Path;
use tributary_lab::reproduce::{Paper, PaperError};
use tributary_link::{Scenario, ScenarioError};
use tributary_testing::documents::{Written, checkout, commands};

/// Errors of a command in running text, which may leave out what matters little there.
const LEFT_OUT: [ErrorKind; 3] = [
    ErrorKind::MissingRequiredArgument,
    ErrorKind::MissingSubcommand,
    ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand,
];

/// Commands that measured numbers once, each beside its commit, and have another form now. Their numbers are to be measured again; then the
/// entry goes.
const OUTDATED: [(&str, &str); 6] = [
    ("docs/models/simulator-speed.md", "bench simulator speed"),
    ("docs/models/validation-linux.md", "bench simulator linux"),
    ("docs/models/validation-linux.tables.md", "bench simulator linux"),
    ("docs/models/validation-ns3.md", "bench simulator ns3"),
    ("docs/models/validation-ns3.tables.md", "bench simulator ns3"),
    ("docs/models/validation-ns3.tables.md", "bench simulator speed"),
];

/// What is wrong with a command.
fn fault(written: &Written) -> Option<String> {
    let error = match Cli::try_parse_from(&written.words) {
        Ok(cli) => return named(&cli.command),
        Err(error) => error,
    };
    let fine = match error.kind() {
        ErrorKind::DisplayHelp | ErrorKind::DisplayVersion => true,
        kind if written.partial && LEFT_OUT.contains(&kind) => true,
        // A value is left out.
        ErrorKind::InvalidValue if written.partial && error.to_string().contains("a value is required") => {
            true
        }
        ErrorKind::ValueValidation | ErrorKind::InvalidValue | ErrorKind::InvalidSubcommand => {
            written.has_placeholder()
        }
        _ => false,
    };
    (!fine).then(|| error.to_string())
}

/// The entry of [`OUTDATED`] that a command has.
fn outdated(written: &Written) -> Option<usize> {
    let command = written.words[1..].join(" ");
    OUTDATED.iter().position(|(file, begin)| written.file == *file && command.starts_with(begin))
}

/// What is wrong with the networks and papers that a command names. Files outside the checkout's folders are the reader's own.
fn named(command: &Command) -> Option<String> {
    let own = |name: &str| {
        let file = Path::new(name);
        let ours = ["scenarios", "docs", "crates"].iter().any(|folder| file.starts_with(folder));
        name.chars().all(|c| !c.is_lowercase())
            || (!ours && (file.extension().is_some() || name.contains('/')))
    };
    let scenario = |name: &str| match Scenario::find(&beside(name)) {
        Err(error @ (ScenarioError::Unknown { .. } | ScenarioError::Unreadable { .. })) => {
            Some(error.to_string())
        }
        _ => None,
    };
    let paper = |name: &str| match Paper::find(&beside(name)) {
        Ok(_) | Err(PaperError::Missing { .. }) => None,
        Err(error) => Some(error.to_string()),
    };
    let (scenarios, plans): (Vec<&String>, Vec<&String>) = match command {
        Command::Run(run) => (run.network.iter().chain(&run.scenario).collect(), Vec::new()),
        Command::Emu(Emu::Run(run)) => (vec![&run.scenario], Vec::new()),
        Command::Compare(compare) => (compare.network.iter().collect(), Vec::new()),
        Command::Convert(convert) => (convert.network.iter().collect(), Vec::new()),
        Command::Sweep(sweep) => (Vec::new(), vec![&sweep.plan]),
        Command::Reproduce(reproduce) => (Vec::new(), reproduce.paper.iter().collect()),
        _ => return None,
    };
    let scenarios = scenarios.into_iter().filter(|name| !own(name)).find_map(|name| scenario(name));
    scenarios.or_else(|| plans.into_iter().filter(|name| !own(name)).find_map(|name| paper(name)))
}

/// Where a file of the checkout is, seen from here; names stay.
fn beside(name: &str) -> String {
    let file = checkout().join(name);
    if Path::new(name).extension().is_some() { file.display().to_string() } else { name.to_owned() }
}

#[test]
fn every_command_of_the_documents_is_known() {
    let written = commands("tributary-lab");
    let faults: Vec<String> = written
        .iter()
        .filter_map(|written| {
            let Written { file, line, words, .. } = written;
            let fault = fault(written)?;
            outdated(written).is_none().then(|| format!("{file}:{line}: {}\n  {fault}", words.join(" ")))
        })
        .collect();
    assert!(faults.is_empty(), "{} of {} commands:\n{}", faults.len(), written.len(), faults.join("\n"));
    for (at, (file, command)) in OUTDATED.iter().enumerate() {
        let used = written.iter().any(|written| outdated(written) == Some(at) && fault(written).is_some());
        assert!(used, "`{command}` of {file} is no longer outdated: take it off the list");
    }
}

#[test]
fn what_does_not_exist_is_found() {
    let fault = |line: &str, partial| {
        let words = line.split(' ').map(str::to_owned).collect();
        fault(&Written { file: String::new(), line: 1, words, partial })
    };
    for (line, partial, good) in [
        ("tributary-lab run los --seconds 3", false, true),
        ("tributary-lab run los --no-such-option", true, false),
        ("tributary-lab run no-such-network", false, false),
        ("tributary-lab run SCENARIO --seconds N", false, true),
        ("tributary-lab run my-network.toml", false, true),
        ("tributary-lab sweep", true, true),
        ("tributary-lab sweep", false, false),
        ("tributary-lab sweep plan.toml --shard", true, true),
        ("tributary-lab sweep plan.toml --shard", false, false),
        ("tributary-lab sweep plan.toml --shard i/n", true, false),
        ("tributary-lab help COMMAND", true, true),
        ("tributary-lab sweep no-such-paper", false, false),
        ("tributary-lab sweep scenarios/plans/none.toml", false, false),
        ("tributary-lab sweep scenarios/plans/shoot-out.toml --held-back", false, true),
        ("tributary-lab reproduce all --quick", false, true),
    ] {
        assert_eq!(fault(line, partial).is_none(), good, "{line}: {:?}", fault(line, partial));
    }
}

/// The rows of an option in the table of model pages: names, and the page.
fn model_pages(option: &str) -> Vec<(Vec<String>, String)> {
    let index =
        std::fs::read_to_string(checkout().join("docs/models/README.md")).expect("the index of models");
    let rows = index.lines().filter_map(|line| {
        let cells: Vec<&str> = line.split('|').map(str::trim).collect();
        let [_, what, names, page, _] = cells[..] else { return None };
        let page = page.split_once("](")?.1.trim_end_matches(')');
        let names = names.split('`').skip(1).step_by(2).map(str::to_owned).collect();
        (what == option).then(|| (names, page.to_owned()))
    });
    rows.collect()
}

/// Whether a text has a name, and not only as a part of a longer one.
fn has(text: &str, name: &str) -> bool {
    let joined = |c: Option<char>| c.is_some_and(|c| c.is_alphanumeric() || c == '-' || c == '_');
    text.match_indices(name).any(|(at, _)| {
        !joined(text[..at].chars().next_back()) && !joined(text[at + name.len()..].chars().next())
    })
}

#[test]
fn every_name_has_a_model_page_that_explains_it() {
    let quic = tributary_sim::quic_controllers();
    for (option, known) in [
        ("transport", tributary_proto::transport::names().to_vec()),
        ("scheduler", tributary_proto::scheduler::names()),
        ("congestion", quic),
        ("allocator", tributary_video::allocation::names()),
        ("sharing", tributary_video::allocation::Sharing::names()),
        ("bitrate rule", tributary_player::abr::names()),
    ] {
        let rows = model_pages(option);
        let listed: Vec<&String> = rows.iter().flat_map(|(names, _)| names).collect();
        for name in &known {
            assert!(
                listed.iter().any(|listed| listed == name),
                "{option} `{name}` is not in docs/models/README.md"
            );
        }
        for (names, page) in &rows {
            let text =
                std::fs::read_to_string(checkout().join("docs/models").join(page)).expect("a model page");
            for name in names {
                assert!(
                    known.contains(&name.as_str()),
                    "{option} `{name}` of docs/models/README.md does not exist"
                );
                assert!(has(&text, name), "docs/models/{page} does not name `{name}`");
            }
        }
    }
    assert!(has("`bola`, bba", "bba") && !has("bola-e", "bola"), "parts of names do not count");
}

/// Pages of a folder of documents, without its index and generated tables: name and text.
fn pages(folder: &str) -> Vec<(String, String)> {
    let files = std::fs::read_dir(checkout().join(folder)).expect("a folder of documents");
    let files = files.map(|file| file.expect("a file of the folder").path());
    let page = |path: &std::path::PathBuf| {
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        name.ends_with(".md") && !name.ends_with(".tables.md") && name != "README.md"
    };
    let read = |path: std::path::PathBuf| {
        let text = std::fs::read_to_string(&path).expect("a page");
        (path.display().to_string(), text)
    };
    files.filter(page).map(read).collect()
}

/// Whether a page has a section whose heading begins with one of these words.
fn has_section(page: &str, words: &[&str]) -> bool {
    let mut headings = page.lines().filter_map(|line| line.strip_prefix("## "));
    headings.any(|heading| words.iter().any(|word| heading.starts_with(word)))
}

#[test]
fn every_model_page_has_the_sections_of_the_form() {
    const FORM: [&[&str]; 6] = [
        &["Description"],
        &["Scope and limit"],
        &["References"],
        &["Usage"],
        &["Parameters", "Attributes"],
        &["Validation"],
    ];
    for (name, text) in pages("docs/models") {
        for words in FORM {
            assert!(has_section(&text, words), "{name} has no section {}", words.join(" or "));
        }
    }
    assert!(!has_section("# Usage\ntext\n### Usage\n", &["Usage"]), "sections are of the second level");
}

#[test]
fn every_reproduction_has_a_section_with_its_command() {
    for (name, text) in pages("docs/reproductions") {
        let section = text.split("\n## Command\n").nth(1).and_then(|rest| rest.split("\n## ").next());
        let section = section.unwrap_or_else(|| panic!("{name} has no section Command"));
        assert!(section.contains("\ntributary-lab "), "{name}: its section Command has no command");
    }
}
