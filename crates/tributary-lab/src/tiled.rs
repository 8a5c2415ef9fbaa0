//! Tiled 360° video on real sockets: serve a video from disk, play it as a headless viewer with a head
//! trace, decode what arrived in time, and measure what was seen against the source.
//!
//! The protocol is `tributary-stream`'s, tiles on disk are `tributary-tiles`', pictures and figures
//! `tributary-video`'s; this puts them together. Decoding and measuring come after the last picture, so that
//! they cannot disturb the clock of what is measured.

mod measure;
mod motion;
mod outcome;
mod page;
mod stills;
mod view;

pub use measure::{GopQuality, MeasureError, MeasureSettings, Measured, measure};
pub use motion::Motion;
pub use outcome::{Knowledge, Load, Quality, TiledResult, concealment_name, psnr_cap, table};
pub use page::{Beside, figure, page};
pub use stills::{StillError, Stills, pictures};
pub use tributary_stream::tiled::{Account, ServedTiles};
pub use tributary_stream::viewing::{
    self, DiskSource, Kept, PlayConfig, PlayFailure, Played, Spool, SpoolError, Spooled, TileServer, Viewing,
    play,
};
pub use tributary_tiles::TiledVideo;
pub use tributary_video::rd::Concealment;
pub use view::{ViewError, Viewed, ViewerConfig, Viewpoint};

#[cfg(test)]
mod tests;
