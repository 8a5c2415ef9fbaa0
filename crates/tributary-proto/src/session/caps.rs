//! Caps: what a path may carry, set at this end or asked for by the peer. The lower of the two counts.
//!
//! A path with a cap is a slow path: its views show the cap as its rate and the bucket's tokens as its room, so that every scheduler
//! treats it as one. A client tells the server its caps on the paths' own subflows, once it knows that the server obeys them. Control
//! frames are paid for, but are not held up: while a path is held they pass and are not counted, so that they never keep data from it.
//! Not here: the bucket ([`crate::cap`]).

use std::collections::BTreeMap;

use tributary_types::{Bitrate, Instant, PathId, SubflowId};

use super::{Session, Side, UnknownPath};
use crate::subflow::Subflow;

/// Caps of this end.
#[derive(Debug, Default)]
pub(super) struct Caps {
    paths: BTreeMap<PathId, Bitrate>,
    /// The peer obeys CAP.
    peer_obeys: bool,
}

impl Caps {
    /// The path is removed.
    pub fn forget(&mut self, path: PathId) {
        self.paths.remove(&path);
    }
}

impl Session {
    /// Limits what this side sends over a path, in bits of frames a second (heads included; TLS, TCP and IP add a few percent); `None`:
    /// no limit. A client tells the server, which then sends no more than that over the path either, if it is of a version that can
    /// ([`Self::handle_peer_obeys_caps`]). Caps below [`crate::LEAST_CAP`] count as that. The cap holds for later subflows of the path, too.
    ///
    /// # Errors
    /// [`UnknownPath`]; the call has no effect then.
    pub fn set_cap(&mut self, now: Instant, path: PathId, cap: Option<Bitrate>) -> Result<(), UnknownPath> {
        if !self.paths.contains(path) {
            return Err(UnknownPath(path));
        }
        match cap {
            Some(cap) => drop(self.caps.paths.insert(path, cap)),
            None => self.caps.forget(path),
        }
        let tells = self.caps.peer_obeys;
        for subflow in self.subflows.values_mut().filter(|subflow| subflow.path == path) {
            subflow.capped.set(now, cap);
            subflow.capped.due |= tells;
        }
        self.views_stale = true;
        Ok(())
    }

    /// The cap of this end on a path.
    #[must_use]
    pub fn cap(&self, path: PathId) -> Option<Bitrate> {
        self.caps.paths.get(&path).copied()
    }

    /// Client: the server's reply says that it obeys caps, so it is told them.
    pub fn handle_peer_obeys_caps(&mut self) {
        if self.side == Side::Client && !std::mem::replace(&mut self.caps.peer_obeys, true) {
            let capped = self.subflows.values_mut().filter(|subflow| subflow.capped.own().is_some());
            capped.for_each(|subflow| subflow.capped.due = true);
        }
    }

    /// A subflow of a path that may have a cap opens.
    pub(super) fn cap_subflow(&self, now: Instant, subflow: &mut Subflow) {
        let own = self.cap(subflow.path);
        subflow.capped.set(now, own);
        subflow.capped.due = self.caps.peer_obeys && own.is_some();
    }

    /// The client asks for a cap on the path of the subflow that its frame arrived on.
    pub(super) fn asked_for_cap(&mut self, now: Instant, id: SubflowId, cap: Option<Bitrate>) {
        if let Some(subflow) = self.subflows.get_mut(&id) {
            subflow.capped.ask(now, cap);
            self.views_stale = true;
        }
    }

    /// Paths that were held have room again.
    pub(super) fn watch_caps(&mut self, now: Instant) {
        self.views_stale |= self.subflows.values().any(|subflow| subflow.capped.opens(now));
    }
}
