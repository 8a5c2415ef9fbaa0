//! Makes the program smaller: compresses the pages that it serves (browsers read them compressed) and packs its relocations.

use flate2::Compression;
use flate2::write::GzEncoder;
use std::path::PathBuf;
use std::process::Command;
use std::{env, fs, io::Write};

/// First glibc whose dynamic linker reads packed relocations (DT_RELR).
const PACKED_SINCE: (u32, u32) = (2, 36);

/// Version of the C library of the system that builds: `getconf` says `glibc 2.36`. None with another library.
fn glibc() -> Option<(u32, u32)> {
    let told = Command::new("getconf").arg("GNU_LIBC_VERSION").output().ok()?;
    let told = String::from_utf8(told.stdout).ok()?;
    let (major, minor) = told.trim().strip_prefix("glibc ")?.split_once('.')?;
    Some((major.parse().ok()?, minor.parse().ok()?))
}

fn main() {
    // Saves half a megabyte. The program needs this system's glibc or a newer one in any case, so it is enough that this one reads them.
    let native = env::var_os("HOST") == env::var_os("TARGET");
    if native && glibc().is_some_and(|version| version >= PACKED_SINCE) {
        println!("cargo:rustc-link-arg-bins=-Wl,-z,pack-relative-relocs");
    }
    let into = PathBuf::from(env::var_os("OUT_DIR").expect("cargo sets it"));
    for page in ["src/commands/dash/dash.html", "src/commands/stream/play.html"] {
        println!("cargo:rerun-if-changed={page}");
        let name = page.rsplit('/').next().expect("a path has a last part");
        let mut compressed = GzEncoder::new(vec![], Compression::best());
        compressed
            .write_all(&fs::read(page).expect("web/ builds the page"))
            .expect("memory takes every byte");
        fs::write(into.join(format!("{name}.gz")), compressed.finish().expect("memory takes every byte"))
            .expect("cargo makes the folder");
    }
}
