//! The key of a cell: 64-bit FNV-1a over a text with everything that decides the result of its run.

use core::fmt::Write;

const BASIS: u64 = 0xcbf2_9ce4_8422_2325;
const PRIME: u64 = 0x100_0000_01b3;

/// Hashes the text written into it.
#[derive(Clone, Copy, Debug)]
pub struct Fnv(u64);

impl Default for Fnv {
    fn default() -> Self {
        Self(BASIS)
    }
}

impl Write for Fnv {
    fn write_str(&mut self, text: &str) -> core::fmt::Result {
        for byte in text.bytes() {
            self.0 = (self.0 ^ u64::from(byte)).wrapping_mul(PRIME);
        }
        Ok(())
    }
}

/// The key of a text: sixteen hexadecimal digits.
#[must_use]
pub fn of(text: &str) -> String {
    let mut hash = Fnv::default();
    hash.write_str(text).expect("hashing cannot fail");
    format!("{:016x}", hash.0)
}

#[cfg(test)]
mod tests {
    #[test]
    fn keys_are_those_of_fnv_1a() {
        assert_eq!(super::of(""), "cbf29ce484222325");
        assert_eq!(super::of("foobar"), "85944171f73967e8");
    }
}
