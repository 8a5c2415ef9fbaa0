//! The telemetry of a session as a subscriber sees it, and as lines of JSON.

use std::time::Duration;

use serde_json::{Value, json};
use tributary_proto::Event;
use tributary_types::Instant;

/// An event and when it happened.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SessionEvent {
    /// Time since the session began.
    pub at: Duration,
    /// What happened.
    pub event: Event,
}

impl SessionEvent {
    pub(crate) fn new(at: Instant, event: Event) -> Self {
        Self { at: at.saturating_since(Instant::ZERO), event }
    }

    /// One JSON object: `{"t": seconds, "event": name, …}`.
    #[must_use]
    pub fn to_json(&self) -> Value {
        let mut object = match &self.event {
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
            Event::PathSilent { path, silence } => {
                json!({"event": "path_silent", "path": path.0, "silence": silence.as_secs_f64()})
            }
            Event::PathBack { path } => json!({"event": "path_back", "path": path.0}),
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
        };
        object["t"] = json!(self.at.as_secs_f64());
        object
    }

    /// Whether the event is one a log should have: telemetry and the comings and goings of connections.
    pub(crate) fn is_worth_telling(event: &Event) -> bool {
        event.is_telemetry()
            || matches!(
                event,
                Event::OpenSubflow { .. }
                    | Event::AbandonConnect { .. }
                    | Event::CloseSubflow { .. }
                    | Event::Closed { .. }
                    | Event::StreamOpened(_)
                    | Event::MessageExpired { .. }
            )
    }
}
