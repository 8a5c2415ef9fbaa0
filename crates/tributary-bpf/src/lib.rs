//! Tributary's congestion controllers for the TCP of an unmodified Linux kernel: loads, lists and unloads
//! them, and reports which requirement is missing when that is not possible.
//!
//! The controllers are C programs in `bpf/`; this crate neither computes windows nor opens TCP
//! sockets. A loaded controller stays in the kernel after the loader exits, for every socket that
//! selects it by name, until it is unloaded. Nothing is pinned in a file system. Guide:
//! docs/guide/congestion-control.md. Needs feature `ebpf`; without it only [`doctor`] works and
//! all other functions return [`CcError::NotBuilt`].

mod doctor;
#[cfg(feature = "ebpf")]
mod kernel;
#[cfg(not(feature = "ebpf"))]
mod kernel {
    //! Replacement for the kernel module in programs without libbpf.

    use crate::{CcError, Loaded};

    pub(crate) fn load(_: &[(&'static str, String)]) -> Result<(), CcError> {
        Err(CcError::NotBuilt)
    }

    pub(crate) fn list() -> Result<Vec<Loaded>, CcError> {
        Err(CcError::NotBuilt)
    }

    pub(crate) fn unload(_: &str) -> Result<Loaded, CcError> {
        Err(CcError::NotBuilt)
    }

    pub(crate) fn groups() -> Result<usize, CcError> {
        Err(CcError::NotBuilt)
    }
}

use serde::Serialize;
use thiserror::Error;

pub use doctor::{Check, doctor};

/// All controllers, in alphabetical order.
pub const CONTROLLERS: &[&str] = &["balia", "compound", "lia", "olia", "wvegas"];

/// Longest name of a congestion controller in the kernel, bytes.
pub const LONGEST_NAME: usize = 15;

/// A controller that is in the kernel.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Loaded {
    /// One of [`CONTROLLERS`].
    pub controller: String,
    /// The name by which sockets select it.
    pub name: String,
    /// Number of its map in the kernel (`bpftool map show id N`).
    pub id: u32,
    /// Sockets that use it, as the kernel counts them.
    pub sockets: u32,
    /// False after it is unloaded: no socket can select it, and the kernel removes it when its last socket
    /// closes.
    pub selectable: bool,
}

/// Why a controller could not be loaded, listed or unloaded.
#[derive(Debug, Error)]
pub enum CcError {
    /// The program was built without feature `ebpf`.
    #[error(
        "this program was built without eBPF; run `scripts/setup --ebpf` (installs clang and libelf-dev), then \
         build with `cargo build --release -p tributary --features ebpf`"
    )]
    NotBuilt,
    /// No controller has this name.
    #[error("unknown congestion controller `{0}`; known: {known}", known = CONTROLLERS.join(", "))]
    Unknown(String),
    /// The name is too long.
    #[error(
        "`{0}` cannot be the name of a controller: 1 to {LONGEST_NAME} letters, digits, `_` and `-`; choose a shorter prefix"
    )]
    Name(String),
    /// It is already loaded.
    #[error("`{0}` is loaded already; `tributary cc list` shows it, `tributary cc unload {0}` removes it")]
    Loaded(String),
    /// Another program has registered a controller of this name.
    #[error(
        "the kernel has another congestion controller named `{0}`; load ours under another name with `--prefix`"
    )]
    Taken(String),
    /// None of our loaded controllers has this name.
    #[error("`{0}` is not loaded; loaded: {1}")]
    NotLoaded(String, String),
    /// The kernel refused: a privilege is missing.
    #[error(
        "no permission for eBPF: it needs CAP_BPF, CAP_PERFMON and CAP_NET_ADMIN outside any user namespace; run as root"
    )]
    Permission,
    /// The kernel does not support it.
    #[error(
        "this kernel cannot run eBPF congestion controllers: {0}; `tributary doctor` shows what is missing"
    )]
    Kernel(String),
    /// Any other error from libbpf.
    #[error("eBPF controller `{name}`: {reason}")]
    Other {
        /// The controller or map.
        name: String,
        /// The reason given by libbpf or the kernel.
        reason: String,
    },
}

