//! A listener's answers to joins of unknown sessions and to hellos made for another mode, and its limits.

mod versions;

use tributary_proto::handshakes::Introduction;
use tributary_testing::becomes;
use tributary_types::PathId;

use super::*;
use crate::config::{Local, PathConfig};
use crate::dial::dial;
use crate::handshake::{Credentials, join, protect};
use crate::hello::{Binding, Mode, REPLY_LENGTH};
use crate::key::Key;

fn common() -> Common {
    Common::new(Key::from_bytes([42; 32]))
}

async fn listener(common: Common) -> Listener {
    let addresses = vec!["127.0.0.1:0".parse().unwrap()];
    Listener::bind(ListenConfig::new(addresses, common)).await.unwrap()
}

/// A connection to the listener that has sent no hello yet.
async fn channel(listener: &Listener, common: &Common) -> Channel {
    let path = PathConfig::new(Local::Any, listener.addresses()[0]);
    let tls = if common.plaintext { Tls::Off } else { Tls::On(tls::client_config(&common.keys).unwrap()) };
    protect(dial(None, &path, (&Arc::new(common.clone()), None)).await.unwrap().0, &tls, common, None)
        .await
        .unwrap()
}

fn hello(intent: Intent) -> Hello {
    Hello {
        intent,
        path: PathId(0),
        subflow: SubflowId(1),
        metered: false,
        takes_address: false,
        nonce: [3; 16],
    }
}

#[test]
fn every_reason_to_refuse_a_subflow_has_a_refusal_code() {
    assert_eq!(refusal_of(OpenError::Closed), Refusal::SessionEnded);
    assert_eq!(refusal_of(OpenError::TooMany(1)), Refusal::TooManySubflows);
    assert_eq!(refusal_of(OpenError::Superfluous(Default::default())), Refusal::Superfluous);
    assert_eq!(refusal_of(OpenError::Reused(Default::default())), Refusal::SubflowReused);
}

#[tokio::test]
async fn joining_an_unknown_session_is_refused_with_that_reason() {
    for plaintext in [true, false] {
        let common = Common { plaintext, ..common() };
        let listener = listener(common.clone()).await;
        let mut channel = channel(&listener, &common).await;
        // A session that another process opened, before the server was started again.
        let mode = if plaintext { Mode::Plaintext } else { Mode::Tls };
        let then = Binding { mode, bytes: [7; 32] };
        let secret =
            SessionSecret::derive(common.keys.shared().unwrap(), &then, &hello(Intent::New), &[9; 16]);
        let tag = Instance::here(listener.addresses()).issue().unwrap();
        let credentials = Credentials { tag, secret, address: None, obeys_caps: false };
        let introduction = Introduction { path: PathId(0), subflow: SubflowId(4), metered: false };
        let error = join(&mut channel, &credentials, introduction).await.unwrap_err();
        assert!(matches!(error, HandshakeError::UnknownSession), "{error}");
        assert!(error.is_session_gone() && !error.is_fatal());
    }
}

/// A load balancer has led a connection to this instance, and another one has opened the session.
#[tokio::test]
async fn joining_a_session_of_another_instance_is_refused_with_that_reason() {
    let (common, own) = (common(), listener(common()).await);
    let other = listener(common.clone()).await;
    let introduction = |n| Introduction { path: PathId(n), subflow: SubflowId(n.into()), metered: false };
    let mut first = channel(&own, &common).await;
    let awaited = crate::handshake::open_session(&mut first, introduction(0)).await.unwrap();
    let credentials = awaited.check(&first.receive::<REPLY_LENGTH>().await.unwrap()).unwrap();
    let error = join(&mut channel(&other, &common).await, &credentials, introduction(1)).await.unwrap_err();
    assert!(matches!(error, HandshakeError::Refused(Refusal::OtherInstance)), "{error}");
    assert!(!error.is_session_gone() && !error.is_fatal());
    join(&mut channel(&own, &common).await, &credentials, introduction(2)).await.unwrap();
}

