//! The server's half: drives a [`Pusher`] on a transport.

use core::fmt;
use core::time::Duration;
use std::sync::Arc;

use bytes::Bytes;
use tributary_player::tiled::{PushCounters, PushError, Pusher, SOCKET_UNSENT, Transmit, Video};
use tributary_types::Instant;
use tributary_video::rd::RdTable;

use super::Pipe;
use crate::transport::{Application, Notice, StreamKey, Transport};

/// How often the server checks whether the transport has room.
const POLL_INTERVAL: Duration = Duration::from_millis(1);
/// Bytes of every initialisation segment.
const INIT: usize = 640;
/// Messages without a deadline may wait this long.
const NO_DEADLINE: Duration = Duration::from_secs(3600);

/// The server of a viewing.
pub struct TiledServer {
    pusher: Pusher,
    table: Arc<RdTable>,
    /// Zeros for media segments, as many as the longest one has.
    zeros: Bytes,
    /// The message that the transport has not accepted completely. It has no deadline once a part was accepted.
    waiting: Option<(Bytes, Option<Instant>)>,
    tiles: Option<StreamKey>,
    /// Bytes given to the transport, without those that it dropped.
    written: u64,
    next: Option<Instant>,
    error: Option<PushError>,
    up: Pipe,
    down: Pipe,
}

impl fmt::Debug for TiledServer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TiledServer").field("written", &self.written).finish_non_exhaustive()
    }
}

impl TiledServer {
    pub(super) fn new(table: Arc<RdTable>, up: Pipe, down: Pipe) -> Self {
        let video = Video {
            layout: table.layout().clone(),
            gops: table.gops() as u32,
            sound: None,
            low_resolution: false,
        };
        let cells = (0..table.gops()).flat_map(|gop| table.gop(gop));
        let longest = cells.flat_map(|cells| &cells.bytes).copied().max().unwrap_or(0);
        let zeros = Bytes::from(vec![0; (longest as usize).max(INIT)]);
        let (waiting, tiles, next, error) = Default::default();
        let pusher = Pusher::new(video);
        Self { pusher, table, zeros, waiting, tiles, written: 0, next, error, up, down }
    }

    /// What happened to everything that was requested.
    ///
    /// # Errors
    /// The reason for which the client was given up.
    pub fn counters(&self) -> Result<PushCounters, String> {
        self.error.as_ref().map_or(Ok(self.pusher.counters()), |error| Err(error.to_string()))
    }

    fn read(&mut self, now: Instant, stream: StreamKey, transport: &mut dyn Transport) {
        loop {
            let count = transport.read(now, stream, u64::MAX);
            if count == 0 {
                return;
            }
            let mut heard = Ok(());
            self.up.pop(count as usize, |bytes| {
                if heard.is_ok() {
                    heard = self.pusher.handle_bytes(now, &bytes);
                }
            });
            self.error = self.error.take().or(heard.err());
        }
    }

    fn push(&mut self, now: Instant, transport: &mut dyn Transport) {
        self.next = None;
        while self.error.is_none() && !self.pusher.has_ended() {
            if self.waiting.as_ref().is_some_and(|(_, deadline)| deadline.is_some_and(|at| at <= now)) {
                self.waiting = None;
                self.pusher.handle_expired();
            }
            if self.waiting.is_none() && !self.fetch(now) {
                return;
            }
            if !self.write(now, transport) {
                self.next = Some(now + POLL_INTERVAL);
                return;
            }
        }
    }

    /// Gets the next message from the pusher. Returns whether there is one.
    fn fetch(&mut self, now: Instant) -> bool {
        loop {
            match self.pusher.poll_transmit(now, &self.table) {
                None => return false,
                Some(Transmit::Message { bytes, deadline }) => {
                    self.waiting = Some((bytes, deadline));
                    return true;
                }
                Some(Transmit::Read(order)) => {
                    let cells = &self.table.gop(order.gop as usize)[usize::from(order.entry.tile)];
                    let bytes = cells.bytes[usize::from(order.entry.quality)] as usize;
                    let init = order.entry.with_init.then(|| self.zeros.slice(..INIT));
                    if let Err(error) = self.pusher.handle_tile(init, self.zeros.slice(..bytes)) {
                        self.error = Some(error);
                        return false;
                    }
                }
            }
        }
    }

    /// Gives the message to the transport. Returns whether all of it was accepted.
    fn write(&mut self, now: Instant, transport: &mut dyn Transport) -> bool {
        self.tiles = self.tiles.or_else(|| transport.open(now, 0));
        let (Some(stream), Some((mut bytes, deadline))) = (self.tiles, self.waiting.take()) else {
            return false;
        };
        let within = deadline.map_or(NO_DEADLINE, |at| at.saturating_since(now));
        let count = bytes.len() as u64;
        let taken = match transport.write_message(now, stream, count, within) {
            Some(whole) => count * u64::from(whole),
            None if self.written.saturating_sub(transport.counters().sent) >= u64::from(SOCKET_UNSENT) => 0,
            None => transport.write(now, stream, count),
        };
        if taken > 0 {
            self.written += taken;
            self.down.push(bytes.split_to(taken as usize), deadline);
        }
        if !bytes.is_empty() {
            // A message that has begun is sent completely.
            self.waiting = Some((bytes, deadline.filter(|_| taken == 0)));
        }
        self.waiting.is_none()
    }
}

impl Application for TiledServer {
    fn handle_notice(&mut self, now: Instant, notice: Notice, transport: &mut dyn Transport) {
        match notice {
            Notice::Readable(stream) => self.read(now, stream, transport),
            Notice::Expired { messages, .. } => self.written -= self.down.expire(now, messages),
            _ => {}
        }
        self.push(now, transport);
    }

    fn handle_timeout(&mut self, now: Instant, transport: &mut dyn Transport) {
        self.push(now, transport);
    }

    fn poll_timeout(&self) -> Option<Instant> {
        self.next
    }
}
