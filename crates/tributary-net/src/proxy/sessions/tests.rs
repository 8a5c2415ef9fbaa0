//! Which applications have left, which wait for a session or a stream, and which are refused.

use super::*;
use crate::shared::{Command, Shared};
use tokio::net::TcpListener;
use tributary_types::{PathId, SubflowId};

/// Both ends of a connection, the proxy's first.
async fn pair() -> (TcpStream, TcpStream) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let (near, far) = tokio::join!(listener.accept(), TcpStream::connect(address));
    (near.unwrap().0, far.unwrap())
}

async fn state_is(tcp: &TcpStream, state: u8) {
    while sockopt::tcp_info(tcp.as_fd()).unwrap().state != state {
        tokio::task::yield_now().await;
    }
}

#[tokio::test]
async fn an_application_that_reset_or_closed_without_sending_has_left() {
    let (near, far) = pair().await;
    assert!(!has_left(&near));
    drop(far);
    state_is(&near, CLOSE_WAIT).await;
    assert!(has_left(&near));
    let (near, far) = pair().await;
    sockopt::set_abort_on_drop(far.as_fd()).unwrap();
    drop(far);
    state_is(&near, CLOSED).await;
    assert!(has_left(&near));
}

#[tokio::test]
async fn an_application_that_ended_its_request_has_not_left() {
    use tokio::io::AsyncWriteExt;
    let (near, mut far) = pair().await;
    far.write_all(b"GET").await.unwrap();
    far.shutdown().await.unwrap();
    state_is(&near, CLOSE_WAIT).await;
    assert!(!has_left(&near));
}

#[tokio::test]
async fn the_number_of_waiting_applications_is_limited() {
    // The kernel accepts connections here, and no program answers.
    let silent = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let path = format!("127.0.0.2={}", silent.local_addr().unwrap()).parse().unwrap();
    let common = crate::config::Common::new(crate::key::Key::from_bytes([3; 32]));
    let config = ConnectConfig { paths: vec![path], common, timeout: Duration::from_secs(600) };
    let (near, _far) = pair().await;
    let held = Arc::new((Sessions::start(config, None), near));
    let waiting = |count: usize| {
        let held = held.clone();
        async move { drop(held.0.waiting.subscribe().wait_for(|now| *now == count).await) }
    };
    let mut waiters = tokio::task::JoinSet::new();
    let mut last = None;
    for _ in 0..MOST_WAITING {
        let held = held.clone();
        last = Some(waiters.spawn(async move { held.0.get(&held.1).await.is_ok() }));
    }
    waiting(MOST_WAITING).await;
    assert!(matches!(held.0.get(&held.1).await, Err(Refused::Crowd(_))));
    // An application that closes its connection frees its place.
    last.unwrap().abort();
    waiting(MOST_WAITING - 1).await;
    let another = held.clone();
    waiters.spawn(async move { another.0.get(&another.1).await.is_ok() });
    waiting(MOST_WAITING).await;
}

/// A session over one path, and its server's end.
async fn connected(
    common: crate::config::Common,
    patience: Duration,
) -> (Sessions, Session, crate::Listener) {
    let addresses = vec!["127.0.0.1:0".parse().unwrap()];
    let listen = crate::config::ListenConfig::new(addresses, common.clone());
    let mut listener = crate::Listener::bind(listen).await.unwrap();
    let path = format!("127.0.0.2={}", listener.addresses()[0]).parse().unwrap();
    let sessions = Sessions::start(ConnectConfig { paths: vec![path], common, timeout: patience }, None);
    sessions.first(Duration::from_secs(60)).await.unwrap();
    let (peer, _) = listener.accept().await.unwrap();
    (sessions, peer, listener)
}

/// A session whose server allows two streams, both of which are open: the first at both ends, and the second.
async fn full(patience: Duration) -> (Sessions, [Stream; 3], crate::Listener) {
    let mut common = crate::config::Common::new(crate::key::Key::from_bytes([3; 32]));
    common.session.max_streams = 2;
    let (sessions, peer, listener) = connected(common, patience).await;
    let (application, _far) = pair().await;
    // The server's limit arrives with its first data, so one stream is carried to the server before the second is
    // opened.
    let mut first = sessions.open(&application, Priority::default()).await.unwrap();
    first.write_chunk("first".into()).await.unwrap();
    let mut arrived = peer.accept_stream().await.unwrap();
    arrived.write_chunk("answer".into()).await.unwrap();
    first.read_chunk().await.unwrap();
    let second = sessions.open(&application, Priority::default()).await.unwrap();
    assert_eq!(sessions.current().unwrap().most_streams(), 2);
    (sessions, [first, arrived, second], listener)
}