/// Clients from before there was an address read a reply of one length.
#[tokio::test]
async fn only_a_client_that_understands_it_is_told_the_instances_address() {
    for plaintext in [true, false] {
        let common = Common { plaintext, ..common() };
        let own: OwnAddress = "203.0.113.5:7000".parse().unwrap();
        let addresses = vec!["127.0.0.1:0".parse().unwrap()];
        let config = ListenConfig { own: Some(own.clone()), ..ListenConfig::new(addresses, common.clone()) };
        let listener = Listener::bind(config).await.unwrap();
        for takes_address in [false, true] {
            let mut channel = channel(&listener, &common).await;
            let (key, binding) = (channel.secret.clone(), channel.binding);
            let hello = Hello { takes_address, ..hello(Intent::New) };
            let sent = Auth::opening(&key, &binding).seal_hello(&hello);
            channel.send(&sent).await.unwrap();
            let reply = match takes_address {
                false => channel.receive::<REPLY_LENGTH>().await.unwrap().to_vec(),
                true => {
                    channel.receive::<{ REPLY_LENGTH + "203.0.113.5:7000".len() }>().await.unwrap().to_vec()
                }
            };
            let told = Auth::opening(&key, &binding).open_reply(&sent, &reply).unwrap().address;
            assert_eq!(told, takes_address.then(|| own.clone()), "plaintext: {plaintext}");
        }
    }
}

/// What is logged on a thread.
#[derive(Clone, Default)]
struct Log(Arc<Mutex<Vec<u8>>>);

impl std::io::Write for Log {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.lock().unwrap().extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

impl Log {
    /// Collects what this thread logs until the guard is dropped.
    fn start() -> (Self, tracing::subscriber::DefaultGuard) {
        let plain = || tracing_subscriber::fmt().with_ansi(false);
        // With one subscriber in the process, `tracing` asks the default of whichever thread meets a callsite first, and one without
        // a default would switch the callsite off for all. So every thread has one.
        let _ = tracing::subscriber::set_global_default(plain().with_writer(std::io::sink).finish());
        let log = Self::default();
        let writer = log.clone();
        let subscriber = plain().with_writer(move || writer.clone()).finish();
        (log, tracing::subscriber::set_default(subscriber))
    }

