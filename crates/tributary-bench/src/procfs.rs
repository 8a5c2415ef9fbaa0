//! What `/proc` says of processes.

use crate::{BenchError, failed};
use core::fmt::Display;
use rustix::param::clock_ticks_per_second;
use tributary_lab::process;

fn read(process: impl Display, file: &str) -> Result<String, BenchError> {
    let path = format!("/proc/{process}/{file}");
    std::fs::read_to_string(&path).map_err(|error| failed(&path, error))
}

/// A field of a process's status such as `VmRSS:`, kB. The process is a number, or `self`.
pub(crate) fn status_kb(id: impl Display, field: &str) -> Result<u64, BenchError> {
    process::status_kb(id, field).map_err(|error| failed("/proc", error))
}

/// A process with its parent and its processor time.
#[derive(Debug, PartialEq)]
pub(crate) struct Stat {
    pub id: u32,
    pub parent: u32,
    /// Seconds in user space and in the kernel.
    pub user_s: f64,
    pub kernel_s: f64,
    /// Seconds of children that have ended and were waited for.
    pub children_s: f64,
}

impl Stat {
    pub(crate) fn of(process: impl Display) -> Result<Self, BenchError> {
        let line = read(process, "stat")?;
        Self::parse(&line).ok_or_else(|| failed("/proc", format!("unexpected stat: {line}")))
    }

    fn parse(line: &str) -> Option<Self> {
        let (id, rest) = line.split_once(' ')?;
        // The name may have spaces and parentheses.
        let fields: Vec<&str> = rest.rsplit_once(')')?.1.split_whitespace().collect();
        let seconds = |field: &str| Some(field.parse::<f64>().ok()? / clock_ticks_per_second() as f64);
        let [user, kernel, child_user, child_kernel] = fields.get(11..15)? else { return None };
        Some(Self {
            id: id.parse().ok()?,
            parent: fields.get(1)?.parse().ok()?,
            user_s: seconds(user)?,
            kernel_s: seconds(kernel)?,
            children_s: seconds(child_user)? + seconds(child_kernel)?,
        })
    }
}

/// Processor seconds so far of a process that runs, to the nanosecond; threads that have ended do not count.
pub(crate) fn cpu_s(id: u32) -> Result<f64, BenchError> {
    let place = format!("/proc/{id}/task");
    let tasks = std::fs::read_dir(&place).map_err(|error| failed(&place, error))?;
    let times = tasks.flatten().filter_map(|task| {
        let text = std::fs::read_to_string(task.path().join("schedstat")).ok()?;
        text.split_whitespace().next()?.parse::<f64>().ok()
    });
    Ok(times.sum::<f64>() / 1e9)
}

/// Processor seconds so far of this process and of all its descendants, those included that have ended and were waited for.
pub(crate) fn family_cpu_s() -> Result<f64, BenchError> {
    let entries = std::fs::read_dir("/proc").map_err(|error| failed("/proc", error))?;
    // A process that has just ended has no file.
    let stats: Vec<Stat> =
        entries.flatten().filter_map(|entry| Stat::of(entry.file_name().to_str()?).ok()).collect();
    let mut ours = vec![std::process::id()];
    let mut at = 0;
    while let Some(parent) = ours.get(at).copied() {
        ours.extend(stats.iter().filter(|stat| stat.parent == parent).map(|stat| stat.id));
        at += 1;
    }
    let ours = stats.iter().filter(|stat| ours.contains(&stat.id));
    Ok(ours.map(|stat| stat.user_s + stat.kernel_s + stat.children_s).sum())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_processs_time_parent_and_memory_are_read() {
        let line = "7 (a) b) S 3 7 7 0 -1 4194560 100 0 0 0 11 22 33 44 20 0 1 0 5 6 7";
        let stat = Stat::parse(line).unwrap();
        let tick = 1.0 / clock_ticks_per_second() as f64;
        assert_eq!((stat.id, stat.parent, stat.user_s, stat.kernel_s), (7, 3, 11.0 * tick, 22.0 * tick));
        assert!((stat.children_s - 77.0 * tick).abs() < 1e-9);
        assert_eq!(Stat::parse("7 (a"), None);
        let before = family_cpu_s().unwrap();
        // Reading it takes processor time.
        assert!((0..1_000_000).any(|_| family_cpu_s().unwrap() >= before + 0.05));
        assert!(status_kb("self", "VmRSS:").unwrap() > 0 && status_kb("self", "VmNone:").is_err());
    }
}
