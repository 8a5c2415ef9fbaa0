//! Addresses of a representation's media, and the request for its n-th segment. Source: ISO/IEC 23009-1:2022 §5.3.9.

use core::time::Duration;

use fluent_uri::{Uri, UriRef};

use super::{MAX_SEGMENTS, MpdError};

/// Longest part of a segment that is taken for the rounding of a period's duration: sound often ends this much later
/// than the pictures. At least a twentieth of a segment is; a half never.
const ROUNDING: Duration = Duration::from_millis(250);

/// A byte range of a resource, both ends included.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ByteRange {
    /// First byte.
    pub first: u64,
    /// Last byte; `None`: the end of the resource.
    pub last: Option<u64>,
}

impl ByteRange {
    /// Reads `first-last`; `None` when it is malformed or `last` is below `first`.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        let (first, last) = text.trim().split_once('-')?;
        let first = first.parse().ok()?;
        let last = if last.is_empty() { None } else { Some(last.parse().ok()?) };
        last.is_none_or(|last| last >= first).then_some(Self { first, last })
    }

    /// The range without its first `count` bytes.
    #[must_use]
    pub fn from(&self, count: u64) -> Self {
        Self { first: self.first.saturating_add(count), last: self.last }
    }

    /// Number of bytes, if the end is known.
    #[must_use]
    pub fn length(&self) -> Option<u64> {
        self.last.map(|last| last.saturating_add(1).saturating_sub(self.first))
    }
}

/// A request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Request {
    /// Absolute URL.
    pub url: String,
    /// Byte range; `None`: the whole resource.
    pub range: Option<ByteRange>,
}

/// When a media segment plays, from the start of its period.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Span {
    /// Time of its first picture.
    pub start: Duration,
    /// Its duration.
    pub duration: Duration,
}

impl Span {
    /// The part within a period that starts at media time `offset` of a segment with this media time and duration;
    /// `None` if no part is.
    pub(super) fn within(
        offset: u64,
        (time, duration): (u64, u64),
        timescale: u64,
        period: Option<Duration>,
    ) -> Option<Self> {
        let start = in_nanos(time.saturating_sub(offset), timescale);
        let end = in_nanos(time.checked_add(duration)?.checked_sub(offset)?, timescale);
        let end = period.map_or(end, |period| end.min(period));
        (start < end).then(|| Self { start, duration: end - start })
    }

    /// The part within `period` of a segment that is `shift` later than this.
    #[must_use]
    pub fn shifted(&self, shift: Duration, offset: Duration, period: Option<Duration>) -> Option<Self> {
        let start = (self.start + shift).saturating_sub(offset);
        let end = (self.start + self.duration + shift).saturating_sub(offset);
        let end = period.map_or(end, |period| end.min(period));
        (start < end).then(|| Self { start, duration: end - start })
    }
}

/// A time in units as a duration.
pub(super) fn in_nanos(units: u64, timescale: u64) -> Duration {
    let nanos = u128::from(units) * 1_000_000_000 / u128::from(timescale.max(1));
    Duration::from_nanos(u64::try_from(nanos).unwrap_or(u64::MAX))
}

/// Addresses of a representation's media.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Addressing {
    /// One file. Its segment index, if there is one, lists the segments ([`super::super::sidx`]).
    Base {
        /// URL of the file.
        url: String,
        /// Initialisation segment.
        initialization: Option<ByteRange>,
        /// Segment index.
        index: Option<ByteRange>,
        /// Media time at the start of the period; `None`: that of the first segment.
        offset: Option<Duration>,
        /// Duration of the period, if known.
        period: Option<Duration>,
    },
    /// Segments with a URL pattern.
    Template(Template),
    /// Segments listed one by one in `SegmentURL` elements.
    List {
        /// Initialisation segment.
        initialization: Option<Request>,
        /// The segments, and when they play.
        segments: Vec<(Request, Span)>,
    },
}

/// `SegmentTemplate`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Template {
    /// Base URL.
    pub base: String,
    /// URL pattern of media segments; only `$Number$`, `$Time$` and `$$` are left to replace.
    pub media: String,
    /// Initialisation segment.
    pub initialization: Option<Request>,
    /// Units per second; above zero.
    pub timescale: u64,
    /// Number of the first segment.
    pub start_number: u64,
    /// Number of the last segment, if stated.
    pub end_number: Option<u64>,
    /// Media time at the start of the period.
    pub presentation_offset: u64,
    /// Duration of a segment in units, without a timeline; above zero.
    pub duration: Option<u64>,
    /// The timeline, empty when `duration` is used.
    pub timeline: Vec<TimelineEntry>,
    /// Duration of the period, if known.
    pub period: Option<Duration>,
}

