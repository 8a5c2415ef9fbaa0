//! The application of one end: what it writes, reads and abandons on each stream, with bytes of known value.
//!
//! Works on notices, as an application on sockets does: a stream that was blocked is tried again only when the session says so. It uses
//! [`Streams`], so that the same application runs on sessions in virtual time and on real sockets. Not here: what the operations mean
//! for the network (`node`), and the rules (`rules`, `watch`).

use core::time::Duration;
use std::collections::BTreeSet;
use std::sync::OnceLock;

use serde::{Deserialize, Serialize};
use tributary_proto::{ReadError, WriteError};
use tributary_types::{Instant, Rng, StreamId};

use super::script::{Act, End, Name, Trial};
use super::streams::Streams;
use crate::transport::Notice;

/// Most bytes in one write or read.
const CHUNK: usize = 64 << 10;
/// The bytes repeat after this many, a prime above the length of a segment: a piece out of place is seen.
const PERIOD: usize = 131_071;
/// A slow reader reads at this interval.
const PACE: Duration = Duration::from_millis(20);

/// How a direction of a stream ended for its reader.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Ended {
    /// With all its bytes.
    Whole,
    /// The writer abandoned it.
    Reset,
}

/// Datagrams that are still to be sent.
#[derive(Clone, Copy, Debug)]
struct Datagrams {
    size: u64,
    left: u32,
    every: Duration,
    next: Instant,
}

/// A slow reader.
#[derive(Clone, Copy, Debug)]
struct Pace {
    /// Bytes that it may read at once.
    bytes: usize,
    next: Instant,
    until: Instant,
}

/// What the rules compare of one stream between its two ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LineState {
    /// Its identifier in the session.
    pub id: u32,
    /// Carries datagrams.
    pub is_flow: bool,
    /// It exists at this end.
    pub opened: bool,
    /// Bytes that this end writes in all.
    pub wanted: u64,
    /// Bytes written.
    pub written: u64,
    /// A write found no room.
    pub blocked: bool,
    /// This end has written its last byte.
    pub finished: bool,
    /// This end has abandoned its direction.
    pub aborted: bool,
    /// Writes are refused for good.
    pub refused: bool,
    /// Bytes or datagrams read.
    pub read: u64,
    /// This end takes whatever comes.
    pub reads: bool,
    /// This end has stopped reading.
    pub stopped: bool,
    /// How the peer's direction ended.
    pub ended: Option<Ended>,
}

impl LineState {
    /// Neither direction has anything left to do at this end.
    #[must_use]
    pub fn is_over(&self) -> bool {
        let has_written = self.finished || self.aborted || self.refused;
        has_written && (self.stopped || self.ended.is_some())
    }
}

/// What one end does with one stream.
#[derive(Debug)]
pub(super) struct Line {
    pub name: Name,
    priority: u8,
    /// The session does not know the priority yet.
    changed: bool,
    /// The application wants to open it.
    asked: bool,
    /// It exists in the session.
    pub opened: bool,
    /// Bytes to write in all, or without end until then.
    target: u64,
    endless: Option<Instant>,
    pub written: u64,
    finish: bool,
    pub finished: bool,
    abort: bool,
    pub aborted: bool,
    /// A write found no room.
    pub blocked: bool,
    /// Writes are refused for good.
    pub refused: bool,
    pub read: u64,
    stalled: Instant,
    pace: Option<Pace>,
    readable: bool,
    stop: bool,
    pub stopped: bool,
    pub ended: Option<Ended>,
    datagrams: Option<Datagrams>,
    sent: u32,
    got: BTreeSet<u32>,
}

impl Line {
    fn new(name: Name) -> Self {
        Self {
            name,
            priority: 0,
            changed: false,
            asked: false,
            opened: false,
            target: 0,
            endless: None,
            written: 0,
            finish: false,
            finished: false,
            abort: false,
            aborted: false,
            blocked: false,
            refused: false,
            read: 0,
            stalled: Instant::ZERO,
            pace: None,
            readable: false,
            stop: false,
            stopped: false,
            ended: None,
            datagrams: None,
            sent: 0,
            got: BTreeSet::new(),
        }
    }

    /// Whether the reader takes whatever comes.
    fn reads(&self, now: Instant) -> bool {
        now >= self.stalled && self.pace.is_none() && !self.stop && self.ended.is_none()
    }

