//! Interruptions, shards and damaged files.

use super::*;
use crate::reproduce::Sample;
use std::num::NonZeroUsize;

const KEYS: [&str; 6] = ["a", "b", "c", "d", "e", "f"];

fn measured(key: &str) -> Sample {
    let mut sample = Sample { key: key.to_owned(), seed: 1, ..Sample::default() };
    sample.set("goodput", Some(f64::from(key.as_bytes()[0])));
    sample
}

fn sweep(directory: &Path, shard: Shard, run: impl Fn(&str) -> Sample + Sync) -> (Store<Sample>, Tally) {
    let mut store = Store::open(directory, shard).unwrap();
    let effort = Effort { jobs: NonZeroUsize::new(2), shard, ..Effort::default() };
    let run = |key: &&str| run(key);
    let tally = execute((&KEYS, |key| key), run, &mut store, effort, &mut |_, _| ()).unwrap();
    (store, tally)
}

fn rows(store: &Store<Sample>) -> Vec<Sample> {
    KEYS.iter().filter_map(|key| store.row(key).cloned()).collect()
}

#[test]
fn a_sweep_resumes_after_a_half_written_line() {
    let directory = tempfile::tempdir().unwrap();
    let (store, tally) = sweep(directory.path(), Shard::WHOLE, measured);
    assert_eq!(tally, Tally { cells: 6, before: 0, now: 6, failed: 0, left_out: 0, outdated: 0 });
    let whole = rows(&store);
    let file = directory.path().join("cells.jsonl");
    let bytes = std::fs::read(&file).unwrap();
    std::fs::write(&file, &bytes[..bytes.len() - 40]).unwrap(); // stopped in the middle of the last line
    let (store, tally) = sweep(directory.path(), Shard::WHOLE, measured);
    assert_eq!((tally.before, tally.now), (5, 1));
    assert_eq!(rows(&store), whole);
    let (_, tally) = sweep(directory.path(), Shard::WHOLE, measured);
    assert_eq!((tally.before, tally.now), (6, 0));
}

#[test]
fn shards_together_are_the_whole_plan() {
    let (whole, parts) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let expected = rows(&sweep(whole.path(), Shard::WHOLE, measured).0);
    let sizes = (1..=3).map(|index| sweep(parts.path(), Shard { index, count: 3 }, measured).1.cells);
    assert_eq!(sizes.sum::<usize>(), 6);
    assert_eq!(rows(&Store::open(parts.path(), Shard::WHOLE).unwrap()), expected);
    let elsewhere = tempfile::tempdir().unwrap();
    let mut merged = Store::open(elsewhere.path(), Shard::WHOLE).unwrap();
    merged.add(parts.path()).unwrap();
    assert_eq!(rows(&merged), expected);
}

#[test]
fn damage_is_refused_with_file_and_line() {
    let directory = tempfile::tempdir().unwrap();
    std::fs::write(directory.path().join("cells.jsonl"), "\n{\"key\": 7}\n").unwrap();
    let error = Store::<Sample>::open(directory.path(), Shard::WHOLE).unwrap_err().to_string();
    assert!(error.contains("cells.jsonl:2") && error.contains("remove the line"), "{error}");
    let file = directory.path().join("a-file");
    std::fs::write(&file, "").unwrap();
    let error = Store::<Sample>::open(&file.join("below"), Shard::WHOLE).unwrap_err().to_string();
    assert!(error.contains("a-file"), "{error}");
}

#[test]
fn a_failed_cell_is_a_row_with_its_failure_and_is_tried_again() {
    let directory = tempfile::tempdir().unwrap();
    let failing = |key: &str| match key {
        "b" => Sample { failure: Some("no time".to_owned()), ..measured(key) },
        _ => measured(key),
    };
    let (store, tally) = sweep(directory.path(), Shard::WHOLE, failing);
    assert_eq!((tally.failed, tally.now), (1, 6));
    assert_eq!(store.row("b").unwrap().failure.as_deref(), Some("no time"));
    let (store, tally) = sweep(directory.path(), Shard::WHOLE, measured);
    assert_eq!((tally.failed, tally.before, tally.now), (0, 5, 1));
    assert!(store.has("b"));
}

#[test]
fn no_cell_is_started_once_a_sweep_is_stopped() {
    let directory = tempfile::tempdir().unwrap();
    let mut store = Store::open(directory.path(), Shard::WHOLE).unwrap();
    let effort = Effort { jobs: NonZeroUsize::new(1), ..Effort::default() };
    let stop = effort.stop.clone();
    let run = |key: &&str| {
        stop.store(*key == "c", std::sync::atomic::Ordering::Relaxed);
        measured(key)
    };
    let tally = execute((&KEYS, |key| key), run, &mut store, effort, &mut |_, _| ()).unwrap();
    assert_eq!(tally, Tally { cells: 6, before: 0, now: 3, failed: 0, left_out: 3, outdated: 0 });
}

#[test]
fn shards_are_parsed_from_i_of_n() {
    assert_eq!("2/4".parse(), Ok(Shard { index: 2, count: 4 }));
    for bad in ["0/4", "5/4", "4", "a/b", "1/0", "1/99999"] {
        assert!(bad.parse::<Shard>().unwrap_err().to_string().contains("1/4"), "{bad}");
    }
}
