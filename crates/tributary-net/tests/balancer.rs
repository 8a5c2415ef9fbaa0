//! Several instances of a server behind a load balancer that leads connections to them in turn and knows nothing of sessions.
//!
//! The balancer is a few lines here; a real one does the same to TCP connections.

use std::net::SocketAddr;
use std::sync::{Arc, Mutex};

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::oneshot;
use tokio::task::{AbortHandle, JoinHandle, JoinSet};
use tributary_net::clients::{Client, Clients};
use tributary_net::proxy::{Drained, ForwardConfig, Forwarder, ServeConfig, Server};
use tributary_net::{
    Common, ConnectConfig, Key, Keys, ListenConfig, Listener, OwnAddress, PathState, PrivateKey, Session,
    connect,
};
use tributary_testing::{HANG, becomes, echo, in_time};

/// Close code of a session that its server no longer has.
const GONE: u32 = 5;

/// Leads connections to the instances in turn.
#[derive(Clone, Default)]
struct Balancer {
    instances: Arc<Mutex<Vec<SocketAddr>>>,
    open: Arc<Mutex<Vec<(SocketAddr, AbortHandle)>>>,
}

impl Balancer {
    async fn start(instances: &[SocketAddr]) -> (Self, SocketAddr) {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let balancer = Self { instances: Arc::new(Mutex::new(instances.to_vec())), open: Arc::default() };
        tokio::spawn(balancer.clone().run(listener));
        (balancer, address)
    }

    async fn run(self, listener: TcpListener) {
        let mut relays = JoinSet::new();
        for turn in 0.. {
            let (mut client, _) = listener.accept().await.unwrap();
            let to = {
                let instances = self.instances.lock().unwrap();
                instances[turn % instances.len()]
            };
            let relay = relays.spawn(async move {
                let Ok(mut server) = TcpStream::connect(to).await else { return };
                let _ = tokio::io::copy_bidirectional(&mut client, &mut server).await;
            });
            self.open.lock().unwrap().push((to, relay));
        }
    }

    /// Connections that were led to an instance so far.
    fn led_to(&self, instance: SocketAddr) -> usize {
        self.open.lock().unwrap().iter().filter(|(to, _)| *to == instance).count()
    }

    /// From now on it leads to this instance only.
    fn lead_to(&self, instance: SocketAddr) {
        *self.instances.lock().unwrap() = vec![instance];
    }

    /// Every connection breaks.
    fn cut(&self) {
        self.open.lock().unwrap().iter().for_each(|(_, relay)| relay.abort());
    }

    /// An instance is gone, with its connections.
    fn kill(&self, instance: SocketAddr) {
        self.instances.lock().unwrap().retain(|other| *other != instance);
        let open = self.open.lock().unwrap();
        open.iter().filter(|(to, _)| *to == instance).for_each(|(_, relay)| relay.abort());
    }
}

fn common() -> Common {
    Common::new(Key::from_bytes([42; 32]))
}

/// An instance that sends back what arrives, each stream begun with its number.
async fn instance(number: u8) -> SocketAddr {
    instance_at(number, None, common()).await
}

/// The same, which tells clients an address of its own.
async fn instance_at(number: u8, own: Option<SocketAddr>, common: Common) -> SocketAddr {
    let own: Option<OwnAddress> = own.map(|own| own.to_string().parse().unwrap());
    let config = ListenConfig { own, ..ListenConfig::new(vec!["127.0.0.1:0".parse().unwrap()], common) };
    let mut listener = Listener::bind(config).await.unwrap();
    let address = listener.addresses()[0];
    tokio::spawn(async move {
        while let Some((session, _)) = listener.accept().await {
            tokio::spawn(async move {
                while let Ok(mut stream) = session.accept_stream().await {
                    let mut bytes = Vec::new();
                    if stream.read_to_end(&mut bytes).await.is_ok() {
                        stream.write_all(&[&[number], bytes.as_slice()].concat()).await.unwrap();
                        stream.shutdown().await.unwrap();
                    }
                }
            });
        }
    });
    address
}

/// A proxy's server that leads to an echo; it is drained when it is told to.
async fn proxy() -> (SocketAddr, oneshot::Sender<()>, JoinHandle<Drained>) {
    let listen = ListenConfig::new(vec!["127.0.0.1:0".parse().unwrap()], common());
    let server =
        Server::bind(ServeConfig::new(listen, vec![echo().to_string().parse().unwrap()])).await.unwrap();
    let address = server.addresses()[0];
    let (stop, stopped) = oneshot::channel();
    let stopped = async { drop(stopped.await) };
    (address, stop, tokio::spawn(server.run_until(stopped, HANG)))
}

