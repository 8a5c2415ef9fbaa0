//! Blanks comments and literals of Rust source, so that rules see only code. Line numbers do not change.
//!
//! It is not a parser; it knows the lexical structure (Rust Reference, "Tokens" and "Comments").

/// `source` with the contents of comments, strings and characters replaced by spaces.
pub fn code_only(source: &str) -> String {
    let bytes = source.as_bytes();
    let mut out = Vec::with_capacity(bytes.len());
    let mut at = 0;
    while at < bytes.len() {
        let end = literal_end(bytes, at);
        if end == at {
            out.push(bytes[at]);
            at += 1;
        } else {
            out.extend(bytes[at..end].iter().map(|&byte| if byte == b'\n' { b'\n' } else { b' ' }));
            at = end;
        }
    }
    // Only whole literals were blanked, byte by byte with ASCII, so the result is UTF-8.
    String::from_utf8(out).expect("blanking whole literals keeps UTF-8")
}

/// End of the comment or literal that starts at `at`; `at` itself when none starts there.
fn literal_end(bytes: &[u8], at: usize) -> usize {
    let rest = &bytes[at..];
    let after_word = at > 0 && is_word(bytes[at - 1]);
    match rest {
        [b'/', b'/', ..] => at + rest.iter().position(|&byte| byte == b'\n').unwrap_or(rest.len()),
        [b'/', b'*', ..] => at + block_comment_length(rest),
        [b'"', ..] => at + quoted_length(rest, b'"'),
        [b'\'', ..] => at + character_length(rest),
        [b'r' | b'b' | b'c', ..] if !after_word => at + prefixed_length(rest),
        _ => at,
    }
}

fn is_word(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || byte == b'_'
}

fn block_comment_length(rest: &[u8]) -> usize {
    let (mut depth, mut at) = (0_usize, 0);
    while at < rest.len() {
        match &rest[at..] {
            [b'/', b'*', ..] => (depth, at) = (depth + 1, at + 2),
            [b'*', b'/', ..] => (depth, at) = (depth - 1, at + 2),
            _ => at += 1,
        }
        if depth == 0 {
            return at;
        }
    }
    rest.len()
}

/// Length of a literal between `quote`s, with backslash escapes.
fn quoted_length(rest: &[u8], quote: u8) -> usize {
    let mut at = 1;
    while at < rest.len() {
        match rest[at] {
            b'\\' => at += 2,
            byte if byte == quote => return at + 1,
            _ => at += 1,
        }
    }
    rest.len()
}

/// Length of a character literal, or 0 when the quote starts a lifetime.
fn character_length(rest: &[u8]) -> usize {
    match rest {
        [_, b'\\', ..] => quoted_length(rest, b'\''),
        [_, first, ..] => {
            let width = match first {
                0xf0.. => 4,
                0xe0.. => 3,
                0xc0.. => 2,
                _ => 1,
            };
            if rest.get(1 + width) == Some(&b'\'') { width + 2 } else { 0 }
        }
        _ => 0,
    }
}

/// Length of a literal that starts with `r`, `b`, `c`, `br` or `cr`; 0 when it is a plain word.
fn prefixed_length(rest: &[u8]) -> usize {
    let letters = rest.iter().take(2).take_while(|byte| matches!(byte, b'r' | b'b' | b'c')).count();
    let raw = rest[..letters].contains(&b'r');
    let after = &rest[letters..];
    if !raw {
        return match after.first() {
            Some(b'"') => letters + quoted_length(after, b'"'),
            Some(b'\'') => letters + character_length(after),
            _ => 0,
        };
    }
    let hashes = after.iter().take_while(|&&byte| byte == b'#').count();
    if after.get(hashes) != Some(&b'"') {
        return 0;
    }
    let mut close = vec![b'"'];
    close.resize(1 + hashes, b'#');
    let body = &after[hashes + 1..];
    let length = body.windows(close.len()).position(|window| window == close).map(|at| at + close.len());
    letters + hashes + 1 + length.unwrap_or(body.len())
}

/// Numbers of the lines of `code`, from 1, that contain `word` as a whole word (or path, or macro name with its `!`).
pub fn lines_with_word(code: &str, word: &str) -> Vec<usize> {
    let mut lines = Vec::new();
    for (index, line) in code.lines().enumerate() {
        let found = line.match_indices(word).any(|(at, _)| {
            let before = line[..at].bytes().next_back();
            let after = line[at + word.len()..].bytes().next();
            !before.is_some_and(is_word) && !after.is_some_and(is_word)
        });
        if found {
            lines.push(index + 1);
        }
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn comments_and_literals_are_blanked() {
        let source = concat!(
            "let a = \"x /* unsafe\"; // unsafe\n",
            "/* unsafe /* nested */ unsafe */ let b = 'u';\n",
            "let c = r#\"unsafe \" \"#; let d = b\"\\\"unsafe\";\n",
        );
        let code = code_only(source);
        assert!(!code.contains("unsafe"), "{code}");
        assert_eq!(code.lines().count(), 3);
        assert!(code.contains("let b =") && code.contains("let d ="));
    }

    #[test]
    fn lifetimes_are_not_characters() {
        let code = code_only("fn f<'a>(x: &'a str) -> &'a str { unsafe_word(x) } // 'tis");
        assert!(code.contains("&'a str { unsafe_word(x) }"));
        assert!(!code.contains("tis"));
    }

    #[test]
    fn unclosed_literals_end_with_the_file() {
        for source in ["\"abc", "/* abc", "r##\"abc\"#", "'\\", "b'", "\"\\"] {
            assert_eq!(code_only(source).len(), source.len());
        }
    }

    #[test]
    fn words_are_whole() {
        let code = "unsafe_code\nunsafe {\nnot_unsafe\n(unsafe)";
        assert_eq!(lines_with_word(code, "unsafe"), [2, 4]);
    }
}
