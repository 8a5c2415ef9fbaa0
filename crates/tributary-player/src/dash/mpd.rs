//! The parts of the manifest (Media Presentation Description) that a player needs, and the requests that fetch its
//! media.
//!
//! Read: periods, adaptation sets, representations, base URLs, `SegmentBase`, `SegmentList` and `SegmentTemplate`
//! with a fixed duration or a timeline. Not read: events, content protection, patches, remote elements (`xlink`).
//!
//! Reading is tolerant, playing exact: what does not concern the video is not checked, and what does is played or
//! refused with its element and the reason. Segments are those of the period, cut at both of its ends, so that the played
//! seconds are the presentation's. Source: ISO/IEC 23009-1:2022 §5.

mod address;
mod main_content;
mod read;
mod segments;
mod time;
mod tree;
mod values;

use core::time::Duration;

use thiserror::Error;

pub use address::{Addressing, ByteRange, Request, Span, Template, TimelineEntry, resolve};
pub use main_content::Purpose;

/// Maximum size of a manifest, bytes.
pub const MAX_BYTES: usize = 8 << 20;
/// Maximum number of media segments of one representation.
pub const MAX_SEGMENTS: u64 = 1 << 20;

/// Why a manifest cannot be played.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum MpdError {
    /// Larger than this reader accepts.
    #[error("the MPD has {0} bytes; at most {MAX_BYTES} are read")]
    TooLarge(usize),
    /// Invalid XML, or not text.
    #[error("byte {at}: not well-formed XML: {what}")]
    Xml {
        /// Offset in the file.
        at: u64,
        /// The reason.
        what: String,
    },
    /// A document type is declared; its entities could expand without limit.
    #[error("byte {0}: the MPD declares a document type (DOCTYPE), which is not accepted; remove it")]
    DocumentType(u64),
    /// Nested deeper, or longer, than any real manifest.
    #[error("byte {at}: more than {limit} {what}")]
    Excess {
        /// Offset in the file.
        at: u64,
        /// The limit.
        limit: usize,
        /// What exceeds the limit.
        what: &'static str,
    },
    /// The root element is not `MPD`.
    #[error("the root element is `{0}`, not `MPD`: is this a DASH manifest?")]
    Root(String),
    /// An attribute or text has an invalid value.
    #[error("<{element}>: {name}=\"{value}\" is not {wanted}")]
    Value {
        /// The element.
        element: String,
        /// The attribute.
        name: String,
        /// Its value.
        value: String,
        /// Valid values.
        wanted: &'static str,
    },
    /// A required part is missing.
    #[error("<{element}> has no {what}")]
    Absent {
        /// The element.
        element: String,
        /// The missing part.
        what: &'static str,
    },
    /// A URL cannot be resolved.
    #[error("`{url}` cannot be resolved against `{base}`")]
    Url {
        /// The reference.
        url: String,
        /// Its base URL.
        base: String,
    },
    /// A part of the presentation must be loaded from another place.
    #[error("<{0}> is remote (xlink:href), which is not supported")]
    Remote(String),
}

/// A manifest.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mpd {
    /// It grows while it is played (`type="dynamic"`).
    pub live: bool,
    /// Duration of the whole presentation.
    pub duration: Option<Duration>,
    /// Media to buffer before playback (`minBufferTime`).
    pub min_buffer: Duration,
    /// The periods in order; never empty.
    pub periods: Vec<Period>,
}

/// A period: consecutive periods play one after the other.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Period {
    /// Start in the presentation.
    pub start: Duration,
    /// Duration, if known.
    pub duration: Option<Duration>,
    /// Sets of representations between which a player can switch.
    pub sets: Vec<AdaptationSet>,
    /// Sets of other content than video that cannot be read, and why.
    pub unreadable: Vec<MpdError>,
}

/// Representations of the same content.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AdaptationSet {
    /// `video`, `audio`, `text` or another type from the manifest; empty if it has none.
    pub content: String,
    /// Language, if given.
    pub language: Option<String>,
    /// Whether it is the main content.
    pub purpose: Purpose,
    /// `selectionPriority`; 1 unless given.
    pub priority: u64,
    /// From the lowest bandwidth to the highest; never empty.
    pub representations: Vec<Representation>,
}

/// One quality of the content.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Representation {
    /// Identifier (`id`).
    pub id: String,
    /// Bit/s; 0 if the manifest does not state it.
    pub bandwidth: u64,
    /// `codecs`, or empty.
    pub codecs: String,
    /// `mimeType`, or empty.
    pub mime: String,
    /// Width and height in pixels.
    pub size: Option<(u32, u32)>,
    /// Addresses of its media.
    pub addressing: Addressing,
}

impl Mpd {
    /// Reads the manifest that was fetched from `url`, which must be absolute.
    ///
    /// # Errors
    /// [`MpdError`] names the element and the value that cannot be used.
    pub fn read(text: &[u8], url: &str) -> Result<Self, MpdError> {
        if text.len() > MAX_BYTES {
            return Err(MpdError::TooLarge(text.len()));
        }
        read::mpd(&tree::read(text)?, url)
    }
}

#[cfg(test)]
mod tests;
