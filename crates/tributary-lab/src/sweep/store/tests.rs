//! Interruptions, shards and damaged files.

use super::*;
use crate::sweep::Row;
use crate::sweep::execute::{Effort, Report, execute};
use crate::sweep::plan::{Plan, Planned, Seeds};
use std::num::NonZeroUsize;
use tributary_link::Scenario;

fn cells() -> Vec<Planned> {
    let mut plan = Plan::new("little", vec![Scenario::builtin("onoff").unwrap()], &["wifi", "wigig", "fbdt"]);
    plan.seeds = vec![1, 2];
    plan.seconds = 2;
    plan.cells(Seeds::Working).unwrap()
}

fn sweep(directory: &Path, shard: Shard) -> (Store<Row>, Report) {
    let mut store = Store::open(directory, shard).unwrap();
    let effort = Effort { jobs: NonZeroUsize::new(2), shard, ..Effort::default() };
    let report = execute((&cells(), |cell| &cell.key), Row::of, &mut store, effort, &mut |_, _| ()).unwrap();
    (store, report)
}

fn rows(store: &Store<Row>) -> Vec<Row> {
    cells().iter().filter_map(|cell| store.row(&cell.key).cloned()).collect()
}

#[test]
fn a_sweep_resumes_after_a_half_written_line() {
    let directory = tempfile::tempdir().unwrap();
    let (store, report) = sweep(directory.path(), Shard::WHOLE);
    assert_eq!(report, Report { cells: 6, before: 0, now: 6, failed: 0, left_out: 0 });
    let whole = rows(&store);
    assert!(whole.iter().all(|row| row.measured.goodput_mbps.unwrap() > 1.0));
    let file = directory.path().join("cells.jsonl");
    let bytes = std::fs::read(&file).unwrap();
    std::fs::write(&file, &bytes[..bytes.len() - 40]).unwrap(); // stopped in the middle of the last line
    let (store, report) = sweep(directory.path(), Shard::WHOLE);
    assert_eq!((report.before, report.now), (5, 1));
    assert_eq!(rows(&store), whole);
    let (_, report) = sweep(directory.path(), Shard::WHOLE);
    assert_eq!((report.before, report.now), (6, 0));
}

#[test]
fn shards_together_are_the_whole_plan() {
    let (whole, parts) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let (store, _) = sweep(whole.path(), Shard::WHOLE);
    let expected = rows(&store);
    let mut sizes = 0;
    for index in 1..=3 {
        let (_, report) = sweep(parts.path(), Shard { index, count: 3 });
        sizes += report.cells;
    }
    assert_eq!(sizes, 6);
    let store = Store::open(parts.path(), Shard::WHOLE).unwrap();
    assert_eq!(rows(&store), expected);
    let elsewhere = tempfile::tempdir().unwrap();
    let mut merged = Store::open(elsewhere.path(), Shard::WHOLE).unwrap();
    merged.add(parts.path()).unwrap();
    assert_eq!(rows(&merged), expected);
}

#[test]
fn damage_is_refused_with_file_and_line() {
    let directory = tempfile::tempdir().unwrap();
    std::fs::write(directory.path().join("cells.jsonl"), "\n{\"key\": 7}\n").unwrap();
    let error = Store::<Row>::open(directory.path(), Shard::WHOLE).unwrap_err().to_string();
    assert!(error.contains("cells.jsonl:2") && error.contains("remove the line"), "{error}");
    let file = directory.path().join("a-file");
    std::fs::write(&file, "").unwrap();
    assert!(
        Store::<Row>::open(&file.join("below"), Shard::WHOLE).unwrap_err().to_string().contains("a-file")
    );
}

#[test]
fn a_failed_cell_is_a_row_with_its_failure() {
    let directory = tempfile::tempdir().unwrap();
    let mut store = Store::open(directory.path(), Shard::WHOLE).unwrap();
    let mut cells = cells();
    cells[0].simulation.options.budget = Some(100);
    let report =
        execute((&cells, |cell| &cell.key), Row::of, &mut store, Effort::default(), &mut |_, _| ()).unwrap();
    assert_eq!((report.failed, report.now), (1, 6));
    let failure = store.row(&cells[0].key).unwrap().failure.clone().unwrap();
    assert!(failure.contains("event budget"), "{failure}");
    cells[0].simulation.options.budget = None;
    let report =
        execute((&cells, |cell| &cell.key), Row::of, &mut store, Effort::default(), &mut |_, _| ()).unwrap();
    assert_eq!((report.failed, report.before, report.now), (0, 5, 1), "the failed cell is tried again");
    let store = Store::<Row>::open(directory.path(), Shard::WHOLE).unwrap();
    assert!(store.has(&cells[0].key));
}

#[test]
fn shards_are_parsed_from_i_of_n() {
    assert_eq!("2/4".parse(), Ok(Shard { index: 2, count: 4 }));
    for bad in ["0/4", "5/4", "4", "a/b", "1/0", "1/99999"] {
        assert!(bad.parse::<Shard>().unwrap_err().to_string().contains("1/4"), "{bad}");
    }
}
