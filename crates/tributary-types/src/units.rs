//! Rates and sizes. Arithmetic uses integers of 128 bits: no rounding drift at 10 Gbit/s, no overflow.

use core::fmt;
use core::time::Duration;

const NANOS: u128 = 1_000_000_000;

/// A rate in bits per second.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Bitrate(u64);

/// A size in bytes.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct DataSize(u64);

impl Bitrate {
    /// Zero bits per second.
    pub const ZERO: Self = Self(0);

    /// `bits` per second.
    #[must_use]
    pub const fn from_bps(bits: u64) -> Self {
        Self(bits)
    }

    /// `megabits` (10⁶ bits) per second.
    #[must_use]
    pub const fn from_mbps(megabits: u64) -> Self {
        Self(megabits * 1_000_000)
    }

    /// Bits per second.
    #[must_use]
    pub const fn as_bps(self) -> u64 {
        self.0
    }

    /// 10⁶ bits per second, for display and statistics only.
    #[must_use]
    pub fn as_mbps_f64(self) -> f64 {
        self.0 as f64 / 1e6
    }

    /// Time to carry `size`, rounded up to a nanosecond; `None` at rate zero.
    #[must_use]
    pub fn time_for(self, size: DataSize) -> Option<Duration> {
        if self.0 == 0 {
            return None;
        }
        // Division of 64 bits is several times faster, and sizes up to 2 GB need no more.
        let nanos = match size.0.checked_mul(8 * NANOS as u64) {
            Some(product) => product.div_ceil(self.0),
            None => {
                let nanos = (u128::from(size.0) * 8 * NANOS).div_ceil(u128::from(self.0));
                u64::try_from(nanos).unwrap_or(u64::MAX)
            }
        };
        Some(Duration::from_nanos(nanos))
    }

    /// Whole bytes carried in `time`.
    #[must_use]
    pub fn size_in(self, time: Duration) -> DataSize {
        let product = u64::try_from(time.as_nanos()).ok().and_then(|nanos| self.0.checked_mul(nanos));
        DataSize(product.map_or_else(
            || u64::try_from(u128::from(self.0) * time.as_nanos() / (8 * NANOS)).unwrap_or(u64::MAX),
            |product| product / (8 * NANOS as u64),
        ))
    }

    /// The rate that carries `size` in `time`; `None` when `time` is zero.
    #[must_use]
    pub fn of(size: DataSize, time: Duration) -> Option<Self> {
        let nanos = time.as_nanos();
        (nanos > 0).then(|| Self(u64::try_from(u128::from(size.0) * 8 * NANOS / nanos).unwrap_or(u64::MAX)))
    }
}

impl DataSize {
    /// Zero bytes.
    pub const ZERO: Self = Self(0);

    /// `bytes` bytes.
    #[must_use]
    pub const fn from_bytes(bytes: u64) -> Self {
        Self(bytes)
    }

    /// Bytes.
    #[must_use]
    pub const fn as_bytes(self) -> u64 {
        self.0
    }
}

impl fmt::Display for Bitrate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:.3} Mbit/s", self.as_mbps_f64())
    }
}

impl fmt::Debug for Bitrate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl fmt::Display for DataSize {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} B", self.0)
    }
}

impl fmt::Debug for DataSize {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn time_for_rounds_up_and_does_not_drift_at_ten_gigabit() {
        let rate = Bitrate::from_mbps(10_000);
        let one = rate.time_for(DataSize::from_bytes(1500)).unwrap();
        assert_eq!(one, Duration::from_nanos(1200));
        let odd = Bitrate::from_mbps(2_400).time_for(DataSize::from_bytes(1)).unwrap();
        assert_eq!(odd, Duration::from_nanos(4)); // 3.33 rounds up
    }

    #[test]
    fn zero_rate_carries_nothing_and_never_finishes() {
        assert_eq!(Bitrate::ZERO.time_for(DataSize::from_bytes(1)), None);
        assert_eq!(Bitrate::ZERO.size_in(Duration::from_secs(9)), DataSize::ZERO);
    }

    #[test]
    fn rate_of_inverts_time_for() {
        let rate = Bitrate::of(DataSize::from_bytes(1_000_000), Duration::from_millis(80)).unwrap();
        assert_eq!(rate, Bitrate::from_mbps(100));
        assert_eq!(Bitrate::of(DataSize::from_bytes(1), Duration::ZERO), None);
    }
}
