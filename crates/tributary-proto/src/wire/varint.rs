//! Variable-length integers (RFC 9000 §16): the two high bits of the first byte give the length.

/// Largest value.
pub(super) const MAX: u64 = (1 << 62) - 1;

/// Appends `value` through `put`, which takes a slice of one to eight bytes.
pub(super) fn write(value: u64, mut put: impl FnMut(&[u8])) {
    debug_assert!(value <= MAX, "counters stay far below 2^62");
    let value = value.min(MAX);
    if value < 1 << 6 {
        put(&[value as u8]);
    } else if value < 1 << 14 {
        put(&(value as u16 | 0x4000).to_be_bytes());
    } else if value < 1 << 30 {
        put(&(value as u32 | 0x8000_0000).to_be_bytes());
    } else {
        put(&(value | 0xc000_0000_0000_0000).to_be_bytes());
    }
}

/// Reads one integer from the front of `input`, which moves on; `None` when it is incomplete.
pub(super) fn read(input: &mut &[u8]) -> Option<u64> {
    let first = *input.first()?;
    let length = 1_usize << (first >> 6);
    let (bytes, rest) = input.split_at_checked(length)?;
    let value = bytes[1..].iter().fold(u64::from(first & 0x3f), |v, b| v << 8 | u64::from(*b));
    *input = rest;
    Some(value)
}
