//! Traces as text.

use super::{MIN_SPAN, OPPORTUNITY_BITS, Trace};
use core::fmt::Write;
use tributary_types::Bitrate;

impl Trace {
    /// The trace in the format of [`Trace::parse_csv`], exact to the nanosecond and the bit.
    ///
    /// The last rate of this format lasts as long as the one before it, so the last span is written in two or three parts, of
    /// which the last two are equally long, where its length would not be read back otherwise. A last span of less than 30 µs is
    /// not divided, because the reader joins parts of less than 10 µs.
    #[must_use]
    pub fn to_csv(&self) -> String {
        let mut text = "seconds,mbit/s\n".to_owned();
        let mut line = |from: u64, rate: Bitrate| {
            let (bps, nanos) = (rate.as_bps(), 1_000_000_000);
            let _ = writeln!(
                text,
                "{}.{:09},{}.{:06}",
                from / nanos,
                from % nanos,
                bps / 1_000_000,
                bps % 1_000_000
            );
        };
        let (mut from, mut before) = (0, 1_000_000_000);
        for (number, &(until, rate)) in self.spans.iter().enumerate() {
            line(from, rate);
            let length = until - from;
            if number + 1 == self.spans.len() && length != before && length >= 3 * MIN_SPAN {
                let part = if length.is_multiple_of(2) { length / 2 } else { length / 3 };
                if length != 2 * part {
                    line(until - 2 * part, rate);
                }
                line(until - part, rate);
            }
            (from, before) = (until, length);
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