/// An `S` element: consecutive segments of equal duration.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TimelineEntry {
    /// Media time of the first segment, in units.
    pub time: u64,
    /// Duration of each in units; above zero.
    pub duration: u64,
    /// Number of segments; above zero.
    pub count: u64,
}

impl Addressing {
    /// Number of media segments; `None` if the manifest alone does not give it (a live template, or a file whose
    /// index has not been read).
    #[must_use]
    pub fn segments(&self) -> Option<u64> {
        match self {
            Self::Base { .. } => None,
            Self::List { segments, .. } => Some(segments.len() as u64),
            Self::Template(template) => template.segments(),
        }
    }

    /// The durations of all media segments; `None` if [`Self::segments`] is `None`.
    #[must_use]
    pub fn durations(&self) -> Option<Vec<Duration>> {
        match self {
            Self::Base { .. } => None,
            Self::List { segments, .. } => Some(segments.iter().map(|(_, span)| span.duration).collect()),
            Self::Template(template) => template.durations(),
        }
    }

    /// The request for the initialisation segment, if there is one.
    #[must_use]
    pub fn initialization(&self) -> Option<Request> {
        match self {
            Self::Base { url, initialization, .. } => {
                initialization.map(|range| Request { url: url.clone(), range: Some(range) })
            }
            Self::List { initialization, .. } => initialization.clone(),
            Self::Template(template) => template.initialization.clone(),
        }
    }

    /// The request for media segment `at`, from zero, and when it plays; `None` past the end and for a file whose
    /// index has not been read.
    #[must_use]
    pub fn segment(&self, at: u64) -> Option<(Request, Span)> {
        match self {
            Self::Base { .. } => None,
            Self::List { segments, .. } => segments.get(usize::try_from(at).ok()?).cloned(),
            Self::Template(template) => template.segment(at),
        }
    }

    /// Whether media segment `at` may not exist: it is the last one of a template without a timeline, counted only
    /// because the period's duration is rounded up or is that of longer sound.
    #[must_use]
    pub fn may_be_missing(&self, at: u64) -> bool {
        let Self::Template(template) = self else { return false };
        let Some(whole) = template.duration.map(|units| in_nanos(units, template.timescale)) else {
            return false;
        };
        let tolerance = ROUNDING.max(whole / 20).min(whole / 2);
        template.segments().is_some_and(|count| at + 1 == count)
            && at > 0
            && template.segment(at).is_some_and(|(_, span)| span.duration <= tolerance)
    }
}

impl TimelineEntry {
    /// Media time and duration of its segment `at`.
    pub(super) fn nth(&self, at: u64) -> Option<(u64, u64)> {
        Some((self.time.checked_add(at.checked_mul(self.duration)?)?, self.duration))
    }
}

impl Template {
    fn segments(&self) -> Option<u64> {
        let named = self.end_number.map(|last| last.saturating_add(1).saturating_sub(self.start_number));
        let timed = match self.duration {
            None => self.timeline.iter().try_fold(0_u64, |sum, entry| sum.checked_add(entry.count)),
            Some(units) => self.period.map(|period| {
                let period = period.as_nanos() * u128::from(self.timescale);
                u64::try_from(period.div_ceil(u128::from(units) * 1_000_000_000)).unwrap_or(u64::MAX)
            }),
        };
        let count = named.map_or(timed, |named| Some(timed.map_or(named, |timed| timed.min(named))))?;
        Some(count.min(MAX_SEGMENTS))
    }

