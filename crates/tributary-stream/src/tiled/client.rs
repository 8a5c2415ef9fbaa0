//! Drives a [`Player`] on real streams until the last slot has begun, even if the transport fails.
//!
//! Complete tiles go to the viewer as they arrive. A headless one decodes them later, so that decoding does not affect the timing.

use core::time::Duration;
use std::io;

use thiserror::Error;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::time::{Instant as Clock, timeout, timeout_at};
use tributary_player::tiled::{
    End, Planner, PlayError, Player, PlayerSettings, TileArrived, TiledRecord, Video,
};
use tributary_types::Instant;
use tributary_video::sphere::Orientation;

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

/// Who watches. A function is a viewer that only takes tiles.
pub trait Viewer {
    /// A tile is complete.
    ///
    /// # Errors
    /// The viewer cannot take it, which ends the viewing.
    fn tile(&mut self, tile: TileArrived) -> io::Result<()>;

    /// The head's next orientation, if the head is observed while the video plays. May be dropped and called again.
    fn head(&mut self) -> impl Future<Output = Orientation> + Send {
        std::future::pending()
    }

    /// Called whenever something may have changed; returns when it wants to be called again at the latest.
    fn turn(&mut self, _player: &Player, _now: Instant) -> Option<Instant> {
        None
    }

    /// Whether the viewing ends now.
    fn has_left(&self) -> bool {
        false
    }
}

impl<F: FnMut(TileArrived) -> io::Result<()>> Viewer for F {
    fn tile(&mut self, tile: TileArrived) -> io::Result<()> {
        self(tile)
    }
}

/// Plays over one byte stream in each direction, for a viewer.
///
/// Cancellation: dropping the future drops both streams, and the record is lost; `viewer` has the tiles that it was
/// given.
///
/// # Errors
/// When the server breaks the protocol or refuses, or when the viewer cannot take a tile.
pub async fn play_tiles<R, W, V>(
    (mut tiles, mut plans): (R, W),
    settings: PlayerSettings,
    planner: Planner,
    viewer: &mut V,
) -> Result<(Option<Video>, TiledRecord), PlayTilesError>
where
    R: AsyncRead + Unpin,
    W: AsyncWrite + Unpin,
    V: Viewer,
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
        let wake =
            viewer.turn(&player, now()).map_or(player.poll_timeout(), |at| at.min(player.poll_timeout()));
        if viewer.has_left() {
            player.leave();
            break;
        }
        tokio::select! {
            read = timeout_at(clock(wake), tiles.read(&mut buffer)) => match read {
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
            },
            orientation = viewer.head() => player.handle_head(now(), orientation),
        }
        while let Some(tile) = player.poll_tile() {
            viewer.tile(tile).map_err(PlayTilesError::Sink)?;
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
            viewer.tile(tile).map_err(PlayTilesError::Sink)?;
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
