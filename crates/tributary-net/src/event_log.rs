//! A file with every event of a program's sessions: a line of JSON each, or qlog. Formats: `docs/guide/status.md`, the module `qlog`.

mod qlog;

use std::path::PathBuf;
use std::sync::{Arc, Mutex as StdMutex, PoisonError};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use serde_json::{Value, json};
use thiserror::Error;
use tokio::fs::File;
use tokio::io::{AsyncWriteExt, BufWriter};
use tokio::sync::Mutex;
use tokio::sync::broadcast::Receiver;
use tokio::sync::broadcast::error::RecvError;
use tokio::task::JoinSet;

use crate::events::SessionEvent;
use crate::session::Session;

/// Time to write the last events when the proxy ends.
const LAST: Duration = Duration::from_millis(200);

/// File to which events are written, and which of them.
#[derive(Clone, Debug)]
pub struct EventLogConfig {
    /// The file; an existing one is replaced.
    pub path: PathBuf,
    /// Whether to log decisions about segments, too: thousands of lines per second at high rates.
    pub decisions: bool,
    /// How they are written.
    pub form: EventLogForm,
}

/// Form of an event log.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum EventLogForm {
    /// A line of JSON for each event.
    #[default]
    Lines,
    /// qlog: a JSON text sequence, with measurements of every subflow.
    Qlog,
}

/// The event log cannot be written.
#[derive(Debug, Error)]
#[error("event log {}: {error}", path.display())]
pub struct EventLogError {
    /// The file.
    pub path: PathBuf,
    /// The system's reason.
    pub error: std::io::Error,
}

/// A file to which the events of sessions are written. Clones write to the same file.
#[derive(Clone, Debug)]
pub struct EventLog {
    path: Arc<PathBuf>,
    /// `None` once it could not be written.
    file: Arc<Mutex<Option<BufWriter<File>>>>,
    /// One for each session.
    writers: Arc<StdMutex<JoinSet<()>>>,
    began: Instant,
    form: EventLogForm,
    decisions: bool,
}

impl EventLog {
    /// Creates the file, in place of an existing one.
    ///
    /// Cancellation: when the future is dropped, the file may have been created.
    ///
    /// # Errors
    /// [`EventLogError`].
    pub async fn create(config: &EventLogConfig) -> Result<Self, EventLogError> {
        let file = File::create(&config.path).await;
        let file = file.map_err(|error| EventLogError { path: config.path.clone(), error })?;
        let file = Arc::new(Mutex::new(Some(BufWriter::new(file))));
        let (path, began, form) = (Arc::new(config.path.clone()), Instant::now(), config.form);
        let (writers, decisions) = (Arc::default(), config.decisions);
        let log = Self { path, file, writers, began, form, decisions };
        if form == EventLogForm::Qlog {
            log.put(qlog::head(&wall(SystemTime::now())), true).await;
        }
        Ok(log)
    }

    /// Whether sessions have to tell their decisions about segments.
    pub(crate) fn wants_decisions(&self) -> bool {
        self.decisions
    }

    /// Begins to write a session's events.
    pub(crate) fn follow(&self, session: &Session) {
        let mut writers = self.writers.lock().unwrap_or_else(PoisonError::into_inner);
        while writers.try_join_next().is_some() {}
        writers.spawn(self.clone().write(session.events()));
        if self.form == EventLogForm::Qlog {
            writers.spawn(qlog::measure(self.clone(), Arc::downgrade(&session.handle.0)));
        }
    }

    /// Waits until the last events of the sessions that have ended are written, 200 ms at most.
    ///
    /// Cancellation: the last events may be missing.
    pub async fn finish(&self) {
        let writers = std::mem::take(&mut *self.writers.lock().unwrap_or_else(PoisonError::into_inner));
        let _ = tokio::time::timeout(LAST, writers.join_all()).await;
    }

    async fn write(self, mut events: Receiver<SessionEvent>) {
        let mut ended = false;
        while !ended {
            let mut line = match events.recv().await {
                Ok(event) => {
                    ended = event.is_last();
                    event.to_json()
                }
                Err(RecvError::Lagged(lost)) => json!({"event": "events_lost", "count": lost}),
                Err(RecvError::Closed) => return,
            };
            let text = match self.form {
                EventLogForm::Lines => {
                    self.stamp(&mut line);
                    format!("{line}\n")
                }
                EventLogForm::Qlog => qlog::event(self.began.elapsed(), line),
            };
            // Flushed whenever no event waits, so that a reader sees an up-to-date file.
            if !self.put(text, ended || events.is_empty()).await {
                return;
            }
        }
    }

    /// Writes to the file. Returns whether that went well; if not, nothing more is written for any session.
    async fn put(&self, text: String, flush: bool) -> bool {
        let mut open = self.file.lock().await;
        let Some(file) = open.as_mut() else { return false };
        let written = file.write_all(text.as_bytes()).await;
        let flushed = if flush { file.flush().await } else { Ok(()) };
        let outcome = written.and(flushed);
        if let Err(error) = &outcome {
            tracing::warn!("event log {} stopped: {error}", self.path.display());
            *open = None;
        }
        outcome.is_ok()
    }

    fn stamp(&self, line: &mut Value) {
        line["t"] = json!(self.began.elapsed().as_secs_f64());
        line["wall"] = json!(wall(SystemTime::now()));
    }
}

/// A time in RFC 3339 format: UTC, with milliseconds.
fn wall(now: SystemTime) -> String {
    let since = now.duration_since(UNIX_EPOCH).unwrap_or_default();
    let (days, seconds) = (since.as_secs() / 86_400, since.as_secs() % 86_400);
    // Days since 0000-03-01, in eras of 400 years: Howard Hinnant's `civil_from_days`.
    let days = days + 719_468;
    let (era, day_of_era) = (days / 146_097, days % 146_097);
    let year_of_era = (day_of_era - day_of_era / 1460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let shifted = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * shifted + 2) / 5 + 1;
    let month = if shifted < 10 { shifted + 3 } else { shifted - 9 };
    let year = year_of_era + era * 400 + u64::from(month <= 2);
    let (hour, minute, second) = (seconds / 3600, seconds / 60 % 60, seconds % 60);
    format!("{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}.{:03}Z", since.subsec_millis())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    #[test]
    fn the_wall_clock_is_rfc_3339() {
        for (seconds, text) in [
            (0, "1970-01-01T00:00:00.000Z"),
            (951_782_400, "2000-02-29T00:00:00.000Z"),
            (1_709_251_199, "2024-02-29T23:59:59.000Z"),
            (4_107_542_400, "2100-03-01T00:00:00.000Z"),
        ] {
            assert_eq!(wall(UNIX_EPOCH + Duration::from_secs(seconds)), text);
        }
    }
}