    /// Bytes that this end writes in all.
    pub fn wanted(&self) -> u64 {
        self.target.max(self.written)
    }

    /// The writer has nothing more to do.
    pub fn has_written(&self) -> bool {
        self.finished || self.aborted || self.refused
    }

    /// The reader has nothing more to do.
    pub fn has_read(&self) -> bool {
        self.stopped || self.ended.is_some()
    }

    /// What the rules compare.
    fn state(&self, now: Instant) -> LineState {
        LineState {
            id: self.name.id.0,
            is_flow: self.name.is_flow,
            opened: self.opened,
            wanted: self.wanted(),
            written: self.written,
            blocked: self.blocked,
            finished: self.finished,
            aborted: self.aborted,
            refused: self.refused,
            read: self.read,
            reads: self.reads(now),
            stopped: self.stopped,
            ended: self.ended,
        }
    }

    /// A new session: everything is done again, except that what is over for the clock stays over.
    fn begin_again(&mut self) {
        *self = Self {
            priority: self.priority,
            changed: true,
            asked: self.asked,
            target: self.target,
            endless: self.endless,
            finish: self.finish,
            abort: self.abort,
            stalled: self.stalled,
            pace: self.pace,
            stop: self.stop,
            datagrams: self.datagrams,
            ..Self::new(self.name)
        };
    }
}

/// The application of one end: all its streams.
#[derive(Debug)]
pub struct Lines {
    end: End,
    pub(super) all: Vec<Line>,
    broken: Option<String>,
}

/// Bytes that `writer` writes on a stream from this offset on.
fn content(writer: End, id: StreamId, offset: u64, length: usize) -> &'static [u8] {
    static BYTES: OnceLock<Vec<u8>> = OnceLock::new();
    let bytes = BYTES.get_or_init(|| {
        let mut rng = Rng::new(0).child("content");
        let once: Vec<u8> = (0..PERIOD).map(|_| rng.next_u64() as u8).collect();
        let repeated = once.iter().take(CHUNK).copied();
        once.iter().copied().chain(repeated).collect()
    });
    let place = offset + u64::from(id.0) * 7919 + writer as u64 * 65_537;
    let from = (place % PERIOD as u64) as usize;
    &bytes[from..from + length]
}

impl Lines {
    /// The application of this end of a trial, before any operation.
    #[must_use]
    pub fn new(trial: &Trial, end: End) -> Self {
        Self { end, all: trial.names().into_iter().map(Line::new).collect(), broken: None }
    }

    /// What the rules compare of every stream, in the order in which both ends know them.
    #[must_use]
    pub fn states(&self, now: Instant) -> Vec<LineState> {
        self.all.iter().map(|line| line.state(now)).collect()
    }

    /// The first thing that a session must not do.
    #[must_use]
    pub fn broken(&self) -> Option<&str> {
        self.broken.as_deref()
    }

    /// Every stream may have something to read or room to write: for sessions that wake their application without saying why.
    pub fn wake(&mut self) {
        for line in &mut self.all {
            (line.readable, line.blocked) = (true, false);
        }
    }

    fn line(&mut self, stream: u8) -> Option<&mut Line> {
        self.all.iter_mut().find(|line| line.name.stream == stream)
    }

