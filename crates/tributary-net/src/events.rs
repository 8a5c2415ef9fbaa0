//! The telemetry of a session for subscribers, and as lines of JSON.

use std::time::Duration;

use serde_json::{Value, json};
use tributary_proto::Event;
use tributary_types::PathId;

use crate::paths::PathStatus;

/// An event, with its time and its session.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SessionEvent {
    /// Time since the session began.
    pub at: Duration,
    /// The session's name in logs, the same at both ends; `None` before the server has answered.
    pub session: Option<String>,
    /// Name of the path that it concerns, if any.
    pub radio: Option<String>,
    /// What happened.
    pub kind: SessionEventKind,
}

/// What happened.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SessionEventKind {
    /// Something in the session.
    Session(Event),
    /// A path came up, fell silent or went down, or the reason why it is down changed.
    Path(PathStatus),
}

impl SessionEventKind {
    /// The path that the event concerns, if any.
    pub(crate) fn path(&self) -> Option<PathId> {
        match self {
            Self::Session(
                Event::OpenSubflow { path, .. }
                | Event::SubflowUp { path, .. }
                | Event::SubflowDown { path, .. }
                | Event::PathRemoved { path },
            ) => Some(*path),
            Self::Session(_) => None,
            Self::Path(status) => Some(status.path),
        }
    }
}

impl SessionEvent {
    /// One JSON object, `{"event": name, …}`, as `docs/guide/status.md` describes it.
    #[must_use]
    pub fn to_json(&self) -> Value {
        let mut object = match &self.kind {
            SessionEventKind::Session(event) => json_of(event),
            SessionEventKind::Path(status) => json!({
                "event": "path", "path": status.path.0, "state": status.state, "cause": status.cause,
            }),
        };
        object["session"] = json!(self.session);
        object["session_t"] = json!(self.at.as_secs_f64());
        if let Some(radio) = &self.radio {
            object["radio"] = json!(radio);
        }
        object
    }

    /// Whether this is the last event: the end of the session.
    pub(crate) fn is_last(&self) -> bool {
        matches!(self.kind, SessionEventKind::Session(Event::Closed { .. }))
    }

    /// Whether the event is written to the log: telemetry, and connections that come up or end.
    pub(crate) fn is_worth_telling(event: &Event) -> bool {
        event.is_telemetry()
            || matches!(
                event,
                Event::OpenSubflow { .. }
                    | Event::AbandonConnect { .. }
                    | Event::SubflowUp { .. }
                    | Event::SubflowDown { .. }
                    | Event::CloseSubflow { .. }
                    | Event::PathRemoved { .. }
                    | Event::Closed { .. }
                    | Event::StreamOpened(_)
                    | Event::MessageExpired { .. }
            )
    }
}

fn json_of(event: &Event) -> Value {
    match event {
        Event::OpenSubflow { path, subflow } => {
            json!({"event": "connecting", "path": path.0, "subflow": subflow.0})
        }
        Event::AbandonConnect { subflow } => json!({"event": "connect_abandoned", "subflow": subflow.0}),
        Event::CloseSubflow { subflow, abort } => {
            json!({"event": "subflow_closing", "subflow": subflow.0, "abort": abort})
        }
        Event::SubflowUp { subflow, path } => {
            json!({"event": "subflow_up", "path": path.0, "subflow": subflow.0})
        }
        Event::SubflowDown { subflow, path, orphans } => {
            json!({"event": "subflow_down", "path": path.0, "subflow": subflow.0, "orphans": orphans})
        }
        Event::PathRemoved { path } => json!({"event": "path_removed", "path": path.0}),
        Event::WindowLoaded { first, end, bytes } => {
            json!({"event": "window_loaded", "first": first.0, "end": end.0, "bytes": bytes})
        }
        Event::Reinjected { seq, onto } => {
            json!({"event": "reinjected", "segment": seq.0, "onto": onto.0})
        }
        Event::Prioritised(decision) => json!({
            "event": "prioritised",
            "segment": decision.segment.0,
            "onto": decision.onto.0,
            "choice": format!("{:?}", decision.choice).to_lowercase(),
            "forecast": decision.forecast.as_secs_f64(),
        }),
        Event::MessageExpired { stream, messages, bytes } => {
            json!({"event": "message_expired", "stream": stream.0, "messages": messages, "bytes": bytes})
        }
        Event::Closed { code, reason, by_peer } => {
            json!({"event": "closed", "code": code, "reason": reason, "by_peer": by_peer})
        }
        Event::StreamOpened(id) => json!({"event": "stream_opened", "stream": id.0}),
        other => json!({"event": format!("{other:?}")}),
    }
}
