//! Converts a manifest to a list of segments in several qualities, and to the requests that fetch them.

use std::time::Duration;

use bytes::Bytes;
use thiserror::Error;
use tokio::sync::OnceCell;
use tributary_player::abr::{Ladder, LadderError};
use tributary_player::dash::mpd::{AdaptationSet, Addressing, Mpd, MpdError, Representation, Request};
use tributary_player::dash::play::{Header, MissingHeaders, Title};
use tributary_player::dash::sidx::{self, Entry, SidxError};
use tributary_types::Bitrate;

use crate::fetch::{FetchError, Line};

/// Maximum size of an initialisation segment or a segment index.
const HEADER: usize = 4 << 20;
/// Logged once when the server sends a whole file for a range of it.
pub(super) const NO_RANGES: &str =
    "the server sends no byte ranges: each segment is cut out of the whole file, which costs time and data";
/// Maximum number of segments of a title.
const SEGMENTS: usize = 1 << 20;

/// Bytes at the start of a file in which its index is searched if the manifest does not say where it is.
const SEARCHED: usize = 128 << 10;

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
    #[error("<Period> {period} has no video: {why}")]
    NoVideo {
        /// The period, from zero.
        period: usize,
        /// Its sets.
        why: String,
    },
    /// The number of segments cannot be derived.
    #[error(
        "<Period> {0} has neither a duration nor a list of segments, and the MPD no mediaPresentationDuration"
    )]
    Endless(usize),
    /// There is no segment, or too many.
    #[error("the title has {0} segments; from 1 to {SEGMENTS} can be played")]
    Segments(usize),
    /// The bitrates cannot be used.
    #[error(transparent)]
    Ladder(#[from] LadderError),
    /// A segment index cannot be read.
    #[error("the segment index of <Representation> `{id}`: {error}")]
    Index {
        /// The representation.
        id: String,
        /// The reason.
        error: SidxError,
    },
    /// A segment is addressed as a whole file.
    #[error(
        "<Representation> `{0}` is one file without a segment index: it has no indexRange, and no `sidx` box begins \
         within its first {SEARCHED} bytes; it cannot be played in segments"
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
    /// What is left out, for the log.
    pub(super) notes: Vec<String>,
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
        let (mut parts, mut segments) = (Vec::<Part>::new(), Vec::new());
        let (mut ladders, mut notes) = (Vec::<(usize, Vec<Bitrate>)>::new(), Vec::new());
        for (number, period) in mpd.periods.iter().enumerate() {
            if period.duration == Some(Duration::ZERO) {
                continue;
            }
            let no_video = |why| PresentationError::NoVideo { period: number, why };
            let set = aligned(period.video().map_err(no_video)?, &mut notes);
            let rates: Vec<Bitrate> = set.iter().map(|one| Bitrate::from_bps(one.bandwidth.max(1))).collect();
            if set.iter().any(|one| one.bandwidth == 0) {
                notes.push(format!("<Period> {number}: the video has no bandwidth; bitrates are not known"));
            }
            let tracks: Vec<Track> = set.into_iter().map(Track::new).collect();
            let first = segments.len();
            segments.extend(tracks[0].durations(line, number).await?);
            parts.push(Part { first, tracks });
            if segments.len() > SEGMENTS {
                return Err(PresentationError::Segments(segments.len()));
            }
            // A period without segments has no ladder either.
            if segments.len() > first && ladders.last().is_none_or(|(_, last)| *last != rates) {
                ladders.push((first, rates));
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
        let mut ladders = ladders.into_iter().map(|(from, rates)| Ok((from, Ladder::new(longest, rates)?)));
        let (_, ladder) = ladders.next().ok_or(PresentationError::Segments(0))??;
        let later = ladders.collect::<Result<_, LadderError>>()?;
        if line.ignores_ranges() {
            notes.push(NO_RANGES.to_owned());
        }
        Ok(Self { parts, title: Title { ladder, later, segments }, notes })
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
        let initialization = track.addressing.initialization();
        let mut missing = MissingHeaders {
            initialization: initialization.is_some(),
            index: matches!(track.addressing, Addressing::Base { .. }),
        };
        while let Some(header) = missing.first() {
            match (header, &initialization) {
                (Header::Initialization, Some(request)) => {
                    let fetched =
                        track.initialization.get_or_try_init(async || line.fetch(request, HEADER).await);
                    fetched.await?;
                }
                (Header::Initialization, None) => {}
                (Header::Index, _) => _ = track.entries(line).await?,
            }
            missing.handle(header);
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

    /// Whether the server may not have a segment, because the manifest counts it only for a rounded duration.
    pub(super) fn may_be_missing(&self, (segment, quality): (usize, usize)) -> bool {
        let (track, at) = self.track(segment, quality);
        track.addressing.may_be_missing(at as u64)
    }

    /// The initialisation segment of a quality, if there is one and it has been fetched.
    pub(super) fn initialization(&self, (segment, quality): (usize, usize)) -> Option<Bytes> {
        self.track(segment, quality).0.initialization.get().cloned()
    }
}

/// The representations whose segments are those of the lowest one; a player can switch only between them.
fn aligned<'a>(set: &'a AdaptationSet, notes: &mut Vec<String>) -> Vec<&'a Representation> {
    let count = |one: &Representation| one.addressing.segments();
    let lowest = set.representations.first().and_then(count);
    let (same, other): (Vec<_>, Vec<_>) = set.representations.iter().partition(|one| count(one) == lowest);
    for one in other {
        notes.push(format!(
            "<Representation> `{}` is left out: it has {} segments and the lowest one {}",
            one.id,
            count(one).map_or("unknown".to_owned(), |count| count.to_string()),
            lowest.map_or("unknown".to_owned(), |count| count.to_string()),
        ));
    }
    same
}

impl Track {
    fn new(one: &Representation) -> Self {
        Self {
            id: one.id.clone(),
            addressing: one.addressing.clone(),
            index: OnceCell::new(),
            initialization: OnceCell::new(),
        }
    }

    async fn entries(&self, line: &mut Line) -> Result<&Vec<Entry>, PresentationError> {
        let Addressing::Base { url, index, offset, period, .. } = &self.addressing else {
            return Err(PresentationError::NoIndex(self.id.clone()));
        };
        let read = async || {
            let index = match index {
                Some(range) => {
                    let request = Request { url: url.clone(), range: Some(*range) };
                    sidx::read(&line.fetch(&request, HEADER).await?, range.first)
                }
                None => match sidx::read(&line.fetch_start(url, SEARCHED).await?, 0) {
                    Err(SidxError::Missing | SidxError::Truncated(_)) => {
                        return Err(PresentationError::NoIndex(self.id.clone()));
                    }
                    other => other,
                },
            };
            let index = index.map_err(|error| PresentationError::Index { id: self.id.clone(), error })?;
            // Only the part within the period is played.
            let offset = offset.unwrap_or(index.earliest);
            let within = |entry: Entry| {
                Some(Entry { span: entry.span.shifted(index.earliest, offset, *period)?, ..entry })
            };
            Ok(index.entries.into_iter().filter_map(within).collect())
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
