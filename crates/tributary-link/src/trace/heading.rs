//! Units in the headings of tables: `rate (kbit/s)`, `down_mbps`, `time [ms]`.
//!
//! A heading without a unit is accepted; an unknown unit is an error.

use super::TimeUnit;

/// Units of rates, in bit/s; upper and lower case are equal except in units of bytes.
const RATES: [(&str, f64); 8] = [
    ("bit/s", 1.0),
    ("kbit/s", 1e3),
    ("mbit/s", 1e6),
    ("gbit/s", 1e9),
    ("bps", 1.0),
    ("kbps", 1e3),
    ("mbps", 1e6),
    ("gbps", 1e9),
];
const BYTE_RATES: [(&str, f64); 6] =
    [("B/s", 8.0), ("kB/s", 8e3), ("KB/s", 8e3), ("MB/s", 8e6), ("GB/s", 8e9), ("MBps", 8e6)];
/// Units of times.
const TIMES: [(&str, TimeUnit); 11] = [
    ("s", TimeUnit::Seconds),
    ("sec", TimeUnit::Seconds),
    ("seconds", TimeUnit::Seconds),
    ("ms", TimeUnit::Millis),
    ("milliseconds", TimeUnit::Millis),
    ("us", TimeUnit::Micros),
    ("µs", TimeUnit::Micros),
    ("microseconds", TimeUnit::Micros),
    ("ns", TimeUnit::Nanos),
    ("min", TimeUnit::Minutes),
    ("minutes", TimeUnit::Minutes),
];

/// The unit of a rate column in bit/s; `None` if the heading has no unit.
pub(crate) fn rate_unit(heading: &str) -> Result<Option<f64>, String> {
    let known = |word: &str| {
        let lower = word.to_lowercase().replace("b/s", "bit/s").replace("bits/s", "bit/s");
        let bytes = BYTE_RATES.iter().find(|(name, _)| *name == word);
        bytes.or_else(|| RATES.iter().find(|(name, _)| *name == lower)).map(|(_, factor)| *factor)
    };
    unit(heading, known, |word| word.contains("/s") || word.to_lowercase().ends_with("ps")).map_err(|word| {
        let units = "bit/s, kbit/s, Mbit/s, Gbit/s, B/s, kB/s, MB/s, GB/s";
        format!("`{word}` in the heading `{heading}` is not a unit of rate; the units are {units}")
    })
}

/// The unit of a time column; `None` if the heading has no unit.
pub(crate) fn time_unit(heading: &str) -> Result<Option<TimeUnit>, String> {
    let known =
        |word: &str| TIMES.iter().find(|(name, _)| *name == word.to_lowercase()).map(|(_, unit)| *unit);
    unit(heading, known, |_| false).map_err(|word| {
        format!("`{word}` in the heading `{heading}` is not a unit of time; the units are ns, us, ms, s, min")
    })
}

/// The unit among a heading's words. Words in brackets and words that look like a unit must be known units.
fn unit<T>(
    heading: &str,
    known: impl Fn(&str) -> Option<T>,
    looks_like_one: impl Fn(&str) -> bool,
) -> Result<Option<T>, String> {
    for (bracketed, word) in words(heading) {
        if let Some(unit) = known(word) {
            return Ok(Some(unit));
        }
        if bracketed || looks_like_one(word) {
            return Err(word.to_owned());
        }
    }
    Ok(None)
}

/// Words, and whether each is in brackets.
fn words(heading: &str) -> Vec<(bool, &str)> {
    let mut words = Vec::new();
    let mut bracketed = false;
    for part in heading.split_inclusive(['(', ')', '[', ']', ' ', '_', ',', '"']) {
        let word = part.trim_end_matches(['(', ')', '[', ']', ' ', '_', ',', '"']);
        if !word.is_empty() {
            words.push((bracketed, word));
        }
        match part.chars().last() {
            Some('(' | '[') => bracketed = true,
            Some(')' | ']') => bracketed = false,
            _ => {}
        }
    }
    words
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn units_of_rates_are_read_and_unknown_ones_refused() {
        for (heading, bits) in [
            ("rate (kbit/s)", Some(1e3)),
            ("down_Mbps", Some(1e6)),
            ("Mbit/s", Some(1e6)),
            ("bandwidth [MB/s]", Some(8e6)),
            ("throughput Kb/s", Some(1e3)),
            ("rate", None),
            ("available rate", None),
            ("rate bits/s", Some(1.0)),
        ] {
            assert_eq!(rate_unit(heading), Ok(bits), "{heading}");
        }
        for heading in ["rate (furlongs)", "packets/s", "rate [pps]", "rate_fps"] {
            let error = rate_unit(heading).unwrap_err();
            assert!(error.contains(heading) && error.contains("kbit/s"), "{error}");
        }
    }

    #[test]
    fn units_of_times_are_read_and_unknown_ones_refused() {
        for (heading, unit) in [
            ("time (ms)", Some(TimeUnit::Millis)),
            ("t", None),
            ("time_s", Some(TimeUnit::Seconds)),
            ("Seconds", Some(TimeUnit::Seconds)),
            ("min", Some(TimeUnit::Minutes)),
        ] {
            assert_eq!(time_unit(heading), Ok(unit), "{heading}");
        }
        assert!(time_unit("time (fortnights)").unwrap_err().contains("ms"));
    }
}
