//! 360° video sources, and workloads that measure what a byte stream delivers.
//!
//! [`scene`] renders, [`ladder`] encodes into one-second GoPs at several bitrates, [`serve`] answers
//! requests over *any* `AsyncRead + AsyncWrite`, and [`fetch_live`], [`fetch_bulk`] and [`fetch_object`]
//! measure on the client's side. Only [`viewing`] depends on the transport, and only by its name, so all
//! transports in a comparison run the same code.

mod arrivals;
mod bulk;
pub mod film;
pub mod ladder;
mod live;
mod object;
mod pattern;
pub mod rate_choice;
pub mod scene;
mod server;
pub mod tiled;
mod transfer;
pub mod viewing;
pub mod wire;

pub use arrivals::{Arrivals, Silence};
pub use bulk::{BulkParams, BulkRecord, fetch_bulk};
pub use ladder::{Ladder, LadderError, LadderSettings, Representation, Source};
pub use live::{GopRecord, LiveParams, LiveRecord, fetch_live};
pub use object::{ObjectParams, ObjectRecord, fetch_object};
pub use pattern::Verify;
pub use server::{ServeError, serve};
pub use transfer::{End, FetchError};
pub use tributary_tiles::gop;