    /// Begins what an operation says, if it is for this end.
    pub fn operate(&mut self, now: Instant, act: &Act) {
        let (end, stream) = match *act {
            Act::Write { end, stream, .. }
            | Act::Bulk { end, stream, .. }
            | Act::Datagrams { end, stream, .. }
            | Act::Finish { end, stream }
            | Act::Stall { end, stream, .. }
            | Act::Pace { end, stream, .. }
            | Act::Abort { end, stream }
            | Act::Stop { end, stream }
            | Act::Priority { end, stream, .. } => (end, stream),
            _ => return,
        };
        if end != self.end {
            return;
        }
        let own = self.end;
        let Some(line) = self.line(stream) else { return };
        let sends = matches!(act, Act::Write { .. } | Act::Bulk { .. } | Act::Datagrams { .. });
        line.asked |= sends && line.name.opener == own;
        match *act {
            Act::Write { bytes, priority, finish, .. } if !line.name.is_flow && !line.finish => {
                line.target = line.written.max(line.target) + bytes;
                (line.priority, line.changed) = (priority, true);
                line.finish |= finish;
            }
            Act::Bulk { .. } if !line.name.is_flow && !line.finish => line.endless = Some(now + act.lasts()),
            Act::Datagrams { size, count, every_ms, .. } if line.name.is_flow && !line.finish => {
                let every = Duration::from_millis(every_ms.max(1));
                line.datagrams = Some(Datagrams { size, left: count, every, next: now });
            }
            Act::Finish { .. } => line.finish = true,
            Act::Stall { .. } => line.stalled = now + act.lasts(),
            Act::Pace { bytes, .. } if !line.name.is_flow => {
                line.pace = Some(Pace { bytes: bytes as usize, next: now, until: now + act.lasts() });
            }
            Act::Abort { .. } => line.abort = true,
            Act::Stop { .. } => line.stop = true,
            Act::Priority { priority, .. } => (line.priority, line.changed) = (priority, true),
            _ => {}
        }
    }

    /// The end of the trial: every stream is read, and both directions of each are finished.
    pub fn settle(&mut self, now: Instant) {
        for line in &mut self.all {
            line.stalled = line.stalled.min(now);
            line.pace = None;
            line.finish = true;
            line.datagrams = None;
            line.target = if line.endless.take().is_some() { line.written } else { line.target };
        }
    }

    /// A new session has replaced the last one.
    pub(super) fn begin_again(&mut self) {
        self.all.iter_mut().for_each(Line::begin_again);
    }

    /// The peer has opened the stream or flow with this identifier.
    pub fn opened(&mut self, id: StreamId) {
        self.notice(Notice::Opened(id.0.into()));
    }

    /// The session's notice of a stream.
    pub(crate) fn notice(&mut self, notice: Notice) {
        let (Notice::Opened(key) | Notice::Readable(key) | Notice::Writable(key)) = notice else { return };
        let Some(line) = self.all.iter_mut().find(|line| u64::from(line.name.id.0) == key) else {
            self.broken = Some(format!("stream {key} was opened by nobody"));
            return;
        };
        match notice {
            Notice::Opened(_) => line.opened = true,
            Notice::Readable(_) => line.readable = true,
            _ => line.blocked = false,
        }
    }

    /// When something is due that was not due now.
    #[must_use]
    pub fn due(&self, now: Instant) -> Option<Instant> {
        let of = |line: &Line| {
            let pace = line.pace.map(|pace| pace.next.min(pace.until));
            [Some(line.stalled), pace, line.datagrams.map(|datagrams| datagrams.next), line.endless]
        };
        self.all.iter().flat_map(of).flatten().filter(|at| *at > now).min()
    }

    /// Does what can be done now.
    pub fn act(&mut self, now: Instant, session: &mut impl Streams) {
        let (end, mut broken) = (self.end, self.broken.take());
        // In the order of their names, as both ends know them.
        let mut open = true;
        for line in self.all.iter_mut().filter(|line| line.name.opener == end && !line.opened) {
            open &= line.asked;
            if open {
                let opened = match line.name.is_flow {
                    true => session.open_flow(now),
                    false => session.open_stream(line.priority),
                };
                line.opened = opened.is_some();
                open = line.opened;
                if let Some(id) = opened.filter(|id| *id != line.name.id) {
                    broken.get_or_insert(format!("{} was opened as {id}", line.name.id));
                }
            }
        }
        for line in self.all.iter_mut().filter(|line| line.opened) {
            let outcome = match line.name.is_flow {
                true => line.send_datagrams(now, session, end).and_then(|()| line.receive(now, session, end)),
                false => line.send(now, session, end).and_then(|()| line.take(now, session, end)),
            };
            if let Err(text) = outcome.and_then(|()| line.end(session)) {
                broken.get_or_insert(format!("{}: {text}", line.name.id));
            }
        }
        self.broken = broken;
    }
}

