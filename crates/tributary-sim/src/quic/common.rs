//! What [`super::quinn`] and [`super::noq`] have in common: settings, and operations on a stream. The two crates have the same
//! types, so both modules are given the same text.

/// Settings of an endpoint of `$quic`, and operations on its streams.
macro_rules! quic_common {
    ($quic:ident) => {
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
                .max_idle_timeout(config.idle_timeout.map(|timeout| {
                    IdleTimeout::try_from(timeout).expect("checked: milliseconds fit into 62 bits")
                }));
            Ok(transport)
        }

        fn window(bytes: u64) -> VarInt {
            VarInt::from_u64(bytes).expect("checked: windows fit into 62 bits")
        }

        fn client(config: &QuicConfig, transport: Arc<TransportConfig>, first_id: [u8; 20]) -> ClientConfig {
            let crypto: Arc<dyn $quic::crypto::ClientConfig> = match config.protection {
                Protection::Null => Arc::new(Null),
                Protection::Tls => Arc::new(
                    $quic::crypto::rustls::QuicClientConfig::try_from(tls::client())
                        .expect("the provider has QUIC's initial cipher suite"),
                ),
            };
            let mut client = ClientConfig::new(crypto);
            client
                .transport_config(transport)
                .token_store(Arc::new($quic::NoneTokenStore))
                .initial_dst_cid_provider(Arc::new(move || ConnectionId::new(&first_id)));
            client
        }

        fn server(config: &QuicConfig, transport: Arc<TransportConfig>) -> ServerConfig {
            let crypto: Arc<dyn $quic::crypto::ServerConfig> = match config.protection {
                Protection::Null => Arc::new(Null),
                Protection::Tls => Arc::new(
                    $quic::crypto::rustls::QuicServerConfig::try_from(tls::server())
                        .expect("the provider has QUIC's initial cipher suite"),
                ),
            };
            let mut server = ServerConfig::new(crypto, Arc::new(NoTokens));
            let mut tokens = $quic::ValidationTokenConfig::default();
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

        fn open(connection: &mut Connection, priority: u8) -> Option<StreamKey> {
            let id = connection.streams().open(Dir::Bi)?;
            connection.send_stream(id).set_priority(i32::from(priority)).expect("the stream is open");
            Some(id.into())
        }

        fn finish(connection: &mut Connection, id: StreamId) {
            // An error means that it was finished or refused before.
            let _ = connection.send_stream(id).finish();
        }

        fn stop(connection: &mut Connection, id: StreamId) {
            // An error says that it has been read to its end.
            let _ = connection.recv_stream(id).stop(VarInt::from_u32(0));
        }

        /// Bytes that were read, and whether the stream has ended.
        fn read(connection: &mut Connection, id: StreamId, most: u64) -> (u64, bool) {
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
    };
}

pub(super) use quic_common;
