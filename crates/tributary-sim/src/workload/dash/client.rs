//! The client as a host: drives the product's player on its connections.

use core::fmt;
use core::time::Duration;
use std::collections::VecDeque;

use tributary_player::abr::Rule;
use tributary_player::dash::play::{
    Command, Event, Header, MissingHeaders, Player, Qoe, Request, Settings, Title,
};
use tributary_types::Instant;

use super::requests::HEADERS;
use super::{Connection, Download, INDEX, INITIALIZATION, MANIFEST};
use crate::host::{Host, Outbox};
use crate::id::HostId;
use crate::packet::Packet;
use crate::transport::{Notice, StreamKey};

/// What the client can request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum What {
    Manifest,
    /// Of a quality.
    Header(Header, usize),
    Media(Request),
}

/// An answer in flight.
#[derive(Debug)]
struct Exchange {
    connection: usize,
    stream: StreamKey,
    what: What,
    /// Bytes of the body.
    length: u64,
    /// Bytes that have arrived, headers included.
    arrived: u64,
}

enum State {
    /// It has not begun, or waits for the manifest.
    Opening(Option<(Settings, Box<dyn Rule>)>),
    Playing(Box<Player>),
}

/// A DASH client with all its connections.
pub(crate) struct DashClient {
    state: State,
    title: Title,
    /// Of each quality.
    missing: Vec<MissingHeaders>,
    connections: Vec<Connection>,
    current: usize,
    /// Connections to the same server that can take the current one's place.
    spares: VecDeque<Connection>,
    /// Paths that may not be used.
    closed: Vec<u8>,
    exchange: Option<Exchange>,
    /// To be requested as soon as a connection has room for the request.
    wanted: Option<What>,
    /// The segment that the player waits for.
    media: Option<Request>,
    began: Option<Instant>,
    first_request: Option<Instant>,
    events: Vec<(Instant, Event)>,
    downloads: Vec<Download>,
    reconnects: u32,
}

impl fmt::Debug for DashClient {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { current, exchange, wanted, media, .. } = self;
        f.debug_struct("DashClient")
            .field("current", current)
            .field("exchange", exchange)
            .field("wanted", wanted)
            .field("media", media)
            .finish_non_exhaustive()
    }
}

impl DashClient {
    pub(crate) fn new(settings: Settings, title: Title, rule: Box<dyn Rule>) -> Self {
        Self {
            missing: vec![MissingHeaders { initialization: true, index: true }; title.ladder.len()],
            state: State::Opening(Some((settings, rule))),
            title,
            connections: Vec::new(),
            current: 0,
            spares: VecDeque::new(),
            closed: Vec::new(),
            exchange: None,
            wanted: None,
            media: None,
            began: None,
            first_request: None,
            events: Vec::new(),
            downloads: Vec::new(),
            reconnects: 0,
        }
    }

    // ---- commands of the run

    /// Requests the title on the first of these connections; all of them connect.
    pub(crate) fn begin(&mut self, now: Instant, connections: Vec<Connection>, out: &mut Outbox) {
        self.connections = connections;
        for connection in &mut self.connections {
            connection.without(now, &self.closed, out);
        }
        self.began = Some(now);
        self.wanted = Some(What::Manifest);
        self.settle(now, out);
    }

    /// Adds a connection that can replace the current one.
    pub(crate) fn supply(&mut self, now: Instant, connection: Connection, out: &mut Outbox) {
        self.spares.push_back(connection);
        if !self.connections[self.current].is_open() {
            self.take_spare(now, out);
            self.settle(now, out);
        }
    }

    /// Adds a connection, which connects, and returns its number.
    pub(crate) fn adopt(&mut self, now: Instant, mut connection: Connection, out: &mut Outbox) -> usize {
        connection.without(now, &self.closed, out);
        self.connections.push(connection);
        self.connections.len() - 1
    }

    /// Continues over another of its connections. The one before is closed, unless it can end the running answer and
    /// stay open.
    pub(crate) fn move_to(&mut self, now: Instant, connection: usize, out: &mut Outbox) {
        let before = &mut self.connections[self.current];
        if before.is_open() && !before.stop(now) {
            before.close();
        }
        self.spares.clear();
        self.current = connection;
        match &mut self.state {
            State::Playing(player) => player.handle_moved(now),
            State::Opening(_) => self.ask_again(),
        }
        self.settle(now, out);
    }

    /// Tells the player that the network may have changed.
    pub(crate) fn look(&mut self, now: Instant, out: &mut Outbox) {
        if let State::Playing(player) = &mut self.state {
            player.handle_network_change(now);
        }
        self.settle(now, out);
    }

    // ---- reading

    /// Connections that can take the current one's place.
    pub(crate) fn spares(&self) -> usize {
        self.spares.len()
    }

    /// Whether a connection exists and has not ended.
    pub(crate) fn is_open(&self, connection: usize) -> bool {
        self.connections.get(connection).is_some_and(Connection::is_open)
    }

    /// The server of the connection in use.
    pub(crate) fn server(&self) -> Option<HostId> {
        self.connections.get(self.current).map(Connection::server)
    }

