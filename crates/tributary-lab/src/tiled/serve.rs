//! The server: a tiled video from disk to every client that comes, over a session or a kernel socket.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;

use bytes::Bytes;
use tokio::net::TcpListener;
use tributary_net::{Common, Limits, ListenConfig, Listener};
use tributary_stream::tiled::{
    OrderedOutlet, SESSION_UNSENT, ServedTiles, TileSource, longest_message, serve_tiles,
};
use tributary_tiles::TiledVideo;
use tributary_video::rd::RdTable;

use super::carrier::{self, Carrier, CarrierError, SessionOutlet};

/// A tiled video on disk as a server reads it.
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
}

enum Listening {
    Session(Box<Listener>),
    Kernel(Vec<TcpListener>),
}

/// A server that listens.
pub struct TileServer {
    listening: Listening,
    addresses: Vec<SocketAddr>,
    video: DiskSource,
}

impl TileServer {
    /// Listens on `addresses`; `common` is what a session needs, and the congestion control of any carrier.
    ///
    /// # Errors
    /// [`CarrierError`].
    pub async fn bind(
        carrier: Carrier,
        addresses: &[SocketAddr],
        (common, congestion): (Option<Common>, Option<&str>),
        video: DiskSource,
    ) -> Result<Self, CarrierError> {
        if carrier == Carrier::Session {
            let mut common = common.ok_or(CarrierError::NoKey)?;
            common.congestion = congestion.map(str::to_owned);
            common.session.unsent = Some(SESSION_UNSENT);
            let longest = longest_message(video.table());
            common.session.send_buffer = common.session.send_buffer.max(4 * longest);
            let config = ListenConfig { addresses: addresses.to_vec(), common, limits: Limits::default() };
            let listener = Listener::bind(config).await?;
            let addresses = listener.addresses().to_vec();
            return Ok(Self { listening: Listening::Session(Box::new(listener)), addresses, video });
        }
        let mut listeners = Vec::new();
        for address in addresses {
            listeners.push(carrier::listen(carrier, *address, congestion)?);
        }
        let addresses = listeners.iter().filter_map(|listener| listener.local_addr().ok()).collect();
        Ok(Self { listening: Listening::Kernel(listeners), addresses, video })
    }

    /// Where it listens.
    #[must_use]
    pub fn addresses(&self) -> &[SocketAddr] {
        &self.addresses
    }

    /// Serves until the task is dropped; `told` hears of every client that has gone.
    pub async fn run<F>(self, told: F)
    where
        F: Fn(SocketAddr, &ServedTiles) + Send + Sync + 'static,
    {
        let told = Arc::new(told);
        match self.listening {
            Listening::Session(listener) => sessions(*listener, self.video, told).await,
            Listening::Kernel(listeners) => {
                let mut accepting = tokio::task::JoinSet::new();
                for listener in listeners {
                    accepting.spawn(connections(listener, self.video.clone(), told.clone()));
                }
                while accepting.join_next().await.is_some() {}
            }
        }
    }
}

async fn sessions<F>(mut listener: Listener, video: DiskSource, told: Arc<F>)
where
    F: Fn(SocketAddr, &ServedTiles) + Send + Sync + 'static,
{
    while let Some((session, peer)) = listener.accept().await {
        let (video, told) = (video.clone(), told.clone());
        tokio::spawn(async move {
            // The client's first stream carries its plans; ours carries everything back.
            let Some(plans) = session.accept_stream().await else { return };
            let Ok(tiles) = session.open_stream(0).await else { return };
            // The client asks for nothing before it knows this stream.
            tiles.announce();
            let served = serve_tiles(plans, SessionOutlet(tiles), Arc::new(video)).await;
            told(peer, &served);
            let _ = session.close().await;
        });
    }
}

async fn connections<F>(listener: TcpListener, video: DiskSource, told: Arc<F>)
where
    F: Fn(SocketAddr, &ServedTiles) + Send + Sync + 'static,
{
    loop {
        // A connection that broke while it waited is no reason to stop.
        let Ok((stream, peer)) = listener.accept().await else { continue };
        if carrier::prepare(&stream).is_err() {
            continue;
        }
        let (video, told) = (video.clone(), told.clone());
        tokio::spawn(async move {
            let (plans, tiles) = stream.into_split();
            let served = serve_tiles(plans, OrderedOutlet(tiles), Arc::new(video)).await;
            told(peer, &served);
        });
    }
}