impl Line {
    fn send(&mut self, now: Instant, session: &mut impl Streams, end: End) -> Result<(), String> {
        if self.endless.is_some_and(|until| now >= until) {
            self.endless = None;
            self.target = self.written;
            self.finish = true;
        }
        while !self.blocked && !self.has_written() && (self.endless.is_some() || self.written < self.target) {
            let left = if self.endless.is_some() { u64::MAX } else { self.target - self.written };
            let length = left.min(CHUNK as u64) as usize;
            match session.write(self.name.id, content(end, self.name.id, self.written, length)) {
                Ok(taken) => self.written += taken as u64,
                Err(WriteError::Blocked) => self.blocked = true,
                Err(WriteError::Closed) => return Ok(()),
                Err(_) => self.refused = true,
            }
        }
        Ok(())
    }

    fn send_datagrams(&mut self, now: Instant, session: &mut impl Streams, end: End) -> Result<(), String> {
        while let Some(datagrams) = &mut self.datagrams
            && now >= datagrams.next
            && !self.aborted
            && !self.finished
        {
            let mut datagram = self.sent.to_be_bytes().to_vec();
            datagram.extend_from_slice(content(end, self.name.id, self.sent.into(), datagrams.size as usize));
            session.send_datagram(now, self.name.id, &datagram);
            self.sent += 1;
            datagrams.next += datagrams.every;
            datagrams.left -= 1;
            if datagrams.left == 0 {
                self.datagrams = None;
                self.finish = true;
            }
        }
        Ok(())
    }

    /// Changes and ends directions.
    fn end(&mut self, session: &mut impl Streams) -> Result<(), String> {
        let id = self.name.id;
        if std::mem::take(&mut self.changed) && !self.name.is_flow {
            session.set_priority(id, self.priority);
        }
        if self.abort && !self.aborted {
            session.reset(id, 7);
            self.aborted = true;
        }
        let all = self.endless.is_none() && self.datagrams.is_none() && self.written >= self.target;
        if self.finish && all && !self.has_written() {
            match session.finish(id) {
                Ok(()) => self.finished = true,
                Err(WriteError::Closed) => {}
                Err(_) => self.refused = true,
            }
        }
        if self.stop && !self.has_read() {
            session.stop(id, 9);
            self.stopped = true;
        }
        Ok(())
    }

    fn take(&mut self, now: Instant, session: &mut impl Streams, end: End) -> Result<(), String> {
        self.pace = self.pace.filter(|pace| now < pace.until);
        let mut most = usize::MAX;
        if let Some(pace) = &mut self.pace {
            if now < pace.next {
                return Ok(());
            }
            (most, pace.next) = (pace.bytes, now + PACE);
        }
        while self.readable && now >= self.stalled && most > 0 && !self.has_read() {
            match session.read_most(self.name.id, most.min(CHUNK)) {
                Ok(Some(bytes)) => {
                    if bytes != content(end.peer(), self.name.id, self.read, bytes.len()) {
                        return Err(format!("wrong bytes from {} on", self.read));
                    }
                    self.read += bytes.len() as u64;
                    most -= bytes.len();
                }
                Ok(None) => self.ended = Some(Ended::Whole),
                Err(ReadError::Reset(7 | 9)) => self.ended = Some(Ended::Reset),
                Err(ReadError::Blocked | ReadError::Closed) => self.readable = false,
                Err(error) => return Err(error.to_string()),
            }
        }
        Ok(())
    }

    fn receive(&mut self, now: Instant, session: &mut impl Streams, end: End) -> Result<(), String> {
        let mut some = Vec::new();
        while self.readable && now >= self.stalled && !self.has_read() {
            match session.recv_datagrams(self.name.id, 64, &mut some) {
                Ok(0) => self.ended = Some(Ended::Whole),
                Ok(_) => {}
                Err(ReadError::Reset(7 | 9)) => self.ended = Some(Ended::Reset),
                Err(ReadError::Blocked | ReadError::Closed) => self.readable = false,
                Err(error) => return Err(error.to_string()),
            }
            for datagram in some.drain(..) {
                let Some((number, rest)) = datagram.bytes.split_first_chunk() else {
                    return Err("a datagram was cut".to_owned());
                };
                let number = u32::from_be_bytes(*number);
                if rest != content(end.peer(), self.name.id, number.into(), rest.len()) {
                    return Err(format!("datagram {number} has other bytes"));
                }
                if !self.got.insert(number) {
                    return Err(format!("datagram {number} arrived twice"));
                }
                self.read += 1;
            }
        }
        Ok(())
    }
}
