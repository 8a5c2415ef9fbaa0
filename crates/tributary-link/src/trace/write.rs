//! Traces as text.

use super::{OPPORTUNITY_BITS, Trace};
use core::fmt::Write;

impl Trace {
    /// The trace in the format of [`Trace::parse_csv`], exact to the nanosecond and the bit.
    #[must_use]
    pub fn to_csv(&self) -> String {
        let mut text = "seconds,mbit/s\n".to_owned();
        let mut from = 0;
        for &(until, rate) in &self.spans {
            let (bps, nanos) = (rate.as_bps(), 1_000_000_000);
            let _ = writeln!(
                text,
                "{}.{:09},{}.{:06}",
                from / nanos,
                from % nanos,
                bps / 1_000_000,
                bps % 1_000_000
            );
            from = until;
        }
        text
    }

    /// The trace in Mahimahi's format: one line per 1500 bytes, at the end of the millisecond in which they were
    /// delivered. A remainder at the end of the trace is lost, as in every trace of this format.
    #[must_use]
    pub fn to_mahimahi(&self) -> String {
        const WORK: u128 = OPPORTUNITY_BITS as u128 * 1_000_000_000;
        let mut text = String::new();
        let (mut from, mut carried, mut given) = (0_u64, 0_u128, 0_u128);
        for &(until, rate) in &self.spans {
            let bps = u128::from(rate.as_bps());
            carried += bps * u128::from(until - from);
            while (given + 1) * WORK <= carried {
                given += 1;
                let left = (carried - given * WORK).checked_div(bps).unwrap_or(0);
                let at = u128::from(until) - left;
                let _ = writeln!(text, "{}", at.div_ceil(1_000_000));
            }
            from = until;
        }
        text
    }
}
