//! Text of a peer, for people: one line without anything that a terminal or a log would obey.
//!
//! Rule: text that another host sent passes through [`printable`] where it is decoded, before it is kept. Otherwise a peer
//! could write lines of its own into a log or move a terminal's cursor.

/// Most characters that are kept.
const MOST: usize = 1024;

/// The text with escapes in place of control characters, line and paragraph separators, and marks that change the
/// direction of writing. What is longer than 1024 characters is cut.
#[must_use]
pub fn printable(text: &str) -> String {
    let mut out = String::with_capacity(text.len().min(MOST));
    for (count, character) in text.chars().enumerate() {
        if count == MOST {
            out.push('…');
            break;
        }
        if obeyed(character) {
            out.extend(character.escape_default());
        } else {
            out.push(character);
        }
    }
    out
}

/// Whether a terminal or a log acts on the character instead of showing it.
fn obeyed(character: char) -> bool {
    character.is_control()
        || matches!(character, '\u{2028}' | '\u{2029}' | '\u{200e}' | '\u{200f}' | '\u{61c}' | '\u{feff}')
        || matches!(character, '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_stays_one_line_and_obeys_nothing() {
        assert_eq!(printable("über 5 GHz, 100 %: 不可用"), "über 5 GHz, 100 %: 不可用");
        let forged = "done\n2026-01-01 INFO all is well\r\u{1b}[2J\u{9b}1m\u{202e}txt\u{2028}";
        let shown = printable(forged);
        assert_eq!(shown, "done\\n2026-01-01 INFO all is well\\r\\u{1b}[2J\\u{9b}1m\\u{202e}txt\\u{2028}");
        assert!(!shown.chars().any(obeyed));
        assert_eq!(printable(&"x".repeat(5000)).chars().count(), MOST + 1);
    }
}
