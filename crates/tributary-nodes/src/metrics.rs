//! Metrics for Prometheus: answers every HTTP request on a local port. Source: Prometheus exposition format
//! 0.0.4 over HTTP/1.1. Not a general web server: it ignores the path and closes each connection.
//!
//! Who reaches the port may read the counters. So may no web page: on a loopback address a request must name that
//! address, not a name that leads to it (DNS rebinding).

use crate::asker::Asker;
use core::time::Duration;
use std::io::{self, Read, Write};
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread::JoinHandle;
use std::time::Instant;

/// A client that takes longer is dropped.
const PATIENCE: Duration = Duration::from_secs(1);
/// Clients that are served at once; further ones are dropped.
const CLIENTS: usize = 16;

/// Serves metrics until dropped.
#[derive(Debug)]
pub(crate) struct Metrics {
    address: SocketAddr,
    ends: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Metrics {
    pub(crate) fn start(listener: TcpListener, asker: Asker) -> io::Result<Self> {
        let address = listener.local_addr()?;
        let ends = Arc::new(AtomicBool::new(false));
        let stop = ends.clone();
        let text = move || asker.status().ok().map(|status| status.to_prometheus());
        let body = move || serve(&listener, &stop, PATIENCE, &text);
        let thread = std::thread::Builder::new().name("metrics".to_owned()).spawn(body)?;
        Ok(Self { address, ends, thread: Some(thread) })
    }

    pub(crate) fn address(&self) -> SocketAddr {
        self.address
    }
}

impl Drop for Metrics {
    fn drop(&mut self) {
        self.ends.store(true, Ordering::Relaxed);
        // Wakes the thread, which waits for a client.
        let woken = TcpStream::connect_timeout(&self.address, PATIENCE).is_ok();
        if let Some(thread) = self.thread.take().filter(|_| woken) {
            let _ = thread.join();
        }
    }
}

/// Serves until the first client after `stop` is set. A slow client does not delay the others.
fn serve(
    listener: &TcpListener,
    stop: &AtomicBool,
    patience: Duration,
    text: &(impl Fn() -> Option<String> + Sync),
) {
    let clients = AtomicUsize::new(0);
    std::thread::scope(|scope| {
        for stream in listener.incoming() {
            if stop.load(Ordering::Relaxed) {
                return;
            }
            let Ok(mut stream) = stream else { continue };
            if clients.fetch_add(1, Ordering::Relaxed) >= CLIENTS {
                clients.fetch_sub(1, Ordering::Relaxed);
                continue;
            }
            let clients = &clients;
            scope.spawn(move || {
                // A client that disconnects early causes no error.
                let _ = answer(&mut stream, patience, text);
                // Before the stream ends: a client that has seen its end may connect again at once.
                clients.fetch_sub(1, Ordering::Relaxed);
                drop(stream);
            });
        }
    });
}

fn answer(stream: &mut TcpStream, patience: Duration, text: impl Fn() -> Option<String>) -> io::Result<()> {
    let deadline = Instant::now() + patience;
    stream.set_write_timeout(Some(patience))?;
    let mut request = [0; 4096];
    let mut length = 0;
    while !request[..length].windows(4).any(|end| end == b"\r\n\r\n") && length < request.len() {
        // If no time is left this fails, which drops the client.
        stream.set_read_timeout(Some(deadline.saturating_duration_since(Instant::now())))?;
        match stream.read(&mut request[length..])? {
            0 => break,
            more => length += more,
        }
    }
    let ours = !stream.local_addr()?.ip().is_loopback() || names_an_address(&request[..length]);
    let (code, text) = match ours.then(text) {
        Some(Some(text)) => ("200 OK", text),
        Some(None) => ("503 Service Unavailable", String::new()),
        None => ("421 Misdirected Request", "use the address of this server, not a name\n".to_owned()),
    };
    let head = format!(
        "HTTP/1.1 {code}\r\nContent-Type: text/plain; version=0.0.4; charset=utf-8\r\n\
         Content-Length: {}\r\nConnection: close\r\n\r\n",
        text.len()
    );
    stream.write_all(head.as_bytes())?;
    stream.write_all(text.as_bytes())
}

/// Whether the request's `Host` is an address or `localhost` (RFC 9110 §7.2).
fn names_an_address(head: &[u8]) -> bool {
    let head = String::from_utf8_lossy(head);
    let fields = head.lines().filter_map(|line| line.split_once(':'));
    let mut hosts = fields.filter(|(name, _)| name.eq_ignore_ascii_case("host")).map(|(_, host)| host.trim());
    let (Some(host), None) = (hosts.next(), hosts.next()) else { return false };
    let name = match host.rsplit_once(':') {
        Some((name, port)) if port.parse::<u16>().is_ok() => name,
        _ => host,
    };
    let bare = name.strip_prefix('[').and_then(|name| name.strip_suffix(']'));
    name.eq_ignore_ascii_case("localhost")
        || name.parse::<Ipv4Addr>().is_ok()
        || bare.is_some_and(|name| name.parse::<Ipv6Addr>().is_ok())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Not reached in a test: a server that waited for a slow client would hang.
    const LONG: Duration = Duration::from_secs(3600);

    fn ask(address: SocketAddr, host: &str) -> String {
        let mut stream = TcpStream::connect(address).unwrap();
        stream.write_all(format!("GET /metrics HTTP/1.1\r\nHost: {host}\r\n\r\n").as_bytes()).unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        answer
    }

    /// Ends the server, also when the test fails.
    struct End<'a>(&'a AtomicBool, SocketAddr);

    impl Drop for End<'_> {
        fn drop(&mut self) {
            self.0.store(true, Ordering::Relaxed);
            let _ = TcpStream::connect(self.1);
        }
    }

    #[test]
    fn clients_that_send_half_a_head_do_not_delay_others_and_other_names_are_refused() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let stop = AtomicBool::new(false);
        std::thread::scope(|scope| {
            scope.spawn(|| serve(&listener, &stop, LONG, &|| Some("up 1\n".to_owned())));
            let _end = End(&stop, address);
            let mut slow: Vec<TcpStream> =
                (2..CLIENTS).map(|_| TcpStream::connect(address).unwrap()).collect();
            slow.iter_mut().for_each(|stream| stream.write_all(b"GET / HT").unwrap());
            assert!(ask(address, "127.0.0.1:9100").ends_with("\r\n\r\nup 1\n"));
            for foreign in
                ["evil.example", "evil.example:9100", "localhost.evil.example", "", "a\r\nHost: 127.0.0.1"]
            {
                assert!(ask(address, foreign).starts_with("HTTP/1.1 421 "), "{foreign}");
            }
            for own in ["localhost", "127.0.0.1", "[::1]:9100"] {
                assert!(ask(address, own).starts_with("HTTP/1.1 200 "), "{own}");
            }
        });
    }
}
