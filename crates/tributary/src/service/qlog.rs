//! `--qlog` of commands over any transport. The proxy has its own, which also writes lines.

use anyhow::{Result, bail};
use clap::Args;
use std::path::PathBuf;
use tributary_net::TransportName;
use tributary_net::event_log::{EventLog, EventLogConfig, EventLogForm};

/// The file.
#[derive(Clone, Debug, Default, Args)]
pub(crate) struct QlogArguments {
    /// Write the sessions' events, decisions about segments and measurements of every subflow to this file as qlog; an existing file
    /// is replaced
    ///
    /// Thousands of records a second. Each has the session and the path as its group.
    #[arg(long, value_name = "FILE")]
    qlog: Option<PathBuf>,
}

impl QlogArguments {
    /// Checks that one of the transports has something to write.
    ///
    /// # Errors
    /// None of them is a session.
    pub(crate) fn check<'a>(&self, names: impl IntoIterator<Item = &'a TransportName>) -> Result<()> {
        let is_session = |name: &TransportName| matches!(name, TransportName::Session { .. });
        if self.qlog.is_some() && !names.into_iter().any(is_session) {
            bail!(
                "--qlog writes the events of sessions, and there are none over this transport: leave it out, or use a session"
            );
        }
        Ok(())
    }

    /// Creates the file, does the work with it, and writes the last events.
    ///
    /// # Errors
    /// The file cannot be created, and those of the work.
    pub(crate) async fn during<T>(&self, work: impl AsyncFnOnce(Option<EventLog>) -> Result<T>) -> Result<T> {
        let Some(path) = self.qlog.clone() else { return work(None).await };
        let log =
            EventLog::create(&EventLogConfig { path, decisions: true, form: EventLogForm::Qlog }).await?;
        let outcome = work(Some(log.clone())).await;
        log.finish().await;
        outcome
    }
}
