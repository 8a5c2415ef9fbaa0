//! Abandoning a download for a lower quality, when the bitrate rule says so.

use tributary_types::Instant;

use super::{Command, Event, Player, Request, State};
use crate::abr::Finished;

impl Player {
    /// Calls the rule to decide whether to abandon the download.
    pub(super) fn look(&mut self, now: Instant) {
        let State::Loading(download) = &mut self.state else { return };
        download.looked = now;
        let Some(progress) = download.progress(now, self.settings.counting) else { return };
        // The first segment already has the lowest quality; a resumed one is not abandoned.
        if self.next == 0
            || download.request.from > 0
            || download.size.is_some_and(|size| download.arrived >= size)
        {
            return;
        }
        let Request { id, segment, quality, .. } = download.request;
        let wasted = download.received();
        let answer = self.ask(now, |rule, view| rule.abandon(view, &progress));
        let Some(to) = answer.filter(|to| *to < quality) else { return };
        self.commands.push_back(Command::Abort(id));
        self.events.push_back(Event::Abandoned { segment, from: quality, to, wasted });
        self.record.abandoned(wasted);
        let duration = self.title.segments[segment];
        let transfer = progress.elapsed.saturating_sub(progress.first_byte);
        self.estimate.add(progress.arrived, transfer, progress.first_byte, duration);
        let finished = Finished { quality, elapsed: progress.elapsed, abandoned_to: Some(to) };
        self.ask(now, |rule, view| rule.finished(view, &finished));
        self.instead = Some(to);
        self.state = State::Space { since: now };
        self.advance(now);
    }
}
