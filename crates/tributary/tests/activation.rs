//! Servers as a service manager starts them: with sockets that it listens on itself, and with a socket for their state. The test is the
//! service manager.

#[expect(dead_code, reason = "the test sends the signal that ends a program itself")]
#[path = "common/running.rs"]
mod running;

use running::{Running, succeeds};
use std::fs;
use std::net::{SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixDatagram;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use tempfile::TempDir;
use tokio::task::JoinHandle;
use tributary_net::{Common, ConnectConfig, ConnectError, Key, Session, SubflowProtocol, connect};
use tributary_testing::{HANG, text, until};

const PROGRAM: &str = env!("CARGO_BIN_EXE_tributary");

/// Keys, and where programs tell their state.
struct World {
    directory: TempDir,
    states: UnixDatagram,
}

impl World {
    fn new() -> Self {
        let directory = TempDir::new().unwrap();
        let states = UnixDatagram::bind(directory.path().join("notify")).unwrap();
        states.set_read_timeout(Some(HANG)).unwrap();
        let world = Self { directory, states };
        let mut keygen = Command::new(PROGRAM);
        succeeds(keygen.args(["keygen", "--shared", "--out", text(&world.at("key"))]).stderr(Stdio::null()));
        world
    }

    fn at(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    /// A program that gets these sockets as descriptors 3 and 4.
    fn command(&self, arguments: &[&str], sockets: (OwnedFd, Option<OwnedFd>)) -> Command {
        // The number of the process, which must be in LISTEN_PID, is known only there.
        let (script, names, last) = match sockets.1 {
            None => ("exec 3<&0 </dev/null", "first", Stdio::null()),
            Some(second) => ("exec 3<&0 4<&1 </dev/null >/dev/null", "first:second", second.into()),
        };
        let count = names.split(':').count();
        let script =
            format!("{script}; export LISTEN_PID=$$ LISTEN_FDS={count} LISTEN_FDNAMES={names}; exec \"$@\"");
        let mut command = Command::new("sh");
        command.args(["-c", &script, "sh", PROGRAM]).args(arguments).stdin(sockets.0).stdout(last);
        command.env("NOTIFY_SOCKET", self.at("notify")).env("TRIBUTARY_RUNTIME_DIR", self.at("status"));
        command.env_remove("RUST_LOG");
        command
    }

    /// The next state that a program tells.
    fn state(&self) -> String {
        let mut bytes = [0; 512];
        let length = self.states.recv(&mut bytes).expect("a program tells its state");
        String::from_utf8(bytes[..length].to_vec()).unwrap()
    }

    /// Starts it, and waits until it is ready.
    fn start(&self, arguments: &[&str], sockets: (OwnedFd, Option<OwnedFd>)) -> Running {
        let program = Running::start(&mut self.command(arguments, sockets));
        assert_eq!(self.state(), "READY=1\n");
        program
    }

    /// The common settings of sessions.
    fn common(&self) -> Common {
        Common::new(Key::load(&self.at("key")).unwrap())
    }

    /// Opens a session.
    fn session(&self, server: SocketAddr, common: Common) -> JoinHandle<Result<Session, ConnectError>> {
        let paths = vec![format!("127.0.0.2={server}").parse().unwrap()];
        tokio::spawn(connect(ConnectConfig { paths, common, timeout: HANG }))
    }
}

/// Sockets of the same address.
fn tcp_and_udp() -> (TcpListener, UdpSocket) {
    let pair = || {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        // Another program may have this number for UDP.
        let udp = UdpSocket::bind(listener.local_addr().unwrap()).ok()?;
        Some((listener, udp))
    };
    (0..16).find_map(|_| pair()).expect("a number that is free for both")
}

/// Connections that wait in a listening socket: its receive queue, proc_pid_net(5).
fn waiting(listener: SocketAddr) -> usize {
    let sockets = fs::read_to_string("/proc/net/tcp").unwrap();
    let port = format!(":{:04X}", listener.port());
    let mut fields = sockets.lines().map(|line| line.split_whitespace().collect::<Vec<_>>());
    let listening = fields.find(|all| all[1].ends_with(&port) && all[3] == "0A");
    let (_, queue) = listening.expect("it is listened on")[4].split_once(':').unwrap();
    usize::from_str_radix(queue, 16).unwrap()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_connection_that_is_made_while_the_server_restarts_waits_and_is_served() {
    let world = World::new();
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let (listen, key) = (address.to_string(), world.at("key"));
    let serve = ["serve", "--allow", "any", "--listen", &listen, "--shared-key", text(&key)];
    let start = || world.start(&serve, (listener.try_clone().unwrap().into(), None));
    let mut server = start();
    let session = world.session(address, world.common()).await.unwrap().expect("a session");
    server.terminate();
    assert_eq!(world.state(), "STOPPING=1\n");
    // A second signal would end it at once.
    assert_eq!(server.0.wait().unwrap().code(), Some(0));
    session.closed().await;
    let session = world.session(address, world.common());
    until("the connection waits", || waiting(address) == 1);
    let _server = start();
    session.await.unwrap().expect("the connection that waited");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn sessions_over_quic_use_the_udp_socket_that_was_passed() {
    let world = World::new();
    // The service manager keeps both, so a program that opened its own would not start.
    let (listener, udp) = tcp_and_udp();
    let address = listener.local_addr().unwrap();
    let (listen, key) = (address.to_string(), world.at("key"));
    let serve = ["serve", "--quic", "--allow", "any", "--listen", &listen, "--shared-key", text(&key)];
    let start = || {
        let udp = udp.try_clone().unwrap().into();
        world.start(&serve, (listener.try_clone().unwrap().into(), Some(udp)))
    };
    let common = Common { quic: true, ..world.common() };
    for _ in 0..2 {
        let server = start();
        let session = world.session(address, common.clone()).await.unwrap().expect("a session");
        let protocols: Vec<_> = session.stats().kernel.iter().map(|subflow| subflow.protocol).collect();
        assert_eq!(protocols, [SubflowProtocol::Quic]);
        drop(session);
        server.terminate();
        assert_eq!(world.state(), "STOPPING=1\n");
        drop(server);
    }
}

/// The status line of a page.
fn fetch(address: SocketAddr, page: &str) -> String {
    use std::io::{Read, Write};
    let mut tcp = TcpStream::connect(address).unwrap();
    write!(tcp, "GET {page} HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\n\r\n").unwrap();
    let mut answer = String::new();
    tcp.read_to_string(&mut answer).unwrap();
    answer.lines().next().unwrap_or_default().to_owned()
}

#[test]
fn a_dash_server_and_its_metrics_use_the_sockets_that_were_passed() {
    let world = World::new();
    fs::create_dir(world.at("video")).unwrap();
    fs::write(world.at("video").join("manifest.mpd"), "no manifest").unwrap();
    let [listener, metrics] = [(); 2].map(|()| TcpListener::bind("127.0.0.1:0").unwrap());
    let [page, scraped] = [&listener, &metrics].map(|socket| socket.local_addr().unwrap());
    let (video, listen, of_metrics) = (world.at("video"), page.to_string(), scraped.to_string());
    let serve = ["dash", "serve", text(&video), "--tcp", "--listen", &listen, "--metrics", &of_metrics];
    let _server = world.start(&serve, (listener.into(), Some(metrics.into())));
    assert_eq!(fetch(page, "/manifest.mpd"), "HTTP/1.1 200 OK");
    assert_eq!(fetch(scraped, "/readyz"), "HTTP/1.1 200 OK");
}

#[test]
fn a_reload_is_told_from_its_beginning_to_its_end() {
    let world = World::new();
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let settings = world.at("serve.toml");
    let text_of = |more: &str| {
        format!("command = \"serve\"\nlisten = [\"{address}\"]\nshared_key = {:?}\n{more}", world.at("key"))
    };
    fs::write(&settings, text_of("allow = [\"any\"]")).unwrap();
    let server = world.start(&["run", text(&settings)], (listener.into(), None));
    // A file with an error changes nothing, and the reload ends, too.
    for more in ["allow = [\"10.0.0.0/8\"]", "alow = []"] {
        fs::write(&settings, text_of(more)).unwrap();
        let pid = rustix::process::Pid::from_child(&server.0);
        rustix::process::kill_process(pid, rustix::process::Signal::HUP).unwrap();
        let state = world.state();
        assert!(state.starts_with("RELOADING=1\nMONOTONIC_USEC="), "{state}");
        assert_eq!(world.state(), "READY=1\n");
    }
}

#[test]
fn descriptors_that_a_server_cannot_use_are_named_with_the_way_out() {
    let world = World::new();
    let key = world.at("key");
    let serve = ["serve", "--allow", "any", "--listen", "127.0.0.1:7000", "--shared-key", text(&key)];
    let refused = |socket: OwnedFd| {
        let output = world.command(&serve, (socket, None)).stderr(Stdio::piped()).output().unwrap();
        assert!(!output.status.success());
        String::from_utf8(output.stderr).unwrap()
    };
    let said = refused(fs::File::open(Path::new("/dev/null")).unwrap().into());
    assert!(said.contains("descriptor 3 of the service manager (`first`) is not a socket"), "{said}");
    let other = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = other.local_addr().unwrap();
    let said = refused(other.into());
    let both = format!(
        "a socket on TCP {address} (`first`), but by its settings the program listens on TCP 127.0.0.1:7000"
    );
    assert!(said.contains(&both) && said.contains("the same addresses"), "{said}");
}
