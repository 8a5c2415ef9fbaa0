//! One viewing over a real transport: connect, play, keep what arrived.

use core::time::Duration;
use std::io;

use serde::{Deserialize, Serialize};
use thiserror::Error;
use tributary_net::{Common, ConnectConfig, PathConfig, connect};
use tributary_stream::tiled::{
    Planner, PlayTilesError, PlayerSettings, TileArrived, TiledRecord, Video, play_tiles,
};

use super::carrier::{self, Carrier, CarrierError};
use super::spool::{Spool, Spooled};

/// Time for the first path to come up.
const CONNECT: Duration = Duration::from_secs(10);
/// How long further paths are waited for before the first tile is asked for.
const ALL_PATHS: Duration = Duration::from_millis(500);
/// How often that is looked at.
const LOOK: Duration = Duration::from_millis(2);

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
    /// Paths in use when the start was asked for.
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
    let session = connect(connecting).await.map_err(CarrierError::from)?;
    // A path that does not come up is no reason not to play.
    let _ = tokio::time::timeout(ALL_PATHS, async {
        while session.stats().subflows.len() < config.paths.len() {
            tokio::time::sleep(LOOK).await;
        }
    })
    .await;
    let paths_up = session.stats().subflows.len();
    let plans = session.open_stream(0).await.map_err(CarrierError::from)?;
    plans.announce();
    let tiles = match tokio::time::timeout(CONNECT, session.accept_stream()).await {
        Ok(Some(tiles)) => tiles,
        Ok(None) => return Err(CarrierError::Closed(session.closed().await).into()),
        Err(_) => return Err(CarrierError::NoTiles(CONNECT.as_secs()).into()),
    };
    let played = play_tiles((tiles, plans), settings, planner, keep).await;
    let outcome = played.map(|(video, record)| (video, record, paths_up));
    session.abort(0, "the viewing is over");
    Ok(outcome?)
}
