//! Runs the seeds of every fuzz target, and thousands of mutations of them, with the stable compiler.
//!
//! The mutations are the same in every run. `cargo +nightly fuzz run TARGET` searches for new inputs.

#[path = "../../fuzz/entry.rs"]
mod entry;

use std::fs;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};

use tributary_types::Rng;

const MUTATIONS: usize = 4000;
/// Targets whose inputs take milliseconds each, and their number of mutations.
const SLOW: (&[&str], usize) = (&["operations", "tiled-player", "http-request"], 200);

#[test]
fn no_target_fails_on_seeds_and_their_mutations() {
    for (name, run) in entry::TARGETS {
        let seeds = seeds(name);
        assert!(!seeds.is_empty(), "fuzz/seeds/{name} is empty");
        for (path, seed) in &seeds {
            attempt(*run, seed, &path.display().to_string());
        }
        let mut rng = Rng::new(1).child(name);
        let mutations = if SLOW.0.contains(name) { SLOW.1 } else { MUTATIONS };
        for number in 0..mutations {
            let mut bytes = pick(&mut rng, &seeds).1.clone();
            let other = &pick(&mut rng, &seeds).1;
            for _ in 0..=below(&mut rng, 3) {
                mutate(&mut rng, &mut bytes, other);
            }
            attempt(*run, &bytes, &format!("mutation {number} of {name}"));
        }
    }
}

fn seeds(target: &str) -> Vec<(PathBuf, Vec<u8>)> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../fuzz/seeds").join(target);
    let entries = fs::read_dir(&folder).unwrap_or_else(|error| panic!("{}: {error}", folder.display()));
    let mut paths: Vec<PathBuf> = entries.map(|entry| entry.expect("a readable folder").path()).collect();
    paths.sort();
    paths.into_iter().map(|path| (path.clone(), fs::read(&path).expect("a readable seed"))).collect()
}

/// Runs one input; on a panic, prints it so that it can become a seed.
fn attempt(run: fn(&[u8]), bytes: &[u8], what: &str) {
    if let Err(panic) = catch_unwind(AssertUnwindSafe(|| run(bytes))) {
        eprintln!("{what}: {} bytes: {}", bytes.len(), bytes.escape_ascii());
        std::panic::resume_unwind(panic);
    }
}

fn below(rng: &mut Rng, bound: usize) -> usize {
    (rng.next_u64() % bound.max(1) as u64) as usize
}

fn pick<'a, T>(rng: &mut Rng, from: &'a [T]) -> &'a T {
    &from[below(rng, from.len())]
}

/// One of the usual mutations: flip, overwrite, insert, remove, cut, splice.
fn mutate(rng: &mut Rng, bytes: &mut Vec<u8>, other: &[u8]) {
    let at = below(rng, bytes.len());
    let edge = [0, 1, 0x3f, 0x40, 0x7f, 0x80, 0xbf, 0xc0, 0xff, b'0', b'9', b'-', b'\n'];
    match below(rng, 6) {
        0 if !bytes.is_empty() => bytes[at] ^= 1 << below(rng, 8),
        1 if !bytes.is_empty() => bytes[at] = *pick(rng, &edge),
        2 => bytes.insert(at, *pick(rng, &edge)),
        3 => {
            let end = (at + 1 + below(rng, 8)).min(bytes.len());
            bytes.drain(at..end);
        }
        4 => bytes.truncate(at),
        _ => {
            bytes.truncate(at);
            bytes.extend_from_slice(&other[below(rng, other.len())..]);
        }
    }
}
