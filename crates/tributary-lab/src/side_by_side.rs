//! Independent pieces of work on all cores. Not here: sweeps, which keep results and may be stopped
//! (`sweep::execute`).

use core::sync::atomic::{AtomicUsize, Ordering};
use std::num::NonZeroUsize;
use std::sync::mpsc;

use crate::demo::Progress;

/// Runs `work` on all `tasks`, `jobs` at once (`None`: as many as there are cores). Results come in the order
/// in which they are done; `name` is what the progress is said of.
pub(crate) fn side_by_side<T: Sync, R: Send>(
    jobs: Option<NonZeroUsize>,
    tasks: &[T],
    work: impl Fn(&T) -> R + Sync,
    (name, progress): (&str, Progress<'_>),
) -> Vec<R> {
    let cores = jobs.or_else(|| std::thread::available_parallelism().ok());
    let (next, (sender, receiver)) = (AtomicUsize::new(0), mpsc::channel());
    std::thread::scope(|scope| {
        for _ in 0..cores.map_or(1, NonZeroUsize::get) {
            let (next, sender, work) = (&next, sender.clone(), &work);
            scope.spawn(move || {
                while let Some(task) = tasks.get(next.fetch_add(1, Ordering::Relaxed)) {
                    if sender.send(work(task)).is_err() {
                        return;
                    }
                }
            });
        }
        drop(sender);
        let mut all = Vec::with_capacity(tasks.len());
        for done in receiver {
            all.push(done);
            progress(all.len() as f64 / tasks.len() as f64, name);
        }
        all
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_task_is_done_once_and_told_of() {
        let tasks: Vec<u32> = (0..100).collect();
        let mut shares = Vec::new();
        let mut told = |share: f64, _: &str| shares.push(share);
        let mut done = side_by_side(NonZeroUsize::new(3), &tasks, |task| task * 2, ("tasks", &mut told));
        done.sort_unstable();
        assert!(done.into_iter().eq((0..100).map(|task| task * 2)));
        assert!(shares.len() == 100 && shares.last() == Some(&1.0));
        let none = side_by_side(None, &[] as &[u32], |task| *task, ("tasks", &mut |_, _| ()));
        assert!(none.is_empty());
    }
}
