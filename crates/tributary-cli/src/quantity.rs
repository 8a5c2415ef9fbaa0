//! Numbers on the command line, with or without their unit: `--rtt 5`, `--rtt 5ms`, `--seconds 10s`, `--size 64KiB`.

use std::fmt::Display;
use std::ops::RangeInclusive;

/// Milliseconds, with or without `ms`; also `s`.
///
/// # Errors
/// Not such a number; the text says what is expected.
pub fn millis(text: &str) -> Result<u64, String> {
    read(text, &[("ms", 1.0), ("s", 1000.0)], "5, 5ms or 0.005s")
}

/// Milliseconds within a range.
pub fn millis_in(
    range: RangeInclusive<u64>,
) -> impl Fn(&str) -> Result<u64, String> + Clone + Send + Sync + 'static {
    move |text| within(millis(text)?, &range, " ms")
}

/// Whole seconds within a range, with or without `s`; also `min` and `h`.
pub fn seconds_in(
    range: RangeInclusive<u32>,
) -> impl Fn(&str) -> Result<u32, String> + Clone + Send + Sync + 'static {
    let long = long_seconds_in(u64::from(*range.start())..=u64::from(*range.end()));
    move |text| long(text).map(|seconds| u32::try_from(seconds).expect("the range is of u32"))
}

/// As [`seconds_in`], for times that are kept in 64 bits.
pub fn long_seconds_in(
    range: RangeInclusive<u64>,
) -> impl Fn(&str) -> Result<u64, String> + Clone + Send + Sync + 'static {
    let units = [("s", 1.0), ("ms", 1e-3), ("min", 60.0), ("h", 3600.0)];
    move |text| within(read(text, &units, "10, 10s or 2min")?, &range, " s")
}

/// Seconds and parts of them within a range, with or without a unit.
pub fn part_seconds_in(
    range: RangeInclusive<f64>,
) -> impl Fn(&str) -> Result<f64, String> + Clone + Send + Sync + 'static {
    let units = [("s", 1.0), ("ms", 1e-3), ("min", 60.0), ("h", 3600.0)];
    move |text| within(number(text, &units, "10, 2.5s, 500ms or 2min")?, &range, " s")
}

/// Milliseconds and parts of them within a range, with or without a unit.
pub fn fine_millis_in(
    range: RangeInclusive<f64>,
) -> impl Fn(&str) -> Result<f64, String> + Clone + Send + Sync + 'static {
    let units = [("ms", 1.0), ("us", 1e-3), ("s", 1000.0)];
    move |text| within(number(text, &units, "5, 2.5ms or 0.005s")?, &range, " ms")
}

/// A number without a unit within a range.
pub fn number_in(
    range: RangeInclusive<f64>,
) -> impl Fn(&str) -> Result<f64, String> + Clone + Send + Sync + 'static {
    move |text| {
        let value = text.parse().map_err(|_| "expected a number".to_owned())?;
        within(value, &range, "")
    }
}

/// Whole megabits a second within a range, with or without a unit.
pub fn mbps_in(
    range: RangeInclusive<u64>,
) -> impl Fn(&str) -> Result<u64, String> + Clone + Send + Sync + 'static {
    let units = [("Mbit/s", 1.0), ("kbit/s", 1e-3), ("Gbit/s", 1e3)];
    move |text| within(read(text, &units, "10, 10Mbit/s or 1.5Gbit/s")?, &range, " Mbit/s")
}

/// Units of sizes, smallest first.
const SIZES: [(&str, f64); 7] = [
    ("B", 1.0),
    ("kB", 1e3),
    ("KiB", 1024.0),
    ("MB", 1e6),
    ("MiB", 1048576.0),
    ("GB", 1e9),
    ("GiB", 1073741824.0),
];

/// Bytes within a range, with or without a unit.
pub fn bytes_in(
    range: RangeInclusive<u64>,
) -> impl Fn(&str) -> Result<u64, String> + Clone + Send + Sync + 'static {
    move |text| within(read(text, &SIZES, "65536, 64KiB or 0.5MB")?, &range, " bytes")
}

/// Bytes within a range. A number without unit counts in `unit` bytes; the option's help names this unit.
pub fn bytes_of(
    unit: u64,
    range: RangeInclusive<u64>,
) -> impl Fn(&str) -> Result<u64, String> + Clone + Send + Sync + 'static {
    let in_bytes = bytes_in(range);
    move |text| match text.trim().parse::<u64>() {
        Ok(number) => in_bytes(&number.saturating_mul(unit).to_string()),
        Err(_) => in_bytes(text),
    }
}

