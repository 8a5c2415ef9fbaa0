//! Lines of a table cut into cells, and which character separates them.

use core::fmt;
use std::borrow::Cow;

/// What is between two cells.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Separator {
    /// `,`
    Comma,
    /// `;`
    Semicolon,
    /// A tab.
    Tab,
    /// Blanks and tabs, any number of them; cells are not quoted.
    Blank,
}

impl Separator {
    fn character(self) -> char {
        match self {
            Self::Comma => ',',
            Self::Semicolon => ';',
            Self::Tab => '\t',
            Self::Blank => ' ',
        }
    }

    fn name(self) -> &'static str {
        match self {
            Self::Comma => "comma",
            Self::Semicolon => "semicolon",
            Self::Tab => "tab",
            Self::Blank => "blank",
        }
    }

    /// The cells of a line, without the white space around them. A separator in double quotes separates nothing; two
    /// double quotes stand for one.
    #[must_use]
    pub fn split(self, line: &str) -> Vec<Cow<'_, str>> {
        match self {
            Self::Blank => line.split_whitespace().map(Cow::from).collect(),
            _ if !line.contains('"') => {
                line.split(self.character()).map(|cell| Cow::from(cell.trim())).collect()
            }
            _ => quoted(line, self.character()),
        }
    }
}

/// Several separators are possible.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ambiguous(Vec<Separator>);

impl Ambiguous {
    /// The first of them by name, to suggest.
    #[must_use]
    pub fn first(&self) -> &'static str {
        self.0.first().map_or("comma", |separator| separator.name())
    }
}

impl fmt::Display for Ambiguous {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names: Vec<&str> = self.0.iter().map(|separator| separator.name()).collect();
        write!(f, "the columns could be separated by {}", names.join(" or "))
    }
}

impl core::error::Error for Ambiguous {}

/// The separator of a table with the first line `first`: the only one of `possible` that is in it, or the only one of
/// those in it that `fits`. The first of `possible` for a table with a single column.
///
/// # Errors
/// Several fit.
pub fn separator(
    first: &str,
    possible: &[Separator],
    fits: impl Fn(Separator) -> bool,
) -> Result<Separator, Ambiguous> {
    let present = possible.iter().copied().filter(|separator| separator.split(first).len() > 1);
    let present: Vec<Separator> = present.collect();
    let fitting: Vec<Separator> = present.iter().copied().filter(|separator| fits(*separator)).collect();
    match (&present[..], &fitting[..]) {
        ([only], _) | (_, [only]) => Ok(*only),
        ([], _) => Ok(possible.first().copied().unwrap_or(Separator::Comma)),
        // No column is found with any of them: the error about the missing column says more.
        (_, []) => Ok(present[0]),
        _ => Err(Ambiguous(present)),
    }
}

/// Splits outside double quotes and removes the quotes.
fn quoted(line: &str, separator: char) -> Vec<Cow<'_, str>> {
    let mut cells = vec![String::new()];
    let mut quoted = false;
    let mut characters = line.chars().peekable();
    while let Some(c) = characters.next() {
        let cell = cells.last_mut().expect("there is always a last cell");
        match c {
            '"' if quoted && characters.peek() == Some(&'"') => {
                characters.next();
                cell.push('"');
            }
            '"' => quoted = !quoted,
            c if c == separator && !quoted => cells.push(String::new()),
            c => cell.push(c),
        }
    }
    cells.into_iter().map(|cell| Cow::from(cell.trim().to_owned())).collect()
}
