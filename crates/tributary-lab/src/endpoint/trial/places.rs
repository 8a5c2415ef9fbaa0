//! What this process occupies: memory, descriptors and tasks.

use crate::process;
use serde::{Deserialize, Serialize};

/// What a process occupies.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Places {
    /// Resident memory, at most so far, bytes.
    pub memory_most: u64,
    /// Open descriptors.
    pub descriptors: usize,
    /// Tasks of the runtime.
    pub tasks: usize,
}

impl Places {
    /// Of this process. What procfs does not tell is zero.
    pub(super) fn now() -> Self {
        let kilobytes = process::status_kb("self", "VmHWM:").unwrap_or(0);
        // The reading of the directory has a descriptor of its own.
        let descriptors = std::fs::read_dir("/proc/self/fd").map_or(0, |all| all.count().saturating_sub(1));
        let tasks = tokio::runtime::Handle::current().metrics().num_alive_tasks();
        Self { memory_most: kilobytes * 1024, descriptors, tasks }
    }
}
