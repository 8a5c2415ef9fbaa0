//! Removal of paths: at the client by the code that manages the paths, at the server when the client reports it.
//!
//! A removed path may carry no more packets, not even the end of its connection, so the client tells the server on
//! the other subflows. Not here: why a path is removed, and paths that fail without being removed
//! ([`crate::path`]).

use tributary_types::{Instant, PathId, SubflowId};

use super::{Session, Side};
use crate::event::Event;
use crate::subflow::MOST_GONE;

impl Session {
    /// Removes a path: its subflow is closed, and its segments are sent on others. A client tells the server on
    /// the other subflows, because the path itself may carry no more packets. The server then sends the segments
    /// in flight again at once.
    pub fn remove_path(&mut self, now: Instant, path: PathId) {
        if !self.paths.contains(path) {
            return;
        }
        let (subflow, actions) = self.paths.remove(path);
        actions.into_iter().for_each(|action| self.act(action));
        if let Some(subflow) = subflow {
            self.events.push_back(Event::CloseSubflow { subflow, abort: false });
            self.drop_subflow(now, subflow);
            self.tell_gone(subflow);
        }
        self.metered.set(path, false);
        self.caps.forget(path);
        self.events.push_back(Event::PathRemoved { path });
    }

    /// Whether the session has this path, connected or not.
    #[must_use]
    pub fn has_path(&self, path: PathId) -> bool {
        self.paths.contains(path)
    }

    fn tell_gone(&mut self, gone: SubflowId) {
        if self.side != Side::Client {
            return;
        }
        if self.gone.len() >= MOST_GONE {
            self.gone.pop_front();
        }
        self.gone.push_back(gone);
        self.subflows.values_mut().for_each(|subflow| subflow.tell_gone(gone));
    }

    /// The client has removed the path of this subflow.
    pub(super) fn handle_gone(&mut self, now: Instant, gone: SubflowId) {
        let Some(path) = self.subflows.get(&gone).map(|subflow| subflow.path) else { return };
        self.events.push_back(Event::CloseSubflow { subflow: gone, abort: true });
        self.drop_subflow(now, gone);
        self.paths.ended(now, gone);
        if !self.paths.is_connected(path) {
            self.paths.remove(path);
            self.metered.set(path, false);
            self.caps.forget(path);
            self.events.push_back(Event::PathRemoved { path });
        }
    }
}
