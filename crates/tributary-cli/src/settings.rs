//! Settings files: TOML with a command's flags as keys, read as the command line that they stand for.
//!
//! There is no second list of settings: which keys there are, what they take and what they mean is what clap knows about the
//! command's arguments. Not here: what is done with them.

use anyhow::{Context, Result, anyhow, bail};
use clap::error::{ContextKind, ContextValue, ErrorKind};
use clap::{Arg, ArgAction, Command, Parser};
use std::error::Error;
use std::ffi::OsString;
use std::fs::File;
use std::io::Read;
use std::ops::Range;
use std::path::{Path, PathBuf};
use toml::de::{DeTable, DeValue};
use tributary_types::file_text::decode;

#[doc(hidden)]
pub mod fuzz;

/// The key that names the command.
const COMMAND: &str = "command";
/// Larger files are refused.
const MOST: u64 = 1 << 20;
/// Similarity (Jaro) from which a key is suggested, as clap suggests flags.
const SIMILAR: f64 = 0.7;

/// A settings file as it was read, and the flags that replace its values.
#[derive(Clone, Debug)]
pub struct Document {
    file: PathBuf,
    command: Vec<String>,
    entries: Vec<Entry>,
    flags: Vec<OsString>,
}

/// One key.
#[derive(Clone, Debug)]
struct Entry {
    key: String,
    line: usize,
    kind: Kind,
    /// Each value with its line.
    values: Vec<(String, usize)>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    /// A flag without a value.
    Switch,
    /// A flag with a value.
    Flag,
    /// A word of the command line, without a flag.
    Word,
}

/// Where in the text, and what is wrong there.
type Fault = (Range<usize>, String);

impl Document {
    /// Reads a file for one of these commands of the program `C`; `flags` replace the file's values.
    ///
    /// # Errors
    /// Names the file, the line and the key.
    ///
    /// # Panics
    /// If the program does not have one of the commands.
    pub fn read<C: Parser>(file: &Path, commands: &[&str], flags: Vec<OsString>) -> Result<Self> {
        let text = text(file).with_context(|| format!("cannot read the settings {}", file.display()))?;
        Self::of_text::<C>(file, &text, commands, flags)
    }

    /// The same for a text that was read from `file`.
    ///
    /// # Errors
    /// As [`Self::read`].
    ///
    /// # Panics
    /// If the program does not have one of the commands.
    pub fn of_text<C: Parser>(
        file: &Path,
        text: &str,
        commands: &[&str],
        flags: Vec<OsString>,
    ) -> Result<Self> {
        let line = |at: &Range<usize>| text[..at.start.min(text.len())].matches('\n').count() + 1;
        let faulty =
            |(at, problem): Fault| anyhow!("{}:{}: {}", file.display(), line(&at), problem.trim_end());
        let table = DeTable::parse(text)
            .map_err(|error| faulty((error.span().unwrap_or(0..0), error.message().to_owned())))?;
        let table = table.get_ref();
        let named = format!("`{COMMAND} = \"…\"` names the command: {}", commands.join(", "));
        let Some((_, name)) = table.iter().find(|(key, _)| key.get_ref() == COMMAND) else {
            bail!("{}: the key `{COMMAND}` is missing; {named}", file.display());
        };
        let Some(name_text) = name.get_ref().as_str().filter(|name| commands.contains(name)) else {
            return Err(faulty((name.span(), named)));
        };
        let command: Vec<String> = name_text.split(' ').map(str::to_owned).collect();
        let mut tree = C::command();
        // So that every argument knows its position and what it takes.
        tree.build();
        let known = command
            .iter()
            .try_fold(&tree, |tree, word| tree.find_subcommand(word))
            .expect("the program has the commands that it names");
        let mut entries = Vec::new();
        for (key, value) in table.iter().filter(|(key, _)| key.get_ref() != COMMAND) {
            let argument = find(known, key.get_ref()).map_err(|problem| faulty((key.span(), problem)))?;
            let kind = kind(argument);
            let values = values(argument, kind, value.get_ref(), value.span())
                .map_err(|(at, problem)| faulty((at, format!("`{}`: {problem}", key.get_ref()))))?;
            let values = values.into_iter().map(|(value, at)| (value, line(&at))).collect();
            entries.push(Entry { key: key.get_ref().to_string(), line: line(&key.span()), kind, values });
        }
        Ok(Self { file: file.to_owned(), command, entries, flags })
    }

    /// The same file as it is now, with the same flags.
    ///
    /// # Errors
    /// As [`Self::read`].
    pub fn read_again<C: Parser>(&self, commands: &[&str]) -> Result<Self> {
        Self::read::<C>(&self.file, commands, self.flags.clone())
    }

    /// The command.
    pub fn command(&self) -> String {
        self.command.join(" ")
    }

    /// The file.
    pub fn file(&self) -> &Path {
        &self.file
    }