    /// Media in the play buffer.
    pub(crate) fn level(&self, now: Instant) -> Duration {
        match &self.state {
            State::Playing(player) => player.level(now),
            State::Opening(_) => Duration::ZERO,
        }
    }

    /// Expected throughput of a download, bit/s.
    pub(crate) fn throughput(&self) -> Option<f64> {
        match &self.state {
            State::Playing(player) => player.throughput(),
            State::Opening(_) => None,
        }
    }

    /// Record of the playback; `None` when the manifest did not arrive.
    pub(crate) fn qoe(&self, now: Instant) -> Option<Qoe> {
        match &self.state {
            State::Playing(player) => Some(player.qoe(now)),
            State::Opening(_) => None,
        }
    }

    /// Why playback was given up.
    pub(crate) fn given_up(&self) -> Option<String> {
        match &self.state {
            State::Playing(player) => player.given_up().map(ToString::to_string),
            State::Opening(_) => None,
        }
    }

    /// When the title was requested, and when the first segment was requested.
    pub(crate) fn asked(&self) -> (Option<Instant>, Option<Instant>) {
        (self.began, self.first_request)
    }

    /// What happened to the player.
    pub(crate) fn events(&self) -> &[(Instant, Event)] {
        &self.events
    }

    /// Downloads over time.
    pub(crate) fn downloads(&self) -> &[Download] {
        &self.downloads
    }

    /// Connections that took the place of one that was given up.
    pub(crate) fn reconnects(&self) -> u32 {
        self.reconnects
    }

    // ---- requests

    /// The next thing to request for this segment.
    fn next(&self, request: Request) -> What {
        let header = self.missing[request.quality].first();
        header.map_or(What::Media(request), |header| What::Header(header, request.quality))
    }

    /// Bytes of its body.
    fn length(&self, what: What) -> u64 {
        match what {
            What::Manifest => MANIFEST,
            What::Header(Header::Initialization, _) => INITIALIZATION,
            What::Header(Header::Index, _) => INDEX.0 + INDEX.1 * self.title.segments.len() as u64,
            What::Media(request) => self.size(request).saturating_sub(request.from),
        }
    }

    /// Bytes of a segment.
    fn size(&self, Request { segment, quality, .. }: Request) -> u64 {
        (self.title.ladder.bitrate(quality) * self.title.segments[segment].as_secs_f64() / 8.0) as u64
    }

    /// Sends the wanted request if a connection can take it now.
    fn ask(&mut self, now: Instant) {
        let Some(what) = self.wanted.filter(|_| self.exchange.is_none()) else { return };
        let length = self.length(what);
        let connection = self.current;
        let Some(stream) =
            self.connections.get_mut(connection).and_then(|connection| connection.ask(now, length))
        else {
            return;
        };
        self.wanted = None;
        self.exchange = Some(Exchange { connection, stream, what, length, arrived: 0 });
        if let (What::Media(request), State::Playing(player)) = (what, &mut self.state) {
            player.handle_sent();
            self.first_request.get_or_insert(now);
            self.downloads.push(Download::new(request, length, now));
        }
    }

    /// Repeats the requests that were in progress.
    fn ask_again(&mut self) {
        if let Some(exchange) = self.exchange.take() {
            self.wanted = Some(exchange.what);
        }
    }

    /// Ends the current answer, and with it the connection if its transport cannot end a single answer.
    fn abort(&mut self, now: Instant, out: &mut Outbox) {
        self.follow(now, true);
        (self.wanted, self.media) = (None, None);
        let Some(exchange) = self.exchange.take() else { return };
        let connection = &mut self.connections[exchange.connection];
        if connection.is_open() && !connection.stop(now) {
            connection.close();
            self.take_spare(now, out);
        }
    }

    fn take_spare(&mut self, now: Instant, out: &mut Outbox) {
        let Some(mut connection) = self.spares.pop_front() else { return };
        connection.without(now, &self.closed, out);
        self.current = self.connections.len();
        self.connections.push(connection);
        self.reconnects += 1;
    }

    /// Carries out the player's commands and records its events.
    fn carry_out(&mut self, now: Instant, out: &mut Outbox) {
        loop {
            let State::Playing(player) = &mut self.state else { return };
            match player.poll_command() {
                Some(Command::Abort(_)) => self.abort(now, out),
                Some(Command::Request(request)) => {
                    self.media = Some(request);
                    self.wanted = Some(self.next(request));
                }
                None => {
                    while let Some(event) = player.poll_event() {
                        self.events.push((now, event));
                    }
                    return;
                }
            }
        }
    }

    // ---- answers

    /// Tells the player what has arrived of the running download and cannot be read yet, and notes its state.
    fn follow(&mut self, now: Instant, end: bool) {
        let Some(exchange) = &self.exchange else { return };
        let (What::Media(request), State::Playing(player)) = (exchange.what, &mut self.state) else { return };
        let out_of_order = self.connections[exchange.connection].out_of_order(exchange.stream);
        player.handle_unread(now, request.id, out_of_order);
        if let Some(download) = self.downloads.last_mut() {
            let in_order = exchange.arrived.saturating_sub(HEADERS);
            download.add(now, (in_order, out_of_order), end);
        }
    }

