//! [`Stack`] with quinn-proto: one connection, one path.

use core::fmt;
use core::time::Duration;
use std::sync::Arc;
use std::time::Instant as Opaque;

use bytes::{Bytes, BytesMut};
use quinn_proto::{
    ClientConfig, Connection, ConnectionHandle, ConnectionId, ConnectionIdGenerator, DatagramEvent, Dir,
    Endpoint, EndpointConfig, Event, IdleTimeout, ServerConfig, StreamEvent, StreamId, TransportConfig,
    VarInt,
};
use tributary_types::Rng;

use super::common::quic_common;
use super::config::{QuicConfig, QuicError};
use super::control::quinn::factory;
use super::crypto::null_quinn::{NoTokens, Null, ResetKey};
use super::crypto::{Protection, tls};
use super::random::{array, lending};
use super::stack::{Opened, Side, Stack, StackEvent, ZEROS, path_to};
use crate::transport::{PathSample, StreamKey};

/// One end of a connection with quinn-proto.
pub struct Quinn {
    side: Side,
    rng: Rng,
    endpoint: Endpoint,
    client: Option<ClientConfig>,
    connection: Option<(ConnectionHandle, Connection)>,
    /// A datagram that the endpoint itself answers with (version negotiation, refusal).
    answer: Option<Vec<u8>>,
    opened: Opened,
    lost: Option<String>,
}

impl fmt::Debug for Quinn {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Quinn").field("side", &self.side).finish_non_exhaustive()
    }
}

impl Quinn {
    pub fn new(config: &QuicConfig, side: Side) -> Result<Self, QuicError> {
        config.check(1)?;
        let mut rng = Rng::new(config.seed).child(side.label());
        let transport = Arc::new(transport(config)?);
        let endpoint = Arc::new(endpoint(config, &mut rng));
        let (client, server) = match side {
            Side::Client => (Some(client(config, transport, array(&mut rng))), None),
            Side::Server => (None, Some(Arc::new(server(config, transport)))),
        };
        let endpoint = Endpoint::new(endpoint, server, true, None);
        Ok(Self {
            side,
            rng,
            endpoint,
            client,
            connection: None,
            answer: None,
            opened: Opened::default(),

            lost: None,
        })
    }

    fn handle_endpoint_events(&mut self) {
        let Some((handle, connection)) = &mut self.connection else { return };
        while let Some(event) = connection.poll_endpoint_events() {
            if let Some(event) = self.endpoint.handle_event(*handle, event) {
                connection.handle_event(event);
            }
        }
    }
}

quic_common!(quinn_proto);

fn endpoint(config: &QuicConfig, rng: &mut Rng) -> EndpointConfig {
    let mut endpoint = EndpointConfig::new(Arc::new(ResetKey(rng.next_u64())));
    let ids = rng.child("connection ids");
    endpoint
        .rng_seed(Some(array(rng)))
        .cid_generator(move || Box::new(SeededIds(ids.clone())))
        .max_udp_payload_size(config.datagram)
        .expect("checked: at least 1200");
    endpoint
}

impl Stack for Quinn {
    fn start(&mut self, now: Opaque) {
        let Some(client) = self.client.take() else { return };
        let (endpoint, server) = (&mut self.endpoint, self.side.peer().address(0));
        let connected = lending(&mut self.rng, || endpoint.connect(now, client, server, tls::SERVER_NAME));
        self.connection = Some(connected.expect("the address and the name are valid"));
    }

    fn handle_datagram(&mut self, now: Opaque, path: usize, bytes: BytesMut) {
        let from = self.side.peer().address(path);
        let mut answer = Vec::new();
        let Self { rng, endpoint, connection, .. } = self;
        lending(rng, || match endpoint.handle(now, from, None, None, bytes, &mut answer) {
            Some(DatagramEvent::ConnectionEvent(_, event)) => {
                if let Some((_, connection)) = connection {
                    connection.handle_event(event);
                }
            }
            Some(DatagramEvent::NewConnection(incoming)) if connection.is_none() => {
                *connection = endpoint.accept(incoming, now, &mut answer, None).ok();
            }
            Some(DatagramEvent::NewConnection(incoming)) => endpoint.ignore(incoming),
            Some(DatagramEvent::Response(_)) | None => {}
        });
        if !answer.is_empty() {
            self.answer = Some(answer);
        }
        self.handle_endpoint_events();
    }