fn within<T: PartialOrd + Display>(value: T, range: &RangeInclusive<T>, unit: &str) -> Result<T, String> {
    match range.contains(&value) {
        true => Ok(value),
        false => Err(format!("{value}{unit} is not from {} to {}{unit}", range.start(), range.end())),
    }
}

/// A whole number of the first unit.
fn read(text: &str, units: &[(&str, f64)], example: &str) -> Result<u64, String> {
    match number(text, units, example)? {
        value if (value - value.round()).abs() < 1e-9 => Ok(value.round() as u64),
        _ => Err(format!("`{text}` is not a whole number of {}", units[0].0)),
    }
}

/// A number of the first unit.
fn number(text: &str, units: &[(&str, f64)], example: &str) -> Result<f64, String> {
    let split = text.find(|c: char| !(c.is_ascii_digit() || c == '.')).unwrap_or(text.len());
    let (number, unit) = (text[..split].trim(), text[split..].trim());
    let factor = match unit {
        "" => Some(1.0),
        unit => units.iter().find(|(name, _)| *name == unit).map(|(_, factor)| *factor),
    };
    let value = number.parse::<f64>().ok().zip(factor).map(|(number, factor)| number * factor);
    value
        .filter(|value| value.is_finite())
        .ok_or_else(|| format!("expected a number, perhaps with a unit: {example}"))
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
        assert_eq!(long_seconds_in(0..=3600)("1h"), Ok(3600));
        assert!(long_seconds_in(1..=3600)("500ms").is_err(), "not a whole second");
        for (text, wanted) in [("10", 10.0), ("2.5s", 2.5), ("500 ms", 0.5), ("2min", 120.0)] {
            assert_eq!(part_seconds_in(0.5..=600.0)(text), Ok(wanted), "{text}");
        }
        let fine_millis = fine_millis_in(0.0..=2000.0);
        assert_eq!((fine_millis("0.5"), fine_millis("2s")), (Ok(0.5), Ok(2000.0)));
        assert!(number_in(0.0..=0.5)("0.5").is_ok() && number_in(0.0..=0.5)("nan").is_err());
        for text in ["", "s", "10kg", "-1", "1e3", "inf", "0.4"] {
            assert!(part_seconds_in(0.5..=600.0)(text).is_err(), "{text}");
        }
        for text in ["", "ms", "5kg", "-5", "0.5ms", "5 m s", "1e3"] {
            assert!(millis(text).is_err(), "{text}");
        }
        for text in ["65536", "64KiB", "64 KiB", "0.0625MiB", "65536B", "65.536kB"] {
            assert_eq!(bytes_in(1..=1 << 20)(text), Ok(65_536), "{text}");
        }
        assert_eq!(bytes_in(1..=1 << 40)("1.5GiB"), Ok(3 << 29));
        for text in ["64K", "64kib", "1.5", "0.0001kB", "-1KiB", "2MiB", "0"] {
            assert!(bytes_in(1..=1 << 20)(text).is_err(), "{text}");
        }
        let memory = bytes_in(1..=1 << 44)("8GiB");
        assert_eq!(memory, Ok(tributary_net::Limits::default().memory), "the default of --memory");
        let kib = bytes_of(1024, 65_536..=1 << 24);
        for (text, bytes) in [("96", 98_304), ("96 KiB", 98_304), ("1MB", 1_000_000), ("64", 65_536)] {
            assert_eq!(kib(text), Ok(bytes), "{text}");
        }
        assert!(kib("63").unwrap_err().contains("from 65536 to 16777216 bytes"));
        assert!(kib("20000000000000000000").is_err() && kib("18446744073709551615").is_err());
        for (text, rate) in
            [("10", Ok(10)), ("10 Mbit/s", Ok(10)), ("1.5Gbit/s", Ok(1500)), ("8000kbit/s", Ok(8))]
        {
            assert_eq!(mbps_in(1..=100_000)(text), rate, "{text}");
        }
        assert!(mbps_in(1..=100)("10MB/s").is_err() && mbps_in(1..=100)("1Gbit/s").is_err());
        assert!(millis_in(1..=10)("11ms").unwrap_err().contains("from 1 to 10 ms"));
    }
}
