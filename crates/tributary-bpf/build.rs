//! Compiles the controllers in `bpf/` for the kernel, only with feature `ebpf`.

use std::path::{Path, PathBuf};
use std::process::Command;

fn main() {
    println!("cargo::rerun-if-changed=../../bpf");
    if std::env::var_os("CARGO_FEATURE_EBPF").is_none() {
        return;
    }
    let variable = |name: &str| PathBuf::from(std::env::var_os(name).unwrap_or_default());
    let (headers, out) = (variable("DEP_BPF_INCLUDE"), variable("OUT_DIR"));
    let source = Path::new("../../bpf/tributary_cc.bpf.c");
    let status = Command::new("clang")
        .args(["-O2", "-g", "-target", "bpf", "-mcpu=v3", "-Wall", "-Werror", "-I"])
        .arg(headers)
        .arg("-c")
        .arg(source)
        .arg("-o")
        .arg(out.join("tributary_cc.bpf.o"))
        .status();
    match status {
        Ok(status) if status.success() => {}
        Ok(status) => panic!("clang could not compile {} ({status})", source.display()),
        Err(error) => panic!(
            "feature `ebpf` needs clang ({error}): run `scripts/setup --ebpf`, or build without the feature"
        ),
    }
}
