//! Subflows over QUIC: what they carry, and what happens where UDP does not get through.

use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use tokio::net::UdpSocket;
use tributary_net::clients::{Client, Clients};
use tributary_net::{
    Common, ConnectConfig, ConnectError, FlowConfig, HandshakeError, Key, Keys, ListenConfig, Listener,
    PathConfig, PrivateKey, Refusal, Session, SettingsError, SubflowProtocol, connect,
};
use tributary_testing::{becomes, in_time};

const LIMIT: Duration = Duration::from_secs(10);
const MS: Duration = Duration::from_millis(1);

fn quic(keys: impl Into<Keys>) -> Common {
    Common { quic: true, ..Common::new(keys) }
}

fn shared() -> Key {
    Key::from_bytes([42; 32])
}

/// A server that sends back what arrives, on streams and flows.
async fn echo(common: Common) -> SocketAddr {
    let config = ListenConfig::new(vec!["127.0.0.1:0".parse().unwrap()], common);
    let mut listener = Listener::bind(config).await.unwrap();
    let address = listener.addresses()[0];
    tokio::spawn(async move {
        while let Some((session, _)) = listener.accept().await {
            tokio::spawn(serve(session));
        }
    });
    address
}

async fn serve(session: Session) {
    let session = Arc::new(session);
    let of_flows = session.clone();
    tokio::spawn(async move {
        while let Ok(flow) = of_flows.accept_flow().await {
            tokio::spawn(async move {
                while let Ok(Some(datagram)) = flow.recv_datagram().await {
                    let _ = flow.send_datagram(&datagram.bytes);
                }
            });
        }
    });
    while let Ok(mut stream) = session.accept_stream().await {
        tokio::spawn(async move {
            while let Ok(Some(chunk)) = stream.read_chunk().await {
                if stream.write_chunk(chunk).await.is_err() {
                    return;
                }
            }
            let _ = stream.finish();
        });
    }
}

fn config(paths: &[(&str, SocketAddr)], common: Common) -> ConnectConfig {
    let path =
        |(local, server): &(&str, SocketAddr)| format!("{local}={server}").parse::<PathConfig>().unwrap();
    ConnectConfig { paths: paths.iter().map(path).collect(), common, timeout: LIMIT }
}

/// What carries the subflows that have moved data.
fn protocols(session: &Session) -> Vec<SubflowProtocol> {
    session.stats().kernel.iter().map(|report| report.protocol).collect()
}

/// Sends bytes on a stream and reads them back.
async fn exchange(session: &Session, bytes: usize) {
    let sent: Vec<u8> = (0..bytes).map(|n| (n % 251) as u8).collect();
    let stream = session.open_stream(0).await.unwrap();
    let (mut read, mut write) = tokio::io::split(stream);
    let writing = async {
        tokio::io::AsyncWriteExt::write_all(&mut write, &sent).await.unwrap();
        tokio::io::AsyncWriteExt::shutdown(&mut write).await.unwrap();
    };
    let mut got = Vec::new();
    let reading = tokio::io::AsyncReadExt::read_to_end(&mut read, &mut got);
    let ((), read) = tokio::join!(writing, reading);
    read.unwrap();
    assert!(sent == got, "{} of {} bytes, or other ones", got.len(), sent.len());
}

