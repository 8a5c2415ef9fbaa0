//! `tributary exec` and `connect --socks` with real programs: two paths on loopback addresses, a web server on an address
//! and a name that only the server's end knows.
//!
//! Without the right to create namespaces nothing runs: the program prints the reason, and fails when `CI=true`.

use std::fs::{self, File};
use std::io::{BufRead, BufReader, Write};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, TcpListener, UdpSocket};
use std::os::unix::fs::PermissionsExt;
use std::process::{Child, Command, ExitCode, Output, Stdio};
use std::thread;

use tempfile::TempDir;
use tributary_testing::{not_run, until};
use tributary_tun::Netlink;

const PROGRAM: &str = env!("CARGO_BIN_EXE_tributary");
/// The web server's addresses (RFC 5737, RFC 3849).
const WEB: Ipv4Addr = Ipv4Addr::new(203, 0, 113, 7);
const WEB_6: Ipv6Addr = Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, 7);
/// Its name. The server's resolver knows it, and a name that leads to loopback.
const NAME: &str = "web.example";
const REBOUND: &str = "rebound.example";
const PAGE: &str = "from the other side";

type Case = (&'static str, fn(&Server));

const CASES: [Case; 9] = [
    ("names_and_addresses_lead_to_the_server_s_side", names_and_addresses_lead_to_the_servers_side),
    ("what_is_not_allowed_is_refused_and_logged", what_is_not_allowed_is_refused_and_logged),
    ("exit_codes_and_signals_are_the_program_s", exit_codes_and_signals_are_the_programs),
    ("input_and_environment_are_the_program_s", input_and_environment_are_the_programs),
    ("udp_is_refused_at_once", udp_is_refused_at_once),
    ("a_user_without_privileges_may_run_it", a_user_without_privileges_may_run_it),
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

fn has(program: &str) -> bool {
    Command::new(program).arg("--version").stdout(Stdio::null()).stderr(Stdio::null()).status().is_ok()
}

/// Answers every request with the page.
fn serve_pages(listener: TcpListener) {
    for mut tcp in listener.incoming().flatten() {
        let mut lines = BufReader::new(tcp.try_clone().expect("a socket"));
        let mut line = String::new();
        while lines.read_line(&mut line).is_ok_and(|count| count > 2) {
            line.clear();
        }
        let length = PAGE.len();
        let _ = write!(tcp, "HTTP/1.1 200 OK\r\nContent-Length: {length}\r\nConnection: close\r\n\r\n{PAGE}");
    }
}

/// A resolver of this machine that knows two names.
fn serve_names(socket: UdpSocket) {
    let mut message = [0; 512];
    while let Ok((_, from)) = socket.recv_from(&mut message) {
        let mut labels = Vec::new();
        let mut at = 12;
        while message[at] > 0 {
            let end = at + 1 + usize::from(message[at]);
            labels.push(String::from_utf8_lossy(&message[at + 1..end]).into_owned());
            at = end;
        }
        let address = match labels.join(".").as_str() {
            NAME => Some(WEB),
            REBOUND => Some(Ipv4Addr::LOCALHOST),
            _ => None,
        };
        let is_ipv4 = message[at + 1..at + 3] == [0, 1];
        let mut answer = message[..at + 5].to_vec();
        let code = if address.is_some() { 0x80 } else { 0x83 };
        answer[2..12].copy_from_slice(&[0x81, code, 0, 1, 0, 0, 0, 0, 0, 0]);
        if let Some(address) = address.filter(|_| is_ipv4) {
            answer[7] = 1;
            answer.extend_from_slice(&[0xc0, 12, 0, 1, 0, 1, 0, 0, 0, 5, 0, 4]);
            answer.extend_from_slice(&address.octets());
        }
        let _ = socket.send_to(&answer, from);
    }
}

/// The server's end, and what it reaches.
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
        let mut netlink = Netlink::open().expect("netlink");
        netlink.add_address("lo", WEB.into(), 32).expect("an address");
        netlink.add_address("lo", WEB_6.into(), 128).expect("an address");
        let listener = TcpListener::bind((WEB, 0)).expect("its own address");
        let web = listener.local_addr().expect("bound").port();
        thread::spawn(move || serve_pages(listener));
        let listener = TcpListener::bind((WEB_6, web)).expect("its own address");
        thread::spawn(move || serve_pages(listener));
        let names = UdpSocket::bind("127.0.0.1:53").expect("root may bind it");
        thread::spawn(move || serve_names(names));
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

fn listening(child: &mut Child) -> String {
    let mut line = String::new();
    BufReader::new(child.stdout.take().expect("a pipe")).read_line(&mut line).expect("a line");
    line.trim().strip_prefix("listening on ").unwrap_or_else(|| panic!("no address: {line}")).to_owned()
}

#[track_caller]
fn said(output: &Output, code: i32) -> String {
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let errors = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(code), "{text}{errors}");
    text
}

const CURL: [&str; 4] = ["curl", "-gsS", "--max-time", "60"];

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

fn udp_is_refused_at_once(server: &Server) {
    let script = format!(
        "import socket
s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
s.connect(('{WEB}', 443))
s.send(b'x')
try: s.recv(1)
except ConnectionRefusedError: print('refused')"
    );
    assert_eq!(said(&server.exec(&["python3", "-c", &script]), 0), "refused\n");
}

fn a_user_without_privileges_may_run_it(server: &Server) {
    let other = ["setpriv", "--reuid", "65534", "--regid", "65534", "--clear-groups"];
    if !Command::new(other[0])
        .args(&other[1..])
        .arg("true")
        .stderr(Stdio::null())
        .status()
        .is_ok_and(|s| s.success())
    {
        return not_run("this namespace has no other user");
    }
    // In a directory that this user may read, with a key of its own.
    let directory = tempfile::Builder::new().permissions(PermissionsExt::from_mode(0o755)).tempdir_in("/tmp");
    let directory = directory.expect("a directory");
    let at = |name: &str| directory.path().join(name);
    fs::copy(PROGRAM, at("tributary")).expect("a copy");
    fs::copy(server.directory.path().join("key"), at("key")).expect("a copy");
    for path in [at("key"), directory.path().to_owned()] {
        std::os::unix::fs::chown(path, Some(65534), None).expect("root may");
    }
    let mut command = Command::new(other[0]);
    command.args(&other[1..]).arg(at("tributary")).args([
        "exec",
        "--path",
        "127.0.0.2",
        "--path",
        "127.0.0.3",
    ]);
    command.args(["--server", &server.address, "--shared-key"]).arg(at("key")).stdin(Stdio::null());
    command.env("TRIBUTARY_RUNTIME_DIR", at("status"));
    command.arg("--").args(CURL).arg(server.url(NAME));
    assert_eq!(said(&command.output().expect("it starts"), 0), PAGE);
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
