//! Pictures for the report: one GoP of a viewing, decoded, as two transports and allocators showed it, beside the
//! original.
//!
//! The GoP is the one with the baseline's lowest quality among those counted. Sizes are scaled (`clip`), but the
//! pictures are the original ones.

use std::path::Path;

use tributary_report::Media;
use tributary_tiles::decode::{self, TileData};
use tributary_tiles::{DecodeError, TiledError, TiledVideo, patch};
use tributary_video::metrics::{MOST_DB, mse, psnr_db};
use tributary_video::picture::{Picture, PictureError};
use tributary_video::render::{RenderError, RenderSettings, Renderer};
use tributary_video::viewport::FieldOfView;

use super::OwsError;
use super::motion::STARTING;
use super::viewing::{Shown, Task};
use tributary_stream::viewing::{StillError, pictures};

/// Size of the viewport's pictures in a report, pixels; the aspect ratio is that of the field of view.
const VIEWPORT: (usize, usize) = (640, 448);

/// Why there are no pictures.
#[derive(Debug, thiserror::Error)]
enum EyesError {
    /// The simulator failed.
    #[error(transparent)]
    Run(#[from] Box<OwsError>),
    /// The tiles cannot be read.
    #[error(transparent)]
    Tiled(#[from] TiledError),
    /// The tiles cannot be decoded.
    #[error(transparent)]
    Decode(#[from] DecodeError),
    /// The panorama cannot be assembled.
    #[error(transparent)]
    Picture(#[from] PictureError),
    /// The viewport cannot be rendered.
    #[error(transparent)]
    Render(#[from] RenderError),
    /// A JPEG cannot be written.
    #[error(transparent)]
    Still(#[from] StillError),
}

/// Pictures of two viewings of a clip with tiles on disk, and the original. No pictures for a synthetic clip. If
/// there is no decoder, the reason is returned.
pub(super) fn moment(base: &Task, whole: &Task) -> (Vec<Media>, Option<String>) {
    match base.clip.directory().map(|directory| beside(directory, base, whole)) {
        Some(Ok(images)) => (images, None),
        Some(Err(reason)) => (Vec::new(), Some(reason.to_string())),
        None => Default::default(),
    }
}

fn beside(directory: &Path, base: &Task, whole: &Task) -> Result<Vec<Media>, EyesError> {
    let shown = [base.shown().map_err(Box::new)?, whole.shown().map_err(Box::new)?];
    let error = |gop: &usize| shown[0][*gop].seen.mse;
    let gops = STARTING.min(shown[0].len())..shown[0].len();
    let Some(worst) = gops.max_by(|a, b| error(a).total_cmp(&error(b))) else { return Ok(Vec::new()) };
    let video = TiledVideo::open(directory)?;
    let settings = RenderSettings {
        projection: video.grid().projection(),
        panorama: video.size(),
        field: FieldOfView::default(),
        viewport: VIEWPORT,
    };
    let (mut renderer, head) = (Renderer::new(settings)?, base.watched.heads[worst]);
    let of_clip = base.watched.first + worst;
    let original = renderer.render(&original(&video, of_clip % video.gops())?, head)?;
    let mut seen = Vec::new();
    for (Task { transport, allocator, .. }, shown) in [base, whole].into_iter().zip(&shown) {
        let picture = renderer.render(&panorama(&video, of_clip, &shown[worst])?, head)?;
        let decoded = psnr_db(mse(&picture.luma(), &original.luma())?).min(MOST_DB);
        let composed = psnr_db(shown[worst].seen.mse).min(MOST_DB);
        let caption = format!(
            "{allocator} on {transport}, {} in deep fades, GoP {worst}: this picture {decoded:.1} dB; the GoP, from the table, {composed:.1} dB",
            base.clip.info.name
        );
        seen.push((picture, caption));
    }
    let mut captioned: Vec<(&Picture, String)> =
        seen.iter().map(|(p, caption)| (p, caption.clone())).collect();
    captioned.push((&original, "The original, in the same direction".to_owned()));
    Ok(pictures(&captioned)?)
}

/// The middle picture of a GoP of the source.
fn original(video: &TiledVideo, gop: usize) -> Result<Picture, EyesError> {
    let (width, height) = video.size();
    let mut picture = Picture::black(width, height)?;
    let mut pictures = video.reference(gop)?;
    for _ in 0..=video.pictures_per_gop() / 2 {
        pictures.read_into(&mut picture)?;
    }
    Ok(picture)
}

/// The panorama in the middle of a GoP: the middle picture of received tiles, the last picture of frozen ones.
fn panorama(video: &TiledVideo, gop: usize, shown: &Shown) -> Result<Picture, EyesError> {
    let (width, height) = video.size();
    let mut panorama = Picture::black(width, height)?;
    let count = video.pictures_per_gop();
    for (tile, held) in shown.held.iter().enumerate() {
        let Some((from, choice)) = *held else { continue };
        let segment = video.segment(from % video.gops(), tile, choice)?;
        let data = TileData { init: video.init(tile, choice)?, segment: &segment };
        let decoded = decode::tile(data, video.tile_size(), count)?;
        let at = if from == gop { count / 2 } else { count - 1 };
        patch::paste(&mut panorama, &decoded[at], video.grid().pixels(tile, video.size()))?;
    }
    Ok(panorama)
}