    /// Bytes arrived on a stream.
    fn arrived(&mut self, now: Instant, (connection, stream): (usize, StreamKey), bytes: u64) {
        let Some(exchange) = &mut self.exchange else { return };
        if (exchange.connection, exchange.stream) != (connection, stream) {
            return;
        }
        let before = exchange.arrived;
        exchange.arrived += bytes;
        let (arrived, length, what) = (exchange.arrived, exchange.length, exchange.what);
        let body = arrived.saturating_sub(HEADERS) - before.saturating_sub(HEADERS);
        if let What::Media(request) = what {
            let size = self.size(request);
            if let State::Playing(player) = &mut self.state {
                if before < HEADERS && arrived >= HEADERS {
                    player.handle_headers(now, request.id, Some(size));
                }
                if body > 0 {
                    player.handle_data(now, request.id, body);
                }
            }
        }
        // A player that gives the download up here does so by a command, which is carried out later.
        self.follow(now, arrived >= HEADERS + length);
        if arrived >= HEADERS + length {
            self.exchange = None;
            self.connections[connection].answered();
            self.complete(now, what);
        }
    }

    fn complete(&mut self, now: Instant, what: What) {
        match what {
            What::Manifest => self.wanted = Some(What::Header(Header::Index, 0)),
            What::Header(header, quality) => {
                self.missing[quality].handle(header);
                if header == Header::Index
                    && let State::Opening(opening) = &mut self.state
                    && let Some((settings, rule)) = opening.take()
                {
                    // The viewer has waited since the manifest was requested.
                    let began = self.began.unwrap_or(now);
                    let player = Player::new(settings, self.title.clone(), rule, began);
                    self.state = State::Playing(Box::new(player));
                }
            }
            What::Media(request) => {
                self.media = None;
                if let State::Playing(player) = &mut self.state {
                    player.handle_end(now, request.id);
                }
            }
        }
        if let Some(request) = self.media {
            self.wanted = Some(self.next(request));
        }
    }

    /// A connection has ended without being closed by the client.
    fn lost(&mut self, now: Instant, connection: usize, out: &mut Outbox) {
        self.connections[connection].close();
        if connection != self.current {
            return;
        }
        self.take_spare(now, out);
        let exchange = self.exchange.take_if(|exchange| exchange.connection == connection);
        match (exchange.map(|exchange| exchange.what), &mut self.state) {
            (Some(What::Media(request)), State::Playing(player)) => {
                player.handle_failed(now, request.id, true, "the connection was lost");
            }
            (Some(what), _) => self.wanted = Some(what),
            (None, _) => {}
        }
    }

    // ---- the turn

    /// Handles the notices of all connections. Returns whether there were any.
    fn take_notices(&mut self, now: Instant, out: &mut Outbox) -> bool {
        let mut any = false;
        for at in 0..self.connections.len() {
            while let Some(notice) = self.connections[at].poll_notice(now) {
                any = true;
                match notice {
                    Notice::Readable(stream) => {
                        let bytes = self.connections[at].read(now, stream);
                        self.arrived(now, (at, stream), bytes);
                    }
                    Notice::Closed => self.lost(now, at, out),
                    _ => {}
                }
            }
        }
        any
    }

    fn settle(&mut self, now: Instant, out: &mut Outbox) {
        loop {
            self.follow(now, false);
            let any = self.take_notices(now, out);
            self.carry_out(now, out);
            self.ask(now);
            for connection in &mut self.connections {
                connection.flush(now, out);
            }
            if !any {
                return;
            }
        }
    }
}

impl Host for DashClient {
    fn handle_packet(&mut self, now: Instant, packet: Packet, out: &mut Outbox) {
        if let Some(connection) = self.connections.iter_mut().find(|connection| connection.has(&packet)) {
            connection.handle_packet(now, packet, out);
        }
        self.settle(now, out);
    }

    fn handle_timeout(&mut self, now: Instant, out: &mut Outbox) {
        for connection in &mut self.connections {
            connection.handle_timeout(now, out);
        }
        self.follow(now, false);
        if let State::Playing(player) = &mut self.state
            && player.poll_timeout().is_some_and(|at| at <= now)
        {
            player.handle_timeout(now);
        }
        self.settle(now, out);
    }

    fn poll_timeout(&self) -> Option<Instant> {
        let player = match &self.state {
            State::Playing(player) => player.poll_timeout(),
            State::Opening(_) => None,
        };
        self.connections.iter().filter_map(Connection::poll_timeout).chain(player).min()
    }

    fn handle_path(&mut self, now: Instant, path: u8, up: bool, out: &mut Outbox) {
        self.closed.retain(|closed| *closed != path);
        if !up {
            self.closed.push(path);
        }
        for connection in &mut self.connections {
            connection.handle_path(now, (path, up), out);
        }
        self.settle(now, out);
    }
}