    /// Waits until the log contains this text.
    async fn has(&self, text: &str) {
        becomes(text, || String::from_utf8_lossy(&self.0.lock().unwrap()).contains(text)).await;
    }
}

#[tokio::test]
async fn other_refusals_do_not_hide_a_wrong_key_in_the_log() {
    use tokio::io::{AsyncReadExt, AsyncWriteExt};

    let (log, _logging) = Log::start();
    let listener = listener(common()).await;
    for _ in 0..2 {
        let mut noise = TcpStream::connect(listener.addresses()[0]).await.unwrap();
        noise.write_all(b"GET / HTTP/1.1\r\n\r\n").await.unwrap();
        let _ = noise.read_to_end(&mut Vec::new()).await;
    }
    log.has("does not speak TLS").await;
    let path = PathConfig::new(Local::Any, listener.addresses()[0]);
    let stranger = Common::new(Key::from_bytes([1; 32]));
    let tls = Tls::On(tls::client_config(&stranger.keys).unwrap());
    let stream = dial(None, &path, (&Arc::new(stranger.clone()), None)).await.unwrap().0;
    assert!(protect(stream, &tls, &stranger, None).await.is_err());
    log.has("wrong key").await;
}

/// A relay passes the exporter of its own TLS connection to a plaintext client as the challenge.
#[tokio::test]
async fn a_hello_signed_in_plaintext_mode_does_not_open_a_session_over_tls() {
    let common = common();
    let listener = listener(common.clone()).await;
    let mut relay = channel(&listener, &common).await;
    let challenge = Binding { mode: Mode::Plaintext, bytes: relay.binding.bytes };
    let signed = Auth::opening(common.keys.shared().unwrap(), &challenge).seal_hello(&hello(Intent::New));
    relay.send(&signed).await.unwrap();
    let error = relay.receive::<REPLY_LENGTH>().await.unwrap_err();
    assert!(matches!(error, HandshakeError::HungUp), "{error}");
    // The same hello opens a session on the connection for which it was made.
    let mut honest = channel(&listener, &common).await;
    let binding = honest.binding;
    let signed = Auth::opening(common.keys.shared().unwrap(), &binding).seal_hello(&hello(Intent::New));
    honest.send(&signed).await.unwrap();
    let reply = honest.receive::<REPLY_LENGTH>().await.unwrap();
    assert_eq!(
        Auth::opening(common.keys.shared().unwrap(), &binding).open_reply(&signed, &reply).unwrap().answer,
        Answer::Accepted
    );
}

/// An attacker in the middle who does not know the key answers with their own certificate and accepts any ticket.
/// The client ends the handshake before it sends anything else.
#[tokio::test]
async fn a_client_sends_nothing_to_a_tls_server_that_does_not_prove_the_key() {
    use tokio::io::AsyncReadExt;
    let forger = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let path = PathConfig::new(Local::Any, forger.local_addr().unwrap());
    let other = Key::from_bytes([1; 32]);
    let forging = tokio::spawn(async move {
        let (mut stream, _) = forger.accept().await.unwrap();
        let config = tls::server_config(&other.clone().into()).unwrap();
        let shaken = tls::accept(&mut stream, &config, |_| Ok(())).await;
        let mut more = Vec::new();
        let _ = stream.read_to_end(&mut more).await;
        (shaken.is_err(), more.len())
    });
    let common = common();
    let tls = Tls::On(tls::client_config(&common.keys).unwrap());
    let refused =
        protect(dial(None, &path, (&Arc::new(common.clone()), None)).await.unwrap().0, &tls, &common, None)
            .await
            .err()
            .unwrap();
    assert!(matches!(refused, HandshakeError::Hello(HelloError::WrongKey)), "{refused}");
    assert_eq!(forging.await.unwrap(), (true, 0));
}

/// A runtime that ends drops a new task within the call that starts it.
#[test]
fn a_connection_during_shutdown_does_not_deadlock_the_listener() {
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let (client, stream, from) = runtime.block_on(async {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let client = TcpStream::connect(listener.local_addr().unwrap()).await.unwrap();
        let (stream, from) = listener.accept().await.unwrap();
        (client, stream, from)
    });
    let limits = Limits::default();
    let registry = Arc::new(Registry {
        keep_events: false,
        common: common(),
        budget: Budget::new(Limits::LEAST_MEMORY),
        limits,
        tls: Tls::Off,
        instance: Instance::here(&[]),
        own: None,
        entries: Mutex::default(),
        fresh: mpsc::channel(1).0,
        admission: Mutex::new(Admission::new(limits.half_open)),
        tickets: Mutex::new(Tickets::new(SystemTime::now())),
        wrong_keys: RateLimited::default(),
        versions: RateLimited::default(),
        refused: RateLimited::default(),
        late: RateLimited::default(),
        starved: RateLimited::default(),
        replaced: RateLimited::default(),
    });
    let handle = runtime.handle().clone();
    runtime.shutdown_background();
    let (tell, told) = std::sync::mpsc::channel();
    std::thread::spawn(move || {
        let _inside = handle.enter();
        registry.greet_tcp(stream, from);
        tell.send(()).unwrap();
    });
    told.recv_timeout(std::time::Duration::from_secs(10)).expect("the listener waits for its own lock");
    drop(client);
}

/// The client has a key of its own, and all that another client knows about its session.
#[tokio::test]
async fn a_client_cannot_join_another_clients_session_even_with_its_secret() {
    use crate::clients::{Client, Clients};
    use crate::handshake::open_session;
    use crate::identity::PrivateKey;
    use crate::keys::Keys;

    let key = |seed| PrivateKey::from_seed([seed; 32]);
    let listed = [2, 3].map(|seed| Client::new(&seed.to_string(), key(seed).public()));
    let listener = listener(Common::new(Keys::Server { own: key(1), clients: Clients::new(listed) })).await;
    let of_client = |seed| Common::new(Keys::Client { own: key(seed), server: key(1).public() });
    let mut first = channel(&listener, &of_client(2)).await;
    let introduction =
        |n| Introduction { path: PathId(n), subflow: SubflowId(1 + u32::from(n)), metered: false };
    let awaited = open_session(&mut first, introduction(0)).await.unwrap();
    let credentials = awaited.check(&first.receive::<REPLY_LENGTH>().await.unwrap()).unwrap();

    let mut thief = channel(&listener, &of_client(3)).await;
    let error = join(&mut thief, &credentials, introduction(1)).await.unwrap_err();
    assert!(matches!(error, HandshakeError::UnknownSession), "{error}");
    let mut owner = channel(&listener, &of_client(2)).await;
    join(&mut owner, &credentials, introduction(2)).await.unwrap();
}
