//! One viewing over a real transport: connects, plays, stores the tiles that arrive.

use std::io;

use serde::{Deserialize, Serialize};
use thiserror::Error;
use tokio::time::timeout;
use tributary_net::PathConfig;
use tributary_net::transport::{
    Connection, ConnectionClosed, RecvHalf, SendHalf, TransportConfig, TransportError,
};

use super::LEAVE;
use super::spool::{Spool, Spooled};
use crate::tiled::{Planner, PlayTilesError, PlayerSettings, TileArrived, TiledRecord, Video, play_tiles};

/// The transport and paths of a viewing.
#[derive(Debug, Clone)]
pub struct PlayConfig {
    /// The transport and its settings.
    pub transport: TransportConfig,
    /// The paths.
    pub paths: Vec<PathConfig>,
}

/// Why there was no viewing.
#[derive(Debug, Error)]
pub enum PlayFailure {
    /// The connection failed.
    #[error(transparent)]
    Transport(#[from] TransportError),
    /// The transport ended before the server described its video.
    #[error("{0}; is it `tributary stream serve`, with the same transport and key?")]
    Ended(ConnectionClosed),
    /// The server breaks the protocol or refuses, or the spool failed.
    #[error(transparent)]
    Play(#[from] PlayTilesError),
    /// The spool's file cannot be created.
    #[error("cannot create the file for arriving tiles: {0}")]
    Spool(#[source] io::Error),
}

/// Plans of a viewing and their results.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Viewing {
    /// Results of each slot.
    pub record: TiledRecord,
    /// Paths in use at the end.
    pub paths_up: usize,
}

/// A viewing as one process passes it to another; the bytes are in a file.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Kept {
    /// The viewing.
    pub viewing: Viewing,
    /// The tiles in the file.
    pub tiles: Vec<Spooled>,
}

/// A viewing with its bytes and the server's description of its video.
#[derive(Debug)]
pub struct Played {
    /// The viewing.
    pub viewing: Viewing,
    /// The server's description of the video; `None` when it never arrived.
    pub video: Option<Video>,
    /// The tiles that arrived.
    pub spool: Spool,
}

/// Plays a video; arriving tiles go into `spool`.
///
/// Cancellation: dropping the future ends the viewing and drops `spool`.
///
/// # Errors
/// [`PlayFailure`]. A transport that performs badly or breaks is a result, not an error.
pub async fn play(
    config: &PlayConfig,
    settings: PlayerSettings,
    planner: Planner,
    mut spool: Spool,
) -> Result<Played, PlayFailure> {
    let mut keep = |tile: TileArrived| spool.push(&tile);
    let (connection, streams) = open(config).await?;
    let (video, record) = play_tiles(streams, settings, planner, &mut keep).await?;
    if let (None, Some(end)) = (&video, connection.close_reason()) {
        return Err(PlayFailure::Ended(end));
    }
    let paths_up = connection.stats().paths.len();
    // The viewing is over, so the result of closing does not matter.
    let _ = timeout(LEAVE, connection.close()).await;
    Ok(Played { viewing: Viewing { record, paths_up }, video, spool })
}

/// Connects, and opens the stream of a viewing: tiles in one direction, plans in the other.
pub(super) async fn open(config: &PlayConfig) -> Result<(Connection, (RecvHalf, SendHalf)), PlayFailure> {
    // The start request follows a session's hello directly. This is safe because the request is idempotent.
    let mut transport = config.transport.clone();
    transport.early = true;
    let connection = Connection::connect(&transport, &config.paths).await?;
    let streams = connection.open_stream(0).await?.into_split();
    Ok((connection, streams))
}