    fn segment(&self, at: u64) -> Option<(Request, Span)> {
        if at >= self.segments().unwrap_or(MAX_SEGMENTS) {
            return None;
        }
        let (time, duration) = if let Some(duration) = self.duration {
            (at.checked_mul(duration)?.checked_add(self.presentation_offset)?, duration)
        } else {
            let mut before = 0;
            let holds = |entry: &&TimelineEntry| {
                before += entry.count;
                at < before
            };
            let entry = self.timeline.iter().find(holds)?;
            entry.nth(at - (before - entry.count))?
        };
        let number = self.start_number.checked_add(at)?;
        let reference = fill(&self.media, |name, width| match name {
            "Number" => Some(format!("{number:0width$}")),
            "Time" => Some(format!("{time:0width$}")),
            "" => Some("$".to_owned()),
            _ => None,
        });
        let url = resolve(&self.base, &reference).ok()?;
        Some((Request { url, range: None }, self.span(time, duration)))
    }

    /// When a segment plays that starts at media time `time` and lasts `duration`, both in units.
    fn span(&self, time: u64, duration: u64) -> Span {
        let nothing = Span { start: self.period.unwrap_or_default(), duration: Duration::ZERO };
        Span::within(self.presentation_offset, (time, duration), self.timescale, self.period)
            .unwrap_or(nothing)
    }

    /// Computed in one pass over the timeline, which may have as many entries as there are segments.
    fn durations(&self) -> Option<Vec<Duration>> {
        let count = self.segments()?;
        if let Some(one) = self.duration {
            let time = |at: u64| at.saturating_mul(one).saturating_add(self.presentation_offset);
            return Some((0..count).map(|at| self.span(time(at), one).duration).collect());
        }
        let of = |entry: &TimelineEntry| {
            let (time, one, count) = (entry.time, entry.duration, entry.count);
            (0..count).map(move |at| self.span(time.saturating_add(at.saturating_mul(one)), one).duration)
        };
        Some(self.timeline.iter().flat_map(of).take(count as usize).collect())
    }
}

/// Maximum width in a number format.
const MAX_WIDTH: usize = 20;

/// Replaces the identifiers of a URL pattern: `$Name$` or `$Name%05d$`. `value` gets the name, empty for `$$`, and the
/// minimum width; unknown identifiers stay. ISO/IEC 23009-1:2022 §5.3.9.4.4.
pub(super) fn fill(pattern: &str, value: impl Fn(&str, usize) -> Option<String>) -> String {
    let mut filled = String::with_capacity(pattern.len());
    let mut rest = pattern;
    while let Some(begin) = rest.find('$') {
        filled.push_str(&rest[..begin]);
        let Some(length) = rest[begin + 1..].find('$') else {
            filled.push_str(&rest[begin..]);
            return filled;
        };
        let end = begin + length + 2;
        let (name, format) =
            rest[begin + 1..end - 1].split_once('%').unwrap_or((&rest[begin + 1..end - 1], "01d"));
        let width = format.strip_prefix('0').and_then(|f| f.strip_suffix('d')).and_then(|w| w.parse().ok());
        match width.and_then(|width: usize| value(name, width.min(MAX_WIDTH))) {
            Some(value) => filled.push_str(&value),
            None => filled.push_str(&rest[begin..end]),
        }
        rest = &rest[end..];
    }
    filled.push_str(rest);
    filled
}

/// Resolves a reference against an absolute URL (RFC 3986 §5). Percent-encodes invalid characters,
/// as browsers do.
///
/// # Errors
/// [`MpdError::Url`].
pub fn resolve(base: &str, reference: &str) -> Result<String, MpdError> {
    let failed = || MpdError::Url { url: reference.to_owned(), base: base.to_owned() };
    let encoded = encode(reference.trim());
    let parsed = UriRef::parse(encoded.as_str()).map_err(|_| failed())?;
    let base = encode(base);
    let base = Uri::parse(base.as_str()).map_err(|_| failed())?;
    Ok(parsed.resolve_against(&base.strip_fragment()).map_err(|_| failed())?.into_string())
}

fn encode(url: &str) -> String {
    let mut encoded = String::with_capacity(url.len());
    let bytes = url.as_bytes();
    for (at, byte) in bytes.iter().enumerate() {
        let hex = |offset: usize| bytes.get(at + offset).is_some_and(u8::is_ascii_hexdigit);
        let kept = byte.is_ascii_alphanumeric()
            || b"-._~:/?#[]@!$&'()*+,;=".contains(byte)
            || (*byte == b'%' && hex(1) && hex(2));
        if kept {
            encoded.push(char::from(*byte));
        } else {
            encoded.push_str(&format!("%{byte:02X}"));
        }
    }
    encoded
}
