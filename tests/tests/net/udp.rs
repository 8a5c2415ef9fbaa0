//! Flows of datagrams on real sockets, and UDP through the proxy.

use std::collections::BTreeSet;
use std::io::ErrorKind;
use std::net::SocketAddr;
use std::os::fd::AsFd;
use std::sync::{Arc, Mutex};

use tokio::io::Interest;
use tokio::net::UdpSocket;
use tributary_net::flow::{Ecn, FlowConfig, Form, MAX_DATAGRAM, SendDatagramError};
use tributary_net::proxy::{ForwardConfig, Forwarder, ServeConfig, Server};
use tributary_net::transport::{Connection, TransportConfig, TransportError};
use tributary_net::{ListenConfig, StreamError};
use tributary_tun::ReceiveBatch;

use crate::common::{client, echo, in_time, pair, paths, settings};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_flow_carries_datagrams_of_every_length_and_its_end_in_both_directions() {
    in_time(async {
        for plaintext in [false, true] {
            let (session, peer, _listener) = pair(settings(plaintext), 2).await;
            let config = FlowConfig { form: Some(Form::InOrder), ..FlowConfig::default() };
            let flow = session.open_flow(config).await.unwrap();
            let lengths = [3, 0, 1, 1200, 9000, MAX_DATAGRAM];
            for length in lengths {
                let datagram = vec![length as u8; length];
                assert_eq!(flow.send_datagrams([(&datagram[..], Ecn::Capable0)]), Ok(1));
                if length == lengths[0] {
                    let accepted = peer.accept_flow().await.unwrap();
                    assert_eq!(accepted.id(), flow.id());
                    tokio::spawn(async move {
                        let mut batch = Vec::new();
                        while let Ok(1..) = accepted.recv_datagrams(&mut batch, 8).await {
                            for datagram in batch.drain(..) {
                                accepted.send_datagrams([(&datagram.bytes[..], datagram.ecn)]).unwrap();
                            }
                        }
                        accepted.finish();
                        accepted.recv_datagram().await
                    });
                }
                let back = flow.recv_datagram().await.unwrap().unwrap();
                assert_eq!((back.bytes.len(), back.ecn), (length, Ecn::Capable0));
                assert!(back.bytes.iter().all(|byte| *byte == length as u8));
            }
            let long = vec![0; MAX_DATAGRAM + 1];
            assert_eq!(flow.send_datagram(&long), Err(SendDatagramError::TooLong(MAX_DATAGRAM + 1)));
            flow.finish();
            assert_eq!(flow.recv_datagram().await.unwrap(), None);
            assert_eq!(flow.send_datagram(b"late"), Err(SendDatagramError::NotOpen));
        }
    })
    .await;
}

#[tokio::test]
async fn a_wait_that_is_cancelled_takes_nothing_and_the_end_of_a_session_ends_it() {
    in_time(async {
        let (session, peer, _listener) = pair(settings(false), 1).await;
        let flow = session.open_flow(FlowConfig::default()).await.unwrap();
        flow.send_datagram(b"first").unwrap();
        let accepted = peer.accept_flow().await.unwrap();
        accepted.recv_datagram().await.unwrap().unwrap();
        for _ in 0..3 {
            tokio::select! {
                biased;
                received = accepted.recv_datagram() => panic!("{received:?}"),
                () = std::future::ready(()) => {}
            }
        }
        flow.send_datagram(b"second").unwrap();
        assert_eq!(accepted.recv_datagram().await.unwrap().unwrap().bytes, "second");
        flow.reset(9);
        assert_eq!(accepted.recv_datagram().await, Err(StreamError::Abandoned(9)));
        drop(session.close().await);
        assert!(peer.accept_flow().await.is_err());
        assert!(session.open_flow(FlowConfig::default()).await.is_err());
    })
    .await;
}

