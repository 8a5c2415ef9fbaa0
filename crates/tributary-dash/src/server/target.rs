//! Maps the path of a URL to a file below the served directory.
//!
//! The path is decoded once. Anything but a visible file below the directory is refused here; the kernel
//! refuses links that lead out of it when the file is opened (`files`).

/// The relative path of a file. `None` for `..`, hidden files, empty parts, and parts that contain a slash or
/// NUL (`%2F`, `%00`). A path that ends with a slash names `index.html`.
pub(super) fn file(path: &str) -> Option<String> {
    let mut parts = Vec::new();
    for part in path.strip_prefix('/')?.split('/') {
        parts.push(decoded(part)?);
    }
    if parts.last().is_some_and(String::is_empty) {
        parts.pop();
        parts.push("index.html".to_owned());
    }
    let named = |part: &String| !part.is_empty() && !part.starts_with('.') && !part.contains(['/', '\0']);
    parts.iter().all(named).then(|| parts.join("/"))
}

/// Resolves escapes such as `%41`; `None` for a malformed escape or bytes that are not UTF-8.
fn decoded(part: &str) -> Option<String> {
    let mut bytes = Vec::with_capacity(part.len());
    let mut rest = part.as_bytes();
    while let [first, after @ ..] = rest {
        rest = after;
        if *first != b'%' {
            bytes.push(*first);
            continue;
        }
        let digit = |at: usize| char::from(*after.get(at)?).to_digit(16);
        bytes.push(u8::try_from(digit(0)? * 16 + digit(1)?).ok()?);
        rest = &after[2..];
    }
    String::from_utf8(bytes).ok()
}

#[cfg(test)]
mod tests {
    use super::file;

    #[test]
    fn files_are_found_by_decoded_names() {
        assert_eq!(file("/video/seg%201.m4s").as_deref(), Some("video/seg 1.m4s"));
        assert_eq!(file("/").as_deref(), Some("index.html"));
        assert_eq!(file("/a/").as_deref(), Some("a/index.html"));
        assert_eq!(file("/%E2%82%AC.mp4").as_deref(), Some("€.mp4"));
        assert_eq!(file("/a%2541").as_deref(), Some("a%41"), "decoded once");
    }

    #[test]
    fn files_outside_the_directory_and_hidden_files_cannot_be_named() {
        for path in [
            "",
            "a",
            "*",
            "//etc/passwd",
            "/../a",
            "/a/../../b",
            "/%2e%2e/a",
            "/a/%2E./b",
            "/..%2fa",
            "/a%2fb",
            "/a%00",
            "/.git/config",
            "/a/.hidden",
            "/./a",
            "/a//b",
            "/%",
            "/%4",
            "/%zz",
            "/%ff",
            "/%+1",
        ] {
            assert_eq!(file(path), None, "{path}");
        }
    }
}
