//! Progressive HTTP video: one request, one file as the answer, and the product's player (`tributary-player`) that reads
//! it. The client reads from the transport only what the player has room for, so a player that is full closes the
//! receive window, as on sockets. Source: the handoff paper, §III. Not here: the network, and which path is cut.

use tributary_player::progressive::{Film, Player, Record, Settings};
use tributary_types::Instant;

use super::{ArrivalSeries, REQUEST};
use crate::transport::{Application, Notice, StreamKey, Transport};

/// Bytes of the answer's headers, about those of nginx for a file.
const HEADERS: u64 = 256;
/// Offered to a transport at once.
const BLOCK: u64 = 1 << 20;

/// A playback.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ProgressiveSpec {
    /// The file.
    pub film: Film,
    /// How it is played.
    pub settings: Settings,
}

/// The viewer.
#[derive(Debug)]
pub struct ProgressiveClient {
    spec: ProgressiveSpec,
    stream: Option<StreamKey>,
    /// Bytes of the request that the transport has not taken.
    unsent: u64,
    /// Bytes of headers that have not arrived.
    headers: u64,
    player: Option<Player>,
    arrivals: ArrivalSeries,
    /// The player has room and nothing to read.
    starving: bool,
    wake: Option<Instant>,
}

/// The HTTP server.
#[derive(Debug)]
pub struct ProgressiveServer {
    stream: Option<StreamKey>,
    /// Bytes of the request that have not arrived.
    request: u64,
    /// Bytes of the answer that the transport has not taken.
    left: u64,
}

/// Both ends of a playback.
#[must_use]
pub fn progressive(spec: ProgressiveSpec) -> (ProgressiveClient, ProgressiveServer) {
    let client = ProgressiveClient {
        spec,
        stream: None,
        unsent: REQUEST,
        headers: HEADERS,
        player: None,
        arrivals: ArrivalSeries::default(),
        starving: false,
        wake: None,
    };
    let left = HEADERS + spec.film.bytes();
    (client, ProgressiveServer { stream: None, request: REQUEST, left })
}

impl ProgressiveClient {
    /// The viewer's record up to `now`; `None` if the connection never came up.
    #[must_use]
    pub fn record(&self, now: Instant) -> Option<Record> {
        self.player.as_ref().map(|player| player.record(now))
    }

    /// When bytes were read, and how long the player waited for bytes, up to `end`.
    #[must_use]
    pub fn arrivals(&self, end: Instant) -> ArrivalSeries {
        let mut arrivals = self.arrivals.clone();
        arrivals.finish(end);
        arrivals
    }

    fn ask(&mut self, now: Instant, transport: &mut dyn Transport) {
        self.stream = self.stream.or_else(|| transport.open(now, 0));
        let Some(stream) = self.stream else { return };
        let Self { spec, player, .. } = self;
        player.get_or_insert_with(|| Player::new(spec.film, spec.settings, now));
        if self.unsent > 0 {
            self.unsent -= transport.write(now, stream, self.unsent);
        }
    }

    /// Reads as many bytes as the player has room for.
    fn read(&mut self, now: Instant, transport: &mut dyn Transport) {
        let (Some(stream), Some(player)) = (self.stream, &mut self.player) else { return };
        player.handle_timeout(now);
        loop {
            let room = self.headers + player.space(now);
            if room == 0 {
                break;
            }
            let bytes = transport.read(now, stream, room);
            if bytes == 0 {
                break;
            }
            self.arrivals.bytes(now, bytes);
            let headers = bytes.min(self.headers);
            self.headers -= headers;
            player.handle_data(now, bytes - headers);
        }
        let starving = player.space(now) > 0;
        if starving && !self.starving {
            self.arrivals.expect(now);
        } else if !starving {
            self.arrivals.rest();
        }
        self.starving = starving;
        self.wake = player.next_space(now);
    }
}

impl Application for ProgressiveClient {
    fn handle_notice(&mut self, now: Instant, _: Notice, transport: &mut dyn Transport) {
        self.ask(now, transport);
        self.read(now, transport);
    }

    fn handle_timeout(&mut self, now: Instant, transport: &mut dyn Transport) {
        self.read(now, transport);
    }

    fn poll_timeout(&self) -> Option<Instant> {
        self.wake
    }
}

impl ProgressiveServer {
    fn write(&mut self, now: Instant, transport: &mut dyn Transport) {
        let Some(stream) = self.stream.filter(|_| self.request == 0) else { return };
        while self.left > 0 {
            let offered = self.left.min(BLOCK);
            let taken = transport.write(now, stream, offered);
            self.left -= taken;
            if taken < offered {
                return;
            }
        }
    }
}

impl Application for ProgressiveServer {
    fn handle_notice(&mut self, now: Instant, notice: Notice, transport: &mut dyn Transport) {
        if let Notice::Readable(stream) = notice {
            self.stream = Some(stream);
            while self.request > 0 {
                let bytes = transport.read(now, stream, self.request);
                if bytes == 0 {
                    break;
                }
                self.request -= bytes;
            }
        }
        self.write(now, transport);
    }

    fn handle_timeout(&mut self, _: Instant, _: &mut dyn Transport) {}

    fn poll_timeout(&self) -> Option<Instant> {
        None
    }
}
