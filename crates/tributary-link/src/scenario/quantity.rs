//! Quantities with units as in scenario files: `1.5 s`, `47 Mbit/s`, `256 KiB`, `5 %`.

use core::time::Duration;
use tributary_types::{Bitrate, DataSize};

/// Splits `47 Mbit/s` into number and unit, and scales the number by the unit's factor.
fn scaled(text: &str, units: &[(&str, f64)], example: &str) -> Result<f64, String> {
    let text = text.trim();
    let split = text.find(|c: char| !(c.is_ascii_digit() || "+-.".contains(c))).unwrap_or(text.len());
    let (number, unit) = (text[..split].trim(), text[split..].trim());
    let known = || units.iter().map(|u| u.0).collect::<Vec<_>>().join(", ");
    let Ok(value) = number.parse::<f64>() else {
        return Err(format!("`{text}` is not a number with a unit; write it like `{example}`"));
    };
    let Some((_, factor)) = units.iter().find(|(name, _)| *name == unit) else {
        return Err(format!("`{text}` has no known unit; the units are {}", known()));
    };
    if !value.is_finite() || value < 0.0 {
        return Err(format!("`{text}` must not be negative"));
    }
    Ok(value * factor)
}

/// Reads a time such as `1.5 s`.
pub(crate) fn duration(text: &str) -> Result<Duration, String> {
    const UNITS: [(&str, f64); 7] =
        [("ns", 1.0), ("us", 1e3), ("µs", 1e3), ("ms", 1e6), ("s", 1e9), ("min", 60e9), ("h", 3600e9)];
    let nanos = scaled(text, &UNITS, "20 ms")?;
    if nanos > 7.0 * 24.0 * 3600e9 {
        return Err(format!("`{text}` is more than a week"));
    }
    Ok(Duration::from_nanos(nanos.round() as u64))
}

/// Reads a rate such as `47 Mbit/s`.
pub(crate) fn bitrate(text: &str) -> Result<Bitrate, String> {
    const UNITS: [(&str, f64); 4] = [("bit/s", 1.0), ("kbit/s", 1e3), ("Mbit/s", 1e6), ("Gbit/s", 1e9)];
    let bits = scaled(text, &UNITS, "47 Mbit/s")?;
    if bits > crate::MAX_RATE.as_bps() as f64 {
        return Err(format!("`{text}` is above the highest rate, {}", crate::MAX_RATE));
    }
    Ok(Bitrate::from_bps(bits.round() as u64))
}

/// Reads a size such as `256 KiB`.
pub(crate) fn size(text: &str) -> Result<DataSize, String> {
    const UNITS: [(&str, f64); 5] =
        [("B", 1.0), ("kB", 1e3), ("KiB", 1024.0), ("MB", 1e6), ("MiB", 1024.0 * 1024.0)];
    let bytes = scaled(text, &UNITS, "256 KiB")?;
    if bytes > super::check::MAX_QUEUE_BYTES as f64 {
        return Err(format!("`{text}` is more than 1 GiB"));
    }
    Ok(DataSize::from_bytes(bytes.round() as u64))
}

/// Reads an amount of application data such as `409 MB`: up to 1 TB.
pub(crate) fn volume(text: &str) -> Result<DataSize, String> {
    const UNITS: [(&str, f64); 8] = [
        ("B", 1.0),
        ("kB", 1e3),
        ("KiB", 1024.0),
        ("MB", 1e6),
        ("MiB", 1024.0 * 1024.0),
        ("GB", 1e9),
        ("GiB", 1024.0 * 1024.0 * 1024.0),
        ("TB", 1e12),
    ];
    let bytes = scaled(text, &UNITS, "100 MB")?;
    if bytes > 1e12 {
        return Err(format!("`{text}` is more than 1 TB"));
    }
    Ok(DataSize::from_bytes(bytes.round() as u64))
}

/// Reads a share such as `5 %`.
pub(crate) fn share(text: &str) -> Result<f64, String> {
    let share = scaled(text, &[("%", 0.01)], "5 %")?;
    if share > 1.0 { Err(format!("`{text}` is more than 100 %")) } else { Ok(share) }
}
