//! The headless client against the server, over every transport: all media arrives once and in order.

use std::io::{BufRead, BufReader, Write};
use std::net::{SocketAddr, TcpListener};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, OnceLock};
use std::time::Duration;

use http::StatusCode;
use http::header::{self, HeaderMap, HeaderValue};
use http_body::Body as _;
use http_body_util::BodyExt;
use tributary_dash::client::{
    self, ClientConfig, ClientError, LogEvent, Outcome, Steering, TransportChoice, TransportPaths,
};
use tributary_dash::server::{Limits, Server, ServerConfig};
use tributary_dash::tls::{Identity, Trust};
use tributary_dash::viewing::{Carried, EventLog, Viewing, ViewingConfig};
use tributary_net::transport::{Certificates, TransportConfig};
use tributary_net::{Common, Key};
use tributary_player::dash::play::{Event, Settings};
use tributary_player::engine;
use tributary_testing::not_run;

/// Number of segments of a title. Each has 100 ms of media, so that a test takes little time.
const SEGMENTS: usize = 12;

fn byte(quality: usize, segment: usize, at: usize) -> u8 {
    (quality * 101 + segment * 31 + at * 7 + at / 256) as u8
}

fn media(quality: usize, segment: usize) -> Vec<u8> {
    (0..4000 * (quality + 1)).map(|at| byte(quality, segment, at)).collect()
}

fn sidx(sizes: &[usize]) -> Vec<u8> {
    let mut bytes = Vec::new();
    let mut add = |word: u32| bytes.extend_from_slice(&word.to_be_bytes());
    add(32 + 12 * sizes.len() as u32);
    add(u32::from_be_bytes(*b"sidx"));
    for word in [0, 1, 1000, 0, 0, sizes.len() as u32] {
        add(word);
    }
    for size in sizes {
        add(*size as u32);
        add(100);
        add(0x9000_0000);
    }
    bytes
}

/// A title with both kinds of addressing: `a.mpd` has files for segments, `b.mpd` single files.
fn title(directory: &Path, segments: usize) {
    let mut representations = [String::new(), String::new()];
    for quality in 0..3 {
        let bandwidth = 320_000 * (quality + 1);
        let folder = directory.join(quality.to_string());
        std::fs::create_dir(&folder).unwrap();
        let init = format!("init of {quality}");
        std::fs::write(folder.join("init.mp4"), &init).unwrap();
        let sizes: Vec<usize> = (0..segments).map(|segment| media(quality, segment).len()).collect();
        let index = sidx(&sizes);
        let mut whole = [init.as_bytes(), &index].concat();
        for segment in 0..segments {
            std::fs::write(folder.join(format!("{}.m4s", segment + 1)), media(quality, segment)).unwrap();
            whole.extend_from_slice(&media(quality, segment));
        }
        std::fs::write(directory.join(format!("{quality}.mp4")), whole).unwrap();
        representations[0] += &format!("<Representation id='{quality}' bandwidth='{bandwidth}'/>");
        representations[1] += &format!(
            "<Representation id='{quality}' bandwidth='{bandwidth}'><BaseURL>{quality}.mp4</BaseURL><SegmentBase \
             indexRange='{}-{}'><Initialization range='0-{}'/></SegmentBase></Representation>",
            init.len(),
            init.len() + index.len() - 1,
            init.len() - 1
        );
    }
    let template = "<SegmentTemplate timescale='1000' duration='100' startNumber='1' \
                    initialization='$RepresentationID$/init.mp4' media='$RepresentationID$/$Number$.m4s'/>";
    for (name, inside) in
        [("a.mpd", format!("{template}{}", representations[0])), ("b.mpd", representations[1].clone())]
    {
        let text = format!(
            "<MPD mediaPresentationDuration='PT{}S'><Period><AdaptationSet contentType='video'>{inside}\
             </AdaptationSet></Period></MPD>",
            segments as f64 / 10.0
        );
        std::fs::write(directory.join(name), text).unwrap();
    }
    std::fs::write(directory.join("live.mpd"), "<MPD type='dynamic'><Period/></MPD>").unwrap();
}

struct Site {
    directory: tempfile::TempDir,
    address: SocketAddr,
}

fn key() -> Key {
    Key::from_bytes([1; 32])
}

fn certificates() -> Certificates {
    static MADE: OnceLock<Certificates> = OnceLock::new();
    let make = || Certificates {
        client: Some(Trust::Keys(key().into()).http_3().unwrap()),
        server_name: "video.example".to_owned(),
        server: Some(Identity::fresh(Some(&key().into())).unwrap().http_3().unwrap()),
    };
    MADE.get_or_init(make).clone()
}

