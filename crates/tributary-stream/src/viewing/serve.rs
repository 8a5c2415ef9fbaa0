//! The server: a tiled video from disk, for any number of clients, over any transport.

use core::time::Duration;
use std::collections::BTreeMap;
use std::io;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use bytes::Bytes;
use serde::Serialize;
use tokio::sync::Notify;
use tributary_net::transport::{Acceptor, Connection, SendHalf, Sent, TransportConfig, TransportError};
use tributary_tiles::TiledVideo;
use tributary_video::rd::RdTable;

use super::LEAVE;
use crate::tiled::{
    Outlet, Pushed, SESSION_UNSENT, SOCKET_UNSENT, ServedTiles, SoundFormat, TileSource, longest_message,
    serve_tiles,
};

// Sockets in the simulator have this limit of unsent data; real sockets must have the same limit.
const _: () = assert!(SOCKET_UNSENT == tributary_net::transport::SOCKET_UNSENT);

/// A tiled video on disk, for a server.
#[derive(Debug, Clone)]
pub struct DiskSource(pub Arc<TiledVideo>);

impl TileSource for DiskSource {
    fn table(&self) -> &RdTable {
        self.0.table()
    }

    fn init(&self, tile: usize, quality: usize) -> io::Result<Bytes> {
        self.0.init(tile, quality).map(Bytes::copy_from_slice).map_err(io::Error::other)
    }

    fn segment(&self, gop: usize, tile: usize, quality: usize) -> io::Result<Bytes> {
        self.0.segment(gop, tile, quality).map(Bytes::from).map_err(io::Error::other)
    }

    fn sound(&self) -> Option<(SoundFormat, Vec<u32>)> {
        Some((SoundFormat::new(self.0.sound()?.channels)?, self.0.sound_bytes().to_vec()))
    }

    fn sound_init(&self) -> io::Result<Bytes> {
        self.0.sound_init().map(Bytes::from).map_err(io::Error::other)
    }

    fn sound_segment(&self, gop: usize) -> io::Result<Bytes> {
        self.0.sound_segment(gop).map(Bytes::from).map_err(io::Error::other)
    }

    fn low_resolution(&self) -> Option<Arc<dyn TileSource>> {
        self.0.low().map(|low| Arc::new(Self(low.clone())) as Arc<dyn TileSource>)
    }
}

/// Sends tiles as messages with deadlines.
struct StreamOutlet(SendHalf);

impl Outlet for StreamOutlet {
    async fn push(&mut self, message: Bytes, within: Option<Duration>) -> io::Result<Pushed> {
        Ok(match self.0.write_message(message, within).await? {
            Sent::Taken => Pushed::Taken,
            Sent::Expired => Pushed::Expired,
        })
    }

    async fn finish(&mut self) {
        // A client that has ended the stream does not wait for the server's end of stream.
        let _ = tokio::io::AsyncWriteExt::shutdown(&mut self.0).await;
    }
}

/// A listening server.
#[derive(Debug)]
pub struct TileServer<S = DiskSource> {
    acceptor: Acceptor,
    video: S,
    viewers: Viewers,
}

/// The clients that are connected to a server now. Clones share them.
#[derive(Clone, Debug, Default)]
pub struct Viewers(Arc<Mutex<Connected>>, Arc<Notify>);

#[derive(Debug, Default)]
struct Connected {
    next: u64,
    viewers: BTreeMap<u64, (SocketAddr, Instant)>,
}

/// A connected client.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct Viewer {
    /// Where it came from.
    pub peer: SocketAddr,
    /// Seconds since it connected.
    pub age_s: f64,
}

/// Lists a client until it is dropped.
struct Listed(Viewers, u64);

impl Viewers {
    fn lock(&self) -> MutexGuard<'_, Connected> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn enter(&self, peer: SocketAddr) -> Listed {
        let mut connected = self.lock();
        connected.next += 1;
        let id = connected.next;
        connected.viewers.insert(id, (peer, Instant::now()));
        Listed(self.clone(), id)
    }

    /// Waits until no client is connected.
    ///
    /// Cancellation: safe, it only waits.
    pub async fn empty(&self) {
        loop {
            let left = self.1.notified();
            if self.lock().viewers.is_empty() {
                return;
            }
            left.await;
        }
    }

    /// The clients in the order in which they connected.
    #[must_use]
    pub fn list(&self) -> Vec<Viewer> {
        let viewer = |(peer, since): &(SocketAddr, Instant)| Viewer {
            peer: *peer,
            age_s: since.elapsed().as_secs_f64(),
        };
        self.lock().viewers.values().map(viewer).collect()
    }
}

impl Drop for Listed {
    fn drop(&mut self) {
        self.0.lock().viewers.remove(&self.1);
        self.0.1.notify_waiters();
    }
}

impl<S: TileSource + Clone> TileServer<S> {
    /// Listens on `addresses`.
    ///
    /// Cancellation: dropping the future listens nowhere.
    ///
    /// # Errors
    /// [`TransportError`].
    pub async fn bind(
        mut config: TransportConfig,
        addresses: &[SocketAddr],
        video: S,
    ) -> Result<Self, TransportError> {
        if let Some(common) = &mut config.common {
            common.session.unsent = Some(SESSION_UNSENT);
            common.session.short_queues = true;
            let longest = longest_message(video.table());
            common.session.send_buffer = common.session.send_buffer.max(4 * longest);
        }
        Ok(Self { acceptor: Acceptor::bind(&config, addresses).await?, video, viewers: Viewers::default() })
    }

    /// The addresses it listens on.
    #[must_use]
    pub fn addresses(&self) -> &[SocketAddr] {
        self.acceptor.addresses()
    }

    /// The clients that are connected.
    #[must_use]
    pub fn viewers(&self) -> Viewers {
        self.viewers.clone()
    }

    /// Serves until the task is dropped; `told` is called for every client that has disconnected.
    ///
    /// Cancellation: dropping the future accepts no further client; those that are connected are served on.
    pub async fn run<F>(mut self, told: F)
    where
        F: Fn(SocketAddr, &ServedTiles) + Send + Sync + 'static,
    {
        let told = Arc::new(told);
        while let Some((connection, peer)) = self.acceptor.accept().await {
            let (video, told) = (self.video.clone(), told.clone());
            let listed = self.viewers.enter(peer);
            tokio::spawn(async move {
                let _listed = listed;
                if let Some(served) = serve(&connection, video).await {
                    told(peer, &served);
                }
            });
        }
    }
}

/// Serves the client's only stream; `None` when it opens none.
async fn serve<S: TileSource>(connection: &Connection, video: S) -> Option<ServedTiles> {
    let (plans, tiles) = connection.accept_stream().await.ok()?.into_split();
    let served = serve_tiles(plans, StreamOutlet(tiles), Arc::new(video)).await;
    // The client closes the connection when it has received everything.
    let _ = tokio::time::timeout(LEAVE, connection.accept_stream()).await;
    let _ = tokio::time::timeout(LEAVE, connection.close()).await;
    Some(served)
}
