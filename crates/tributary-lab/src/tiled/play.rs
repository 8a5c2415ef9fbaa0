//! One viewing over a real transport: connect, play, keep what arrived.

use core::pin::Pin;
use core::task::{Context, Poll, ready};
use core::time::Duration;
use std::io;

use serde::{Deserialize, Serialize};
use thiserror::Error;
use tokio::io::{AsyncRead, ReadBuf};
use tributary_net::{Common, ConnectConfig, PathConfig, Session, Stream, connect_early};
use tributary_stream::tiled::{
    Planner, PlayTilesError, PlayerSettings, TileArrived, TiledRecord, Video, play_tiles,
};

use super::carrier::{self, Carrier, CarrierError};
use super::spool::{Spool, Spooled};

/// Time for the first path to come up.
const CONNECT: Duration = Duration::from_secs(10);

/// Where to play from, over what.
#[derive(Debug, Clone)]
pub struct PlayConfig {
    /// What carries it.
    pub carrier: Carrier,
    /// The paths; one for a kernel carrier.
    pub paths: Vec<PathConfig>,
    /// What a session needs.
    pub common: Option<Common>,
    /// Congestion control of every socket of this end.
    pub congestion: Option<String>,
}

/// Why there was no viewing.
#[derive(Debug, Error)]
pub enum PlayFailure {
    /// No connection.
    #[error(transparent)]
    Carrier(#[from] CarrierError),
    /// The server breaks the protocol, refuses, or nothing can be kept.
    #[error(transparent)]
    Play(#[from] PlayTilesError),
    /// No file to keep it in.
    #[error("cannot keep what arrives: {0}")]
    Spool(#[source] io::Error),
}

/// What a viewing planned and what arrived.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Viewing {
    /// Slot by slot.
    pub record: TiledRecord,
    /// Paths in use at the end.
    pub paths_up: usize,
}

/// A viewing as one process tells it to another: the bytes are in a file.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Kept {
    /// The account.
    pub viewing: Viewing,
    /// What is in the file.
    pub tiles: Vec<Spooled>,
}

/// A viewing, its bytes and what the server said of its video.
#[derive(Debug)]
pub struct Played {
    /// The account.
    pub viewing: Viewing,
    /// The video as the server described it; `None` when it never did.
    pub video: Option<Video>,
    /// What arrived.
    pub spool: Spool,
}

/// Plays; what arrives goes into `spool`.
///
/// # Errors
/// [`PlayFailure`]; a transport that performs badly or breaks is a result.
pub async fn play(
    config: &PlayConfig,
    settings: PlayerSettings,
    planner: Planner,
    mut spool: Spool,
) -> Result<Played, PlayFailure> {
    let keep = |tile: TileArrived| spool.push(&tile);
    let (video, record, paths_up) = match config.carrier {
        Carrier::Session => over_session(config, settings, planner, keep).await?,
        Carrier::Tcp | Carrier::Mptcp => {
            let [path] = config.paths.as_slice() else {
                return Err(CarrierError::Paths(config.paths.len()).into());
            };
            let stream = carrier::connect(config.carrier, path, config.congestion.as_deref()).await?;
            let (tiles, plans) = stream.into_split();
            let (video, record) = play_tiles((tiles, plans), settings, planner, keep).await?;
            (video, record, 1)
        }
    };
    Ok(Played { viewing: Viewing { record, paths_up }, video, spool })
}

async fn over_session(
    config: &PlayConfig,
    settings: PlayerSettings,
    planner: Planner,
    keep: impl FnMut(TileArrived) -> io::Result<()>,
) -> Result<(Option<Video>, TiledRecord, usize), PlayFailure> {
    let mut common = config.common.clone().ok_or(CarrierError::NoKey)?;
    common.congestion.clone_from(&config.congestion);
    let connecting = ConnectConfig { paths: config.paths.clone(), common, timeout: CONNECT };
    // The start is asked for behind the hello; further paths join while it is answered.
    let session = connect_early(connecting).await.map_err(CarrierError::from)?;
    let plans = session.open_stream(0).await.map_err(CarrierError::from)?;
    plans.announce();
    let mut tiles = Announced::new(session.clone());
    let (video, record) = play_tiles((&mut tiles, plans), settings, planner, keep).await?;
    if video.is_none() {
        if session.is_closed() {
            return Err(CarrierError::Closed(session.closed().await).into());
        } else if !tiles.is_known() {
            return Err(CarrierError::NoTiles(CONNECT.as_secs()).into());
        }
    }
    let paths_up = session.stats().subflows.len();
    session.abort(0, "the viewing is over");
    Ok((video, record, paths_up))
}

/// The server's stream, from before it is announced.
struct Announced {
    /// Until it is: what waits for it.
    waiting: Option<Pin<Box<dyn Future<Output = Option<Stream>> + Send>>>,
    stream: Option<Stream>,
}

impl Announced {
    fn new(session: Session) -> Self {
        Self { waiting: Some(Box::pin(async move { session.accept_stream().await })), stream: None }
    }

    fn is_known(&self) -> bool {
        self.stream.is_some()
    }
}

impl AsyncRead for Announced {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        if let Some(waiting) = &mut self.waiting {
            self.stream = ready!(waiting.as_mut().poll(cx));
            self.waiting = None;
        }
        match &mut self.stream {
            Some(stream) => Pin::new(stream).poll_read(cx, buffer),
            // The session has ended, and says why to who asks it.
            None => Poll::Ready(Err(io::ErrorKind::NotConnected.into())),
        }
    }
}
