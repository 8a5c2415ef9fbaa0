//! Where, when and by which commit a result was made, for the foot of every report.

use std::sync::OnceLock;
use std::time::{SystemTime, UNIX_EPOCH};

use crate::schema::RunInfo;

static COMMIT: OnceLock<String> = OnceLock::new();

/// Sets the commit that the program was built from, for reports. Only the first call has an effect.
pub fn built_from(commit: &str) {
    let _ = COMMIT.set(commit.to_owned());
}

/// Version and commit of the program, for `--version`: `0.1.0 (commit 0123456789ab)`.
#[must_use]
pub fn version() -> &'static str {
    static VERSION: OnceLock<String> = OnceLock::new();
    let number = env!("CARGO_PKG_VERSION");
    VERSION.get_or_init(|| match built_commit() {
        Some(commit) => format!("{number} (commit {commit})"),
        None => number.to_owned(),
    })
}

/// A run's description with machine, kernel, version and time filled in.
#[must_use]
pub fn run_info(command: &str) -> RunInfo {
    RunInfo {
        command: command.to_owned(),
        version: env!("CARGO_PKG_VERSION").to_owned(),
        commit: commit(),
        started: Some(timestamp(SystemTime::now())),
        kernel: read("/proc/sys/kernel/osrelease").trim().to_owned(),
        machine: machine(),
        ..RunInfo::default()
    }
}

/// The commit that the program or this library was built from. If it is unknown, the commit that is checked out in
/// the current directory.
#[must_use]
pub fn commit() -> Option<String> {
    built_commit().or_else(|| {
        let output =
            std::process::Command::new("git").args(["rev-parse", "--short=12", "HEAD"]).output().ok()?;
        let text = String::from_utf8(output.stdout).ok()?;
        output.status.success().then(|| text.trim().to_owned())
    })
}

fn built_commit() -> Option<String> {
    COMMIT.get().cloned().or_else(|| option_env!("TRIBUTARY_COMMIT").map(str::to_owned))
}

fn machine() -> String {
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    let field = |text: &str, name: &str| {
        let line = text.lines().find(|line| line.starts_with(name))?;
        Some(line.split_once(':')?.1.trim().to_owned())
    };
    let processor = field(&read("/proc/cpuinfo"), "model name").unwrap_or_else(|| "processor".to_owned());
    let memory = field(&read("/proc/meminfo"), "MemTotal").unwrap_or_default();
    let kilobytes: f64 = memory.split(' ').next().and_then(|n| n.parse().ok()).unwrap_or(0.0);
    format!("{processor}, {cores} cores, {:.0} GiB", kilobytes / 1_048_576.0)
}

fn read(path: &str) -> String {
    std::fs::read_to_string(path).unwrap_or_default()
}

/// A time in RFC 3339 format, UTC, in whole seconds; from the days-to-civil-date rule of the proleptic Gregorian calendar.
#[must_use]
pub fn timestamp(time: SystemTime) -> String {
    let seconds = time.duration_since(UNIX_EPOCH).map_or(0, |d| d.as_secs());
    let (days, rest) = (seconds / 86_400, seconds % 86_400);
    let shifted = days + 719_468; // days since 1 March of year 0
    let (era, day_of_era) = (shifted / 146_097, shifted % 146_097);
    let year_of_era = (day_of_era - day_of_era / 1460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let month_index = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * month_index + 2) / 5 + 1;
    let month = if month_index < 10 { month_index + 3 } else { month_index - 9 };
    let year = era * 400 + year_of_era + u64::from(month <= 2);
    let (hour, minute, second) = (rest / 3600, rest % 3600 / 60, rest % 60);
    format!("{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}Z")
}

#[cfg(test)]
mod tests {
    use super::*;
    use core::time::Duration;

    #[test]
    fn timestamps_of_known_moments() {
        let at = |seconds| timestamp(UNIX_EPOCH + Duration::from_secs(seconds));
        assert_eq!(at(0), "1970-01-01T00:00:00Z");
        assert_eq!(at(951_827_696), "2000-02-29T12:34:56Z");
        assert_eq!(at(4_102_444_799), "2099-12-31T23:59:59Z");
    }
}
