//! What lies beyond a server: a web server and an echo of datagrams at addresses and a name that only the server's side knows.

use std::io::{BufRead, BufReader, Write};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, TcpListener, UdpSocket};
use std::process::{Child, Command, Output, Stdio};
use std::thread;

use tributary_tun::Netlink;

/// The web server's addresses (RFC 5737, RFC 3849).
pub const WEB: Ipv4Addr = Ipv4Addr::new(203, 0, 113, 7);
pub const WEB_6: Ipv6Addr = Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, 7);
/// Its name. The server's resolver knows it, and a name that leads to loopback.
pub const NAME: &str = "web.example";
pub const REBOUND: &str = "rebound.example";
pub const PAGE: &str = "from the other side";

pub const CURL: [&str; 4] = ["curl", "-gsS", "--max-time", "60"];

pub fn has(program: &str) -> bool {
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

/// Sends every datagram back.
fn echo_datagrams(socket: UdpSocket) {
    let mut datagram = vec![0; 1 << 16];
    while let Ok((length, from)) = socket.recv_from(&mut datagram) {
        let _ = socket.send_to(&datagram[..length], from);
    }
}

/// Starts all of it in the network namespace of this thread. Returns the port of the web server and of the echo.
pub fn start() -> u16 {
    let mut netlink = Netlink::open().expect("netlink");
    netlink.add_address("lo", WEB.into(), 32).expect("an address");
    netlink.add_address("lo", WEB_6.into(), 128).expect("an address");
    let listener = TcpListener::bind((WEB, 0)).expect("its own address");
    let port = listener.local_addr().expect("bound").port();
    thread::spawn(move || serve_pages(listener));
    let listener = TcpListener::bind((WEB_6, port)).expect("its own address");
    thread::spawn(move || serve_pages(listener));
    for address in [IpAddr::from(WEB), WEB_6.into()] {
        let socket = UdpSocket::bind((address, port)).expect("its own address");
        thread::spawn(move || echo_datagrams(socket));
    }
    let names = UdpSocket::bind("127.0.0.1:53").expect("root may bind it");
    thread::spawn(move || serve_names(names));
    port
}

/// A program that sends datagrams of every length to the echo, at its addresses and its name, and then prints `all`.
pub fn echo_client(port: u16) -> String {
    format!(
        "import socket
for family, host in [(socket.AF_INET, '{WEB}'), (socket.AF_INET6, '{WEB_6}'), (socket.AF_INET, '{NAME}')]:
    s = socket.socket(family, socket.SOCK_DGRAM)
    s.settimeout(60)
    # 9000 and more bytes leave as fragments.
    for length in [0, 1, 1472, 9000, 65507]:
        sent = bytes(n % 251 for n in range(length))
        s.sendto(sent, (host, {port}))
        got, source = s.recvfrom(65536)
        assert got == sent and source[1] == {port}, (host, length, len(got), source)
print('all')"
    )
}

pub fn listening(child: &mut Child) -> String {
    let mut line = String::new();
    BufReader::new(child.stdout.take().expect("a pipe")).read_line(&mut line).expect("a line");
    line.trim().strip_prefix("listening on ").unwrap_or_else(|| panic!("no address: {line}")).to_owned()
}

#[track_caller]
pub fn said(output: &Output, code: i32) -> String {
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let errors = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(code), "{text}{errors}");
    text
}