#[tokio::test]
async fn only_sessions_have_flows_and_the_others_say_so() {
    in_time(async {
        let address = echo().await;
        let path = [format!("127.0.0.1={address}").parse().unwrap()];
        let tcp = Connection::connect(&TransportConfig::new("tcp".parse().unwrap()), &path).await.unwrap();
        let refused = tcp.open_flow(FlowConfig::default()).await.unwrap_err();
        assert!(matches!(refused, TransportError::NoFlows("TCP")), "{refused}");
    })
    .await;
}

/// A UDP service that sends every datagram back to its sender.
pub async fn udp_echo() -> SocketAddr {
    counting_echo().await.0
}

/// The same, and the addresses of those that have sent.
async fn counting_echo() -> (SocketAddr, Arc<Mutex<BTreeSet<SocketAddr>>>) {
    let senders = Arc::new(Mutex::new(BTreeSet::new()));
    let socket = UdpSocket::bind("127.0.0.1:0").await.unwrap();
    let address = socket.local_addr().unwrap();
    let seen = senders.clone();
    tokio::spawn(async move {
        let mut buffer = vec![0; 1 << 16];
        while let Ok((length, from)) = socket.recv_from(&mut buffer).await {
            seen.lock().unwrap().insert(from);
            let _ = socket.send_to(&buffer[..length], from).await;
        }
    });
    (address, senders)
}

