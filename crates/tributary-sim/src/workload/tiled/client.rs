//! The viewer's half: drives a [`Player`] on a transport.

use core::fmt;
use std::collections::VecDeque;

use bytes::Bytes;
use tributary_player::tiled::{End, PlayError, Player, TiledRecord};
use tributary_types::Instant;

use super::group::Member;
use super::{Group, Pipe, TiledSpec};
use crate::transport::{Application, Notice, StreamKey, Transport};

enum State {
    /// The connection is not up, or the start is not due yet.
    Waiting(Box<TiledSpec>),
    Playing(Member),
    Over(Box<TiledRecord>),
}

/// The client of a viewing.
pub struct TiledClient {
    state: State,
    /// The viewers with whom it is planned.
    group: Group,
    /// When the start was requested; `None` before the connection is up.
    started: Option<Instant>,
    error: Option<String>,
    plans: Option<StreamKey>,
    /// Bytes that the transport has not accepted yet.
    unsent: VecDeque<Bytes>,
    up: Pipe,
    down: Pipe,
}

impl fmt::Debug for TiledClient {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TiledClient").field("started", &self.started).finish_non_exhaustive()
    }
}

impl TiledClient {
    pub(super) fn new(spec: TiledSpec, group: Group, (up, down): (Pipe, Pipe)) -> Self {
        let (plans, unsent) = Default::default();
        let state = State::Waiting(Box::new(spec));
        Self { state, group, started: None, error: None, plans, unsent, up, down }
    }

    /// When the start was requested; `None` if the connection never came up.
    #[must_use]
    pub fn started(&self) -> Option<Instant> {
        self.started
    }

    /// The record so far.
    ///
    /// # Errors
    /// The reason for which the viewing was given up.
    pub fn record(&self) -> Result<TiledRecord, String> {
        match (&self.error, &self.state) {
            (Some(error), _) => Err(error.clone()),
            (None, State::Over(record)) => Ok(TiledRecord::clone(record)),
            (None, State::Playing(player)) => Ok(player.borrow().record(End::TimedOut)),
            (None, State::Waiting(_)) => Ok(TiledRecord { end: End::TimedOut, ..TiledRecord::default() }),
        }
    }

    fn play(&mut self, now: Instant, transport: &mut dyn Transport) {
        if self.started.is_some_and(|at| at <= now) {
            let state = std::mem::replace(&mut self.state, State::Over(Box::default()));
            self.state = match state {
                State::Waiting(spec) => {
                    State::Playing(self.group.add(Player::new(spec.settings, spec.planner, now)))
                }
                State::Playing(player) if player.borrow().is_over(now) => {
                    let mut player = player.borrow_mut();
                    player.finish();
                    self.unsent.extend(std::iter::from_fn(|| player.poll_transmit()));
                    State::Over(Box::new(player.record(End::Complete)))
                }
                other => other,
            };
        }
        if let State::Playing(player) = &self.state {
            let due = player.borrow().poll_timeout() <= now;
            let decided = if due { self.group.plan(now) } else { Ok(()) };
            let mut player = player.borrow_mut();
            let planned = decided.and_then(|()| player.handle_timeout(now));
            self.unsent.extend(std::iter::from_fn(|| player.poll_transmit()));
            // Tiles are not decoded here.
            while player.poll_tile().is_some() {}
            drop(player);
            self.give_up(planned);
        }
        self.write(now, transport);
    }

    fn write(&mut self, now: Instant, transport: &mut dyn Transport) {
        while let Some(bytes) = self.unsent.front_mut() {
            self.plans = self.plans.or_else(|| transport.open(now, 0));
            let Some(stream) = self.plans else { return };
            let taken = transport.write(now, stream, bytes.len() as u64) as usize;
            self.up.push(bytes.split_to(taken), None);
            if !bytes.is_empty() {
                return;
            }
            self.unsent.pop_front();
        }
    }

    fn read(&mut self, now: Instant, stream: StreamKey, transport: &mut dyn Transport) {
        loop {
            let count = transport.read(now, stream, u64::MAX);
            if count == 0 {
                return;
            }
            let mut heard = Ok(());
            let state = &self.state;
            self.down.pop(count as usize, |bytes| {
                if let (Ok(()), State::Playing(player)) = (&heard, state) {
                    let mut player = player.borrow_mut();
                    heard = player.handle_bytes(now, &bytes);
                    while player.poll_tile().is_some() {}
                }
            });
            self.give_up(heard);
        }
    }

    fn give_up(&mut self, result: Result<(), PlayError>) {
        if let Err(error) = result {
            self.error = Some(error.to_string());
            self.state = State::Over(Box::default());
        }
    }
}

impl Application for TiledClient {
    fn handle_notice(&mut self, now: Instant, notice: Notice, transport: &mut dyn Transport) {
        match notice {
            Notice::Connected => {
                if let State::Waiting(spec) = &self.state {
                    self.started = Some(now.max(spec.from));
                }
            }
            Notice::Readable(stream) => self.read(now, stream, transport),
            _ => {}
        }
        self.play(now, transport);
    }

    fn handle_timeout(&mut self, now: Instant, transport: &mut dyn Transport) {
        self.play(now, transport);
    }

    fn poll_timeout(&self) -> Option<Instant> {
        match &self.state {
            State::Waiting(_) => self.started,
            State::Playing(player) => Some(player.borrow().poll_timeout()),
            State::Over(_) => None,
        }
    }
}
