//! Clients that request one segment after the other, each over its own connection, all on one thread.

use core::time::Duration;
use std::cell::RefCell;
use std::io;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::io::AsyncWriteExt;
use tokio::net::TcpStream;
use tokio::sync::Notify;
use tokio::task::JoinSet;
use tokio::time::timeout;
use tributary_types::Rng;

use crate::BenchError;
use crate::failed;

/// Time for every client to get its first segment.
const START: Duration = Duration::from_secs(60);
/// Most bytes of response headers.
const HEADERS: usize = 16 << 10;

thread_local! {
    /// Buffer for bodies, which are discarded.
    static BIN: RefCell<Vec<u8>> = RefCell::new(vec![0; 256 << 10]);
}

/// What the clients received.
#[derive(Clone, Debug, Default)]
pub(super) struct Tally {
    pub(super) bytes: u64,
    pub(super) responses: u64,
    /// Clients that have received a segment.
    served: u32,
    failed: Option<String>,
}

#[derive(Debug, Default)]
struct Shared {
    tally: Mutex<Tally>,
    news: Notify,
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, Tally> {
        self.tally.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// All clients. Dropping it closes their connections.
#[derive(Debug)]
pub(super) struct Clients {
    shared: Arc<Shared>,
    count: u32,
    _tasks: JoinSet<()>,
}

impl Clients {
    /// Starts `count` clients; `sizes` are the lengths of `/0.m4s`, `/1.m4s`, …
    pub(super) fn start(server: SocketAddr, count: u32, sizes: &[u64]) -> Self {
        let (shared, mut tasks) = (Arc::new(Shared::default()), JoinSet::new());
        for number in 0..count {
            let (shared, sizes) = (shared.clone(), sizes.to_vec());
            let rng = Rng::new(u64::from(number)).child("segments");
            tasks.spawn(async move {
                if let Err(error) = go_on(server, &sizes, rng, &shared).await {
                    shared.lock().failed = Some(format!("client {number}: {error}"));
                    shared.news.notify_one();
                }
            });
        }
        Self { shared, count, _tasks: tasks }
    }

    /// Waits until each client has received a segment.
    pub(super) async fn all_served(&self) -> Result<(), BenchError> {
        let served = async {
            while self.check().is_ok() && self.shared.lock().served < self.count {
                self.shared.news.notified().await;
            }
        };
        if timeout(START, served).await.is_err() {
            let served = self.shared.lock().served;
            return Err(failed("clients", format!("{served} of {} served within {START:?}", self.count)));
        }
        self.check()
    }

    pub(super) fn tally(&self) -> Tally {
        self.shared.lock().clone()
    }

    /// Checks that no client has failed.
    pub(super) fn check(&self) -> Result<(), BenchError> {
        match &self.shared.lock().failed {
            Some(reason) => Err(failed("clients", reason)),
            None => Ok(()),
        }
    }
}

async fn go_on(server: SocketAddr, sizes: &[u64], mut rng: Rng, shared: &Shared) -> io::Result<()> {
    let mut stream = TcpStream::connect(server).await?;
    let mut first = true;
    loop {
        let number = rng.below(sizes.len() as u64) as usize;
        let request = format!("GET /{number}.m4s HTTP/1.1\r\nHost: localhost\r\n\r\n");
        stream.write_all(request.as_bytes()).await?;
        let (length, mut left) = response(&stream, shared).await?;
        if length != sizes[number] {
            let text = format!("segment {number} has {length} bytes instead of {}", sizes[number]);
            return Err(io::Error::other(text));
        }
        while left > 0 {
            let read = read(&stream, |bin| {
                let most = bin.len().min(usize::try_from(left).unwrap_or(usize::MAX));
                stream.try_read(&mut bin[..most])
            });
            let read = read.await? as u64;
            left -= read;
            shared.lock().bytes += read;
        }
        let mut tally = shared.lock();
        tally.responses += 1;
        if std::mem::take(&mut first) {
            tally.served += 1;
            shared.news.notify_one();
        }
    }
}

/// Reads some bytes.
async fn read(
    stream: &TcpStream,
    mut attempt: impl FnMut(&mut [u8]) -> io::Result<usize>,
) -> io::Result<usize> {
    loop {
        stream.readable().await?;
        match BIN.with_borrow_mut(|bin| attempt(bin)) {
            Ok(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
            outcome => return outcome,
        }
    }
}

/// Reads the headers of a response; returns the length of its body, and how much of it is still to come.
async fn response(stream: &TcpStream, shared: &Shared) -> io::Result<(u64, u64)> {
    let mut head = Vec::new();
    loop {
        read(stream, |bin| {
            let read = stream.try_read(&mut bin[..HEADERS])?;
            head.extend_from_slice(&bin[..read]);
            Ok(read)
        })
        .await?;
        if let Some(end) = head.windows(4).position(|four| four == b"\r\n\r\n") {
            let text = String::from_utf8_lossy(&head[..end]);
            let length = text.starts_with("HTTP/1.1 200 ").then(|| content_length(&text)).flatten();
            let length = length.ok_or_else(|| io::Error::other(format!("answered `{text}`")))?;
            let came = (head.len() - end - 4) as u64;
            shared.lock().bytes += came;
            let left =
                length.checked_sub(came).ok_or_else(|| io::Error::other("more than Content-Length"))?;
            return Ok((length, left));
        }
        if head.len() > HEADERS {
            return Err(io::Error::other("headers without an end"));
        }
    }
}

fn content_length(head: &str) -> Option<u64> {
    let mut lines = head.lines().filter_map(|line| line.split_once(':'));
    lines.find(|(name, _)| name.eq_ignore_ascii_case("content-length"))?.1.trim().parse().ok()
}
