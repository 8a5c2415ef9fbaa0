//! Drives a [`Player`] on real streams until the last slot has begun, even if the transport fails.
//!
//! Complete tiles go to a sink as they arrive. They are decoded later, so decoding does not affect the timing.

use core::time::Duration;
use std::io;

use thiserror::Error;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::time::{Instant as Clock, timeout, timeout_at};
use tributary_player::tiled::{
    End, Planner, PlayError, Player, PlayerSettings, TileArrived, TiledRecord, Video,
};
use tributary_types::Instant;

use super::server::FAREWELL;
use crate::transfer::READ;

/// Time limit for sending the end of the stream.
const LEAVE: Duration = Duration::from_secs(1);

/// Why there is no viewing. A failing transport is not an error; the record reports it.
#[derive(Debug, Error)]
pub enum PlayTilesError {
    /// The server breaks the protocol or refuses.
    #[error(transparent)]
    Server(#[from] PlayError),
    /// The sink failed.
    #[error("cannot store the arrived tiles: {0}")]
    Sink(#[source] io::Error),
}

/// Plays over one byte stream in each direction; `sink` gets every complete tile.
///
/// # Errors
/// When the server breaks the protocol or refuses, or when the sink fails.
pub async fn play_tiles<R, W, F>(
    (mut tiles, mut plans): (R, W),
    settings: PlayerSettings,
    planner: Planner,
    mut sink: F,
) -> Result<(Option<Video>, TiledRecord), PlayTilesError>
where
    R: AsyncRead + Unpin,
    W: AsyncWrite + Unpin,
    F: FnMut(TileArrived) -> io::Result<()>,
{
    let origin = Clock::now();
    let clock = |at: Instant| origin + at.saturating_since(Instant::ZERO);
    let now = || Instant::ZERO + origin.elapsed();
    let mut player = Player::new(settings, planner, now());
    let mut buffer = vec![0; READ];
    let mut end = End::Complete;
    while !player.is_over(now()) {
        player.handle_timeout(now())?;
        if let Err(stop) = send(&mut plans, &mut player, clock).await {
            end = stop;
            break;
        }
        match timeout_at(clock(player.poll_timeout()), tiles.read(&mut buffer)).await {
            Err(_) => {}
            Ok(Ok(0)) => {
                end = End::Failed("the server closed the stream before the end".to_owned());
                break;
            }
            Ok(Ok(count)) => player.handle_bytes(now(), &buffer[..count])?,
            Ok(Err(error)) => {
                end = End::Failed(error.to_string());
                break;
            }
        }
        while let Some(tile) = player.poll_tile() {
            sink(tile).map_err(PlayTilesError::Sink)?;
        }
    }
    if end == End::Complete && player.video().is_none() {
        end = End::TimedOut;
    }
    player.finish();
    let until = Clock::now() + FAREWELL;
    let mut open = end == End::Complete;
    // The viewing is over, so later failures do not matter.
    while timeout_at(until, say(&mut plans, &mut player)).await.is_ok_and(|said| said.is_ok()) && open {
        let count = match timeout_at(until, tiles.read(&mut buffer)).await {
            Ok(Ok(count)) => count,
            _ => break,
        };
        open = count > 0 && player.handle_bytes(now(), &buffer[..count]).is_ok();
        while let Some(tile) = player.poll_tile() {
            sink(tile).map_err(PlayTilesError::Sink)?;
        }
    }
    let _ = timeout(LEAVE, plans.shutdown()).await;
    Ok((player.video().cloned(), player.record(end)))
}

/// Sends the player's pending messages.
async fn say<W: AsyncWrite + Unpin>(plans: &mut W, player: &mut Player) -> io::Result<()> {
    while let Some(bytes) = player.poll_transmit() {
        plans.write_all(&bytes).await?;
    }
    plans.flush().await
}

/// Sends the player's pending messages. A transport that accepts nothing until the end has failed.
async fn send<W: AsyncWrite + Unpin>(
    plans: &mut W,
    player: &mut Player,
    clock: impl Fn(Instant) -> Clock,
) -> Result<(), End> {
    while let Some(bytes) = player.poll_transmit() {
        let write = async {
            plans.write_all(&bytes).await?;
            plans.flush().await
        };
        match timeout_at(clock(player.ends_at()), write).await {
            Ok(Ok(())) => {}
            Ok(Err(error)) => return Err(End::Failed(error.to_string())),
            Err(_) => return Err(End::TimedOut),
        }
    }
    Ok(())
}
