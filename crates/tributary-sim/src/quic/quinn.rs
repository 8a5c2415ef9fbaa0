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

fn transport(config: &QuicConfig) -> Result<TransportConfig, QuicError> {
    let factory = factory(&config.controller, config.datagram, config.seed)
        .ok_or_else(|| QuicError::UnknownController { name: config.controller.clone() })?;
    let mut transport = TransportConfig::default();
    transport
        .congestion_controller_factory(factory)
        .initial_mtu(config.datagram)
        .min_mtu(config.datagram)
        .mtu_discovery_config(None)
        .enable_segmentation_offload(false)
        .max_concurrent_bidi_streams(config.streams.into())
        .max_concurrent_uni_streams(0_u32.into())
        .receive_window(window(config.receive_window))
        .stream_receive_window(window(config.stream_receive_window))
        .send_window(config.send_window)
        .datagram_receive_buffer_size(None)
        .max_idle_timeout(
            config.idle_timeout.map(|timeout| {
                IdleTimeout::try_from(timeout).expect("checked: milliseconds fit into 62 bits")
            }),
        );
    Ok(transport)
}

fn window(bytes: u64) -> VarInt {
    VarInt::from_u64(bytes).expect("checked: windows fit into 62 bits")
}

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

fn client(config: &QuicConfig, transport: Arc<TransportConfig>, first_id: [u8; 20]) -> ClientConfig {
    let crypto: Arc<dyn quinn_proto::crypto::ClientConfig> = match config.protection {
        Protection::Null => Arc::new(Null),
        Protection::Tls => Arc::new(
            quinn_proto::crypto::rustls::QuicClientConfig::try_from(tls::client())
                .expect("the provider has QUIC's initial cipher suite"),
        ),
    };
    let mut client = ClientConfig::new(crypto);
    client
        .transport_config(transport)
        .token_store(Arc::new(quinn_proto::NoneTokenStore))
        .initial_dst_cid_provider(Arc::new(move || ConnectionId::new(&first_id)));
    client
}

fn server(config: &QuicConfig, transport: Arc<TransportConfig>) -> ServerConfig {
    let crypto: Arc<dyn quinn_proto::crypto::ServerConfig> = match config.protection {
        Protection::Null => Arc::new(Null),
        Protection::Tls => Arc::new(
            quinn_proto::crypto::rustls::QuicServerConfig::try_from(tls::server())
                .expect("the provider has QUIC's initial cipher suite"),
        ),
    };
    let mut server = ServerConfig::new(crypto, Arc::new(NoTokens));
    let mut tokens = quinn_proto::ValidationTokenConfig::default();
    tokens.sent(0);
    server.transport_config(transport).validation_token_config(tokens);
    server
}

/// Connection identifiers from the seed.
struct SeededIds(Rng);

impl ConnectionIdGenerator for SeededIds {
    fn generate_cid(&mut self) -> ConnectionId {
        ConnectionId::new(&array::<8>(&mut self.0))
    }

    fn cid_len(&self) -> usize {
        8
    }

    fn cid_lifetime(&self) -> Option<Duration> {
        None
    }
}

fn stream_id(stream: StreamKey) -> Option<StreamId> {
    VarInt::from_u64(stream).ok().map(StreamId::from)
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
        let id = connection.streams().open(Dir::Bi)?;
        connection.send_stream(id).set_priority(i32::from(priority)).expect("the stream is open");
        Some(id.into())
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
            // An error means that it was finished or refused before.
            let _ = connection.send_stream(id).finish();
        }
    }

    fn stop(&mut self, stream: StreamKey) {
        if let (Some((_, connection)), Some(id)) = (&mut self.connection, stream_id(stream)) {
            // An error says that it has been read to its end.
            let _ = connection.recv_stream(id).stop(VarInt::from_u32(0));
        }
    }

    fn read(&mut self, stream: StreamKey, most: u64) -> (u64, bool) {
        let (Some((_, connection)), Some(id)) = (&mut self.connection, stream_id(stream)) else {
            return (0, false);
        };
        let mut stream = connection.recv_stream(id);
        let Ok(mut chunks) = stream.read(true) else { return (0, false) };
        let (mut read, mut ended) = (0, false);
        loop {
            // An empty read still shows whether the stream has ended.
            let most = usize::try_from(most - read).unwrap_or(usize::MAX);
            match chunks.next(most) {
                Ok(Some(chunk)) if most > 0 => read += chunk.bytes.len() as u64,
                Ok(None) => {
                    ended = true;
                    break;
                }
                _ => break,
            }
        }
        let _ = chunks.finalize(); // a flush follows
        (read, ended)
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