/// An application's connection through the proxy, after its first answer.
async fn answered(proxy: SocketAddr) -> std::io::Result<TcpStream> {
    let mut tcp = TcpStream::connect(proxy).await?;
    exchange(&mut tcp, 1).await.map(|()| tcp)
}

/// Sends bytes and reads them back.
async fn exchange(tcp: &mut TcpStream, byte: u8) -> std::io::Result<()> {
    let (sent, mut got) = (vec![byte; 100_000], vec![0; 100_000]);
    let (mut read, mut write) = tcp.split();
    let (written, read) = tokio::join!(write.write_all(&sent), read.read_exact(&mut got));
    written.and(read)?;
    assert!(sent == got, "other bytes");
    Ok(())
}

async fn connected(server: SocketAddr) -> Session {
    connected_as(server, common()).await
}

async fn connected_as(server: SocketAddr, common: Common) -> Session {
    let paths = [1, 2].map(|host| format!("127.0.0.{host}={server}").parse().unwrap()).to_vec();
    connect(ConnectConfig { paths, common, timeout: HANG }).await.unwrap()
}

/// The number of the instance that has the session, after a transfer.
async fn asked(session: &Session) -> u8 {
    let sent = vec![7; 1 << 20];
    let mut stream = session.open_stream(0).await.unwrap();
    stream.write_all(&sent).await.unwrap();
    stream.shutdown().await.unwrap();
    let mut got = Vec::new();
    stream.read_to_end(&mut got).await.unwrap();
    assert!(got[1..] == sent, "other bytes");
    got[0]
}

