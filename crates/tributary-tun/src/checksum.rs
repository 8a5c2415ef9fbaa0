//! The internet checksum. RFC 1071.

/// Sum of big-endian 16-bit words, to be folded; an odd last byte counts as if a zero followed it.
#[must_use]
pub fn sum_of(bytes: &[u8]) -> u32 {
    // RFC 1071 §2 (B): apart from a swap of the result, the sum does not depend on byte order. So native 32-bit words
    // are added in 64 bits, which the compiler turns into vector instructions.
    let (words, rest) = bytes.as_chunks::<4>();
    let mut sum: u64 = words.iter().map(|word| u64::from(u32::from_ne_bytes(*word))).sum();
    let mut last = [0; 4];
    last[..rest.len()].copy_from_slice(rest);
    sum += u64::from(u32::from_ne_bytes(last));
    let sum = (sum >> 32) + (sum & 0xffff_ffff);
    let sum = ((sum >> 32) + (sum & 0xffff_ffff)) as u32;
    u32::from(u16::from_be_bytes(fold(sum).to_ne_bytes()))
}

/// Folds a sum to 16 bits.
#[must_use]
pub fn fold(mut sum: u32) -> u16 {
    while sum > 0xffff {
        sum = (sum & 0xffff) + (sum >> 16);
    }
    sum as u16
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn the_checksum_matches_its_definition(bytes in prop::collection::vec(any::<u8>(), 0..300)) {
            let pairs = bytes.chunks(2);
            let plain = pairs.map(|pair| u32::from(pair[0]) << 8 | u32::from(*pair.get(1).unwrap_or(&0))).sum();
            prop_assert_eq!(fold(sum_of(&bytes)), fold(plain));
        }
    }
}