    fn handle_timeout(&mut self, now: Opaque) {
        if let Some((_, connection)) = &mut self.connection {
            connection.handle_timeout(now);
        }
        self.handle_endpoint_events();
    }

    /// With one path, link events are ignored: losses show the outage.
    fn handle_path(&mut self, _: Opaque, _: usize, _: bool) {}

    fn poll_timeout(&mut self) -> Option<Opaque> {
        self.connection.as_mut()?.1.poll_timeout()
    }

    fn poll_transmit(&mut self, now: Opaque, buffer: &mut Vec<u8>) -> Option<usize> {
        if let Some(answer) = self.answer.take() {
            buffer.extend_from_slice(&answer);
            return Some(0);
        }
        let (_, connection) = self.connection.as_mut()?;
        let transmit = connection.poll_transmit(now, 1, buffer)?;
        Some(path_to(transmit.destination))
    }

    fn poll_event(&mut self, _: Opaque) -> Option<StackEvent> {
        let (_, connection) = self.connection.as_mut()?;
        loop {
            if let Some(event) = self.opened.poll(|| connection.streams().accept(Dir::Bi).map(u64::from)) {
                return Some(event);
            }
            return Some(match connection.poll()? {
                Event::Connected => StackEvent::Connected,
                Event::ConnectionLost { reason } => {
                    self.lost = Some(reason.to_string());
                    StackEvent::Lost
                }
                Event::Stream(StreamEvent::Readable { id }) => StackEvent::Readable(id.into()),
                Event::Stream(StreamEvent::Writable { id }) => StackEvent::Writable(id.into()),
                Event::Stream(StreamEvent::Opened { .. }) => {
                    self.opened.announce();
                    continue;
                }
                Event::Stream(StreamEvent::Stopped { id, error_code }) => {
                    // An error says that it has ended already.
                    let _ = connection.send_stream(id).reset(error_code);
                    continue;
                }
                _ => continue,
            });
        }
    }

    fn open(&mut self, priority: u8) -> Option<StreamKey> {
        let (_, connection) = self.connection.as_mut()?;
        open(connection, priority)
    }

    fn write(&mut self, stream: StreamKey, bytes: u64) -> u64 {
        let (Some((_, connection)), Some(id)) = (&mut self.connection, stream_id(stream)) else { return 0 };
        let mut stream = connection.send_stream(id);
        let mut written = 0;
        while written < bytes {
            let length = (bytes - written).min(ZEROS.len() as u64) as usize;
            match stream.write_chunks(&mut [Bytes::from_static(&ZEROS[..length])]) {
                Ok(taken) => written += taken.bytes as u64,
                Err(_) => break,
            }
        }
        written
    }

    fn finish(&mut self, stream: StreamKey) {
        if let (Some((_, connection)), Some(id)) = (&mut self.connection, stream_id(stream)) {
            finish(connection, id);
        }
    }

    fn stop(&mut self, stream: StreamKey) {
        if let (Some((_, connection)), Some(id)) = (&mut self.connection, stream_id(stream)) {
            stop(connection, id);
        }
    }

    fn read(&mut self, stream: StreamKey, most: u64) -> (u64, bool) {
        let (Some((_, connection)), Some(id)) = (&mut self.connection, stream_id(stream)) else {
            return (0, false);
        };
        read(connection, id, most)
    }

    fn lost(&self) -> Option<&str> {
        self.lost.as_deref()
    }

    fn lost_bytes(&self) -> u64 {
        self.connection.as_ref().map_or(0, |(_, connection)| connection.stats().path.lost_bytes)
    }

    fn rtt(&self, _: usize) -> Option<Duration> {
        let (_, connection) = self.connection.as_ref()?;
        (!connection.is_handshaking()).then(|| connection.rtt())
    }

    fn sample(&self, _: usize) -> Option<PathSample> {
        let (_, connection) = self.connection.as_ref()?;
        let metrics = connection.congestion_state().metrics();
        Some(PathSample {
            window: metrics.congestion_window,
            threshold: metrics.ssthresh.unwrap_or(u64::MAX),
            srtt: connection.rtt(),
            ..PathSample::default()
        })
    }
}
