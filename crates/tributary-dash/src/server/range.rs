//! The `Range` header of a request. Source: RFC 9110 §14.

use std::ops::Range;

/// The bytes that a request asks for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Asked {
    /// All: no range, or one that RFC 9110 allows a server to ignore (another unit, malformed, several
    /// ranges).
    All,
    /// This range.
    Part(Range<u64>),
    /// A range outside the file (416).
    Unsatisfiable,
}

/// Reads the header's value for a file of this length.
pub(super) fn asked(value: Option<&[u8]>, length: u64) -> Asked {
    let value = value.and_then(|value| std::str::from_utf8(value).ok());
    let Some((unit, set)) = value.and_then(|value| value.split_once('=')) else { return Asked::All };
    let Some((first, last)) = set.trim().split_once('-') else { return Asked::All };
    if !unit.trim().eq_ignore_ascii_case("bytes") || set.contains(',') {
        return Asked::All;
    }
    let (first, last) = (first.trim_end(), last.trim_start());
    let range = match (position(first), position(last)) {
        (Some(first), _) if first >= length && (last.is_empty() || position(last) >= Some(first)) => {
            return Asked::Unsatisfiable;
        }
        (Some(first), None) if last.is_empty() => first..length,
        (Some(first), Some(last)) if first <= last => first..last.saturating_add(1).min(length),
        // The last bytes.
        (None, Some(suffix)) if first.is_empty() => {
            if suffix == 0 || length == 0 {
                return Asked::Unsatisfiable;
            }
            length.saturating_sub(suffix)..length
        }
        _ => return Asked::All,
    };
    Asked::Part(range)
}

/// A position; values beyond 64 bits become the largest.
fn position(text: &str) -> Option<u64> {
    let digits = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    digits.then(|| text.parse().unwrap_or(u64::MAX))
}

#[cfg(test)]
mod tests {
    use super::{Asked, asked};

    fn of(value: &str, length: u64) -> Asked {
        asked(Some(value.as_bytes()), length)
    }

    #[test]
    fn ranges_of_all_three_forms() {
        assert_eq!(of("bytes=0-0", 10), Asked::Part(0..1));
        assert_eq!(of("bytes=2-", 10), Asked::Part(2..10));
        assert_eq!(of("bytes=-3", 10), Asked::Part(7..10));
        assert_eq!(of("bytes=-30", 10), Asked::Part(0..10));
        assert_eq!(of("Bytes = 4-99999999999999999999999", 10), Asked::Part(4..10));
    }

    #[test]
    fn ranges_beyond_the_file_are_unsatisfiable() {
        for value in ["bytes=10-", "bytes=10-12", "bytes=-0", "bytes=99999999999999999999999-"] {
            assert_eq!(of(value, 10), Asked::Unsatisfiable, "{value}");
        }
        for value in ["bytes=0-", "bytes=0-4", "bytes=-5"] {
            assert_eq!(of(value, 0), Asked::Unsatisfiable, "{value}");
        }
    }

    #[test]
    fn malformed_ranges_are_ignored() {
        for value in [
            "bytes",
            "bytes=",
            "bytes=-",
            "bytes=5-2",
            "bytes=12-11",
            "bytes=a-b",
            "bytes=1-b",
            "bytes=1--2",
            "bytes=+1-2",
            "bytes=0-1,4-5",
            "lines=0-1",
            "bytes=1-2-3",
        ] {
            assert_eq!(of(value, 10), Asked::All, "{value}");
        }
        assert_eq!(asked(Some(b"bytes=\xff-"), 10), Asked::All);
        assert_eq!(asked(None, 10), Asked::All);
    }
}
