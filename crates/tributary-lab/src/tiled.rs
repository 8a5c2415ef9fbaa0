//! Tiled 360° video on real sockets: serve a video from disk, play it as a headless viewer with a recorded
//! head movement, decode the tiles that arrived in time, and compare the view with the source.
//!
//! The protocol is in `tributary-stream`, tiles on disk in `tributary-tiles`, pictures and metrics in
//! `tributary-video`; this module connects them. Decoding and measuring start after the last picture, so that they do
//! not disturb the timing.

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
