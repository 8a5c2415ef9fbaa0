//! Numbers on the command line, with or without their unit: `--rtt 5`, `--rtt 5ms`, `--seconds 10s`.

use std::ops::RangeInclusive;

/// Milliseconds, with or without `ms`; also `s`.
pub(crate) fn millis(text: &str) -> Result<u64, String> {
    read(text, &[("ms", 1.0), ("s", 1000.0)], "5, 5ms or 0.005s")
}

/// Milliseconds within a range.
pub(crate) fn millis_in(
    range: RangeInclusive<u64>,
) -> impl Fn(&str) -> Result<u64, String> + Clone + Send + Sync + 'static {
    move |text| within(millis(text)?, &range, "ms")
}

/// Whole seconds within a range, with or without `s`; also `min`.
pub(crate) fn seconds_in(
    range: RangeInclusive<u64>,
) -> impl Fn(&str) -> Result<u32, String> + Clone + Send + Sync + 'static {
    move |text| {
        let seconds = within(read(text, &[("s", 1.0), ("min", 60.0)], "10, 10s or 2min")?, &range, "s")?;
        u32::try_from(seconds).map_err(|_| format!("{seconds} s is too long"))
    }
}

fn within(value: u64, range: &RangeInclusive<u64>, unit: &str) -> Result<u64, String> {
    match range.contains(&value) {
        true => Ok(value),
        false => Err(format!("{value} {unit} is not from {} to {} {unit}", range.start(), range.end())),
    }
}

/// A whole number of the first unit.
fn read(text: &str, units: &[(&str, f64)], example: &str) -> Result<u64, String> {
    let split = text.find(|c: char| !(c.is_ascii_digit() || c == '.')).unwrap_or(text.len());
    let (number, unit) = (text[..split].trim(), text[split..].trim());
    let factor = match unit {
        "" => Some(1.0),
        unit => units.iter().find(|(name, _)| *name == unit).map(|(_, factor)| *factor),
    };
    let value = number.parse::<f64>().ok().zip(factor).map(|(number, factor)| number * factor);
    match value {
        Some(value) if value.is_finite() && (value - value.round()).abs() < 1e-9 => Ok(value.round() as u64),
        Some(_) => Err(format!("`{text}` is not a whole number of {}", units[0].0)),
        None => Err(format!("expected a number, perhaps with a unit: {example}")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn units_may_be_given() {
        for text in ["5", "5ms", "5 ms", "0.005s"] {
            assert_eq!(millis(text), Ok(5), "{text}");
        }
        assert_eq!(seconds_in(2..=3600)("2min"), Ok(120));
        for text in ["", "ms", "5kg", "-5", "0.5ms", "5 m s", "1e3"] {
            assert!(millis(text).is_err(), "{text}");
        }
        assert!(millis_in(1..=10)("11ms").unwrap_err().contains("from 1 to 10 ms"));
    }
}