fn transport(name: &str) -> TransportConfig {
    let mut config = TransportConfig::new(name.parse().unwrap()).with_common(Common::new(key()));
    config.certificates = (name == "quic").then(certificates);
    config
}

async fn site(name: &str) -> Site {
    let directory = tempfile::tempdir().unwrap();
    title(directory.path(), SEGMENTS);
    let listen = vec![(transport(name), vec!["127.0.0.1:0".parse().unwrap()])];
    let config = ServerConfig { directory: directory.path().to_owned(), listen, limits: Limits::default() };
    let server = Server::bind(config).await.unwrap();
    let address = server.addresses()[0][0];
    tokio::spawn(server.run_until(std::future::pending(), Duration::ZERO));
    Site { directory, address }
}

impl Site {
    fn saved(&self) -> PathBuf {
        self.directory.path().join("saved")
    }

    fn config(&self, name: &str, file: &str, rule: &str) -> ClientConfig {
        let second = Duration::from_millis(100);
        ClientConfig {
            url: format!("http://video.example:80/{file}"),
            transport: TransportChoice::One(Box::new(TransportPaths {
                config: transport(name),
                paths: vec![format!("any={}", self.address).parse().unwrap()],
            })),
            rule: rule.to_owned(),
            settings: Settings {
                start_with: second,
                resume_with: second,
                capacity: 4 * second,
                ..Settings::default()
            },
            most: None,
            save: Some(self.saved()),
        }
    }