    /// The command line that the settings stand for, parsed.
    ///
    /// # Errors
    /// Names the file, the line and the key.
    pub fn parse<C: Parser>(&self) -> Result<C> {
        let mut words: Vec<OsString> = vec![C::command().get_name().to_owned().into()];
        words.extend(self.command.iter().map(OsString::from));
        let (mut flags, mut plain) = (Vec::new(), Vec::new());
        for entry in self.in_force() {
            let flag = format!("--{}", entry.key.replace('_', "-"));
            match entry.kind {
                Kind::Switch => flags.extend(entry.values.iter().map(|_| flag.clone())),
                Kind::Flag => flags.extend(entry.values.iter().map(|(value, _)| format!("{flag}={value}"))),
                Kind::Word => plain.extend(entry.values.iter().map(|(value, _)| value.clone())),
            }
        }
        words.extend(flags.into_iter().map(OsString::from));
        words.extend(self.flags.iter().cloned());
        if !plain.is_empty() {
            words.push("--".into());
            words.extend(plain.into_iter().map(OsString::from));
        }
        C::try_parse_from(words).map_err(|error| match error.kind() {
            ErrorKind::DisplayHelp | ErrorKind::DisplayVersion => error.exit(),
            _ => self.explain(&error),
        })
    }

    /// The entries that no flag replaces.
    fn in_force(&self) -> impl Iterator<Item = &Entry> {
        let named = |flag: &OsString| {
            let name = flag.to_str()?.strip_prefix("--")?;
            Some(name.split_once('=').map_or(name, |(name, _)| name).replace('-', "_"))
        };
        let replaced: Vec<String> = self.flags.iter().filter_map(named).collect();
        self.entries.iter().filter(move |entry| !replaced.contains(&entry.key))
    }

    /// Names of the keys whose values are others in `newer`.
    pub fn changed(&self, newer: &Self) -> Vec<String> {
        let values = |of: &Self, key: &str| -> Vec<String> {
            let mut entries = of.in_force().filter(|entry| entry.key == key);
            entries.next().map_or(Vec::new(), |entry| entry.values.iter().map(|(v, _)| v.clone()).collect())
        };
        let mut keys: Vec<String> =
            self.in_force().chain(newer.in_force()).map(|entry| entry.key.clone()).collect();
        keys.sort();
        keys.dedup();
        keys.retain(|key| values(self, key) != values(newer, key));
        keys
    }

    /// Adds the line to an error about a setting: one that quotes one of its values, or its key.
    pub fn locate(&self, error: anyhow::Error) -> anyhow::Error {
        let said = format!("{error:#}");
        if said.starts_with(&*self.file.to_string_lossy()) {
            return error;
        }
        // A file name or an address is recognised without quotation marks, too.
        let is_long = |text: &str| text.len() > 4 && text.contains(['/', ':', '=', '.']);
        let quoted = |text: &str| said.contains(&format!("`{text}`")) || is_long(text) && said.contains(text);
        let of_value = self.in_force().find_map(|entry| {
            let (_, line) = entry.values.iter().find(|(value, _)| quoted(value))?;
            Some((entry, *line))
        });
        let of_key = || {
            let flag = |entry: &Entry| format!("--{}", entry.key.replace('_', "-"));
            let names =
                |entry: &&Entry| quoted(&entry.key) || said.split([' ', ':']).any(|word| word == flag(entry));
            self.in_force().find(names).map(|entry| (entry, entry.line))
        };
        match of_value.or_else(of_key) {
            Some((entry, line)) => anyhow!("{}:{line}: `{}`: {said}", self.file.display(), entry.key),
            None => anyhow!("{}: {said}", self.file.display()),
        }
    }