#[tokio::test(flavor = "multi_thread")]
async fn streams_and_datagrams_go_both_ways_over_two_paths() {
    in_time(async {
        let server = echo(quic(shared())).await;
        let session =
            connect(config(&[("127.0.0.2", server), ("127.0.0.3", server)], quic(shared()))).await.unwrap();
        becomes("both paths are up", || session.stats().subflows.len() == 2).await;
        exchange(&session, 8 << 20).await;
        assert_eq!(protocols(&session), [SubflowProtocol::Quic; 2]);
        let flow = session.open_flow(FlowConfig::default()).await.unwrap();
        for n in 0..200_u8 {
            flow.send_datagram(&[n; 900]).unwrap();
            assert_eq!(flow.recv_datagram().await.unwrap().unwrap().bytes[..], [n; 900]);
        }
        let stats = session.stats();
        assert!(
            stats.kernel.iter().all(|report| report.tcp.rtt < LIMIT && report.tcp.bytes_acked > 0),
            "{stats:?}"
        );
        session.close().await.unwrap();
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn ends_with_keys_of_their_own_know_each_other_and_a_stranger_is_told_so() {
    in_time(async {
        let (server, client) = (PrivateKey::generate().unwrap(), PrivateKey::generate().unwrap());
        let clients = Clients::new([Client::new("laptop", client.public())]);
        let public = server.public();
        let address = echo(quic(Keys::Server { own: server, clients })).await;
        let of = |own| quic(Keys::Client { own, server: public });
        let session = connect(config(&[("127.0.0.1", address)], of(client))).await.unwrap();
        exchange(&session, 1 << 20).await;
        assert_eq!(protocols(&session), [SubflowProtocol::Quic]);
        let stranger = connect(config(&[("127.0.0.1", address)], of(PrivateKey::generate().unwrap()))).await;
        assert!(
            matches!(stranger, Err(ConnectError::Handshake(HandshakeError::Refused(Refusal::UnknownClient)))),
            "{stranger:?}"
        );
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_wrong_shared_key_is_an_error_of_the_key() {
    in_time(async {
        let server = echo(quic(shared())).await;
        let mut config = config(&[("127.0.0.1", server)], quic(Key::from_bytes([1; 32])));
        config.timeout = Duration::from_secs(2);
        let error = connect(config).await.unwrap_err().to_string();
        assert!(error.contains("key"), "{error}");
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn where_the_server_has_no_quic_or_udp_is_lost_tcp_is_used_at_once() {
    in_time(async {
        let server = echo(Common::new(shared())).await;
        // Takes the packets, so that nothing says that nobody listens.
        let _hole = UdpSocket::bind(server).await.unwrap();
        let began = Instant::now();
        let session = connect(config(&[("127.0.0.1", server)], quic(shared()))).await.unwrap();
        // real time: the wait for QUIC is what is tested
        assert!(began.elapsed() < Duration::from_secs(2), "{:?}", began.elapsed());
        exchange(&session, 1 << 20).await;
        assert_eq!(protocols(&session), [SubflowProtocol::Tcp]);
    })
    .await;
}

/// Where the system chooses the port, another program's UDP port of the same number is no obstacle; a port that was asked for is.
#[tokio::test]
async fn a_port_is_chosen_that_is_free_for_both_protocols() {
    // The system prefers odd numbers for ports that it chooses (inet_csk_find_open_port). A quarter of these are taken.
    let mut taken = Vec::new();
    for port in (32_769..61_000).step_by(8) {
        taken.extend(UdpSocket::bind(("127.0.0.9", port)).await);
    }
    let at = |port| ListenConfig::new(vec![SocketAddr::from(([127, 0, 0, 9], port))], quic(shared()));
    for _ in 0..20 {
        Listener::bind(at(0)).await.unwrap();
    }
    let one = taken[0].local_addr().unwrap().port();
    let refused = Listener::bind(at(one)).await.unwrap_err().to_string();
    assert!(refused.contains("UDP") && refused.contains("another program uses this port"), "{refused}");
}

#[tokio::test]
async fn settings_that_quic_does_not_have_are_refused() {
    let server = "127.0.0.1:9".parse().unwrap();
    for (common, part) in [
        (Common { plaintext: true, ..quic(shared()) }, "encrypted"),
        (Common { congestion: Some("lia".to_owned()), ..quic(shared()) }, "`lia`"),
    ] {
        let error = connect(config(&[("127.0.0.1", server)], common.clone())).await.unwrap_err();
        assert!(matches!(error, ConnectError::Settings(_)) && error.is_fatal());
        assert!(error.to_string().contains(part), "{error}");
        let listening = Listener::bind(ListenConfig::new(vec![server], common)).await.unwrap_err();
        assert!(listening.to_string().contains(part), "{listening}");
    }
    assert!(SettingsError::PlaintextKeys.to_string().contains("--shared-key"));
}

/// Packets of this length are full ones.
const FULL: usize = 1000;

/// Forwards UDP packets to a server, as a NAT does.
struct Nat {
    address: SocketAddr,
    server: SocketAddr,
    outside: Arc<Mutex<Arc<UdpSocket>>>,
    inside: Arc<UdpSocket>,
    client: Arc<Mutex<Option<SocketAddr>>>,
    /// Time that the server's packets take.
    delay: Duration,
    /// The next full packet of the server is lost.
    loses: Arc<AtomicBool>,
}

impl Nat {
    async fn start(server: SocketAddr, delay: Duration) -> Self {
        let inside = Arc::new(UdpSocket::bind("127.0.0.1:0").await.unwrap());
        let outside = Arc::new(Mutex::new(Arc::new(UdpSocket::bind("127.0.0.1:0").await.unwrap())));
        let (address, client, loses) = (inside.local_addr().unwrap(), Arc::default(), Arc::default());
        let nat = Self { address, server, outside, inside, client, delay, loses };
        let (inside, outside, client) = (nat.inside.clone(), nat.outside.clone(), nat.client.clone());
        tokio::spawn(async move {
            let mut packet = vec![0; 65_536];
            loop {
                let Ok((length, from)) = inside.recv_from(&mut packet).await else { continue };
                *client.lock().unwrap() = Some(from);
                let socket = outside.lock().unwrap().clone();
                let _ = socket.send_to(&packet[..length], server).await;
            }
        });
        nat.answer();
        nat
    }

    /// Forwards what comes to the present outer port.
    fn answer(&self) {
        let (socket, inside, client) =
            (self.outside.lock().unwrap().clone(), self.inside.clone(), self.client.clone());
        let (delay, loses) = (self.delay, self.loses.clone());
        let (give, mut take) = tokio::sync::mpsc::unbounded_channel::<(Instant, Vec<u8>)>();
        tokio::spawn(async move {
            let mut packet = vec![0; 65_536];
            while let Ok((length, _)) = socket.recv_from(&mut packet).await {
                if length >= FULL && loses.swap(false, Ordering::Relaxed) {
                    continue;
                }
                let _ = give.send((Instant::now() + delay, packet[..length].to_vec()));
            }
        });
        tokio::spawn(async move {
            while let Some((at, packet)) = take.recv().await {
                if !delay.is_zero() {
                    tokio::time::sleep_until(at.into()).await; // real time: the way of the packets
                }
                let to = *client.lock().unwrap();
                if let Some(to) = to {
                    let _ = inside.send_to(&packet, to).await;
                }
            }
        });
    }

    /// The NAT forgets the connection: its packets have another source from now on, and answers to the old one are lost.
    async fn rebind(&self) {
        let fresh = Arc::new(UdpSocket::bind("127.0.0.1:0").await.unwrap());
        assert_ne!(fresh.local_addr().unwrap(), self.server);
        *self.outside.lock().unwrap() = fresh;
        self.answer();
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_subflow_survives_a_nat_that_forgets_it() {
    in_time(async {
        let nat = Nat::start(echo(quic(shared())).await, Duration::ZERO).await;
        let session = connect(config(&[("127.0.0.1", nat.address)], quic(shared()))).await.unwrap();
        exchange(&session, 1 << 20).await;
        let subflow = session.stats().subflows[0].subflow;
        for _ in 0..3 {
            nat.rebind().await;
            exchange(&session, 1 << 20).await;
        }
        let after: Vec<_> = session.stats().subflows.iter().map(|stats| stats.subflow).collect();
        assert_eq!(after, [subflow], "the same subflow");
    })
    .await;
}

/// A lost packet holds up the stream that it carried, and not the datagrams behind it.
#[tokio::test(flavor = "multi_thread")]
async fn datagrams_overtake_a_lost_packet_of_a_stream() {
    in_time(async {
        let nat = Nat::start(echo(quic(shared())).await, 50 * MS).await;
        let session = Arc::new(connect(config(&[("127.0.0.1", nat.address)], quic(shared()))).await.unwrap());
        let (mut read, mut write) = tokio::io::split(session.open_stream(0).await.unwrap());
        let flow = Arc::new(session.open_flow(FlowConfig::default()).await.unwrap());
        let (pieces, datagrams) = (Arc::new(Mutex::new(Vec::new())), Arc::new(Mutex::new(Vec::new())));
        let sending = flow.clone();
        let (came, received) = (pieces.clone(), datagrams.clone());
        let tasks = [
            tokio::spawn(async move {
                while tokio::io::AsyncWriteExt::write_all(&mut write, &[1; 16_384]).await.is_ok() {
                    tokio::time::sleep(2 * MS).await; // real time: 65 Mbit/s
                }
            }),
            tokio::spawn(async move {
                let mut piece = vec![0; 65_536];
                while tokio::io::AsyncReadExt::read(&mut read, &mut piece)
                    .await
                    .is_ok_and(|length| length > 0)
                {
                    came.lock().unwrap().push(Instant::now());
                }
            }),
            tokio::spawn(async move {
                while sending.send_datagram(&[1; 50]).is_ok() {
                    tokio::time::sleep(5 * MS).await; // real time: 80 kbit/s, which is sparse
                }
            }),
            tokio::spawn(async move {
                while let Ok(Some(_)) = flow.recv_datagram().await {
                    received.lock().unwrap().push(Instant::now());
                }
            }),
        ];
        // Another process may have both processors for a while: several losses, of which one must show it.
        let mut overtook = 0;
        for _ in 0..10 {
            tokio::time::sleep(200 * MS).await; // real time: the transfer goes on
            pieces.lock().unwrap().clear();
            datagrams.lock().unwrap().clear();
            nat.loses.store(true, Ordering::Relaxed);
            tokio::time::sleep(400 * MS).await; // real time: a loss, and its repair after two round trips
            let pieces = pieces.lock().unwrap();
            let longest = pieces.windows(2).max_by_key(|pair| pair[1] - pair[0]).expect("it goes on");
            let stall = longest[0] + 10 * MS..longest[1] - 10 * MS;
            let during = datagrams.lock().unwrap().iter().filter(|at| stall.contains::<Instant>(at)).count();
            overtook = overtook.max(during);
            if overtook >= 4 {
                break;
            }
        }
        tasks.iter().for_each(tokio::task::JoinHandle::abort);
        assert!(overtook >= 4, "{overtook} datagrams while the stream waited");
    })
    .await;
}

/// First packets of connections that clients open, caught by a port that never answers.
async fn first_packets(count: usize) -> Vec<Vec<u8>> {
    let mut packets = Vec::new();
    for _ in 0..count {
        let catcher = UdpSocket::bind("127.0.0.1:0").await.unwrap();
        let to = catcher.local_addr().unwrap();
        let client = tokio::spawn(connect(config(&[("127.0.0.1", to)], quic(shared()))));
        let mut packet = vec![0; 2000];
        let length = catcher.recv(&mut packet).await.unwrap();
        client.abort();
        packets.push(packet[..length].to_vec());
    }
    packets
}

/// Whether a packet is a Retry (RFC 9000 §17.2.5).
fn is_retry(packet: &[u8]) -> bool {
    packet[0] & 0xf0 == 0xf0
}

/// Each packet comes from an address of its own, and nobody there answers.
#[tokio::test(flavor = "multi_thread")]
async fn handshakes_from_addresses_that_are_not_validated_are_few() {
    in_time(async {
        let server = echo(quic(shared())).await;
        let packets = first_packets(40).await;
        let (mut sockets, mut retries) = (Vec::new(), 0);
        for (n, packet) in packets.iter().enumerate() {
            let socket = UdpSocket::bind(format!("127.0.1.{}:0", n + 1)).await.unwrap();
            socket.send_to(packet, server).await.unwrap();
            let mut answer = vec![0; 2000];
            let length = socket.recv(&mut answer).await.unwrap();
            retries += usize::from(is_retry(&answer[..length]));
            sockets.push(socket);
        }
        assert_eq!(retries, 8, "the first 32 have a place");
        let session = connect(config(&[("127.0.0.1", server)], quic(shared()))).await.unwrap();
        exchange(&session, 100_000).await;
        assert_eq!(protocols(&session), [SubflowProtocol::Quic], "a client that answers the Retry");
    })
    .await;
}
