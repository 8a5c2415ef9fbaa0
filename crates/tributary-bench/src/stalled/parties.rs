//! The parties: a target that writes, counts or stalls as the first byte of a connection says, and the applications.
//!
//! Each runs on one thread. An operation that takes too long counts as failed, so that a stalled proxy gives a result.

use core::time::Duration;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Instant;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::runtime::Runtime;
use tokio::sync::oneshot;
use tokio::task::JoinSet;
use tokio::time::{sleep, timeout};

use super::{FILL, REQUESTS, Transfers};

/// First byte of a connection: the target writes without end, reads nothing, or counts what it reads and answers with
/// the count.
const WRITE: u8 = b'w';
const STALL: u8 = b's';
const COUNT: u8 = b'c';
/// Time at the beginning of a transfer that is not measured.
const SETTLE: Duration = Duration::from_secs(2);
/// Time after which a request has failed; it counts as having taken so long.
const PATIENCE: Duration = Duration::from_secs(5);
const BLOCK: usize = 64 << 10;

fn runtime() -> io::Result<Runtime> {
    tokio::runtime::Builder::new_current_thread().enable_all().build()
}

/// The target, until it is dropped.
pub(super) struct Target {
    counted: Arc<AtomicU64>,
    over: Option<oneshot::Sender<()>>,
    thread: Option<std::thread::JoinHandle<()>>,
}

impl Target {
    pub(super) fn start(listener: std::net::TcpListener) -> io::Result<Self> {
        let runtime = runtime()?;
        let listener = {
            let _inside = runtime.enter();
            TcpListener::from_std(listener)?
        };
        let counted = Arc::new(AtomicU64::new(0));
        let (over, ended) = oneshot::channel();
        let sum = counted.clone();
        let thread = std::thread::spawn(move || {
            runtime.block_on(async {
                tokio::select! {
                    () = accept(listener, sum) => {}
                    _ = ended => {}
                }
            });
        });
        Ok(Self { counted, over: Some(over), thread: Some(thread) })
    }
}

impl Drop for Target {
    fn drop(&mut self) {
        drop(self.over.take());
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

async fn accept(listener: TcpListener, counted: Arc<AtomicU64>) {
    while let Ok((tcp, _)) = listener.accept().await {
        let counted = counted.clone();
        tokio::spawn(async move {
            let _ = serve(tcp, &counted).await;
        });
    }
}

async fn serve(mut tcp: TcpStream, counted: &AtomicU64) -> io::Result<()> {
    tcp.set_nodelay(true)?;
    let mut block = vec![7; BLOCK];
    match tcp.read_u8().await? {
        WRITE => loop {
            tcp.write_all(&block).await?;
        },
        STALL => {
            // Until the connection breaks.
            tcp.ready(tokio::io::Interest::ERROR).await?;
            Ok(())
        }
        _ => {
            let mut sum = 0;
            loop {
                match tcp.read(&mut block).await? {
                    0 => return tcp.write_u64(sum).await,
                    read => {
                        sum += read as u64;
                        counted.fetch_add(read as u64, Relaxed);
                    }
                }
            }
        }
    }
}

/// The applications at the proxy's other end.
pub(super) struct Application<'a> {
    pub entrance: SocketAddr,
    pub target: &'a Target,
    pub seconds: f64,
}

impl Application<'_> {
    /// Measures everything beside so many stalled connections in each direction.
    pub(super) fn transfers(&self, stalled: u32) -> io::Result<Transfers> {
        runtime()?.block_on(async {
            let (mut downloads, mut uploads) = (Vec::new(), JoinSet::new());
            for _ in 0..stalled {
                downloads.push(self.open(WRITE).await?);
                let mut up = self.open(STALL).await?;
                uploads.spawn(async move { while up.write_all(&[7; BLOCK]).await.is_ok() {} });
            }
            sleep(FILL).await;
            let measured = Transfers {
                download_mbps: self.download().await?,
                upload_mbps: self.upload().await?,
                requests_ms: self.requests().await,
                busy_requests_ms: tokio::select! {
                    requests = async { sleep(SETTLE).await; self.requests().await } => requests,
                    error = self.read_for_ever() => return Err(error),
                },
            };
            drop(downloads);
            uploads.shutdown().await;
            sleep(FILL / 2).await;
            Ok(measured)
        })
    }

    async fn open(&self, kind: u8) -> io::Result<TcpStream> {
        let mut tcp = TcpStream::connect(self.entrance).await?;
        tcp.set_nodelay(true)?;
        tcp.write_u8(kind).await?;
        Ok(tcp)
    }

    async fn download(&self) -> io::Result<f64> {
        let (mut tcp, mut block) = (self.open(WRITE).await?, vec![0; BLOCK]);
        let settled = Instant::now() + SETTLE;
        let end = settled + Duration::from_secs_f64(self.seconds);
        let mut sum = 0;
        while let Ok(read) =
            timeout(end.saturating_duration_since(Instant::now()), tcp.read(&mut block)).await
        {
            let read = read?;
            sum += if Instant::now() >= settled { read } else { 0 };
        }
        Ok(sum as f64 * 8e-6 / self.seconds)
    }

    async fn upload(&self) -> io::Result<f64> {
        let mut tcp = self.open(COUNT).await?;
        let counted = || self.target.counted.load(Relaxed);
        let writing = async {
            let block = vec![7; BLOCK];
            loop {
                if let Err(error) = tcp.write_all(&block).await {
                    return error;
                }
            }
        };
        let measuring = async {
            sleep(SETTLE).await;
            let (began, before) = (Instant::now(), counted());
            sleep(Duration::from_secs_f64(self.seconds)).await;
            (counted() - before) as f64 * 8e-6 / began.elapsed().as_secs_f64()
        };
        tokio::select! {
            error = writing => Err(error),
            mbps = measuring => Ok(mbps),
        }
    }

    async fn read_for_ever(&self) -> io::Error {
        let reading = async {
            let (mut tcp, mut block) = (self.open(WRITE).await?, vec![0; BLOCK]);
            while tcp.read(&mut block).await? > 0 {}
            io::Result::Ok(())
        };
        reading.await.err().unwrap_or_else(|| io::ErrorKind::UnexpectedEof.into())
    }

    async fn requests(&self) -> Vec<f64> {
        let mut took = Vec::new();
        for _ in 0..REQUESTS {
            let began = Instant::now();
            let outcome = timeout(PATIENCE, self.request()).await;
            let good = matches!(outcome, Ok(Ok(())));
            let time = if good { began.elapsed() } else { PATIENCE };
            took.push(time.as_secs_f64() * 1e3);
        }
        took
    }

    async fn request(&self) -> io::Result<()> {
        let mut tcp = self.open(COUNT).await?;
        tcp.write_all(&[7; 100]).await?;
        tcp.shutdown().await?;
        tcp.read_u64().await.map(|_| ())
    }
}