    /// A parser's error in the words of the file.
    fn explain(&self, error: &clap::Error) -> anyhow::Error {
        let texts = |kind| match error.get(kind) {
            Some(ContextValue::String(text)) => vec![text.clone()],
            Some(ContextValue::Strings(texts)) => texts.clone(),
            _ => Vec::new(),
        };
        let key = |argument: &String| {
            let name = argument.trim_start_matches("--").split([' ', '=']).next().unwrap_or_default();
            name.trim_matches(['<', '>', '.', '[', ']']).to_lowercase().replace('-', "_")
        };
        let keys: Vec<String> = texts(ContextKind::InvalidArg).iter().map(key).collect();
        let others: Vec<String> = texts(ContextKind::PriorArg).iter().map(key).collect();
        let named =
            |keys: &[String]| keys.iter().map(|key| format!("`{key}`")).collect::<Vec<_>>().join(", ");
        let value = texts(ContextKind::InvalidValue).pop().unwrap_or_default();
        let problem = match error.kind() {
            ErrorKind::MissingRequiredArgument => {
                return anyhow!("{}: missing: {}", self.file.display(), named(&keys));
            }
            ErrorKind::ArgumentConflict => format!("cannot be together with {}", named(&others)),
            ErrorKind::InvalidValue | ErrorKind::ValueValidation => {
                let valid = texts(ContextKind::ValidValue);
                match error.source() {
                    Some(reason) => format!("`{value}`: {reason}"),
                    None if valid.is_empty() => format!("`{value}` is no value for it"),
                    None => format!("`{value}` is not one of {}", valid.join(", ")),
                }
            }
            // A flag beside the file: clap's own words.
            _ => {
                let said = error.to_string();
                let first = said.lines().next().unwrap_or_default();
                return anyhow!("{}", first.strip_prefix("error: ").unwrap_or(first));
            }
        };
        let entry = self.in_force().find(|entry| keys.first() == Some(&entry.key));
        match entry {
            Some(entry) => {
                let of_value = entry.values.iter().find(|(text, _)| *text == value);
                let line = of_value.map_or(entry.line, |(_, line)| *line);
                anyhow!("{}:{line}: `{}`: {problem}", self.file.display(), entry.key)
            }
            None => anyhow!("{}: {problem}", named(&keys)),
        }
    }
}

fn text(file: &Path) -> Result<String> {
    let mut bytes = Vec::new();
    File::open(file)?.take(MOST + 1).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > MOST {
        bail!("larger than 1 MiB");
    }
    Ok(decode(&bytes)?.into_owned())
}

/// The key of an argument: its flag, or the name of a word without one.
fn key_of(argument: &Arg) -> String {
    argument.get_long().map_or_else(|| argument.get_id().as_str().to_owned(), |flag| flag.replace('-', "_"))
}

fn arguments(command: &Command) -> impl Iterator<Item = &Arg> {
    let is_setting = |argument: &&Arg| {
        let action = argument.get_action();
        !argument.is_hide_set()
            && !matches!(
                action,
                ArgAction::Help | ArgAction::HelpShort | ArgAction::HelpLong | ArgAction::Version
            )
    };
    command.get_arguments().filter(is_setting)
}

/// The argument with this key, or why there is none.
fn find<'a>(command: &'a Command, key: &str) -> Result<&'a Arg, String> {
    if let Some(found) = arguments(command).find(|argument| key_of(argument) == key) {
        return Ok(found);
    }
    let keys = || arguments(command).map(key_of);
    let nearest = keys()
        .map(|known| (strsim::jaro(&known, key), known))
        .filter(|(similarity, _)| *similarity > SIMILAR)
        .max_by(|(one, _), (other, _)| one.total_cmp(other));
    Err(match nearest {
        Some((_, known)) => format!("unknown key `{key}`; did you mean `{known}`?"),
        None => format!("unknown key `{key}`; there are {}", keys().collect::<Vec<_>>().join(", ")),
    })
}

fn kind(argument: &Arg) -> Kind {
    match argument.get_action() {
        _ if argument.get_long().is_none() => Kind::Word,
        ArgAction::SetTrue => Kind::Switch,
        _ => Kind::Flag,
    }
}

/// The values of a key, each with its place in the text.
fn values(
    argument: &Arg,
    kind: Kind,
    value: &DeValue<'_>,
    at: Range<usize>,
) -> Result<Vec<(String, Range<usize>)>, Fault> {
    if kind == Kind::Switch {
        return match value {
            DeValue::Boolean(true) => Ok(vec![("true".to_owned(), at)]),
            DeValue::Boolean(false) => Ok(Vec::new()),
            _ => Err((at, "expected true or false".to_owned())),
        };
    }
    let takes_several = matches!(argument.get_action(), ArgAction::Append);
    match value {
        DeValue::Array(all) if takes_several => all
            .iter()
            .map(|one| Ok((word(one.get_ref()).map_err(|problem| (one.span(), problem))?, one.span())))
            .collect(),
        DeValue::Array(_) => Err((at, "expected one value, not a list".to_owned())),
        value => word(value).map(|text| vec![(text, at.clone())]).map_err(|problem| (at, problem)),
    }
}

/// A value as a word of the command line.
fn word(value: &DeValue<'_>) -> Result<String, String> {
    match value {
        DeValue::String(text) => Ok(text.to_string()),
        DeValue::Integer(number) => i128::from_str_radix(number.as_str(), number.radix())
            .map(|number| number.to_string())
            .map_err(|error| format!("{}: {error}", number.as_str())),
        DeValue::Float(number) => Ok(number.as_str().to_owned()),
        DeValue::Boolean(_) => Err("expected a value, not true or false".to_owned()),
        DeValue::Datetime(_) => Err("expected a value, not a date".to_owned()),
        DeValue::Array(_) | DeValue::Table(_) => Err("expected a string or a number".to_owned()),
    }
}

#[cfg(test)]
mod tests;
