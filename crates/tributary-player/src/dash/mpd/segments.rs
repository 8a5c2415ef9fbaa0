//! Reads `SegmentBase`, `SegmentList` and `SegmentTemplate`: where a representation's segments are and when they play.
//! Source: ISO/IEC 23009-1:2022 §5.3.9.

use core::cell::RefCell;
use core::time::Duration;

use super::address::{ByteRange, Request, Span, Template, TimelineEntry, fill, in_nanos, resolve};
use super::tree::Element;
use super::values::{absent, integer, range, value};
use super::{Addressing, MAX_SEGMENTS, MpdError};

/// Attributes and children of a segment information element, the most specific first.
struct Inherited<'a>(Vec<&'a Element>);

impl<'a> Inherited<'a> {
    fn find(chain: &[&'a Element; 3], name: &'a str) -> Option<Self> {
        let found: Vec<&Element> = chain.iter().filter_map(|element| element.child(name)).collect();
        (!found.is_empty()).then_some(Self(found))
    }

    fn attribute(&self, name: &str) -> Option<&'a str> {
        self.0.iter().find_map(|element| element.attribute(name))
    }

    fn integer(&self, name: &str) -> Result<Option<u64>, MpdError> {
        let found = self.0.iter().find(|element| element.attribute(name).is_some());
        found.map_or(Ok(None), |element| integer(element, name))
    }

    fn above_zero(&self, name: &str) -> Result<Option<u64>, MpdError> {
        match self.integer(name)? {
            Some(0) => Err(value(self.0[0], name, "above zero")),
            other => Ok(other),
        }
    }

