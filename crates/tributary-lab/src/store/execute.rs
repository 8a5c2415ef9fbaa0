//! Runs the missing cells in parallel, one thread per cell and as many as there are cores.

use super::{Finished, Shard, Store, StoreError};
use crate::demo::Progress;
use std::collections::BTreeSet;
use std::num::NonZeroUsize;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, mpsc};
use std::time::{Duration, Instant};

/// Counts of the cells by outcome.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tally {
    /// Cells of the shard.
    pub cells: usize,
    /// Cells finished in an earlier run.
    pub before: usize,
    /// Cells finished in this run.
    pub now: usize,
    /// Cells without a result.
    pub failed: usize,
    /// Cells not started because the time was up.
    pub left_out: usize,
    /// Cells that the store has only as others made them: another version of the models, or other contents of a file or a class. They
    /// are not used.
    pub outdated: usize,
}

/// Options of a run.
#[derive(Clone, Debug)]
pub struct Effort {
    /// Parallel runs; `None`: one per core.
    pub jobs: Option<NonZeroUsize>,
    /// No cell is started after this time.
    pub limit: Option<Duration>,
    /// The part of the plan to run.
    pub shard: Shard,
    /// No cell is started once this is set.
    pub stop: Arc<AtomicBool>,
}

impl Default for Effort {
    fn default() -> Self {
        Self { jobs: None, limit: None, shard: Shard::WHOLE, stop: Arc::default() }
    }
}

/// Runs the `cells` of the shard that have no result in the store, in order, those with the same key once; failed ones are retried. `key`
/// gives the key of a cell.
///
/// # Errors
/// [`StoreError`] when a finished cell cannot be stored; a cell that fails becomes a row with the reason.
pub fn execute<C: Sync, R: Finished + Send>(
    (cells, key): (&[C], fn(&C) -> &str),
    run: impl Fn(&C) -> R + Sync,
    store: &mut Store<R>,
    effort: Effort,
    progress: Progress<'_>,
) -> Result<Tally, StoreError> {
    let own: Vec<&C> = cells
        .iter()
        .enumerate()
        .filter(|(place, _)| effort.shard.has(*place))
        .map(|(_, cell)| cell)
        .collect();
    let mut known = BTreeSet::new();
    let missing = own.iter().copied().filter(|cell| !store.has(key(cell)) && known.insert(key(cell)));
    let missing: Vec<&C> = missing.collect();
    let mut tally = Tally { cells: own.len(), before: own.len() - missing.len(), ..Tally::default() };
    let began = Instant::now();
    let (stop, limit) = (&effort.stop, effort.limit);
    let goes_on = || !stop.load(Ordering::Relaxed) && limit.is_none_or(|limit| began.elapsed() < limit);
    let mut kept = Ok(());
    parallel(
        (&missing, effort.jobs),
        goes_on,
        |_, cell| run(cell),
        |_, row| {
            tally.now += 1;
            let done = (tally.before + tally.now) as f64 / tally.cells.max(1) as f64;
            let text = row.title();
            kept = store.push(row);
            if kept.is_ok() {
                progress(done, &text);
            }
            kept.is_ok()
        },
    );
    kept?;
    tally.left_out = tally.cells - tally.before - tally.now;
    let failed = |cell: &&&C| store.row(key(cell)).is_some_and(|row| row.failure().is_some());
    tally.failed = own.iter().filter(failed).count();
    Ok(tally)
}

/// Runs every item, in order, on as many threads as `jobs`, or as there are cores. `take` gets each result on the calling thread, with the
/// item's index, in the order in which they come; it returns whether to go on. No item is started once it did not, or `goes_on` is false.
pub fn parallel<T: Sync, R: Send>(
    (items, jobs): (&[T], Option<NonZeroUsize>),
    goes_on: impl Fn() -> bool + Sync,
    run: impl Fn(usize, &T) -> R + Sync,
    mut take: impl FnMut(usize, R) -> bool,
) {
    let (next, over) = (AtomicUsize::new(0), AtomicBool::new(false));
    let jobs = jobs.or_else(|| std::thread::available_parallelism().ok());
    std::thread::scope(|scope| {
        let (results, taken) = mpsc::channel();
        for _ in 0..jobs.map_or(1, NonZeroUsize::get).min(items.len()) {
            let (results, next, over, goes_on, run) = (results.clone(), &next, &over, &goes_on, &run);
            scope.spawn(move || {
                while !over.load(Ordering::Relaxed) && goes_on() {
                    let at = next.fetch_add(1, Ordering::Relaxed);
                    let Some(item) = items.get(at) else { return };
                    if results.send((at, run(at, item))).is_err() {
                        return;
                    }
                }
            });
        }
        drop(results);
        for (at, result) in taken {
            if !take(at, result) {
                over.store(true, Ordering::Relaxed);
                return;
            }
        }
    });
}

/// Runs one cell and catches a panic, so that the other cells continue; the panic's text is returned.
///
/// # Errors
/// The text of the panic.
pub fn guarded<T>(run: impl FnOnce() -> T) -> Result<T, String> {
    catch_unwind(AssertUnwindSafe(run)).map_err(|panic| {
        let text = panic.downcast_ref::<String>().map(String::as_str);
        let text = text.or_else(|| panic.downcast_ref::<&str>().copied());
        format!("the program failed: {}", text.unwrap_or("unknown"))
    })
}
