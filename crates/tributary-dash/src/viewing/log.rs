//! What happened in viewings: the newest events for the status, all of them in a file.

use std::collections::VecDeque;
use std::fs::File;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};
use std::time::{Instant, SystemTime};

use serde::Serialize;
use tributary_report::machine;

use super::{Rung, StartUp};
use crate::client::{Decision, LogEvent};

/// Events that the status has.
const KEPT: usize = 50;

/// What happened.
#[derive(Clone, Debug, Serialize)]
#[serde(tag = "event", rename_all = "snake_case")]
pub enum ViewingEvent {
    /// A viewer wants to see the title.
    Begun,
    /// The viewer has left.
    Left,
    /// Requests go over this transport.
    Transport {
        /// Its name.
        transport: String,
        /// After a move: whether its server accepts requests before the handshake has finished.
        #[serde(skip_serializing_if = "Option::is_none")]
        zero_rtt: Option<bool>,
    },
    /// A decision of the engine, with its inputs.
    Decision(Decision),
    /// Something failed; how it continues.
    Notice {
        /// Text for the user.
        notice: String,
    },
    /// The viewer sees something.
    FirstPicture(StartUp),
    /// Another quality is shown.
    Quality(Rung),
    /// The playhead waits for media.
    Stalled {
        /// Where, s.
        position_s: f64,
    },
    /// It goes on.
    Resumed {
        /// Time of all stalls together, s.
        stalled_s: f64,
    },
}

/// A line of the log.
#[derive(Clone, Debug, Serialize)]
pub struct Logged {
    /// Seconds since the log began.
    pub t: f64,
    /// Time of day, RFC 3339, UTC.
    pub wall: String,
    /// Number of the viewing.
    pub viewing: u32,
    /// What happened.
    #[serde(flatten)]
    pub what: ViewingEvent,
}

/// The events of a program's viewings.
#[derive(Debug)]
pub struct EventLog {
    began: Instant,
    kept: Mutex<Kept>,
}

#[derive(Debug, Default)]
struct Kept {
    newest: VecDeque<Logged>,
    /// `None` also after it could not be written.
    file: Option<(PathBuf, File)>,
}

impl EventLog {
    /// A log that also writes one JSON object a line to a file, which it replaces.
    ///
    /// # Errors
    /// The file cannot be created.
    pub fn new(path: Option<&Path>) -> io::Result<Self> {
        let create = |path: &Path| File::create(path).map(|file| (path.to_owned(), file));
        let file = path.map(create).transpose()?;
        Ok(Self { began: Instant::now(), kept: Mutex::new(Kept { file, ..Kept::default() }) })
    }

    /// Adds an event.
    pub fn say(&self, viewing: u32, what: ViewingEvent) {
        let (t, wall) = (self.began.elapsed().as_secs_f64(), machine::timestamp(SystemTime::now()));
        let logged = Logged { t, wall, viewing, what };
        let mut kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((path, file)) = &mut kept.file {
            let mut line = serde_json::to_string(&logged).expect("events have text as keys");
            line.push('\n');
            if let Err(error) = file.write_all(line.as_bytes()) {
                tracing::warn!("event log {} stopped: {error}", path.display());
                kept.file = None;
            }
        }
        kept.newest.push_back(logged);
        if kept.newest.len() > KEPT {
            kept.newest.pop_front();
        }
    }

    /// Adds an event of the transports; the headless player's own events are not taken.
    pub fn take(&self, viewing: u32, event: LogEvent) {
        let what = match event {
            LogEvent::Player(_) => return,
            LogEvent::Decision(decision) => ViewingEvent::Decision(decision),
            LogEvent::Moved { moved_to, zero_rtt } => {
                ViewingEvent::Transport { transport: moved_to.to_owned(), zero_rtt: Some(zero_rtt) }
            }
            LogEvent::Notice { notice } => ViewingEvent::Notice { notice },
        };
        self.say(viewing, what);
    }

    pub(super) fn notice(&self, viewing: u32, notice: String) {
        self.take(viewing, LogEvent::notice(notice));
    }

    /// The newest events, the oldest of them first.
    #[must_use]
    pub fn newest(&self) -> Vec<Logged> {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner).newest.iter().cloned().collect()
    }
}
