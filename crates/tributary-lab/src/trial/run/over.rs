//! After the last operation: everything arrives, the session ends at both ends, and nothing is left of it.

use super::{Run, Stop};
use crate::endpoint::trial::{Order, Places, Seen, SessionSeen};
use core::time::Duration;
use tributary_sim::trial::{End, LineState, Rule, TICK, transfer};
use tributary_types::Instant;

/// Time for a process to end that has nothing more to do.
const ENDING: Duration = Duration::from_secs(5);

impl Run<'_> {
    /// Everything arrives, and both directions of every stream end.
    pub(super) fn settle(&mut self) -> Result<(), Stop> {
        let from = self.now();
        for end in End::BOTH {
            self.tell(end, &Order::Settle)?;
        }
        let lines = self.seen.iter().flatten().flat_map(|seen| seen.sessions.last()).flat_map(|s| &s.lines);
        let until = from + self.bounds.delivery + transfer(self.known, lines.map(|line| line.wanted).sum());
        while !self.is_complete() {
            if self.now() >= until {
                let text = format!(
                    "{:?} after the last operation: {}",
                    until.saturating_since(from),
                    self.missing()
                );
                return self.fault(Rule::Delivery, text);
            }
            self.tick()?;
        }
        self.outcome.settled = self.now().saturating_since(from);
        Ok(())
    }

    fn is_complete(&self) -> bool {
        let over = |session: &SessionSeen| session.lines.iter().all(LineState::is_over);
        self.same_session().is_some_and(|both| both.into_iter().all(over))
    }

    /// What has not ended.
    fn missing(&self) -> String {
        let of = |end: End| {
            let Some(session) = self.session(end) else { return format!("{end:?}: no session") };
            let lines = session.lines.iter().filter(|line| !line.is_over());
            let lines: Vec<_> = lines
                .map(|l| {
                    format!(
                        "stream {} written {} of {} read {} {:?}",
                        l.id, l.written, l.wanted, l.read, l.ended
                    )
                })
                .collect();
            format!("{end:?}: session {:?}, {}", session.name, lines.join(", "))
        };
        format!("{}; {}", of(End::Client), of(End::Server))
    }

    /// Both ends know that the session is over, and why.
    pub(super) fn ends_with(&mut self, code: u32) -> Result<(), Stop> {
        let until = self.now() + self.bounds.closing;
        self.abandoned = Some(code);
        let ended = |session: Option<&SessionSeen>| session.and_then(|s| s.ended.as_ref().map(|e| e.0));
        loop {
            let both = self.same_session().map(|both| both.map(|session| ended(Some(session))));
            if both == Some([Some(code); 2]) {
                break;
            }
            if self.now() >= until {
                let codes = End::BOTH.map(|end| ended(self.session(end)));
                return self.fault(
                    Rule::Closed,
                    format!("{:?} after the end, codes {codes:?}", self.bounds.closing),
                );
            }
            self.tick()?;
        }
        if code != 0 {
            self.outcome.last_read = self.now().saturating_since(Instant::ZERO);
        }
        Ok(())
    }

    /// Nothing of the session is left in either process or its kernel, and the processes end.
    pub(super) fn nothing_is_left(&mut self) -> Result<(), Stop> {
        for end in End::BOTH {
            self.tell(end, &Order::Leave)?;
        }
        let until = self.now() + self.bounds.lingering;
        for end in End::BOTH {
            loop {
                let (seen, ready) = (self.ask(end)?, self.ready[end as usize]);
                let connections = self.network.connections(end)?;
                let is_left = seen.places.tasks > 0 || seen.places.descriptors > ready.descriptors;
                if !is_left && connections == 0 {
                    self.memory(end, &seen)?;
                    self.outcome.cpu_seconds += seen.cpu_seconds;
                    break;
                }
                if self.now() >= until {
                    let Places { tasks, descriptors, .. } = seen.places;
                    let before = ready.descriptors;
                    return self.fault(
                        Rule::Places,
                        format!(
                            "{end:?}: {tasks} tasks, {descriptors} descriptors of {before}, {connections} TCP connections \
                             are left after the session"
                        ),
                    );
                }
                std::thread::sleep(TICK);
            }
            self.ends[end as usize].close();
            if self.ends[end as usize].wait(ENDING) != Some(0) {
                return self.fault(Rule::Places, format!("the {end:?}'s process does not end"));
            }
        }
        Ok(())
    }

    /// The memory of an end within its limit.
    fn memory(&mut self, end: End, seen: &Seen) -> Result<(), Stop> {
        let took = seen.places.memory_most.saturating_sub(self.ready[end as usize].memory_most);
        self.outcome.memory = self.outcome.memory.max(took);
        let wanted =
            |end| self.session(end).map_or(0, |s| s.lines.iter().map(|line| line.wanted).sum::<u64>());
        let held =
            wanted(end).min(self.known.send_buffer) + wanted(end.peer()).min(self.known.receive_credit);
        // One session more for each start of a program: the server has the old one until it ends.
        let sessions = u64::from(1 + self.restarts.iter().sum::<u32>());
        let limit = self.bounds.memory + 2 * held * sessions;
        if took > limit {
            return self.fault(
                Rule::Memory,
                format!("{end:?}: the process took {took} bytes; the limit is {limit}"),
            );
        }
        Ok(())
    }
}
