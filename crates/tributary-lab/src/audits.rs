//! The emulator's audits of many runs in one line, for the foot of a report.

use crate::result::{AuditNote, RunResult};
use tributary_report::schema;

/// Summary of the emulator's audits of all runs.
#[must_use]
pub fn of_runs<'a>(results: impl Iterator<Item = &'a RunResult> + Clone) -> schema::Audit {
    of_notes(results.map(|r| (format!("{} {} {}", r.scenario, r.transport, r.congestion), &r.audit)))
}

/// As [`of_runs`], for runs with their names.
#[must_use]
pub fn of_notes<'a>(notes: impl Iterator<Item = (String, &'a AuditNote)> + Clone) -> schema::Audit {
    let all = notes.clone().count();
    let worst = notes.clone().map(|(_, note)| note.delay_error_p99_us).fold(0.0, f64::max);
    let repeated = notes.clone().filter(|(_, note)| note.attempts > 1).count();
    let invalid: Vec<String> = notes
        .filter(|(_, note)| !note.valid)
        .map(|(name, note)| format!("{name}: {}", note.reasons.join(", ")))
        .collect();
    let verdict = match invalid.len() {
        0 => "all valid".to_owned(),
        n => format!("{n} still invalid after repetition, kept ({})", invalid.join("; ")),
    };
    let detail = format!("{all} runs, {verdict}; {repeated} repeated; delay error p99 at most {worst:.0} µs");
    schema::Audit { valid: invalid.is_empty(), detail }
}

/// Measures, and again while the emulator was not exact, up to this number of attempts. The last result is kept.
pub(crate) fn exact<T, E>(
    attempts: u32,
    mut measure: impl FnMut() -> Result<(T, AuditNote), E>,
) -> Result<(T, AuditNote), E> {
    let mut made = 1;
    loop {
        let (result, audit) = measure()?;
        if audit.valid || made >= attempts {
            return Ok((result, AuditNote { attempts: made, ..audit }));
        }
        made += 1;
        tracing::info!("repeated, the emulator was not exact: {}", audit.reasons.join("; "));
    }
}
