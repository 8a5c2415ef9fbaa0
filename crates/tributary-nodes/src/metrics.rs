//! Metrics for Prometheus: answers every HTTP request on a local port. Source: Prometheus exposition format
//! 0.0.4 over HTTP/1.1. Not a general web server: it ignores the path and closes each connection.

use crate::asker::Asker;
use core::time::Duration;
use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::Instant;

/// A client that takes longer is dropped.
const PATIENCE: Duration = Duration::from_secs(1);

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
        let body = move || {
            for stream in listener.incoming() {
                if stop.load(Ordering::Relaxed) {
                    return;
                }
                // A client that disconnects early causes no error.
                let _ = stream.and_then(|stream| answer(stream, &asker));
            }
        };
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

fn answer(mut stream: TcpStream, asker: &Asker) -> io::Result<()> {
    let deadline = Instant::now() + PATIENCE;
    stream.set_write_timeout(Some(PATIENCE))?;
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
    let text = asker.status().map(|status| status.to_prometheus());
    let (code, text) = text.map_or(("503 Service Unavailable", String::new()), |text| ("200 OK", text));
    let head = format!(
        "HTTP/1.1 {code}\r\nContent-Type: text/plain; version=0.0.4; charset=utf-8\r\n\
         Content-Length: {}\r\nConnection: close\r\n\r\n",
        text.len()
    );
    stream.write_all(head.as_bytes())?;
    stream.write_all(text.as_bytes())
}
