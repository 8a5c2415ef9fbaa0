//! Checks each requirement of eBPF congestion controllers on the kernel and on the user.
//!
//! Reads files under `/proc` and `/sys`; loads nothing.

use std::fs;

use serde::Serialize;

use crate::CcError;

/// One requirement.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Check {
    /// The requirement.
    pub need: &'static str,
    /// Whether it is met.
    pub passed: bool,
    /// The finding and, if the requirement is not met, the remedy.
    pub finding: String,
    #[serde(skip)]
    kind: Kind,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Build,
    Kernel,
    Permission,
}

impl Check {
    fn new(need: &'static str, kind: Kind, verdict: Result<&str, &str>) -> Self {
        let (passed, finding) = match verdict {
            Ok(finding) => (true, finding.to_owned()),
            Err(finding) => (false, finding.to_owned()),
        };
        Self { need, passed, finding, kind }
    }

    /// The error that a load returns when this check fails.
    #[cfg_attr(not(feature = "ebpf"), expect(dead_code, reason = "nothing loads without the feature"))]
    pub(crate) fn into_error(self) -> CcError {
        match self.kind {
            Kind::Build => CcError::NotBuilt,
            Kind::Permission => CcError::Permission,
            Kind::Kernel => CcError::Kernel(self.finding),
        }
    }
}

/// Bits of the effective capabilities (linux/capability.h).
const CAPABILITIES: &[(&str, u32)] = &[("CAP_NET_ADMIN", 12), ("CAP_PERFMON", 38), ("CAP_BPF", 39)];

/// All checks, in the order in which to fix them.
#[must_use]
pub fn doctor() -> Vec<Check> {
    let types = fs::read("/sys/kernel/btf/vmlinux").ok();
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let user_map = fs::read_to_string("/proc/self/uid_map").unwrap_or_default();
    vec![
        Check::new("loader", Kind::Build, built()),
        Check::new("kernel type information (BTF)", Kind::Kernel, type_information(types.as_deref())),
        Check::new("struct_ops for TCP congestion control", Kind::Kernel, struct_ops(types.as_deref())),
        Check::new("MPTCP in the kernel (optional)", Kind::Kernel, Ok(mptcp(types.as_deref()))),
        Check::new("outside user namespaces", Kind::Permission, initial_namespace(&user_map)),
        Check::new(
            "capabilities",
            Kind::Permission,
            capabilities(&status).as_deref().map_err(String::as_str),
        ),
    ]
}

fn built() -> Result<&'static str, &'static str> {
    if cfg!(feature = "ebpf") {
        Ok("built in")
    } else {
        Err("not built in; run `scripts/setup --ebpf` and build with `--features ebpf`")
    }
}

fn type_information(types: Option<&[u8]>) -> Result<&'static str, &'static str> {
    types.map(|_| "/sys/kernel/btf/vmlinux is there").ok_or(
        "/sys/kernel/btf/vmlinux is absent; use a kernel with CONFIG_DEBUG_INFO_BTF=y (Debian's and Ubuntu's have it)",
    )
}

/// The kernel lists the type of the registration in its type information, where strings are plain text.
fn struct_ops(types: Option<&[u8]>) -> Result<&'static str, &'static str> {
    match types {
        Some(types) if has_name(types, b"bpf_struct_ops_tcp_congestion_ops") => Ok("the kernel has it"),
        _ => {
            Err("the kernel lacks it; use Linux 5.6 or later with CONFIG_BPF_JIT=y and CONFIG_BPF_SYSCALL=y")
        }
    }
}

fn mptcp(types: Option<&[u8]>) -> &'static str {
    match types {
        Some(types) if has_name(types, b"mptcp_subflow_context") => {
            "subflows of kernel MPTCP are coupled, too"
        }
        _ => "absent: only sockets with SO_MARK are coupled",
    }
}

fn has_name(types: &[u8], name: &[u8]) -> bool {
    types
        .windows(name.len() + 2)
        .any(|part| part[0] == 0 && part[part.len() - 1] == 0 && &part[1..=name.len()] == name)
}

/// The map of the initial user namespace is `0 0 4294967295`.
fn initial_namespace(map: &str) -> Result<&'static str, &'static str> {
    if map.split_whitespace().eq(["0", "0", "4294967295"]) {
        Ok("this is the initial user namespace")
    } else {
        Err("this is inside a user namespace: load as root outside; a loaded controller can be chosen inside")
    }
}

fn capabilities(status: &str) -> Result<String, String> {
    let line = status.lines().find_map(|line| line.strip_prefix("CapEff:"));
    let held = line.and_then(|text| u64::from_str_radix(text.trim(), 16).ok()).unwrap_or_default();
    let missing: Vec<&str> =
        CAPABILITIES.iter().filter(|(_, bit)| held >> bit & 1 == 0).map(|(name, _)| *name).collect();
    if missing.is_empty() {
        Ok("CAP_NET_ADMIN, CAP_PERFMON and CAP_BPF".to_owned())
    } else {
        Err(format!("missing: {}; run as root", missing.join(", ")))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_kernel_without_type_information_or_struct_ops_is_named() {
        assert!(type_information(None).unwrap_err().contains("CONFIG_DEBUG_INFO_BTF"));
        assert!(struct_ops(None).is_err());
        assert!(struct_ops(Some(b"\0tcp_congestion_ops\0")).unwrap_err().contains("Linux 5.6"));
        assert!(struct_ops(Some(b"\0x\0bpf_struct_ops_tcp_congestion_ops\0")).is_ok());
        assert!(struct_ops(Some(b"\0bpf_struct_ops_tcp_congestion_ops_x\0")).is_err());
    }

    #[test]
    fn missing_capabilities_and_user_namespaces_are_named() {
        assert!(capabilities("CapEff:\t000001ffffffffff\n").is_ok());
        let missing = capabilities("CapEff:\t0000000000001000\n").unwrap_err();
        assert!(missing.contains("CAP_PERFMON, CAP_BPF") && !missing.contains("NET_ADMIN"), "{missing}");
        assert!(capabilities("").unwrap_err().contains("CAP_NET_ADMIN"));
        assert!(initial_namespace("         0          0 4294967295\n").is_ok());
        assert!(initial_namespace("         0       1000          1\n").is_err());
    }
}