/// A proxy that forwards datagrams to these targets; the forwarder, and its address for datagrams.
async fn proxy(udp: &[String]) -> (Forwarder, SocketAddr) {
    let listen = ListenConfig::new(vec!["127.0.0.1:0".parse().unwrap()], settings(false));
    let udp = udp.iter().map(|target| target.parse().unwrap()).collect();
    let targets = vec![echo().await.to_string().parse().unwrap()];
    let server = Server::bind(ServeConfig { udp, ..ServeConfig::new(listen, targets) }).await.unwrap();
    let connect = client(settings(false), paths(2, server.addresses()[0]));
    let udp = vec!["127.0.0.1:0".parse().unwrap()];
    let config = ForwardConfig { udp, ..ForwardConfig::new(connect, Vec::new()) };
    tokio::spawn(server.run());
    let forwarder = Forwarder::bind(config).await.unwrap();
    let address = forwarder.udp_addresses()[0];
    (forwarder, address)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_applications_datagrams_pass_through_the_proxy_and_each_sender_gets_its_own() {
    in_time(async {
        let (forwarder, address) = proxy(&[udp_echo().await.to_string()]).await;
        tokio::spawn(forwarder.run());
        // One after another: sockets drop what their buffers cannot hold.
        let mut sockets = Vec::new();
        let mut buffer = vec![0; 1 << 16];
        for n in 0..20_u8 {
            let socket = UdpSocket::bind("127.0.0.1:0").await.unwrap();
            for length in [0, 1, 1200, 9000, MAX_DATAGRAM] {
                socket.send_to(&vec![n; length], address).await.unwrap();
                let (got, from) = socket.recv_from(&mut buffer).await.unwrap();
                assert_eq!((got, from), (length, address));
                assert!(buffer[..got].iter().all(|byte| *byte == n));
            }
            sockets.push(socket);
        }
        // Their flows stay apart.
        for (n, socket) in sockets.iter().enumerate() {
            socket.send_to(&[n as u8; 3], address).await.unwrap();
            assert_eq!(socket.recv_from(&mut buffer).await.unwrap(), (3, address));
            assert_eq!(buffer[..3], [n as u8; 3]);
        }
    })
    .await;
}

/// Datagrams that are sent together, as a window of QUIC is: more than a socket holds by default and one by one.
const BURST: usize = 256;
const LENGTH: usize = 1400;

type BatchedSocket = tributary_tun::UdpSocket<UdpSocket>;

async fn batched() -> BatchedSocket {
    let socket = UdpSocket::bind("127.0.0.1:0").await.unwrap();
    tributary_tun::fd::set_receive_buffer(socket.as_fd(), 1 << 20);
    tributary_tun::UdpSocket::new(socket).unwrap()
}

/// Sends a burst in one go, so that on a thread nobody reads meanwhile.
fn send_burst(socket: &BatchedSocket, to: SocketAddr) {
    let bytes = vec![7; BURST * LENGTH];
    bytes.chunks(32 * LENGTH).for_each(|together| socket.try_send(to, together, LENGTH, 0).unwrap());
}

#[tokio::test]
async fn a_burst_of_a_target_arrives_whole() {
    in_time(async {
        let target = batched().await;
        let (forwarder, _) = proxy(&[target.socket().local_addr().unwrap().to_string()]).await;
        let flow = forwarder.session().unwrap().open_flow(FlowConfig::default()).await.unwrap();
        flow.send_datagrams([&b"\0"[..], b"go"].map(|datagram| (datagram, Ecn::NotCapable))).unwrap();
        let (_, relay) = target.socket().recv_from(&mut [0; 8]).await.unwrap();
        send_burst(&target, relay);
        let mut arrived = Vec::new();
        while arrived.len() < BURST {
            flow.recv_datagrams(&mut arrived, BURST).await.unwrap();
        }
        assert!(arrived.iter().all(|datagram| datagram.bytes.len() == LENGTH));
    })
    .await;
}

#[tokio::test]
async fn a_burst_of_an_application_arrives_whole() {
    in_time(async {
        let (application, target) = (batched().await, batched().await);
        let (forwarder, address) = proxy(&[target.socket().local_addr().unwrap().to_string()]).await;
        tokio::spawn(forwarder.run());
        send_burst(&application, address);
        let (mut arrived, mut batch) = (0, ReceiveBatch::default());
        while arrived < BURST {
            target.socket().readable().await.unwrap();
            let received = target.socket().try_io(Interest::READABLE, || target.fill(&mut batch));
            match received {
                Err(error) if error.kind() == ErrorKind::WouldBlock => continue,
                received => received.unwrap(),
            }
            for (_, datagrams) in batch.runs() {
                arrived += datagrams.inspect(|(datagram, _)| assert_eq!(datagram.len(), LENGTH)).count();
            }
        }
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_flow_to_a_target_that_is_not_allowed_is_refused_with_a_reason() {
    in_time(async {
        let target = udp_echo().await;
        for (udp, head) in [
            (vec![], &b"\0"[..]),
            (vec![format!("dns={target}")], b"\x03web"),
            (vec![target.to_string()], b"\xff"),
        ] {
            let (forwarder, _) = proxy(&udp).await;
            let flow = forwarder.session().unwrap().open_flow(FlowConfig::default()).await.unwrap();
            flow.send_datagram(head).unwrap();
            assert_eq!(flow.recv_datagram().await, Err(StreamError::Abandoned(2)), "{udp:?}");
        }
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_flood_of_senders_is_bounded_and_those_before_it_go_on() {
    in_time(async {
        let (target, senders) = counting_echo().await;
        let (forwarder, address) = proxy(&[target.to_string()]).await;
        tokio::spawn(forwarder.run());
        let first = UdpSocket::bind("127.0.0.1:0").await.unwrap();
        let mut buffer = [0; 16];
        let mut ask = async || {
            first.send_to(b"here", address).await.unwrap();
            assert_eq!(first.recv_from(&mut buffer).await.unwrap(), (4, address));
        };
        ask().await;
        // From an address of their own: their ports are free again before the answers come, and another test may hold
        // them by then.
        for _ in 0..2000 {
            let other = UdpSocket::bind("127.0.0.2:0").await.unwrap();
            other.send_to(b"flood", address).await.unwrap();
        }
        ask().await;
        let flows = senders.lock().unwrap().len();
        assert!((2..=512).contains(&flows), "{flows} flows");
    })
    .await;
}
