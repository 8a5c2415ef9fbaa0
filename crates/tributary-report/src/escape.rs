//! Escaping for HTML, SVG, CSV, Markdown and terminals of text that comes from a user, a file or a peer.

/// Escapes `text` for element content and quoted attributes alike; control characters become `�`.
pub(crate) fn markup(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            '\'' => out.push_str("&#39;"),
            '\n' | '\t' => out.push(c),
            c if c.is_control() => out.push('\u{fffd}'),
            c => out.push(c),
        }
    }
    out
}

/// `text` on one line without control characters, so that a name cannot move the cursor.
pub(crate) fn terminal(text: &str) -> String {
    text.chars()
        .map(|c| match c {
            '\n' | '\t' | '\r' => ' ',
            c if c.is_control() => '\u{fffd}',
            c => c,
        })
        .collect()
}

/// A CSV field by RFC 4180: quoted when it holds a comma, a quote or a line break.
pub(crate) fn csv(text: &str) -> String {
    if text.contains([',', '"', '\n', '\r']) {
        format!("\"{}\"", text.replace('"', "\"\""))
    } else {
        text.to_owned()
    }
}

/// A Markdown table cell: one line, pipes and angle brackets escaped.
pub(crate) fn markdown(text: &str) -> String {
    terminal(text).replace('\\', "\\\\").replace('|', "\\|").replace('<', "&lt;")
}

/// Standard base64 with padding (RFC 4648 §4).
#[must_use]
pub fn base64(bytes: &[u8]) -> String {
    const ALPHABET: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut out = String::with_capacity(bytes.len().div_ceil(3) * 4);
    for group in bytes.chunks(3) {
        let word = group.iter().enumerate().fold(0_u32, |w, (i, b)| w | u32::from(*b) << (16 - 8 * i));
        for i in 0..4 {
            if i <= group.len() {
                out.push(char::from(ALPHABET[(word >> (18 - 6 * i) & 63) as usize]));
            } else {
                out.push('=');
            }
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn base64_matches_the_vectors_of_rfc_4648() {
        for (plain, coded) in [
            ("", ""),
            ("f", "Zg=="),
            ("fo", "Zm8="),
            ("foo", "Zm9v"),
            ("foob", "Zm9vYg=="),
            ("foobar", "Zm9vYmFy"),
        ] {
            assert_eq!(base64(plain.as_bytes()), coded);
        }
    }

    #[test]
    fn hostile_names_stay_text() {
        assert_eq!(markup("<b a=\"x\">&'\u{1b}"), "&lt;b a=&quot;x&quot;&gt;&amp;&#39;\u{fffd}");
        assert_eq!(terminal("a\u{1b}[2J\nb"), "a\u{fffd}[2J b");
        assert_eq!(csv("a,\"b\""), "\"a,\"\"b\"\"\"");
        assert_eq!(markdown("a|b<c"), "a\\|b&lt;c");
    }
}