#[tokio::test]
async fn an_application_that_leaves_while_it_waits_for_a_stream_frees_its_place() {
    let (sessions, _streams, _listener) = full(Duration::from_secs(600)).await;
    let (near, far) = pair().await;
    let waits = async { sessions.open(&near, Priority::default()).await.err() };
    let leaves = async {
        while sessions.places.taken() == 0 {
            tokio::task::yield_now().await;
        }
        drop(far);
    };
    let (refused, ()) = tokio::join!(waits, leaves);
    assert!(matches!(refused, Some(Refused::Left)), "{refused:?}");
    assert_eq!(sessions.places.taken(), 0);
}

/// A client's open session without a subflow, as the proxy sees it, and the commands to its driver.
fn without_subflow() -> (Session, Sessions, tokio::sync::mpsc::UnboundedReceiver<Command>) {
    let settings = tributary_proto::Config::default();
    let zero = tributary_types::Instant::ZERO;
    let machine = tributary_proto::Session::new(tributary_proto::Side::Client, settings, 1, zero).unwrap();
    let (shared, commands) = Shared::new(machine, false);
    let session = Session::new(shared);
    let (tell, link) = watch::channel(Link::Up(session.clone()));
    let (waiting, hurry) = watch::channel(0);
    let common = crate::config::Common::new(crate::key::Key::from_bytes([3; 32]));
    let config = ConnectConfig { paths: Vec::new(), common, timeout: Duration::from_secs(600) };
    let shown = Watch::new(None);
    let (paths, wanted) = watch::channel(Vec::new());
    let shown_by_keeper = shown.clone();
    let mut keeper = Keeper {
        config,
        wanted,
        log: None,
        starting: Arc::default(),
        shown: shown_by_keeper,
        tell,
        hurry,
        was_up: true,
    };
    let kept = session.clone();
    let task = tokio::spawn(async move { drop(keeper.until_doubt(&kept).await) }).abort_handle();
    let sessions = Sessions {
        starting: Arc::default(),
        link,
        waiting,
        places: Shares::new(MOST_WAITING),
        patience: Duration::from_secs(600),
        paths: Arc::new(paths),
        task,
        shown,
        log: None,
        refusals: RateLimited::default(),
        resets: RateLimited::default(),
    };
    (session, sessions, commands)
}

#[tokio::test(start_paused = true)]
async fn paths_are_tried_at_once_while_an_application_waits_for_a_subflow() {
    let (session, sessions, mut commands) = without_subflow();
    let (application, _far) = pair().await;
    let test = async {
        assert!(matches!(commands.recv().await, Some(Command::Hurry(false))));
        let comes_up = async {
            assert!(matches!(commands.recv().await, Some(Command::Hurry(true))));
            session.handle.0.change(|state, now| {
                state.session.handle_subflow_open(now, SubflowId(0), PathId(0)).unwrap();
                state.came_up(PathId(0));
            });
            Instant::now()
        };
        let (got, up_at) = tokio::join!(sessions.get(&application), comes_up);
        assert!(got.is_ok());
        assert_eq!(Instant::now(), up_at, "it waited for something else");
        assert!(matches!(commands.recv().await, Some(Command::Hurry(false))));
    };
    tokio::time::timeout(Duration::from_secs(600), test).await.expect("the driver is not told");
}

#[tokio::test]
async fn an_application_after_a_suspend_does_not_get_the_old_session() {
    let common = crate::config::Common::new(crate::key::Key::from_bytes([3; 32]));
    let test = async {
        let (sessions, _forgotten, mut listener) = connected(common, Duration::from_secs(600)).await;
        let before = sessions.current().unwrap();
        before.handle.0.suspended.store(60_000, std::sync::atomic::Ordering::Relaxed);
        let (application, _far) = pair().await;
        let mut stream = sessions.open(&application, Priority::default()).await.unwrap();
        stream.write_chunk("hello".into()).await.unwrap();
        let (after, _) = listener.accept().await.unwrap();
        let arrived = after.accept_stream().await.unwrap().read_chunk().await.unwrap();
        assert_eq!(arrived.as_deref(), Some(b"hello".as_slice()));
    };
    tokio::time::timeout(Duration::from_secs(60), test).await.expect("the new session gets no stream");
}
