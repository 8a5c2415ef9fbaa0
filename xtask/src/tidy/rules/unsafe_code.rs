//! `unsafe` is only allowed where the operating system is called (the emulator, the TUN crate and the socket options),
//! in the coding kernels, which use the processor's vector instructions, and where the benchmark of the codes
//! calls ISA-L.

use super::super::finding::Finding;
use super::super::mask::lines_with_word;
use super::super::project::Project;

/// Prefixes of the paths where it is allowed.
const ALLOWED: &[&str] = &[
    "crates/tributary-emu/",
    "crates/tributary-tun/",
    "crates/tributary-net/src/sockopt",
    "crates/tributary-coding/src/kernel.rs",
    "crates/tributary-coding/src/kernel/",
    "crates/tributary-bench/src/coding/isal.rs",
];

/// Reports `unsafe` in other places.
pub fn check(project: &Project) -> Vec<Finding> {
    let mut findings = Vec::new();
    for file in project.rust().filter(|file| !ALLOWED.iter().any(|start| file.path.starts_with(start))) {
        for line in lines_with_word(&file.code, "unsafe") {
            let way_out = format!("call a safe function of {} instead", ALLOWED.join(" or "));
            findings.push(Finding::error(&file.path, line, "unsafe code", way_out));
        }
    }
    findings
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unsafe_outside_the_kernel_modules_fails() {
        let text = "//! unsafe\nfn f() { unsafe { g() } }\n";
        let files = [
            "crates/tributary-net/src/proxy.rs",
            "crates/tributary-net/src/sockopt.rs",
            "crates/tributary-emu/src/isolate.rs",
            "crates/tributary-tun/src/device.rs",
            "crates/tributary-coding/src/kernel/x86.rs",
        ];
        let project = Project::of_files(&files.map(|path| (path, text)));
        let findings = check(&project);
        assert_eq!(findings.len(), 1);
        assert_eq!((findings[0].file.as_str(), findings[0].line), (files[0], 2));
    }
}
