//! Subflows on which nothing is acknowledged, nothing arrives any more, or nothing has happened for long.
//!
//! Not here: when that is so ([`crate::subflow`]), and when a path is connected again ([`crate::path`]).

use tributary_types::Instant;

use super::{Session, Side};
use crate::event::Event;
use crate::subflow::{FRESH_AFTER, Verdict};

impl Session {
    /// Marks subflows without progress as silent, and requests new ones.
    pub(super) fn watch_silence(&mut self, now: Instant) {
        let mut fell_silent = Vec::new();
        let mut wants_fresh = Vec::new();
        for subflow in self.subflows.values_mut().filter(|subflow| !subflow.silent) {
            if let (Some(since), Some(at)) = (subflow.waiting_since(), subflow.silent_at())
                && now >= at
            {
                subflow.fall_silent(now);
                fell_silent.push((subflow.path, now.saturating_since(since)));
            }
        }
        let alone = self.are_all_silent();
        for subflow in self.subflows.values_mut().filter(|subflow| subflow.silent) {
            let at = subflow.fresh_at(alone).map(|at| at.max(subflow.last_refresh + FRESH_AFTER));
            if at.is_some_and(|at| now >= at) {
                subflow.last_refresh = now;
                wants_fresh.push(subflow.path);
            }
        }
        for (path, silence) in fell_silent {
            self.stats.silences += 1;
            self.views_stale = true;
            self.events.push_back(Event::PathSilent { path, silence });
        }
        for path in wants_fresh {
            self.paths.silent(now, path, false);
            self.judge_segments(path, false);
            if self.side == Side::Server {
                for subflow in self.subflows.values_mut().filter(|s| s.path != path && !s.silent) {
                    subflow.refresh_due = Some(path);
                }
            }
        }
    }

    /// Whether no subflow carries data.
    pub(super) fn are_all_silent(&self) -> bool {
        self.subflows.values().all(|subflow| subflow.silent)
    }

    /// Client: asks for an answer where data has stopped arriving before its stream ended, and lets a new connection replace
    /// one that gives none. The server is told of a path that is silent for it by the client's new connection.
    pub(super) fn watch_arrivals(&mut self, now: Instant) {
        let mut silent = Vec::new();
        for subflow in self.subflows.values_mut() {
            match subflow.listening.handle_timeout(now, &subflow.info) {
                Verdict::Wait => {}
                Verdict::Ask(stream) => {
                    if self.receive.get(&stream).is_some_and(|stream| !stream.complete()) {
                        subflow.ping_due = true;
                    } else {
                        subflow.listening.rest();
                    }
                }
                Verdict::Silent(silence) => silent.push((subflow.path, silence, subflow.silent)),
            }
        }
        for (path, silence, known) in silent {
            if !known {
                self.stats.silences += 1;
                self.events.push_back(Event::PathSilent { path, silence });
            }
            self.paths.unheard(now, path);
        }
    }

    /// Pings idle subflows, and closes those that do not answer.
    pub(super) fn keep_alive(&mut self, now: Instant) {
        let wait = self.config.keep_alive;
        let mut lost = Vec::new();
        for subflow in self.subflows.values_mut() {
            if now >= subflow.last_heard + wait && now >= subflow.last_ping + wait {
                if subflow.last_ping > subflow.last_heard {
                    lost.push((subflow.id, subflow.path));
                }
                subflow.last_ping = now;
                subflow.ping_due = true;
            }
        }
        for (id, path) in lost {
            self.judge_segments(path, true);
            self.events.push_back(Event::CloseSubflow { subflow: id, abort: true });
            self.drop_subflow(now, id);
            self.paths.ended(now, id);
        }
    }
}