    fn child(&self, name: &'a str) -> Option<&'a Element> {
        self.0.iter().find_map(|element| element.child(name))
    }

    /// The `Initialization` element's request.
    fn initialization(&self, base: &str) -> Result<Option<Request>, MpdError> {
        let Some(element) = self.child("Initialization") else { return Ok(None) };
        let url = element.attribute("sourceURL").map_or(Ok(base.to_owned()), |url| resolve(base, url))?;
        Ok(Some(Request { url, range: range(element, "range")? }))
    }

    /// Units per second, and the media time at the period's start.
    fn clock(&self, period: Option<Duration>) -> Result<Clock, MpdError> {
        let timescale = self.above_zero("timescale")?.unwrap_or(1);
        Ok(Clock { timescale, offset: self.integer("presentationTimeOffset")?.unwrap_or(0), period })
    }
}

/// Media time of a period.
#[derive(Clone, Copy)]
struct Clock {
    /// Units per second; above zero.
    timescale: u64,
    /// Media time at the start of the period.
    offset: u64,
    /// Duration of the period, if known.
    period: Option<Duration>,
}

impl Clock {
    /// Media time at the end of the period.
    fn end(&self) -> Option<u64> {
        let units = self.period?.as_nanos() * u128::from(self.timescale) / 1_000_000_000;
        u64::try_from(units).ok()?.checked_add(self.offset)
    }
}

/// Reads the addressing of a representation; `chain` is the representation, its set and its period.
pub(super) fn addressing(
    chain: &[&Element; 3],
    base: &str,
    period: Option<Duration>,
    (id, bandwidth): (&str, u64),
) -> Result<Addressing, MpdError> {
    if let Some(list) = Inherited::find(chain, "SegmentList") {
        return segment_list(&list, base, period);
    }
    if let Some(template) = Inherited::find(chain, "SegmentTemplate") {
        return segment_template(&template, base, period, (id, bandwidth));
    }
    let found = Inherited::find(chain, "SegmentBase").unwrap_or(Inherited(Vec::new()));
    let with_index = found.0.iter().find(|element| element.attribute("indexRange").is_some());
    let index = with_index.map_or(Ok(None), |element| range(element, "indexRange"))?;
    let stated = found.initialization(base)?;
    // Without the element, the file initialises itself: all before the index.
    let before =
        index.and_then(|index| Some(ByteRange { first: 0, last: Some(index.first.checked_sub(1)?) }));
    let clock = found.clock(period)?;
    let offset = found.attribute("presentationTimeOffset").map(|_| in_nanos(clock.offset, clock.timescale));
    Ok(Addressing::Base {
        url: base.to_owned(),
        initialization: stated.map_or(before, |request| request.range),
        index,
        offset,
        period,
    })
}

fn segment_list(info: &Inherited<'_>, base: &str, period: Option<Duration>) -> Result<Addressing, MpdError> {
    let clock = info.clock(period)?;
    // The most specific list is the one that counts.
    let listed = info.0.iter().find(|element| element.child("SegmentURL").is_some());
    let urls: Vec<&Element> = listed.map_or(Vec::new(), |list| list.children_named("SegmentURL").collect());
    let times = match (info.child("SegmentTimeline"), info.above_zero("duration")?) {
        (Some(element), _) => timeline(element, clock)?,
        (None, Some(duration)) => {
            vec![TimelineEntry { time: clock.offset, duration, count: urls.len().max(1) as u64 }]
        }
        // A list of one segment needs no duration: the segment lasts the whole period.
        (None, None) if urls.len() == 1 => match period {
            Some(_) => vec![whole(clock)],
            None => return Err(absent(info.0[0], "duration")),
        },
        (None, None) => return Err(absent(info.0[0], "duration or SegmentTimeline")),
    };
    let mut segments = Vec::new();
    let each = times.iter().flat_map(|entry| (0..entry.count).map(move |at| entry.nth(at)));
    for (element, time) in urls.into_iter().zip(each) {
        let (start, duration) =
            time.ok_or_else(|| value(info.0[0], "duration", "within 64 bits of media time"))?;
        let Some(span) = Span::within(clock.offset, (start, duration), clock.timescale, period) else {
            continue;
        };
        let url = element.attribute("media").map_or(Ok(base.to_owned()), |media| resolve(base, media))?;
        segments.push((Request { url, range: range(element, "mediaRange")? }, span));
    }
    Ok(Addressing::List { initialization: info.initialization(base)?, segments })
}

/// The only segment of a period.
fn whole(clock: Clock) -> TimelineEntry {
    let duration = clock.end().map_or(1, |end| end - clock.offset).max(1);
    TimelineEntry { time: clock.offset, duration, count: 1 }
}

fn segment_template(
    info: &Inherited<'_>,
    base: &str,
    period: Option<Duration>,
    (id, bandwidth): (&str, u64),
) -> Result<Addressing, MpdError> {
    let known = |pattern: &str| {
        fill(pattern, |name, width| match name {
            "RepresentationID" => Some(id.to_owned()),
            "Bandwidth" => Some(format!("{bandwidth:0width$}")),
            _ => None,
        })
    };
    let clock = info.clock(period)?;
    let duration = info.above_zero("duration")?;
    let first = info.integer("startNumber")?.unwrap_or(1);
    let (timeline, skipped) = match (info.child("SegmentTimeline"), duration) {
        (Some(element), _) => cut(timeline(element, clock)?, clock),
        (None, Some(_)) => (Vec::new(), 0),
        // Without times there is one segment, as long as the period.
        (None, None) if period.is_some() => (vec![whole(clock)], 0),
        (None, None) => return Err(absent(info.0[0], "duration or SegmentTimeline")),
    };
    let last = info.integer("endNumber")?;
    if last.is_some_and(|last| last < first) {
        return Err(value(info.0[0], "endNumber", "at least startNumber"));
    }
    let media = known(info.attribute("media").ok_or_else(|| absent(info.0[0], "media"))?);
    check(info.0[0], base, &media)?;
    let initialization = match info.attribute("initialization") {
        Some(pattern) => {
            let reference = fill(&known(pattern), |name, _| name.is_empty().then(|| "$".to_owned()));
            Some(Request { url: resolve(base, &reference)?, range: None })
        }
        None => info.initialization(base)?,
    };
    let has_times = info.child("SegmentTimeline").is_some() || duration.is_none();
    Ok(Addressing::Template(Template {
        base: base.to_owned(),
        media,
        initialization,
        timescale: clock.timescale,
        start_number: first
            .checked_add(skipped)
            .ok_or_else(|| value(info.0[0], "startNumber", "below 2^64"))?,
        end_number: last,
        presentation_offset: clock.offset,
        duration: duration.filter(|_| !has_times),
        timeline,
        period,
    }))
}

/// Checks that the URL of a segment can be made. Numbers in it do not change whether it can be resolved, so one test
/// suffices.
fn check(element: &Element, base: &str, media: &str) -> Result<(), MpdError> {
    let unknown = RefCell::new(false);
    let filled = fill(media, |name, _| {
        *unknown.borrow_mut() |= !matches!(name, "Number" | "Time" | "");
        Some("0".to_owned())
    });
    if *unknown.borrow() {
        let wanted = "a pattern of $RepresentationID$, $Bandwidth$, $Number$ and $Time$ only";
        return Err(value(element, "media", wanted));
    }
    resolve(base, &filled).map(drop)
}

/// Reads the `S` elements. A negative repeat count repeats until the next entry or the end of the period
/// (ISO/IEC 23009-1:2022 §5.3.9.6).
fn timeline(element: &Element, clock: Clock) -> Result<Vec<TimelineEntry>, MpdError> {
    let entries: Vec<&Element> = element.children_named("S").collect();
    if entries.is_empty() {
        return Err(absent(element, "S"));
    }
    let mut read = Vec::with_capacity(entries.len());
    let mut time = 0_u64;
    let mut total = 0_u64;
    for (at, entry) in entries.iter().enumerate() {
        time = integer(entry, "t")?.unwrap_or(time);
        let duration = match integer(entry, "d")? {
            Some(0) => return Err(value(entry, "d", "above zero")),
            Some(duration) => duration,
            None => return Err(absent(entry, "d")),
        };
        let repeat = entry.attribute("r").map_or(Ok(0), |text| {
            text.trim().parse::<i64>().map_err(|_| value(entry, "r", "a whole number"))
        })?;
        let count = if repeat >= 0 {
            u64::try_from(repeat).unwrap_or(0).saturating_add(1)
        } else {
            let next = entries.get(at + 1).map_or(Ok(None), |next| integer(next, "t"))?;
            let end = next.or_else(|| clock.end());
            end.map_or(1, |end| end.saturating_sub(time).div_ceil(duration).max(1))
        };
        total = total.saturating_add(count);
        if total > MAX_SEGMENTS {
            return Err(MpdError::Excess {
                at: 0,
                limit: MAX_SEGMENTS as usize,
                what: "segments in a timeline",
            });
        }
        read.push(TimelineEntry { time, duration, count });
        let end = count.checked_mul(duration).and_then(|all| time.checked_add(all));
        time = end.ok_or_else(|| value(entry, "d", "within 64 bits of media time"))?;
    }
    Ok(read)
}

/// Leaves out the segments that end before the period starts, and those that start at its end; a millisecond at the end
/// is the rounding of the period's duration. Returns the rest, and how many were left out at the start.
fn cut(entries: Vec<TimelineEntry>, clock: Clock) -> (Vec<TimelineEntry>, u64) {
    let Clock { offset, timescale, .. } = clock;
    let end = clock.end().map_or(u64::MAX, |end| end.saturating_sub(timescale / 1000));
    let (mut kept, mut skipped) = (Vec::with_capacity(entries.len()), 0);
    for TimelineEntry { time, duration, count } in entries {
        let before = if kept.is_empty() { (offset.saturating_sub(time) / duration).min(count) } else { 0 };
        skipped += before;
        let time = time + before * duration;
        let within = end.saturating_sub(time).div_ceil(duration);
        let count = (count - before).min(within);
        if count > 0 {
            kept.push(TimelineEntry { time, duration, count });
        }
    }
    (kept, skipped)
}
