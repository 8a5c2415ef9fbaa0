//! Picture rates as exact ratios.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};
use thiserror::Error;

/// A constant picture rate: `numerator / denominator` per second; 30000/1001 for NTSC's 29.97.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct FrameRate {
    numerator: u32,
    denominator: u32,
}

/// The text or numbers are not a valid rate.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("`{0}` is not a frame rate; write 30, 29.97 or 30000/1001, at least 1 and at most 1000 per second")]
pub struct FrameRateError(String);

impl FrameRate {
    /// The rate `numerator / denominator`, reduced.
    ///
    /// # Errors
    /// Less than one a second, or more than a thousand.
    pub fn new(numerator: u32, denominator: u32) -> Result<Self, FrameRateError> {
        let refuse = || FrameRateError(format!("{numerator}/{denominator}"));
        if denominator == 0 || numerator < denominator || u64::from(numerator) > 1000 * u64::from(denominator)
        {
            return Err(refuse());
        }
        let by = common_divisor(numerator, denominator);
        Ok(Self { numerator: numerator / by, denominator: denominator / by })
    }

    /// Pictures in [`Self::denominator`] seconds.
    #[must_use]
    pub fn numerator(self) -> u32 {
        self.numerator
    }

    /// Seconds that [`Self::numerator`] pictures last.
    #[must_use]
    pub fn denominator(self) -> u32 {
        self.denominator
    }

    /// Pictures a second.
    #[must_use]
    pub fn as_f64(self) -> f64 {
        f64::from(self.numerator) / f64::from(self.denominator)
    }

    /// Pictures in a GoP of one second, to the nearest whole one.
    #[must_use]
    pub fn pictures_per_second(self) -> usize {
        self.as_f64().round() as usize
    }

    /// Duration of this many pictures in seconds.
    #[must_use]
    pub fn seconds_of(self, pictures: usize) -> f64 {
        pictures as f64 * f64::from(self.denominator) / f64::from(self.numerator)
    }
}

fn common_divisor(a: u32, b: u32) -> u32 {
    if b == 0 { a } else { common_divisor(b, a % b) }
}

impl fmt::Display for FrameRate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.numerator, self.denominator)
    }
}

impl FromStr for FrameRate {
    type Err = FrameRateError;

    fn from_str(text: &str) -> Result<Self, FrameRateError> {
        let refuse = || FrameRateError(text.chars().take(40).collect());
        if let Some((numerator, denominator)) = text.split_once('/') {
            let number = |t: &str| t.trim().parse().map_err(|_| refuse());
            return Self::new(number(numerator)?, number(denominator)?).map_err(|_| refuse());
        }
        let rate: f64 = text.trim().parse().map_err(|_| refuse())?;
        // NTSC rates are written with two or three digits and mean a ratio of 1001.
        let ntsc = (rate * 1001.0 / 1000.0).round();
        if rate.fract() != 0.0 && (rate - ntsc * 1000.0 / 1001.0).abs() < 0.01 {
            return Self::new((ntsc * 1000.0) as u32, 1001).map_err(|_| refuse());
        }
        Self::new((rate * 1000.0).round() as u32, 1000).map_err(|_| refuse())
    }
}

impl TryFrom<String> for FrameRate {
    type Error = FrameRateError;

    fn try_from(text: String) -> Result<Self, FrameRateError> {
        text.parse()
    }
}

impl From<FrameRate> for String {
    fn from(rate: FrameRate) -> Self {
        rate.to_string()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rates_are_parsed() {
        for (text, shown) in [
            ("30", "30/1"),
            ("29.97", "30000/1001"),
            ("23.976", "24000/1001"),
            ("59.94", "60000/1001"),
            ("12.5", "25/2"),
            ("50/2", "25/1"),
        ] {
            assert_eq!(text.parse::<FrameRate>().expect("a rate").to_string(), shown);
        }
    }

    #[test]
    fn invalid_rates_are_refused() {
        for text in ["", "x", "0", "-30", "NaN", "inf", "30/0", "1/2", "1e9", "0/0", "99999999999/1"] {
            assert!(text.parse::<FrameRate>().is_err(), "{text}");
        }
    }
}