/// Loads `controllers` (all when empty), each under `prefix` plus its own name. All names are checked before
/// the
/// first one is loaded; after a failure, the controllers loaded before it are unloaded.
pub fn load(controllers: &[String], prefix: &str) -> Result<Vec<Loaded>, CcError> {
    let chosen = choose(controllers, prefix)?;
    #[cfg(feature = "ebpf")]
    {
        if let Some(missing) = doctor().into_iter().find(|check| !check.passed) {
            return Err(missing.into_error());
        }
        for (_, name) in &chosen {
            refuse_taken(name)?;
        }
    }
    kernel::load(&chosen)?;
    Ok(list()?.into_iter().filter(|one| chosen.iter().any(|(_, name)| *name == one.name)).collect())
}

/// All our controllers in the kernel.
pub fn list() -> Result<Vec<Loaded>, CcError> {
    kernel::list()
}

/// Unloads the controller called `name`. Sockets that use it keep it until they close.
pub fn unload(name: &str) -> Result<Loaded, CcError> {
    kernel::unload(name)
}

/// Number of groups of sibling subflows in all loaded controllers together.
pub fn groups() -> Result<usize, CcError> {
    kernel::groups()
}

/// The chosen controllers with their names in the kernel.
fn choose(controllers: &[String], prefix: &str) -> Result<Vec<(&'static str, String)>, CcError> {
    let mut chosen: Vec<&'static str> = Vec::new();
    for wanted in controllers {
        let known = CONTROLLERS.iter().find(|known| *known == wanted);
        chosen.push(known.ok_or_else(|| CcError::Unknown(wanted.clone()))?);
    }
    if chosen.is_empty() {
        chosen = CONTROLLERS.to_vec();
    }
    chosen.sort_unstable();
    chosen.dedup();
    let named = chosen.into_iter().map(|controller| (controller, format!("{prefix}{controller}")));
    named
        .map(
            |(controller, name)| if valid(&name) { Ok((controller, name)) } else { Err(CcError::Name(name)) },
        )
        .collect()
}

fn valid(name: &str) -> bool {
    let allowed = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_' || byte == b'-';
    (1..=LONGEST_NAME).contains(&name.len()) && name.bytes().all(allowed)
}

/// Fails when the kernel has a controller `name`, regardless of who registered it.
#[cfg(feature = "ebpf")]
fn refuse_taken(name: &str) -> Result<(), CcError> {
    let path = "/proc/sys/net/ipv4/tcp_available_congestion_control";
    let available = std::fs::read_to_string(path).unwrap_or_default();
    if !available.split_whitespace().any(|known| known == name) {
        return Ok(());
    }
    let ours = list()?.iter().any(|loaded| loaded.name == name && loaded.selectable);
    Err(if ours { CcError::Loaded(name.to_owned()) } else { CcError::Taken(name.to_owned()) })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(controllers: &[&str], prefix: &str) -> Result<Vec<String>, CcError> {
        let controllers: Vec<String> = controllers.iter().map(ToString::to_string).collect();
        Ok(choose(&controllers, prefix)?.into_iter().map(|(_, name)| name).collect())
    }

    #[test]
    fn no_name_selects_all_controllers_and_duplicates_are_removed() {
        assert_eq!(names(&[], "").unwrap(), CONTROLLERS);
        assert_eq!(names(&["olia", "lia", "olia"], "t_").unwrap(), ["t_lia", "t_olia"]);
    }

    #[test]
    fn unknown_names_list_the_known_and_long_ones_are_refused() {
        let error = names(&["lia", "warp"], "").unwrap_err().to_string();
        assert!(error.contains("`warp`") && error.contains("balia, compound, lia"), "{error}");
        for prefix in ["much_too_long_", "a b", "ü"] {
            let error = names(&["compound"], prefix).unwrap_err();
            assert!(matches!(&error, CcError::Name(_)), "{error}");
        }
    }

    #[cfg(feature = "ebpf")]
    #[test]
    fn a_name_the_kernel_already_uses_is_refused() {
        let error = refuse_taken("reno").unwrap_err();
        assert!(matches!(error, CcError::Taken(_) | CcError::Permission), "{error}");
    }

    #[cfg(not(feature = "ebpf"))]
    #[test]
    fn a_build_without_the_feature_says_how_to_get_one() {
        for error in [load(&[], "").unwrap_err(), list().unwrap_err(), unload("lia").unwrap_err()] {
            assert!(error.to_string().contains("--features ebpf"), "{error}");
        }
    }
}
