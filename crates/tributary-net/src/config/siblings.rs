//! `SO_MARK` of a session's sockets, which tells the kernel which sockets belong to one session.
//!
//! The eBPF controllers LIA, OLIA, BALIA and wVegas couple sockets with the same mark, user and network namespace
//! (docs/guide/congestion-control.md). Not here: the controllers, and setting the option.

use std::str::FromStr;
use std::sync::atomic::{AtomicU32, Ordering};

use thiserror::Error;
use tributary_proto::coupling::is_coupled;

/// Marks taken by [`Siblings::WhenCoupled`] are `0x54000000` to `0x54ffffff`.
const PREFIX: u32 = 0x5400_0000;
const MASK: u32 = 0x00ff_ffff;

/// How the sockets of a session are marked (`SO_MARK`, socket(7)).
///
/// Setting a mark needs CAP_NET_ADMIN or CAP_NET_RAW; without it the session works, and warns once that its subflows
/// are not coupled. Routing rules and firewalls can match marks.
///
/// ```
/// use tributary_net::Siblings;
/// assert_eq!("0x7001".parse(), Ok(Siblings::Mark(0x7001)));
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Siblings {
    /// When [`Common::congestion`](crate::Common::congestion) names a coupled controller, each session has a mark of
    /// its own, from `0x54000000` to `0x54ffffff`.
    #[default]
    WhenCoupled,
    /// No mark.
    Never,
    /// This mark. Sessions with the same mark are coupled with each other, up to eight subflows.
    Mark(u32),
}

/// The text is not a valid mark.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
#[error("`{0}` is not a mark: expected auto, off, or a number from 1 to 0xffffffff")]
pub struct MarkError(String);

impl FromStr for Siblings {
    type Err = MarkError;

    fn from_str(text: &str) -> Result<Self, MarkError> {
        let number = text.strip_prefix("0x").map_or_else(|| text.parse(), |hex| u32::from_str_radix(hex, 16));
        match (text, number) {
            ("auto", _) => Ok(Self::WhenCoupled),
            ("off", _) => Ok(Self::Never),
            (_, Ok(mark)) if mark != 0 => Ok(Self::Mark(mark)),
            _ => Err(MarkError(text.to_owned())),
        }
    }
}

impl Siblings {
    /// The mark of a new session whose sockets run this controller.
    pub(crate) fn mark(self, congestion: Option<&str>) -> Option<u32> {
        match self {
            Self::Never => None,
            Self::Mark(mark) => Some(mark),
            Self::WhenCoupled => congestion.is_some_and(is_coupled).then(next),
        }
    }

    /// Whether the sockets of a session that run this controller are marked.
    #[must_use]
    pub fn is_marking(self, congestion: Option<&str>) -> bool {
        matches!(self, Self::Mark(_)) || self.couple(congestion)
    }

    /// Whether this controller couples the sockets of a session.
    pub(crate) fn couple(self, congestion: Option<&str>) -> bool {
        self != Self::Never && congestion.is_some_and(is_coupled)
    }
}

/// A different value for each session of the process; the first one differs between processes.
fn next() -> u32 {
    static TAKEN: AtomicU32 = AtomicU32::new(0);
    let start = std::process::id().wrapping_mul(0x9e37_79b1) >> 8;
    PREFIX | (start.wrapping_add(TAKEN.fetch_add(1, Ordering::Relaxed)) & MASK)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sessions_with_a_coupled_controller_have_marks_of_their_own() {
        for name in ["lia", "test_lia"] {
            let (one, other) =
                (Siblings::WhenCoupled.mark(Some(name)), Siblings::WhenCoupled.mark(Some(name)));
            assert!(one.is_some() && other.is_some() && one != other, "{name}: {one:?} and {other:?}");
            assert_eq!(one.unwrap() & !MASK, PREFIX);
        }
        assert_eq!(Siblings::WhenCoupled.mark(Some("cubic")), None);
        assert_eq!(Siblings::WhenCoupled.mark(None), None);
        assert_eq!(Siblings::Mark(7).mark(Some("cubic")), Some(7));
        assert_eq!(Siblings::Never.mark(Some("lia")), None);
    }

    #[test]
    fn only_marked_sockets_of_a_coupled_controller_are_coupled() {
        assert!(Siblings::WhenCoupled.couple(Some("lia")) && Siblings::Mark(7).couple(Some("x_olia")));
        assert!(!Siblings::Never.couple(Some("lia")) && !Siblings::Mark(7).couple(Some("cubic")));
        assert!(!Siblings::WhenCoupled.couple(None));
    }

    #[test]
    fn marks_are_numbers_above_zero() {
        assert_eq!("auto".parse(), Ok(Siblings::WhenCoupled));
        assert_eq!("off".parse(), Ok(Siblings::Never));
        assert_eq!("28673".parse(), Ok(Siblings::Mark(0x7001)));
        for wrong in ["0", "", "0x", "-1", "0x100000000", "red"] {
            assert!(wrong.parse::<Siblings>().is_err(), "{wrong}");
        }
    }
}
