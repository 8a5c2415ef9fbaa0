//! One viewing over a real transport: connect, play, keep what arrived.

use std::io;

use serde::{Deserialize, Serialize};
use thiserror::Error;
use tokio::time::timeout;
use tributary_net::PathConfig;
use tributary_net::transport::{Connection, TransportConfig, TransportError};

use super::LEAVE;
use super::spool::{Spool, Spooled};
use crate::tiled::{Planner, PlayTilesError, PlayerSettings, TileArrived, TiledRecord, Video, play_tiles};

/// Where to play from, over what.
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
    /// No connection.
    #[error(transparent)]
    Transport(#[from] TransportError),
    /// The transport ended before the server described its video.
    #[error("{0}; is it `tributary stream serve`, with the same transport and key?")]
    Ended(String),
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

/// A viewing as one process passes it to another: the bytes are in a file.
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
    // The start request follows a session's hello directly; it is idempotent.
    let mut transport = config.transport.clone();
    transport.early = true;
    let connection = Connection::connect(&transport, &config.paths).await?;
    let (tiles, plans) = connection.open_stream(0).await?.into_split();
    let (video, record) = play_tiles((tiles, plans), settings, planner, keep).await?;
    if let (None, Some(end)) = (&video, connection.end()) {
        return Err(PlayFailure::Ended(end));
    }
    let paths_up = connection.stats().paths.len();
    // The viewing is over however the transport ends.
    let _ = timeout(LEAVE, connection.close()).await;
    Ok(Played { viewing: Viewing { record, paths_up }, video, spool })
}
