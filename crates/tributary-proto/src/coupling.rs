//! Which congestion controllers couple the subflows of a session. With such a controller
//! ([`Config::coupled`](crate::Config::coupled)) a low rate of one subflow does not show that its connection is stuck.
//!
//! Not here: the controllers (`tributary-cc`, `bpf/`).

/// Controllers that couple subflows, in alphabetical order.
pub const COUPLED: [&str; 4] = ["balia", "lia", "olia", "wvegas"];

/// Whether `controller` couples subflows. The kernel's names may have a prefix (`tributary cc load --prefix`).
#[must_use]
pub fn is_coupled(controller: &str) -> bool {
    let ends_with = |known: &str| {
        controller.strip_suffix(known).is_some_and(|prefix| !prefix.ends_with(char::is_alphanumeric))
    };
    COUPLED.into_iter().any(ends_with)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_prefix_ends_before_the_controllers_name() {
        for name in ["lia", "olia", "balia", "wvegas", "test_lia", "x-olia"] {
            assert!(is_coupled(name), "{name}");
        }
        for name in ["cubic", "bbr", "compound", "julia", "reno", ""] {
            assert!(!is_coupled(name), "{name}");
        }
    }
}
