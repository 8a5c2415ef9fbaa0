//! `tributary exec` and `connect --socks` with real programs: two paths on loopback addresses, a web server on an address
//! and a name that only the server's end knows.
//!
//! Without the right to create namespaces nothing runs: the program prints the reason, and fails when `CI=true`.

#[path = "common/far_side.rs"]
mod far_side;

use std::fs::{self, File};
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{IpAddr, SocketAddr, TcpListener, UdpSocket};
use std::os::unix::fs::PermissionsExt;
use std::process::{Child, Command, ExitCode, Output, Stdio};
use std::thread;

use far_side::{CURL, NAME, PAGE, REBOUND, WEB, WEB_6, has, listening, said};
use tempfile::TempDir;
use tributary_testing::{not_run, until};

const PROGRAM: &str = env!("CARGO_BIN_EXE_tributary");
type Case = (&'static str, fn(&Server));

const CASES: [Case; 14] = [
    ("names_and_addresses_lead_to_the_server_s_side", names_and_addresses_lead_to_the_servers_side),
    ("what_is_not_allowed_is_refused_and_logged", what_is_not_allowed_is_refused_and_logged),
    ("exit_codes_and_signals_are_the_program_s", exit_codes_and_signals_are_the_programs),
    ("input_and_environment_are_the_program_s", input_and_environment_are_the_programs),
    ("datagrams_reach_the_server_s_side", datagrams_reach_the_servers_side),
    ("datagrams_that_cannot_arrive_are_refused", datagrams_that_cannot_arrive_are_refused),
    ("without_a_device_udp_is_refused_at_once", without_a_device_udp_is_refused_at_once),
    ("what_a_program_sends_last_arrives", what_a_program_sends_last_arrives),
    ("what_waits_in_a_program_s_socket_arrives", what_waits_in_a_programs_socket_arrives),
    ("a_user_without_privileges_may_run_it", a_user_without_privileges_may_run_it),
    ("missing_user_namespaces_are_named", missing_user_namespaces_are_named),
    ("missing_nft_is_named", missing_nft_is_named),
    ("git_clones_through_it", git_clones_through_it),
    ("curl_uses_the_socks_address", curl_uses_the_socks_address),
];

fn main() -> ExitCode {
    tributary_testing::run_cases(&CASES, prepare, |case, server| case(server))
}

fn prepare() -> Result<Server, String> {
    tributary_emu::isolate().map_err(|error| error.to_string())?;
    match ["nft", "curl", "git", "python3", "setpriv"].into_iter().find(|program| !has(program)) {
        Some(missing) => Err(format!("the program {missing} is missing")),
        None => Ok(Server::start()),
    }
}

/// The server's end, and what it reaches. The echo of datagrams has the web server's addresses and port.
struct Server {
    child: Child,
    address: String,
    web: u16,
    directory: TempDir,
}

impl Drop for Server {
    fn drop(&mut self) {
        // Both fail if it has already ended.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Server {
    fn start() -> Self {
        let directory = TempDir::new().expect("a directory");
        let at = |name: &str| directory.path().join(name);
        let web = far_side::start();
        fs::write(at("resolv.conf"), "nameserver 127.0.0.1\noptions attempts:1\n").expect("a file");
        let mounted =
            Command::new("mount").arg("--bind").arg(at("resolv.conf")).arg("/etc/resolv.conf").status();
        assert!(mounted.expect("mount").success());
        let made = Command::new(PROGRAM)
            .args(["keygen", "--shared", "--out"])
            .arg(at("key"))
            .stderr(Stdio::null())
            .status();
        assert!(made.expect("it starts").success());
        let mut command = Command::new(PROGRAM);
        command.args(["serve", "--listen", "127.0.0.1:0", "--allow", "any", "--shared-key"]).arg(at("key"));
        command.env("TRIBUTARY_RUNTIME_DIR", at("status")).env_remove("RUST_LOG").stdout(Stdio::piped());
        command.stderr(File::create(at("server.log")).expect("a file"));
        let mut child = command.spawn().expect("it starts");
        let address = listening(&mut child);
        Self { child, address, web, directory }
    }

    /// A command with the arguments that lead to this server, after those that come before it.
    fn client_of(&self, before: &[&str], name: &str) -> Command {
        let words: Vec<&str> = before.iter().copied().chain([PROGRAM, name]).collect();
        let mut command = Command::new(words[0]);
        command.args(&words[1..]).args([
            "--path",
            "127.0.0.2",
            "--path",
            "127.0.0.3",
            "--server",
            &self.address,
        ]);
        command
            .arg("--shared-key")
            .arg(self.directory.path().join("key"))
            .stdin(Stdio::null())
            .env_remove("RUST_LOG");
        command.env("TRIBUTARY_RUNTIME_DIR", self.directory.path().join("status"));
        command
    }

    fn exec(&self, program: &[&str]) -> Output {
        self.client_of(&[], "exec").arg("--").args(program).output().expect("it starts")
    }

    fn url(&self, host: impl std::fmt::Display) -> String {
        format!("http://{host}:{}/", self.web)
    }

    /// Waits until the server's log has a line with these words.
    fn logged(&self, words: &str) {
        let log = || fs::read_to_string(self.directory.path().join("server.log")).expect("a log");
        until(words, || log().contains(words));
    }
}

fn names_and_addresses_lead_to_the_servers_side(server: &Server) {
    for host in [NAME.to_owned(), IpAddr::from(WEB).to_string(), format!("[{WEB_6}]")] {
        let url = server.url(host);
        assert_eq!(said(&server.exec(&[&CURL[..], &[&url]].concat()), 0), PAGE);
    }
    let mut command = server.client_of(&[], "exec");
    let script = format!("exec 3<>/dev/tcp/{WEB}/{}; read -r line", server.web);
    command.args(["--", "bash", "-c", &script]).stdin(Stdio::piped());
    let mut child = command.spawn().expect("it starts");
    let wanted = serde_json::json!([{ "destination": format!("{WEB}:{}", server.web), "connections": 1 }]);
    until("the status shows the connection at both ends", || {
        let status = Command::new(PROGRAM)
            .args(["status", "--json"])
            .env("TRIBUTARY_RUNTIME_DIR", server.directory.path().join("status"))
            .output();
        let state: serde_json::Value =
            serde_json::from_slice(&status.expect("it starts").stdout).expect("JSON");
        let shows = |role: &str| {
            let mut programs = state["programs"].as_array().expect("a list").iter();
            programs.any(|program| program["role"] == role && program["destinations"] == wanted)
        };
        shows("exec") && shows("serve")
    });
    drop(child.stdin.take());
    child.wait().expect("it ends");
}

fn what_is_not_allowed_is_refused_and_logged(server: &Server) {
    // curl: 7, 52 or 56, the connection was reset; 6, the name could not be resolved.
    let url = server.url("10.9.8.7");
    let output = server.exec(&[&CURL[..], &[&url]].concat());
    assert!(matches!(output.status.code(), Some(7 | 52 | 56)), "{output:?}");
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(errors.contains("10.9.8.7") && errors.contains("--allow"), "{errors}");
    server.logged("--allow 10.9.8.7");
    let output = server.exec(&[&CURL[..], &[&server.url(REBOUND)]].concat());
    said(&output, 6);
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(errors.contains(REBOUND) && errors.contains("--allow"), "{errors}");
    said(&server.exec(&[&CURL[..], &[&server.url("no-such-name.example")]].concat()), 6);
}

fn exit_codes_and_signals_are_the_programs(server: &Server) {
    let cases: [(&[&str], i32); 4] = [
        (&["sh", "-c", "exit 7"], 7),
        (&["sh", "-c", "kill -TERM $$"], 143),
        (&["/no/such/program"], 127),
        (&["/etc/passwd"], 126),
    ];
    for (program, code) in cases {
        said(&server.exec(program), code);
    }
    for (signal, code) in [("TERM", 3), ("INT", 4), ("USR1", 5)] {
        let script = format!("trap 'kill $!; exit {code}' {signal}; sleep 60 & echo ready; wait");
        // A shell that started the tests in the background would let them ignore SIGINT.
        let mut command = server.client_of(&["env", "--default-signal"], "exec");
        // Not in the terminal's foreground group, whatever started this test.
        std::os::unix::process::CommandExt::process_group(&mut command, 0);
        let mut child =
            command.args(["--", "bash", "-c", &script]).stdout(Stdio::piped()).spawn().expect("it starts");
        let mut line = String::new();
        BufReader::new(child.stdout.take().expect("a pipe")).read_line(&mut line).expect("a line");
        let sent = Command::new("kill").args(["-s", signal, &child.id().to_string()]).status();
        assert!(sent.expect("kill").success());
        assert_eq!(child.wait().expect("it ends").code(), Some(code), "SIG{signal}");
    }
}

fn input_and_environment_are_the_programs(server: &Server) {
    let mut command = server.client_of(&[], "exec");
    command.args(["--", "sh", "-c", "cat; echo $WORD; id -u; pwd"]).env("WORD", "given").current_dir("/usr");
    let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().expect("it starts");
    child.stdin.take().expect("a pipe").write_all(b"typed\n").expect("it reads");
    let output = child.wait_with_output().expect("it ends");
    let user =
        String::from_utf8(Command::new("id").arg("-u").output().expect("id").stdout).expect("a number");
    assert_eq!(said(&output, 0), format!("typed\ngiven\n{user}/usr\n"));
}

fn datagrams_reach_the_servers_side(server: &Server) {
    let script = far_side::echo_client(server.web);
    assert_eq!(said(&server.exec(&["python3", "-c", &script]), 0), "all\n");
}

fn datagrams_that_cannot_arrive_are_refused(server: &Server) {
    let closed = UdpSocket::bind((WEB, 0)).and_then(|socket| socket.local_addr()).expect("its own address");
    let script = format!(
        "import socket, errno
for family, host, port in [
    (socket.AF_INET, '10.9.8.7', 443), (socket.AF_INET6, 'fd00::9', 443), (socket.AF_INET, '{WEB}', {}),
]:
    s = socket.socket(family, socket.SOCK_DGRAM)
    s.settimeout(60)
    s.connect((host, port))
    s.send(b'x')
    try: s.recv(1)
    except OSError as error: print(errno.errorcode[error.errno])",
        closed.port()
    );
    let output = server.exec(&["python3", "-c", &script]);
    assert_eq!(said(&output, 0), "EHOSTUNREACH\nEACCES\nECONNREFUSED\n");
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(errors.contains("10.9.8.7:443") && errors.contains("--allow"), "{errors}");
}

fn without_a_device_udp_is_refused_at_once(server: &Server) {
    let script = format!(
        "import socket
s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
s.connect(('{WEB}', 443))
s.send(b'x')
try: s.recv(1)
except ConnectionRefusedError: print('refused')"
    );
    // An empty directory over the driver's, in a mount namespace of its own.
    let hide = "mount -t tmpfs none /dev/net; exec \"$@\"";
    let mut command = server.client_of(&["unshare", "-m", "sh", "-c", hide, "sh"], "exec");
    let output = command.args(["--", "python3", "-c", &script]).output().expect("it starts");
    assert_eq!(said(&output, 0), "refused\n");
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(errors.contains("only TCP") && errors.contains("modprobe tun"), "{errors}");
}

fn what_a_program_sends_last_arrives(server: &Server) {
    const CONNECTIONS: usize = 100;
    let sink = TcpListener::bind((WEB, 0)).expect("its own address");
    let port = sink.local_addr().expect("bound").port();
    let datagrams = UdpSocket::bind((WEB, port)).expect("its own address");
    let (line_of, lines) = std::sync::mpsc::channel();
    thread::spawn(move || {
        for tcp in sink.incoming() {
            let mut line = String::new();
            let read = BufReader::new(tcp.expect("a socket")).read_line(&mut line);
            let _ = line_of.send(read.map(|_| line));
        }
    });
    let script = format!(
        "import os, socket, sys
print(os.getpid(), flush=True)
sys.stdin.readline()
socket.socket(socket.AF_INET, socket.SOCK_DGRAM).sendto(b'last', ('{WEB}', {port}))
open = [socket.create_connection(('{WEB}', {port})) for n in range({CONNECTIONS})]
for s in open: s.send(b'last\\n')"
    );
    let mut command = server.client_of(&[], "exec");
    command.args(["--", "python3", "-c", &script]).stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut child = command.spawn().expect("it starts");
    let mut line = String::new();
    BufReader::new(child.stdout.take().expect("a pipe")).read_line(&mut line).expect("a line");
    let process = child.id().to_string();
    let signal = |name: &str| {
        let sent = Command::new("kill").args(["-s", name, &process]).status();
        assert!(sent.expect("kill").success());
    };
    // The program ends while nobody accepts its connections or reads its packets.
    signal("STOP");
    child.stdin.as_mut().expect("a pipe").write_all(b"\n").expect("it reads");
    let stat = format!("/proc/{}/stat", line.trim());
    until("the program has ended", || fs::read_to_string(&stat).is_ok_and(|stat| stat.contains(") Z ")));
    signal("CONT");
    assert_eq!(child.wait().expect("it ends").code(), Some(0));
    let mut datagram = [0; 16];
    datagrams.set_read_timeout(Some(tributary_testing::HANG)).expect("a socket");
    assert_eq!(datagrams.recv(&mut datagram).expect("the datagram arrives"), 4);
    for n in 0..CONNECTIONS {
        let line = lines.recv_timeout(tributary_testing::HANG);
        let line = line.unwrap_or_else(|_| panic!("{n} of {CONNECTIONS} connections arrived"));
        assert_eq!(line.expect("no reset"), "last\n");
    }
}

fn what_waits_in_a_programs_socket_arrives(server: &Server) {
    let sink = TcpListener::bind((WEB, 0)).expect("its own address");
    let port = sink.local_addr().expect("bound").port();
    let (begin, begun) = std::sync::mpsc::channel();
    let read = thread::spawn(move || {
        let (mut tcp, _) = sink.accept().expect("a connection");
        begun.recv().expect("the program has ended");
        let mut all = Vec::new();
        tcp.read_to_end(&mut all).map(|_| all.len())
    });
    // real time: what is taken within a second is all that the buffers on the way take; the rest is in the program's socket. A shorter time
    // would make the test easier to pass.
    let script = format!(
        "import select, socket
s = socket.create_connection(('{WEB}', {port}))
s.setblocking(False)
sent = 0
while select.select([], [s], [], 1)[1]: sent += s.send(bytes(1 << 16))
print(sent)"
    );
    let log = server.directory.path().join("exec.log");
    let mut command = server.client_of(&[], "exec");
    command.args(["--", "python3", "-c", &script]).env("RUST_LOG", "info").stdout(Stdio::piped());
    let child = command.stderr(File::create(&log).expect("a file")).spawn().expect("it starts");
    until("the program has ended", || fs::read_to_string(&log).expect("a log").contains("ending;"));
    begin.send(()).expect("it waits");
    let sent = said(&child.wait_with_output().expect("it ends"), 0);
    assert_eq!(read.join().expect("a thread").expect("no reset").to_string(), sent.trim());
}

const NOBODY: [&str; 5] = ["setpriv", "--reuid", "65534", "--regid", "65534"];

/// `exec` by a user without privileges, in a directory that this user may read, with a key of its own. After `before`. `None` where no other
/// user exists.
fn by_nobody(server: &Server, before: &[&str], program: &[&str]) -> Option<Output> {
    let mut may = Command::new(NOBODY[0]);
    may.args(&NOBODY[1..]).args(["--clear-groups", "true"]).stderr(Stdio::null());
    if !may.status().is_ok_and(|status| status.success()) {
        not_run("this namespace has no other user");
        return None;
    }
    let directory = tempfile::Builder::new().permissions(PermissionsExt::from_mode(0o755)).tempdir_in("/tmp");
    let directory = directory.expect("a directory");
    let at = |name: &str| directory.path().join(name);
    fs::copy(PROGRAM, at("tributary")).expect("a copy");
    fs::copy(server.directory.path().join("key"), at("key")).expect("a copy");
    for path in [at("key"), directory.path().to_owned()] {
        std::os::unix::fs::chown(path, Some(65534), None).expect("root may");
    }
    let words = [before, &NOBODY, &["--clear-groups"]].concat();
    let mut command = Command::new(words[0]);
    command.args(&words[1..]).arg(at("tributary"));
    command.args(["exec", "--path", "127.0.0.2", "--path", "127.0.0.3", "--server", &server.address]);
    command.arg("--shared-key").arg(at("key")).stdin(Stdio::null());
    command.env("TRIBUTARY_RUNTIME_DIR", at("status")).arg("--").args(program);
    Some(command.output().expect("it starts"))
}

fn a_user_without_privileges_may_run_it(server: &Server) {
    let url = server.url(NAME);
    if let Some(output) = by_nobody(server, &[], &[&CURL[..], &[&url]].concat()) {
        assert_eq!(said(&output, 0), PAGE);
    }
}

fn missing_user_namespaces_are_named(server: &Server) {
    // In a changed root the kernel refuses a user namespace (user_namespaces(7)).
    let script = "mount --rbind / $0 && exec chroot $0 \"$@\"";
    let root = server.directory.path().join("root");
    fs::create_dir(&root).expect("a directory");
    let root = tributary_testing::text(&root);
    if let Some(output) = by_nobody(server, &["unshare", "-m", "sh", "-c", script, root], &["true"]) {
        said(&output, 125);
        let errors = String::from_utf8_lossy(&output.stderr);
        assert!(errors.contains("cannot create a network namespace"), "{errors}");
        assert!(errors.contains("Allow user namespaces"), "{errors}");
    }
}

fn missing_nft_is_named(server: &Server) {
    // An empty directory over the places of `nft`, in a mount namespace of its own.
    let script =
        "for f in /usr/sbin/nft /sbin/nft; do [ -e $f ] && mount --bind /dev/null $f; done; exec \"$@\"";
    let mut command = server.client_of(&["unshare", "-m", "sh", "-c", script, "sh"], "exec");
    let output = command.args(["--", "true"]).output().expect("it starts");
    said(&output, 125);
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(errors.contains("nft"), "{errors}");
}

fn git_clones_through_it(server: &Server) {
    let at = |name: &str| server.directory.path().join(name).display().to_string();
    let script = format!(
        "set -e; git init -q {repo}; cd {repo}; echo text > file; git add file; \
         git -c user.name=a -c user.email=a@example.org commit -qm first; git update-server-info",
        repo = at("repository")
    );
    said(&Command::new("sh").args(["-c", &script]).output().expect("sh"), 0);
    let web = format!(
        "import http.server, functools
h = functools.partial(http.server.SimpleHTTPRequestHandler, directory='{}')
s = http.server.ThreadingHTTPServer(('{WEB}', 0), h)
print('listening on %d' % s.server_port, flush=True)
s.serve_forever()",
        at("repository/.git")
    );
    let mut web = Command::new("python3")
        .args(["-c", &web])
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .expect("python3");
    let port = listening(&mut web);
    let cloned = server.exec(&["git", "clone", "-q", &format!("http://{NAME}:{port}/"), &at("copy")]);
    let _ = web.kill();
    let _ = web.wait();
    said(&cloned, 0);
    assert_eq!(fs::read_to_string(at("copy/file")).expect("it is there"), "text\n");
}

fn curl_uses_the_socks_address(server: &Server) {
    let mut command = server.client_of(&[], "connect");
    command.args(["--socks", "127.0.0.1:0"]).stdout(Stdio::piped());
    let mut client = command.stderr(Stdio::null()).spawn().expect("it starts");
    let address: SocketAddr = listening(&mut client).parse().expect("an address");
    for scheme in ["socks5h", "http"] {
        let proxy = format!("{scheme}://{address}");
        let curl = |host: &str| {
            let mut command = Command::new(CURL[0]);
            command.args(&CURL[1..]).args(["--noproxy", "", "-p", "--proxy", &proxy]).arg(server.url(host));
            command.output().expect("curl")
        };
        assert_eq!(said(&curl(NAME), 0), PAGE, "{scheme}");
        assert_eq!(said(&curl(&format!("[{WEB_6}]")), 0), PAGE, "{scheme}");
        let refused = curl(REBOUND);
        // curl 97: refused by the SOCKS proxy; 56 or 22: by the HTTP proxy.
        assert!(matches!(refused.status.code(), Some(97 | 56 | 22)), "{scheme}: {refused:?}");
    }
    let _ = client.kill();
    let _ = client.wait();
    let mut command = server.client_of(&[], "connect");
    let output = command.args(["--socks", "0.0.0.0:0"]).output().expect("it starts");
    said(&output, 1);
    assert!(String::from_utf8_lossy(&output.stderr).contains("--socks-remote"));
}