    /// Every segment is in the saved file, once and in order, after the initialisation segment of its
    /// quality.
    fn assert_whole(&self, outcome: &Outcome) {
        let mut expected = Vec::new();
        let mut last = None;
        for (at, loaded) in outcome.qoe.segments.iter().enumerate() {
            assert_eq!(loaded.segment, at);
            if last.replace(loaded.quality) != Some(loaded.quality) {
                expected.extend_from_slice(format!("init of {}", loaded.quality).as_bytes());
            }
            expected.extend_from_slice(&media(loaded.quality, at));
        }
        assert!(std::fs::read(self.saved()).unwrap() == expected, "media was lost, duplicated or reordered");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_title_plays_over_every_transport_and_with_both_kinds_of_addressing() {
    for (name, file, rule) in [
        ("tcp", "a.mpd", "dynamic"),
        ("tcp", "b.mpd", "bola"),
        ("session", "a.mpd", "throughput"),
        ("quic", "b.mpd", "bba"),
        ("mpquic", "a.mpd", "bola-e"),
    ] {
        let site = site(name).await;
        let mut states = 0;
        let outcome = client::play(site.config(name, file, rule), &mut |_| states += 1).await.unwrap();
        assert_eq!(outcome.given_up, None, "{name}");
        assert!((outcome.qoe.played_s - 1.2).abs() < 1e-6, "{name}: {}", outcome.qoe.played_s);
        assert!(
            matches!(outcome.events.last().unwrap().what, LogEvent::Player(Event::Ended)),
            "{name}: {:?}",
            outcome.events
        );
        assert!(states > SEGMENTS, "{name}");
        assert_eq!(outcome.qoe.segments.len(), SEGMENTS, "{name}");
        site.assert_whole(&outcome);
        let limited =
            ClientConfig { most: Some(Duration::from_millis(350)), ..site.config(name, file, rule) };
        let outcome = client::play(limited, &mut |_| {}).await.unwrap();
        assert_eq!(outcome.qoe.segments.len(), 4, "{name}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn unplayable_titles_are_refused_with_the_reason() {
    let site = site("tcp").await;
    let mut errors = Vec::new();
    for file in ["none.mpd", "live.mpd", "0/1.m4s", "a.mpd"] {
        let mut config = site.config("tcp", file, "bola");
        if file == "a.mpd" {
            config.url = "https://video.example/a.mpd".to_owned();
        }
        errors.push(client::play(config, &mut |_| {}).await.unwrap_err().to_string());
    }
    for (error, part) in errors.iter().zip(["404", "live", "the manifest", "http://HOST:PORT"]) {
        assert!(error.contains(part), "{error}");
    }
    let error = client::play(site.config("tcp", "a.mpd", "best"), &mut |_| {}).await.unwrap_err();
    assert!(matches!(error, ClientError::Rule(_)), "{error}");
    // A missing segment is retried and then skipped; the others are played.
    std::fs::remove_file(site.directory.path().join("0/2.m4s")).unwrap();
    std::fs::remove_file(site.directory.path().join("1/2.m4s")).unwrap();
    std::fs::remove_file(site.directory.path().join("2/2.m4s")).unwrap();
    let mut config = site.config("tcp", "a.mpd", "throughput");
    config.settings.rest = Duration::from_millis(1);
    let outcome = client::play(config, &mut |_| {}).await.unwrap();
    assert!(
        outcome.given_up.as_ref().is_some_and(|why| why.contains("segment 1") && why.contains("404")),
        "{outcome:?}"
    );
    assert_eq!(outcome.qoe.segments.len(), 1);
}

const TOKEN: &str = "let-me-in";

/// A path controller. The n-th request gets the n-th of `answers`; further ones get the last. `AT` in an answer is
/// replaced by a time of measurement that advances with every request. Orders to the controller are recorded.
fn controller(answers: Vec<String>) -> (String, Arc<Mutex<Vec<String>>>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    let orders = Arc::new(Mutex::new(Vec::new()));
    let noted = orders.clone();
    std::thread::spawn(move || {
        let mut asked = 0;
        for stream in listener.incoming() {
            let mut stream = stream.unwrap();
            let mut lines = BufReader::new(stream.try_clone().unwrap()).lines();
            let Some(Ok(first)) = lines.next() else { continue };
            let headers: Vec<_> = lines.map_while(Result::ok).take_while(|line| !line.is_empty()).collect();
            assert!(headers.contains(&format!("authorization: Bearer {TOKEN}")), "{headers:?}");
            let mut body = "{}".to_owned();
            if first.starts_with("GET /v1/paths?all=true ") {
                body = answers[asked.min(answers.len() - 1)].replace("AT", &asked.to_string());
                asked += 1;
            } else {
                noted.lock().unwrap().push(first);
            }
            let head =
                format!("HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: {}\r\n\r\n", body.len());
            // The client may close before it has read the whole answer.
            let _ = stream.write_all(format!("{head}{body}").as_bytes());
        }
    });
    (url, orders)
}

/// An answer with two paths and these RTTs; a path without RTT is down.
fn paths(first: Option<&str>, second: Option<&str>) -> String {
    paths_with_loss((first, 0.0), (second, 0.0))
}

fn paths_with_loss(first: (Option<&str>, f64), second: (Option<&str>, f64)) -> String {
    let path = |id: &str, local: &str, (rtt, loss): (Option<&str>, f64)| {
        let (rtt, up) = (rtt.unwrap_or("null"), rtt.is_some());
        format!(
            "{{\"id\":\"{id}\",\"local\":\"{local}\",\"remote\":\"127.0.0.1\",\"rtt_ms\":{rtt},\"random_loss\":{loss},\
             \"rate_mbps\":null,\"up\":{up},\"at\":AT}}"
        )
    };
    format!("{{\"paths\":[{},{}]}}", path("p1", "127.0.0.2", first), path("p2", "127.0.0.3", second))
}

async fn engine_site(segments: usize) -> (Site, u16) {
    let directory = tempfile::tempdir().unwrap();
    title(directory.path(), segments);
    let any: SocketAddr = "127.0.0.1:0".parse().unwrap();
    let listen = vec![(transport("mptcp"), vec![any]), (transport("quic"), vec![any])];
    let config = ServerConfig { directory: directory.path().to_owned(), listen, limits: Limits::default() };
    let server = Server::bind(config).await.unwrap();
    let (address, quic) = (server.addresses()[0][0], server.addresses()[1][0].port());
    tokio::spawn(server.run_until(std::future::pending(), Duration::ZERO));
    (Site { directory, address }, quic)
}

fn steered(site: &Site, controller: String, quic: u16) -> ClientConfig {
    let steering = Steering {
        controller,
        token: Some(TOKEN.parse().unwrap()),
        settings: engine::Settings::default(),
        server: site.address.to_string(),
        quic: Some((quic, fresh_tickets())),
        congestion: None,
    };
    ClientConfig {
        transport: TransportChoice::Engine(Box::new(steering)),
        ..site.config("tcp", "a.mpd", "throughput")
    }
}

/// A client without session tickets.
fn fresh_tickets() -> Certificates {
    Certificates { client: Some(Trust::Keys(key().into()).http_3().unwrap()), ..certificates() }
}

/// Whether a playback began on MPTCP. Fails if the kernel must have MPTCP and does not.
fn is_on_mptcp(outcome: &Outcome) -> bool {
    if outcome.transports[0] == "tcp" {
        assert!(said(outcome).iter().any(|text| text.starts_with("no MPTCP")), "{:?}", said(outcome));
        not_run("nothing moved: this kernel has no MPTCP");
        return false;
    }
    true
}

/// Decisions, notices and moves in the log.
fn said(outcome: &Outcome) -> Vec<String> {
    let text = |what: &LogEvent| match what {
        LogEvent::Decision(decision) => Some(format!("{} ({})", decision.decision, decision.reason)),
        LogEvent::Notice { notice } => Some(notice.clone()),
        LogEvent::Moved { moved_to, zero_rtt } => Some(format!("on {moved_to}, 0-RTT: {zero_rtt}")),
        LogEvent::Player(_) => None,
    };
    outcome.events.iter().filter_map(|entry| text(&entry.what)).collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_engine_moves_from_mptcp_to_quic_and_no_byte_is_lost_or_doubled() {
    let (site, quic) = engine_site(50).await;
    // Two good paths; one goes down while the buffer is low; then the controller reports impossible values.
    let (good, one) = (paths(Some("10"), Some("12")), paths(Some("10"), None));
    let answers = vec![good.clone(), good, one.clone(), one, paths(Some("-3"), None)];
    let (url, orders) = controller(answers);
    let outcome = client::play(steered(&site, url, quic), &mut |_| {}).await.unwrap();
    site.assert_whole(&outcome);
    assert_eq!((outcome.qoe.segments.len(), &outcome.given_up), (50, &None));
    if !is_on_mptcp(&outcome) {
        return;
    }
    let said = said(&outcome);
    assert_eq!(outcome.transports, ["mptcp", "quic"], "{said:?}");
    let expected = [
        "start on MPTCP over p1, p2 (Balanced)",
        "remove p2 (Unreachable)",
        "move to QUIC over p1 (BufferCritical)",
        "on quic, 0-RTT: false",
        "controller: path p1: rtt_ms is -3, which is impossible; staying on this transport",
    ];
    assert_eq!(said, expected);
    assert!(orders.lock().unwrap().iter().any(|order| order.starts_with("DELETE /v1/paths/p2 ")));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn on_another_path_than_the_first_quic_begins_with_0_rtt() {
    let (site, quic) = engine_site(50).await;
    let (good, other) = (paths(Some("10"), Some("12")), paths(None, Some("12")));
    let (url, _) = controller(vec![good.clone(), good, other]);
    let outcome = client::play(steered(&site, url, quic), &mut |_| {}).await.unwrap();
    site.assert_whole(&outcome);
    if !is_on_mptcp(&outcome) {
        return;
    }
    let said = said(&outcome);
    assert_eq!(outcome.transports, ["mptcp", "quic"], "{said:?}");
    assert_eq!(
        said[1..],
        ["remove p1 (Unreachable)", "move to QUIC over p2 (BufferCritical)", "on quic, 0-RTT: true"]
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_late_path_is_used_though_playback_began_on_quic() {
    let (site, quic) = engine_site(60).await;
    let (one, both) = (paths(Some("10"), None), paths(Some("10"), Some("12")));
    let (url, _) = controller(vec![one.clone(), one, both]);
    let outcome = client::play(steered(&site, url, quic), &mut |_| {}).await.unwrap();
    site.assert_whole(&outcome);
    assert_eq!((outcome.qoe.segments.len(), &outcome.given_up), (60, &None));
    let said = said(&outcome);
    assert_eq!(
        said[..2],
        ["start on QUIC over p1 (OnePath)", "move to MPTCP over p1, p2 (Recovered)"],
        "{said:?}"
    );
    if said[2].starts_with("no MPTCP") {
        assert_eq!(outcome.transports, ["quic"], "{said:?}");
        return not_run("nothing moved: this kernel has no MPTCP");
    }
    assert_eq!(outcome.transports, ["quic", "mptcp"], "{said:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_path_that_loses_packets_is_removed_and_added_again_when_it_loses_none() {
    let (site, quic) = engine_site(120).await;
    let good = paths(Some("10"), Some("12"));
    let lossy = paths_with_loss((Some("10"), 0.0), (Some("12"), 0.1));
    let mut answers = vec![good.clone(), good.clone()];
    answers.extend([const { String::new() }; 3].map(|_| lossy.clone()));
    answers.push(good);
    let (url, orders) = controller(answers);
    let mut config = steered(&site, url, quic);
    let TransportChoice::Engine(steering) = &mut config.transport else { panic!("{config:?}") };
    let second = Duration::from_secs(1);
    steering.settings = engine::Settings {
        dwell: second,
        probation: Some(2 * second),
        // It stays on MPTCP with one path.
        critical: Duration::ZERO,
        alone: None,
        ..steering.settings
    };
    let outcome = client::play(config, &mut |_| {}).await.unwrap();
    site.assert_whole(&outcome);
    if !is_on_mptcp(&outcome) {
        return;
    }
    let said = said(&outcome);
    assert_eq!(
        said[..3],
        ["start on MPTCP over p1, p2 (Balanced)", "remove p2 (Loss)", "add p2 (Recovered)"],
        "{said:?}"
    );
    let orders = orders.lock().unwrap();
    let order = |text: &str| orders.iter().position(|order| order.starts_with(text));
    assert!(order("DELETE /v1/paths/p2 ") < order("POST /v1/paths "), "{orders:?}");
    assert!(order("DELETE /v1/paths/p2 ").is_some(), "{orders:?}");
}

/// A port that forwards only packets of the first client address.
async fn first_only(server: SocketAddr) -> u16 {
    let any = || tokio::net::UdpSocket::bind("127.0.0.1:0");
    let (front, back) = (any().await.unwrap(), any().await.unwrap());
    let port = front.local_addr().unwrap().port();
    tokio::spawn(async move {
        let (mut first, mut up, mut down) = (None, [0; 2048], [0; 2048]);
        loop {
            tokio::select! {
                Ok((length, from)) = front.recv_from(&mut up) => {
                    if *first.get_or_insert(from) == from {
                        back.send_to(&up[..length], server).await.unwrap();
                    }
                }
                Ok((length, _)) = back.recv_from(&mut down) => {
                    // The client may have ended.
                    let _ = front.send_to(&down[..length], first.unwrap()).await;
                }
            }
        }
    });
    port
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_move_to_quic_that_nothing_answers_goes_back_to_mptcp() {
    let (site, quic) = engine_site(60).await;
    let quic = first_only(SocketAddr::from(([127, 0, 0, 1], quic))).await;
    let (good, other) = (paths(Some("10"), Some("12")), paths(None, Some("12")));
    let (url, _) = controller(vec![good.clone(), good, other]);
    let outcome = client::play(steered(&site, url, quic), &mut |_| {}).await.unwrap();
    site.assert_whole(&outcome);
    if !is_on_mptcp(&outcome) {
        return;
    }
    let said = said(&outcome);
    assert_eq!(outcome.transports[..3], ["mptcp", "quic", "mptcp"], "{said:?}");
    assert!(said.iter().any(|text| text.ends_with("back on the transport before")), "{said:?}");
    assert_eq!((outcome.qoe.segments.len(), &outcome.given_up), (60, &None));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn without_a_controller_or_udp_the_title_plays_over_tcp_and_says_so() {
    let (site, quic) = engine_site(SEGMENTS).await;
    // No server listens on this port. It was free a moment ago, and a process that binds it next does not speak HTTP.
    let gone = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}", gone.local_addr().unwrap());
    drop(gone);
    let outcome = client::play(steered(&site, url, quic), &mut |_| {}).await.unwrap();
    site.assert_whole(&outcome);
    assert_eq!(outcome.transports, ["tcp"]);
    let texts = said(&outcome);
    assert!(texts[0].starts_with("controller: ") && texts[0].ends_with("continuing with TCP"), "{texts:?}");
    assert_eq!(texts[1], "start on TCP (NoController)");
    // A controller with one path, and a server whose QUIC port is unreachable.
    let (url, _) = controller(vec![paths(Some("10"), None)]);
    let silent = std::net::UdpSocket::bind("127.0.0.1:0").unwrap();
    let blocked = steered(&site, url, silent.local_addr().unwrap().port());
    let outcome = client::play(blocked, &mut |_| {}).await.unwrap();
    site.assert_whole(&outcome);
    let texts = said(&outcome);
    assert_eq!(
        (outcome.transports[0].as_str(), texts[0].as_str()),
        ("tcp", "start on QUIC over p1 (OnePath)")
    );
    assert!(texts[1].contains("UDP may be blocked; continuing with TCP"), "{texts:?}");
    assert_eq!(texts[2], "start on TCP (UdpBlocked)");
}

/// A viewing of a site that has begun.
fn viewing(config: ClientConfig) -> Viewing {
    let ClientConfig { url, transport, .. } = config;
    let viewing = Viewing::new(ViewingConfig { url, transport }, EventLog::new(None).unwrap()).unwrap();
    let running = viewing.clone();
    tokio::spawn(async move { running.run().await });
    viewing.begin();
    viewing
}

async fn body(answer: http::Response<Carried>) -> Vec<u8> {
    answer.into_body().collect().await.unwrap().to_bytes().to_vec()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_browser_gets_files_and_ranges_over_every_transport() {
    for name in ["tcp", "session", "quic"] {
        let site = site(name).await;
        let viewing = viewing(site.config(name, "b.mpd", "dynamic"));
        let whole = std::fs::read(site.directory.path().join("1.mp4")).unwrap();
        let answer = viewing.get("/1.mp4", &HeaderMap::new()).await.unwrap();
        assert_eq!(answer.status(), StatusCode::OK, "{name}");
        assert_eq!(answer.body().size_hint().exact(), Some(whole.len() as u64));
        assert!(body(answer).await == whole, "{name}");
        let range = [(header::RANGE, HeaderValue::from_static("bytes=100-5099"))].into_iter().collect();
        let answer = viewing.get("/1.mp4", &range).await.unwrap();
        assert_eq!(answer.status(), StatusCode::PARTIAL_CONTENT);
        assert_eq!(answer.headers()[header::CONTENT_RANGE], format!("bytes 100-5099/{}", whole.len()));
        assert!(body(answer).await == whole[100..5100], "{name}");
        let absent = viewing.get("/absent", &HeaderMap::new()).await.unwrap();
        assert_eq!(absent.status(), StatusCode::NOT_FOUND);
        let status = serde_json::to_value(viewing.status()).unwrap();
        assert_eq!((&status["requests"], &status["failed"]), (&3.into(), &0.into()), "{status}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_download_of_the_viewer_before_goes_on_over_the_next_ones_connection() {
    let site = site("session").await;
    let large: Vec<u8> = (0..24 << 20).map(|at| byte(1, 2, at)).collect();
    std::fs::write(site.directory.path().join("large"), &large).unwrap();
    let viewing = viewing(site.config("session", "a.mpd", "dynamic"));
    let mut download = viewing.get("/large", &HeaderMap::new()).await.unwrap().into_body();
    let mut got = download.frame().await.unwrap().unwrap().into_data().unwrap().to_vec();
    viewing.begin();
    let status = || serde_json::to_value(viewing.status()).unwrap();
    tributary_testing::becomes("the next viewer is connected", || status()["state"] == "starting").await;
    while let Some(piece) = download.frame().await {
        got.extend_from_slice(&piece.unwrap().into_data().unwrap());
    }
    assert!(got == large, "{} of {} bytes", got.len(), large.len());
    assert_eq!(status()["continued"], 1);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_browsers_download_goes_on_over_the_transport_that_the_engine_moves_to() {
    let (site, quic) = engine_site(1).await;
    // More than sockets and channels hold.
    let large: Vec<u8> = (0..24 << 20).map(|at| byte(1, 2, at)).collect();
    std::fs::write(site.directory.path().join("large"), &large).unwrap();
    let (good, one) = (paths(Some("10"), Some("12")), paths(Some("10"), None));
    let (url, _) = controller(vec![good.clone(), good, one]);
    let viewing = viewing(steered(&site, url, quic));
    let mut download = viewing.get("/large", &HeaderMap::new()).await.unwrap().into_body();
    let mut got = download.frame().await.unwrap().unwrap().into_data().unwrap().to_vec();
    let status = || serde_json::to_value(viewing.status()).unwrap();
    if status()["transports"][0] == "tcp" {
        return not_run("nothing moved: this kernel has no MPTCP");
    }
    tributary_testing::becomes("playback moves to QUIC", || status()["transport"] == "quic").await;
    while let Some(piece) = download.frame().await {
        got.extend_from_slice(&piece.unwrap().into_data().unwrap());
    }
    assert!(got == large, "{} of {} bytes", got.len(), large.len());
    let status = status();
    assert_eq!(
        (&status["transports"], &status["continued"]),
        (&serde_json::json!(["mptcp", "quic"]), &1.into())
    );
    let decided: Vec<_> =
        status["events"].as_array().unwrap().iter().filter_map(|event| event["decision"].as_str()).collect();
    let expected = ["start on MPTCP over p1, p2", "remove p2", "move to QUIC over p1"];
    assert_eq!(decided, expected, "{status}");
}
