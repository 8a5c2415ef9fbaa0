//! Converts a manifest to a list of segments in several qualities, and to the requests that fetch them.

use std::time::Duration;

use bytes::Bytes;
use thiserror::Error;
use tokio::sync::OnceCell;
use tributary_player::abr::{Ladder, LadderError};
use tributary_player::dash::mpd::{AdaptationSet, Addressing, ByteRange, Mpd, MpdError, Request};
use tributary_player::dash::play::Title;
use tributary_player::dash::sidx::{self, Entry, SidxError};
use tributary_types::Bitrate;

use crate::fetch::{FetchError, Line};

/// Maximum size of an initialisation segment or a segment index.
const HEADER: usize = 4 << 20;
/// Maximum number of segments of a title.
const SEGMENTS: usize = 1 << 20;

/// Why a title cannot be played.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum PresentationError {
    /// The manifest cannot be read.
    #[error("the manifest: {0}")]
    Mpd(#[from] MpdError),
    /// The presentation is live.
    #[error("the presentation is live (type=\"dynamic\"); only finished ones (static) are played")]
    Live,
    /// A period has no video.
    #[error("period {0} has no video")]
    NoVideo(usize),
    /// The periods have different ladders.
    #[error(
        "period {period} has {found} qualities and the first one {first}; all periods need the same number"
    )]
    Ladders {
        /// The period.
        period: usize,
        /// Number of its qualities.
        found: usize,
        /// Number of qualities of the first period.
        first: usize,
    },
    /// The number of segments cannot be derived.
    #[error("period {0} has neither a duration nor a list of segments; it cannot be played")]
    Endless(usize),
    /// There is no segment, or too many.
    #[error("the title has {0} segments; from 1 to {SEGMENTS} can be played")]
    Segments(usize),
    /// The bitrates cannot be used.
    #[error(transparent)]
    Ladder(#[from] LadderError),
    /// A segment index cannot be read.
    #[error("the segment index of representation `{id}`: {error}")]
    Index {
        /// The representation.
        id: String,
        /// The reason.
        error: SidxError,
    },
    /// A segment is addressed as a whole file.
    #[error(
        "representation `{0}` is one file without an index (indexRange); it cannot be played in segments"
    )]
    NoIndex(String),
    /// A request failed.
    #[error(transparent)]
    Fetch(#[from] FetchError),
}

/// One representation of a period.
#[derive(Debug)]
struct Track {
    id: String,
    addressing: Addressing,
    /// The segment index, once it has been fetched.
    index: OnceCell<Vec<Entry>>,
    initialization: OnceCell<Bytes>,
}

#[derive(Debug)]
struct Part {
    /// Number of its first segment in the title.
    first: usize,
    tracks: Vec<Track>,
}

/// The periods of a title, ready to be requested.
#[derive(Debug)]
pub(super) struct Presentation {
    parts: Vec<Part>,
    pub(super) title: Title,
}

impl Presentation {
    /// Reads a manifest and fetches the segment indices it needs. `most` limits the duration.
    pub(super) async fn read(
        line: &mut Line,
        (text, url): (&[u8], &str),
        most: Option<Duration>,
    ) -> Result<Self, PresentationError> {
        let mpd = Mpd::read(text, url)?;
        if mpd.live {
            return Err(PresentationError::Live);
        }
        let (mut parts, mut segments, mut rates) = (Vec::<Part>::new(), Vec::new(), Vec::new());
        for (number, period) in mpd.periods.iter().enumerate() {
            // If no set has the content type video, a set without a content type counts as video.
            let set =
                period.set("video").or_else(|| period.set("")).ok_or(PresentationError::NoVideo(number))?;
            let tracks = tracks(set);
            if let Some(first) =
                parts.first().map(|part| part.tracks.len()).filter(|first| *first != tracks.len())
            {
                return Err(PresentationError::Ladders { period: number, found: tracks.len(), first });
            }
            if parts.is_empty() {
                rates = set.representations.iter().map(|one| Bitrate::from_bps(one.bandwidth)).collect();
            }
            let first = segments.len();
            segments.extend(tracks[0].durations(line, number).await?);
            parts.push(Part { first, tracks });
            if segments.len() > SEGMENTS {
                return Err(PresentationError::Segments(segments.len()));
            }
        }
        if let Some(most) = most {
            let mut sum = Duration::ZERO;
            let within = |duration: &Duration| {
                let inside = sum < most;
                sum += *duration;
                inside
            };
            segments = segments.into_iter().take_while(within).collect();
        }
        let longest = segments.iter().copied().max().ok_or(PresentationError::Segments(0))?;
        let title = Title { ladder: Ladder::new(longest, rates)?, segments };
        Ok(Self { parts, title })
    }

    fn track(&self, segment: usize, quality: usize) -> (&Track, usize) {
        let at = self.parts.partition_point(|part| part.first <= segment) - 1;
        (&self.parts[at].tracks[quality], segment - self.parts[at].first)
    }

    /// The request for a segment. Fetches the initialisation segment and the index of its quality first, if
    /// needed.
    pub(super) async fn media(
        &self,
        line: &mut Line,
        (segment, quality): (usize, usize),
    ) -> Result<Request, PresentationError> {
        let (track, at) = self.track(segment, quality);
        if let Some(request) = track.addressing.initialization() {
            let fetched = track.initialization.get_or_try_init(async || line.fetch(&request, HEADER).await);
            fetched.await?;
        }
        let found = match &track.addressing {
            Addressing::Base { url, .. } => {
                let entry = track.entries(line).await?.get(at);
                entry.map(|entry| Request { url: url.clone(), range: Some(entry.range) })
            }
            other => other.segment(at as u64).map(|(request, _)| request),
        };
        found.ok_or_else(|| PresentationError::Segments(at))
    }

    /// The initialisation segment of a quality, if there is one and it has been fetched.
    pub(super) fn initialization(&self, (segment, quality): (usize, usize)) -> Option<Bytes> {
        self.track(segment, quality).0.initialization.get().cloned()
    }
}

fn tracks(set: &AdaptationSet) -> Vec<Track> {
    let track = |one: &tributary_player::dash::mpd::Representation| Track {
        id: one.id.clone(),
        addressing: one.addressing.clone(),
        index: OnceCell::new(),
        initialization: OnceCell::new(),
    };
    set.representations.iter().map(track).collect()
}

impl Track {
    async fn entries(&self, line: &mut Line) -> Result<&Vec<Entry>, PresentationError> {
        let Addressing::Base { url, index: Some(range), .. } = &self.addressing else {
            return Err(PresentationError::NoIndex(self.id.clone()));
        };
        let ByteRange { first, .. } = *range;
        let read = async || {
            let request = Request { url: url.clone(), range: Some(*range) };
            let bytes = line.fetch(&request, HEADER).await?;
            sidx::read(&bytes, first).map_err(|error| PresentationError::Index { id: self.id.clone(), error })
        };
        self.index.get_or_try_init(read).await
    }

    /// The durations of its segments.
    async fn durations(&self, line: &mut Line, period: usize) -> Result<Vec<Duration>, PresentationError> {
        if matches!(self.addressing, Addressing::Base { .. }) {
            return Ok(self.entries(line).await?.iter().map(|entry| entry.span.duration).collect());
        }
        self.addressing.durations().ok_or(PresentationError::Endless(period))
    }
}
