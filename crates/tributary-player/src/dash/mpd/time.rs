//! Durations in XML Schema notation (`xs:duration`), for example `PT1H2M3.5S`.

use core::time::Duration;

/// Maximum duration: 100 years.
const MAX_SECONDS: f64 = 100.0 * 365.25 * 86_400.0;

/// Reads an `xs:duration`; `None` if it is malformed, negative or too long. A year counts as 365.25 days and a
/// month as a twelfth of it.
pub(super) fn duration(text: &str) -> Option<Duration> {
    let text = text.trim().strip_prefix('P')?;
    let (date, time) = text.split_once('T').unwrap_or((text, ""));
    if date.is_empty() && time.is_empty() {
        return None;
    }
    let year = 365.25 * 86_400.0;
    let total = fields(date, &[('Y', year), ('M', year / 12.0), ('W', 7.0 * 86_400.0), ('D', 86_400.0)])?
        + fields(time, &[('H', 3600.0), ('M', 60.0), ('S', 1.0)])?;
    (total <= MAX_SECONDS).then(|| Duration::try_from_secs_f64(total).ok()).flatten()
}

/// Adds numbers, each followed by its unit.
fn fields(mut text: &str, units: &[(char, f64)]) -> Option<f64> {
    let mut total = 0.0;
    while !text.is_empty() {
        let end = text.find(|c: char| !c.is_ascii_digit() && c != '.')?;
        let number: f64 = text[..end].parse().ok()?;
        let unit = text[end..].chars().next()?;
        let (_, seconds) = units.iter().find(|(name, _)| *name == unit)?;
        total += number * seconds;
        text = &text[end + unit.len_utf8()..];
    }
    Some(total)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_of_the_standard_s_examples() {
        assert_eq!(duration("PT2S"), Some(Duration::from_secs(2)));
        assert_eq!(duration("PT0H3M1.63S"), Some(Duration::from_millis(181_630)));
        assert_eq!(duration("P1DT1S"), Some(Duration::from_secs(86_401)));
    }

    #[test]
    fn malformed_and_endless_ones_are_refused() {
        for text in [
            "",
            "P",
            "PT",
            "-PT2S",
            "PT2",
            "PTS",
            "2S",
            "PT1e9S",
            "PT99999999999999999999S",
            "PT1.2.3S",
            "PTéS",
        ] {
            assert_eq!(duration(text), None, "{text}");
        }
    }
}
