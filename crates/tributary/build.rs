//! Compresses the pages that the program serves as they are: browsers read them compressed, and the program is smaller.

use flate2::Compression;
use flate2::write::GzEncoder;
use std::path::PathBuf;
use std::{env, fs, io::Write};

fn main() {
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
