//! The commands in the project's documents, so that each program can check that it still knows them. Commands stand in blocks of code
//! without a language or of a shell, and in backticks. Not here: what a command means.

use std::path::{Path, PathBuf};

/// Languages of blocks with commands.
const SHELLS: [&str; 4] = ["", "sh", "bash", "console"];

/// A command in a document.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Written {
    /// The document, relative to the checkout.
    pub file: String,
    /// Line, counted from one.
    pub line: usize,
    /// The program's name and its arguments.
    pub words: Vec<String>,
    /// Arguments may be left out: in running text, and where an ellipsis says so.
    pub partial: bool,
}

impl Written {
    /// Whether a word in capitals, such as `FILE` or `ADDRESS:PORT`, stands for a value.
    #[must_use]
    pub fn has_placeholder(&self) -> bool {
        self.words.iter().filter(|word| !word.starts_with('-')).any(|word| {
            let mut letters = word.chars().filter(|c| c.is_alphabetic()).peekable();
            letters.peek().is_some() && letters.all(char::is_uppercase)
        })
    }
}

/// The checkout.
#[must_use]
pub fn checkout() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// Every command of `program` in the documents of the checkout: its pages, and those in `docs`. Not those of the past, in the changelog and
/// in decisions.
///
/// # Panics
/// A document cannot be read.
#[must_use]
pub fn commands(program: &str) -> Vec<Written> {
    let mut pages = Vec::new();
    for (place, deep) in [("", false), ("docs", true)] {
        collect(&checkout().join(place), deep, &mut pages);
    }
    pages.sort();
    let mut found = Vec::new();
    for page in pages {
        let text =
            std::fs::read_to_string(&page).unwrap_or_else(|error| panic!("{}: {error}", page.display()));
        let name = page.strip_prefix(checkout()).unwrap_or(&page).display().to_string();
        found.extend(in_page(program, &name, &text));
    }
    found
}

fn collect(folder: &Path, deep: bool, pages: &mut Vec<PathBuf>) {
    for entry in std::fs::read_dir(folder).expect("a folder of the checkout").flatten() {
        let path = entry.path();
        if ["CHANGELOG.md", "decisions"].iter().any(|past| path.ends_with(past)) {
            continue;
        }
        if path.is_dir() && deep {
            collect(&path, deep, pages);
        } else if path.extension().is_some_and(|extension| extension == "md") {
            pages.push(path);
        }
    }
}

/// Every command of `program` in a page.
#[must_use]
pub fn in_page(program: &str, file: &str, text: &str) -> Vec<Written> {
    let (mut found, mut block, mut begun) = (Vec::new(), None, String::new());
    for (at, line) in text.lines().enumerate() {
        let (file, line_number) = (file.to_owned(), at + 1);
        if let Some(language) = line.trim_start().strip_prefix("```") {
            block = if block.is_some() { None } else { Some(SHELLS.contains(&language.trim())) };
            begun.clear();
            continue;
        }
        if let Some(is_shell) = block {
            let (text, goes_on) = line.trim_end().strip_suffix('\\').map_or((line, false), |cut| (cut, true));
            begun.push_str(text);
            begun.push(' ');
            if goes_on {
                continue;
            }
            let whole = std::mem::take(&mut begun);
            let partial = whole.contains('…') || whole.contains("...");
            for words in part(program, &whole).into_iter().filter(|_| is_shell) {
                found.push(Written { file: file.clone(), line: line_number, words, partial });
            }
            continue;
        }
        for code in line.split('`').skip(1).step_by(2) {
            for words in part(program, code) {
                found.push(Written { file: file.clone(), line: line_number, words, partial: true });
            }
        }
    }
    found
}

/// The commands of `program` in one line of a shell.
fn part(program: &str, line: &str) -> Vec<Vec<String>> {
    let path = format!("/{program}");
    let named = |word: &String| word == program || word.ends_with(&path);
    let commands = split(line).into_iter().filter_map(|words| {
        let at = words.iter().position(named)?;
        // The crate of that name: `cargo test -p tributary-lab --test record`. Or the program that another one starts:
        // `python -m tributary.measure --program target/release/tributary-lab --page FILE`.
        if at > 0 && ["-p", "--package", "--program"].contains(&words[at - 1].as_str()) {
            return None;
        }
        let words: Vec<String> = words[at..].to_vec();
        (words.len() > 1).then_some(words)
    });
    commands.collect()
}

/// Words of each command of a line: quotes are taken off, comments, redirections and marks of what may be left out are left away.
fn split(line: &str) -> Vec<Vec<String>> {
    let (mut commands, mut words, mut word) = (Vec::new(), Vec::new(), String::new());
    let (mut quote, mut quoted, mut redirected) = (None, false, false);
    for c in line.chars().chain([' ', '\n']) {
        match (c, quote) {
            (c, Some(open)) if c == open => quote = None,
            (c, Some(_)) => word.push(c),
            ('\'' | '"', None) => (quote, quoted) = (Some(c), true),
            ('#', None) if word.is_empty() => break,
            (' ' | '\n' | '|' | ';' | '&' | '<' | '>', None) => {
                let done = std::mem::take(&mut word);
                let file_number = matches!(c, '<' | '>') && done.parse::<u8>().is_ok();
                if (!done.is_empty() || quoted) && !std::mem::take(&mut redirected) && !file_number {
                    words.push(done);
                }
                quoted = false;
                redirected |= matches!(c, '<' | '>');
                if matches!(c, '|' | ';' | '&') {
                    commands.push(std::mem::take(&mut words));
                }
            }
            (c, None) => word.push(c),
        }
    }
    commands.push(words);
    for command in &mut commands {
        command.retain(|word| !["…", "...", "[…]", "[...]"].contains(&word.as_str()));
        for word in command {
            *word = word.trim_matches(['[', ']', '…']).to_owned();
        }
    }
    commands
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commands_of_blocks_and_of_running_text_are_found() {
        let page = "Call `lab run los --seconds 3` or `lab`.\n\n```\nsudo target/lab sweep 'a b.toml' \\\n    --out x 2> log  # why\nlab one && \
                    lab two | less\n```\n```rust\nlab never\n```\n`other lab-like` `cargo test -p lab --test x` `lab set NAME […]`\n`python -m measure --program target/lab --page x`\n";
        let found: Vec<(usize, String)> = in_page("lab", "page.md", page)
            .into_iter()
            .map(|found| (found.line, found.words.join("|")))
            .collect();
        let wanted = [
            (1, "lab|run|los|--seconds|3"),
            (5, "target/lab|sweep|a b.toml|--out|x"),
            (6, "lab|one"),
            (6, "lab|two"),
            (11, "lab|set|NAME"),
        ];
        assert_eq!(found, wanted.map(|(line, words)| (line, words.to_owned())));
    }

    #[test]
    fn words_in_capitals_stand_for_values() {
        for (words, wanted) in [
            ("lab run FILE", true),
            ("lab -S x", false),
            ("lab a --to ADDRESS:PORT[=NAME", true),
            ("lab 1", false),
        ] {
            let words = words.split(' ').map(str::to_owned).collect();
            let written = Written { file: String::new(), line: 1, words, partial: false };
            assert_eq!(written.has_placeholder(), wanted, "{:?}", written.words);
        }
    }

    #[test]
    fn this_checkout_has_commands() {
        assert!(commands("tributary-lab").len() > 50 && commands("tributary").len() > 50);
    }
}
