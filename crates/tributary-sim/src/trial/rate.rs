//! The rule about the best path: in any five seconds, a writer that never pauses gets no less through than over the best path alone.
//!
//! A path's capacity bounds what it can carry alone, so a run near the capacity needs no comparison. Otherwise the same trial is run
//! with that path only. Compared are windows in which the path lives.

use core::time::Duration;

use tributary_proto::UNPROVEN_PART;
use tributary_types::Instant;

use super::fault::{Fault, Rule};
use super::script::{Act, End, Operation, Trial};
use super::watch::recovery;

/// Bytes read at one end so far, every [`TICK`].
pub type Series = Vec<u64>;

/// Interval of checks.
pub const TICK: Duration = Duration::from_millis(50);
/// Length of a window, and the distance of two.
const WINDOW: Duration = Duration::from_secs(5);
const STEP: Duration = Duration::from_millis(500);
/// A writer has filled the path after this time and ten round trips.
const WARM: Duration = Duration::from_secs(1);
/// This part of the capacity is as good as the path alone: heads take 4 % of a packet, and TCP's window moves.
const CAPACITY: f64 = 0.85;
/// Least part of what the path carries alone. A segment on a path that fell silent holds up those behind it for up to a second
/// until another path has carried it (the constant part of the liveness rule's T), and they count in the next window: a fifth.
/// A tenth more, because two runs of TCP have their losses at different times.
const MARGIN: f64 = 0.7;

/// Bytes between two times.
fn between(series: &Series, from: Instant, to: Instant) -> u64 {
    let place = |at: Instant| (at.as_nanos() / TICK.as_nanos() as u64) as usize;
    let until = |at| series.get(place(at)).or(series.last()).copied().unwrap_or(0);
    until(to).saturating_sub(until(from))
}

/// Judges a run. `alone` runs a trial for comparison and gives what either end has read.
///
/// # Errors
/// The first window in which less got through than over one path.
pub fn judge(
    trial: &Trial,
    series: &[Series; 2],
    mut alone: impl FnMut(&Trial) -> Option<[Series; 2]>,
) -> Result<(), Fault> {
    if !trial.is_of_best_path() || buffer(trial) < needed(trial) {
        return Ok(());
    }
    let mut known: Vec<Option<[Series; 2]>> = vec![None; trial.paths.len()];
    for operation in &trial.operations {
        let Act::Bulk { end, .. } = operation.act else { continue };
        let reader = end.peer();
        for (path, from, to) in windows(trial, operation, reader) {
            let got = between(&series[reader as usize], from, to);
            if got as f64 >= CAPACITY * capacity(trial, path, reader) as f64 {
                continue;
            }
            if known[path].is_none() {
                known[path] = alone(&only(trial, path));
            }
            let Some(reference) = &known[path] else { continue };
            let single = between(&reference[reader as usize], from, to).min(capacity(trial, path, reader));
            if (got as f64) < MARGIN * single as f64 {
                let text = format!("{got} bytes from {from} to {to}; path {path} alone carries {single}");
                return Err(Fault { rule: Rule::BestPath, at: to, text });
            }
        }
    }
    Ok(())
}

/// Bytes of one stream that may be under way: until a lot of it was read it has a part of the session's credit.
fn buffer(trial: &Trial) -> u64 {
    trial.send_buffer.min(trial.receive_credit / UNPROVEN_PART)
}

/// What all paths together carry in the longest round trip with full queues (RFC 6182 §5.3). With less under way, what a slower path
/// holds is taken from the faster one.
fn needed(trial: &Trial) -> u64 {
    let both = |path: usize| [End::Client, End::Server].map(|reader| kbps(trial, path, reader));
    let longest = (0..trial.paths.len()).map(|path| {
        trial.paths[path].rtt_ms
            + both(path).map(|kbps| trial.paths[path].queue * 8 / kbps).iter().sum::<u64>()
    });
    let together = |end: usize| (0..trial.paths.len()).map(|path| both(path)[end]).sum::<u64>();
    longest.max().unwrap_or(0) * together(0).max(together(1)) / 8
}

fn kbps(trial: &Trial, path: usize, reader: End) -> u64 {
    let spec = &trial.paths[path];
    if reader == End::Client { spec.down_kbps } else { spec.up_kbps }
}

/// Bytes of a window.
fn capacity(trial: &Trial, path: usize, reader: End) -> u64 {
    kbps(trial, path, reader) * WINDOW.as_millis() as u64 / 8
}

/// The windows of a writer that never pauses, each with the best path that lives and costs nothing.
fn windows(trial: &Trial, operation: &Operation, reader: End) -> Vec<(usize, Instant, Instant)> {
    let rtt = |path: usize| Duration::from_millis(trial.paths[path].rtt_ms);
    let costs = |path: usize| {
        let metered =
            |o: &Operation| matches!(o.act, Act::Metered { path: other, .. } if usize::from(other) == path);
        trial.operations.iter().any(metered)
    };
    let free: Vec<usize> =
        (0..trial.paths.len()).filter(|path| trial.paths[*path].loss_ppm == 0 && !costs(*path)).collect();
    let mut windows = Vec::new();
    let mut from = operation.begins() + WARM;
    while from + WINDOW <= operation.ends() {
        let to = from + WINDOW;
        let lives = |path: usize| {
            let recovery = recovery(rtt(path));
            let warm = operation.begins() + WARM + rtt(path) * 10 <= from;
            warm && !trial.troubles(path).iter().any(|(begin, end)| *begin < to && from < *end + recovery)
        };
        let best =
            free.iter().copied().filter(|path| lives(*path)).max_by_key(|path| kbps(trial, *path, reader));
        windows.extend(best.map(|path| (path, from, to)));
        from += STEP;
    }
    windows
}

/// The trial with one path.
fn only(trial: &Trial, path: usize) -> Trial {
    let mut alone = trial.clone();
    alone.paths = vec![trial.paths[path].clone()];
    alone.operations.retain_mut(|operation| match operation.act.path_mut() {
        Some(of) if usize::from(*of) == path => {
            *of = 0;
            true
        }
        other => other.is_none(),
    });
    alone
}
