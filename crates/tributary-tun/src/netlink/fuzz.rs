//! Body of the fuzz target `netlink`. It is here because the parser is private; not part of the public interface.

use super::message::{NetlinkMessage, is_change, messages};

/// What one `recv` returned is split into messages of at least a header each.
///
/// # Panics
/// If there are more.
pub fn netlink(data: &[u8]) {
    let (found, _) = messages(data);
    assert!(found.len() <= data.len().div_ceil(16), "messages without a header");
    let is_of_interest = |message: &NetlinkMessage| {
        matches!(
            message,
            NetlinkMessage::Interface(_) | NetlinkMessage::Address(..) | NetlinkMessage::Rule(_)
        )
    };
    assert!(!found.iter().any(is_of_interest) || is_change(data), "a change is not noticed");
}
