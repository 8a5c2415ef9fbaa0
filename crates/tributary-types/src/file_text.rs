//! Text of files that other programs wrote: byte order marks, UTF-16, separators of columns, and names that only look
//! alike.
//!
//! Every reader of such a file decodes it with [`decode`]. No reader of its own: formats are read elsewhere. Sources:
//! The Unicode Standard §23.8 (byte order mark), XML 1.0 appendix F (UTF-16 without a mark).

mod cells;

use core::fmt;
use std::borrow::Cow;

pub use cells::{Ambiguous, Separator, separator};

/// The byte order mark, U+FEFF.
const MARK: char = '\u{feff}';

/// The bytes are not text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NotText {
    /// Line of the first wrong byte, counted from one.
    pub line: usize,
    /// Offset of that byte.
    pub at: usize,
    /// The encoding that was tried.
    encoding: &'static str,
}

impl fmt::Display for NotText {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { line, at, encoding } = self;
        write!(f, "line {line} (byte {at}) is not {encoding} text; save the file as UTF-8")
    }
}

impl core::error::Error for NotText {}

/// The text of a file: UTF-8 or UTF-16, with or without a byte order mark, which is removed. UTF-16 without a mark is
/// recognised by a first character below U+0080.
///
/// # Errors
/// The first byte that is not text.
pub fn decode(bytes: &[u8]) -> Result<Cow<'_, str>, NotText> {
    let big = match bytes {
        [0xfe, 0xff, ..] | [0, 1..=0x7f, ..] => true,
        [0xff, 0xfe, ..] | [1..=0x7f, 0, ..] => false,
        _ => return utf_8(bytes).map(|text| Cow::Borrowed(without_mark(text))),
    };
    let pairs = bytes.chunks(2).map(|pair| match (pair, big) {
        ([first, second], true) => u16::from_be_bytes([*first, *second]),
        ([first, second], false) => u16::from_le_bytes([*first, *second]),
        // Half a character at the end: half a surrogate pair, which is no text either.
        _ => 0xd800,
    });
    let mut text = String::with_capacity(bytes.len() / 2);
    let mut at = 0;
    for character in char::decode_utf16(pairs) {
        let Ok(character) = character else {
            let line = text.matches('\n').count() + 1;
            return Err(NotText { line, at, encoding: "UTF-16" });
        };
        at += 2 * character.len_utf16();
        text.push(character);
    }
    if text.starts_with(MARK) {
        text.remove(0);
    }
    Ok(Cow::Owned(text))
}

fn utf_8(bytes: &[u8]) -> Result<&str, NotText> {
    core::str::from_utf8(bytes).map_err(|error| {
        let at = error.valid_up_to();
        let line = bytes[..at].iter().filter(|byte| **byte == b'\n').count() + 1;
        NotText { line, at, encoding: "UTF-8" }
    })
}

/// `text` without a byte order mark at its start.
#[must_use]
pub fn without_mark(text: &str) -> &str {
    text.strip_prefix(MARK).unwrap_or(text)
}

/// The lines of `text` with their numbers, counted from one. A line ends with LF, CR LF or, in a text without any LF,
/// with CR.
pub fn lines(text: &str) -> impl Iterator<Item = (usize, &str)> {
    let end = if text.contains('\n') { '\n' } else { '\r' };
    let whole = text.strip_suffix(end).unwrap_or(text);
    whole.split(end).enumerate().map(|(at, line)| (at + 1, line.strip_suffix('\r').unwrap_or(line)))
}

/// Whether two names of columns or fields are the same to a reader: characters without width do not count, and any
/// white space is one blank.
#[must_use]
pub fn same_name(one: &str, other: &str) -> bool {
    one == other || seen(one).eq(seen(other))
}

/// The characters of a name as a reader sees them.
fn seen(name: &str) -> impl Iterator<Item = char> {
    let mut blank = None;
    let visible = name.trim_matches(|c: char| c.is_whitespace() || is_invisible(c)).chars();
    visible.filter(|c| !is_invisible(*c)).filter_map(move |c| {
        let c = if c.is_whitespace() { ' ' } else { c };
        let repeated = c == ' ' && blank == Some(' ');
        blank = Some(c);
        (!repeated).then_some(c)
    })
}

/// Characters without width: marks of byte order and direction, joiners, and control characters.
fn is_invisible(c: char) -> bool {
    matches!(c, '\u{ad}' | '\u{200b}'..='\u{200f}' | '\u{2060}'..='\u{2064}' | '\u{202a}'..='\u{202e}' | MARK)
        || (c.is_control() && !c.is_whitespace())
}

/// A name for an error message, at most 80 characters: what cannot be seen is written as its number (`\u{feff}`), so
/// that two names that differ look different.
#[must_use]
pub fn shown(name: &str) -> String {
    let mut text = String::new();
    for c in name.chars().take(80) {
        if is_invisible(c) || c.is_control() || (c.is_whitespace() && c != ' ') {
            text.extend(c.escape_unicode());
        } else {
            text.push(c);
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn utf_16(text: &str, big: bool) -> Vec<u8> {
        let bytes = |unit: u16| if big { unit.to_be_bytes() } else { unit.to_le_bytes() };
        text.encode_utf16().flat_map(bytes).collect()
    }

    #[test]
    fn every_encoding_of_a_text_is_the_same_text() {
        let text = "time (s),größe,😀\n0,1\n";
        let marked = format!("\u{feff}{text}");
        for bytes in [
            text.as_bytes().to_vec(),
            marked.as_bytes().to_vec(),
            utf_16(text, true),
            utf_16(text, false),
            utf_16(&marked, true),
            utf_16(&marked, false),
        ] {
            assert_eq!(decode(&bytes).expect("text"), text, "{bytes:?}");
        }
        assert_eq!(decode(b"").expect("nothing"), "");
    }

    #[test]
    fn what_is_not_text_is_refused_with_its_line() {
        let latin = decode(b"a\nb\n\xe9t\xe9").expect_err("Latin-1");
        assert_eq!((latin.line, latin.at), (3, 4));
        assert_eq!(latin.to_string(), "line 3 (byte 4) is not UTF-8 text; save the file as UTF-8");
        let half = decode(b"\xff\xfea\0\n\0b").expect_err("half a character");
        assert_eq!((half.line, half.at), (2, 6));
        assert!(decode(b"\xff\xfe\x00\xd8\x41\x00").is_err(), "half a surrogate pair");
    }

    #[test]
    fn lines_have_numbers_whatever_ends_them() {
        let all = |text| lines(text).map(|(number, line)| format!("{number}{line}")).collect::<Vec<_>>();
        for text in ["a\n\nb", "a\r\n\r\nb\r\n", "a\r\rb\r"] {
            assert_eq!(all(text), ["1a", "2", "3b"], "{text:?}");
        }
    }

    #[test]
    fn names_are_the_same_or_look_different() {
        for same in ["\u{feff}time (s)", "time\u{a0}(s)", " time  (s)\u{200b}", "time\t(s)"] {
            assert!(same_name("time (s)", same), "{same:?}");
        }
        for other in ["time (ms)", "Time (s)", "time(s)", ""] {
            assert!(!same_name("time (s)", other), "{other:?}");
        }
        assert_eq!(shown("\u{feff}a\u{a0}b\tc"), "\\u{feff}a\\u{a0}b\\u{9}c");
        assert_eq!(shown(&"x".repeat(999)).len(), 80);
    }
}