async fn has_both_paths(session: &Session) {
    becomes("both paths are up", || {
        session.stats().paths.iter().filter(|path| path.state == PathState::Up).count() == 2
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn all_subflows_of_a_session_reach_the_same_instance() {
    in_time(async {
        let instances = [instance(0).await, instance(1).await, instance(2).await];
        let (balancer, address) = Balancer::start(&instances).await;
        let session = connected(address).await;
        has_both_paths(&session).await;
        asked(&session).await;
        let led = instances.map(|instance| balancer.led_to(instance));
        assert!(led.iter().all(|led| *led > 0), "some attempt was led to another instance: {led:?}");
    })
    .await;
}

/// In step with each other, three clients whose paths are led to a wrong instance would be led there again and again.
#[tokio::test(flavor = "multi_thread")]
async fn clients_do_not_keep_each_other_from_their_instances() {
    in_time(async {
        let instances = [instance(0).await, instance(1).await, instance(2).await];
        let (_balancer, address) = Balancer::start(&instances).await;
        let mut clients = JoinSet::new();
        for _ in 0..9 {
            clients.spawn(connected(address));
        }
        for session in clients.join_all().await {
            has_both_paths(&session).await;
        }
    })
    .await;
}

/// The balancer leads to another instance only, so by it alone the session would end.
#[tokio::test(flavor = "multi_thread")]
async fn subflows_that_join_go_to_the_address_of_their_instance() {
    in_time(async {
        let (door, own) = Balancer::start(&[]).await;
        let first = instance_at(0, Some(own), common()).await;
        door.lead_to(first);
        let (balancer, address) = Balancer::start(&[first]).await;
        let session = connected(address).await;
        has_both_paths(&session).await;
        balancer.lead_to(instance(1).await);
        balancer.cut();
        becomes("both paths go to the instance itself", || door.led_to(first) >= 2).await;
        has_both_paths(&session).await;
        assert_eq!(asked(&session).await, 0);
        // Both again, and once more by its own address.
        let before = door.led_to(first);
        door.cut();
        becomes("both paths come back", || door.led_to(first) >= before + 2).await;
        has_both_paths(&session).await;
        assert_eq!(asked(&session).await, 0);
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_address_where_nobody_listens_leaves_the_way_by_the_balancer() {
    in_time(async {
        // Bound and not listening.
        let nobody = std::net::UdpSocket::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
        let instances = [instance_at(0, Some(nobody), common()).await, instance(1).await];
        let (balancer, address) = Balancer::start(&instances[..1]).await;
        let session = connected(address).await;
        has_both_paths(&session).await;
        *balancer.instances.lock().unwrap() = instances.to_vec();
        let before = balancer.led_to(instances[0]);
        balancer.cut();
        becomes("both paths come back", || balancer.led_to(instances[0]) >= before + 2).await;
        has_both_paths(&session).await;
        assert_eq!(asked(&session).await, 0);
    })
    .await;
}

/// Keys of each end: the server's private key, and the client's settings.
fn own_keys(server: u8) -> (Common, Common) {
    let key = |seed| PrivateKey::from_seed([seed; 32]);
    let clients = Clients::new([Client::new("laptop", key(2).public())]);
    let of_server = Common::new(Keys::Server { own: key(server), clients });
    (of_server, Common::new(Keys::Client { own: key(2), server: key(server).public() }))
}

/// Whoever listens there knows the client, and has another key than the server.
#[tokio::test(flavor = "multi_thread")]
async fn a_server_cannot_lead_a_client_to_an_address_with_another_key() {
    in_time(async {
        let shared = |byte| Common::new(Key::from_bytes([byte; 32]));
        for (impostor, (server, client)) in [
            (shared(7), (common(), common())),
            (own_keys(9).0, own_keys(1)),
            (own_keys(9).0, (common(), common())),
        ] {
            let config = ListenConfig::new(vec!["127.0.0.1:0".parse().unwrap()], impostor);
            let mut impostor = Listener::bind(config).await.unwrap();
            let there = impostor.addresses()[0];
            let (door, own) = Balancer::start(&[there]).await;
            let first = instance_at(0, Some(own), server).await;
            let (balancer, address) = Balancer::start(&[first]).await;
            let session = connected_as(address, client).await;
            has_both_paths(&session).await;
            let before = balancer.led_to(first);
            balancer.cut();
            becomes("it was tried", || door.led_to(there) > 0).await;
            becomes("both paths come back", || balancer.led_to(first) >= before + 2).await;
            has_both_paths(&session).await;
            assert_eq!(asked(&session).await, 0);
            tokio::select! {
                biased;
                _ = impostor.accept() => panic!("a session with another key"),
                () = std::future::ready(()) => {}
            }
        }
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_session_of_a_killed_instance_ends_and_a_new_one_is_opened_elsewhere() {
    in_time(async {
        let instances = [instance(0).await, instance(1).await, instance(2).await];
        let (balancer, address) = Balancer::start(&instances).await;
        let session = connected(address).await;
        has_both_paths(&session).await;
        let had = asked(&session).await;
        balancer.kill(instances[usize::from(had)]);
        let closed = session.closed().await;
        assert_eq!(closed.code, GONE, "{closed}");
        assert!(closed.reason.contains("instance"), "{closed}");
        let next = connected(address).await;
        assert_ne!(asked(&next).await, had);
        has_both_paths(&next).await;
    })
    .await;
}

/// Connections that are open finish on the instance that has them; the first new one is reset, the next ones go elsewhere.
#[tokio::test(flavor = "multi_thread")]
async fn clients_of_a_drained_instance_go_to_another_and_open_connections_finish() {
    in_time(async {
        let (one, two) = (proxy().await, proxy().await);
        let (balancer, address) = Balancer::start(&[one.0, two.0]).await;
        let connect = ConnectConfig {
            paths: vec![format!("127.0.0.1={address}").parse().unwrap()],
            common: common(),
            timeout: HANG,
        };
        let config = ForwardConfig::new(connect, vec!["127.0.0.1:0".parse().unwrap()]);
        let forwarder = Forwarder::bind(ForwardConfig { wait: Some(HANG), ..config }).await.unwrap();
        let entrance = forwarder.addresses()[0];
        tokio::spawn(forwarder.run());
        let mut open = answered(entrance).await.unwrap();

        // The session is on the first instance: the balancer has led one connection. A health check would see that it listens no more.
        assert_eq!(balancer.led_to(two.0), 0);
        balancer.instances.lock().unwrap().retain(|instance| *instance == two.0);
        one.1.send(()).unwrap();
        // Until the drain begins, the first instance answers; then it resets.
        while answered(entrance).await.is_ok() {}
        let mut next = loop {
            if let Ok(tcp) = answered(entrance).await {
                break tcp;
            }
        };
        assert!(balancer.led_to(two.0) > 0, "the other instance has a session");
        exchange(&mut open, 2).await.expect("it goes on");
        exchange(&mut next, 3).await.unwrap();
        for tcp in [&mut open, &mut next] {
            tcp.shutdown().await.unwrap();
            assert_eq!(tcp.read(&mut [0]).await.unwrap(), 0, "an orderly end");
        }
        assert_eq!(one.2.await.unwrap(), Drained { reset: 0, undelivered: 0 });
        answered(entrance).await.expect("the other instance goes on");
    })
    .await;
}
