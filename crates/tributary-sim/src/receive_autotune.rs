//! Dynamic right-sizing of the receive buffer, from the bytes that the application reads in a round trip. The rule of
//! Linux's `tcp_rcv_space_adjust` and `mptcp_rcv_space_adjust`. Callers decide when to apply it and what it limits.

/// Bytes of payload to allow after a round trip in which `copied` bytes were read; `space` is the most read
/// in an earlier one.
pub(crate) fn wanted(copied: u64, space: u64, mss: u64) -> u64 {
    // Twice what was read, and a margin for losses and small variations.
    let window = copied.saturating_mul(2).saturating_add(mss.saturating_mul(16));
    // And twice the growth, because in slow start the sender doubles its rate.
    let growth = u128::from(window) * u128::from(copied.saturating_sub(space)) / u128::from(space.max(1));
    window.saturating_add(u64::try_from(growth.saturating_mul(2)).unwrap_or(u64::MAX))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_quarter_more_data_raises_the_room_by_half_and_half_more_doubles_it() {
        assert_eq!(wanted(1_000_000, 1_000_000, 1000), 2_016_000);
        assert_eq!(wanted(1_250_000, 1_000_000, 1000), 2_516_000 * 3 / 2);
        assert_eq!(wanted(1_500_000, 1_000_000, 1000), 3_016_000 * 2);
        assert_eq!(wanted(u64::MAX, 0, 1), u64::MAX);
    }
}
