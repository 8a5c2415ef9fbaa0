//! Converts the XML tree to the model.

use core::time::Duration;

use super::address::{ByteRange, Request, Template, TimelineEntry, fill, resolve};
use super::time::duration;
use super::tree::Element;
use super::{AdaptationSet, Addressing, MAX_SEGMENTS, Mpd, MpdError, Period, Representation};

/// Reads the root element of the manifest fetched from `url`.
pub(super) fn mpd(root: &Element, url: &str) -> Result<Mpd, MpdError> {
    if root.name != "MPD" {
        return Err(MpdError::Root(root.name.clone()));
    }
    let base = base_url(root, url)?;
    let total = time(root, "mediaPresentationDuration")?;
    let elements: Vec<&Element> = root.children_named("Period").collect();
    let starts = starts(&elements)?;
    let mut periods = Vec::new();
    for (at, element) in elements.iter().enumerate() {
        let start = starts[at];
        let end = starts.get(at + 1).copied().or(total);
        let length = time(element, "duration")?.or_else(|| end.map(|end| end.saturating_sub(start)));
        periods.push(period(element, &base, start, length)?);
    }
    if periods.is_empty() {
        return Err(absent(root, "Period"));
    }
    let min_buffer = time(root, "minBufferTime")?.unwrap_or_default();
    let live = root.attribute("type") == Some("dynamic");
    Ok(Mpd { live, duration: total, min_buffer, periods })
}

/// Start of each period: its attribute, or the end of the period before it.
fn starts(elements: &[&Element]) -> Result<Vec<Duration>, MpdError> {
    let mut starts = Vec::new();
    let mut next = Duration::ZERO;
    for element in elements {
        let start = time(element, "start")?.unwrap_or(next);
        starts.push(start);
        next = start.saturating_add(time(element, "duration")?.unwrap_or_default());
    }
    Ok(starts)
}

fn period(
    element: &Element,
    base: &str,
    start: Duration,
    length: Option<Duration>,
) -> Result<Period, MpdError> {
    if element.attribute("href").is_some_and(|href| href != "urn:mpeg:dash:resolve-to-zero:2013") {
        return Err(MpdError::Remote(element.name.clone()));
    }
    let base = base_url(element, base)?;
    let mut sets = Vec::new();
    for set in element.children_named("AdaptationSet") {
        let base = base_url(set, &base)?;
        let mut representations = Vec::new();
        for representation in set.children_named("Representation") {
            let chain = [representation, set, element];
            representations.push(self::representation(&chain, &base, length)?);
        }
        if representations.is_empty() {
            continue;
        }
        representations.sort_by_key(|representation: &Representation| representation.bandwidth);
        let content = content(set, &representations[0]);
        let language = set.attribute("lang").map(str::to_owned);
        sets.push(AdaptationSet { content, language, representations });
    }
    Ok(Period { start, duration: length, sets })
}

/// `contentType`, or the first half of the MIME type.
fn content(set: &Element, first: &Representation) -> String {
    let stated = set.attribute("contentType").map(str::to_owned);
    stated.unwrap_or_else(|| first.mime.split('/').next().unwrap_or_default().to_owned())
}

/// Reads a representation; `chain` is the representation, its set and its period, from which it inherits.
fn representation(
    chain: &[&Element; 3],
    base: &str,
    period: Option<Duration>,
) -> Result<Representation, MpdError> {
    let [element, set, _] = *chain;
    let inherited = |name: &str| element.attribute(name).or_else(|| set.attribute(name));
    let id = element.attribute("id").unwrap_or_default().to_owned();
    let bandwidth = integer(element, "bandwidth")?.ok_or_else(|| absent(element, "bandwidth"))?;
    if bandwidth == 0 {
        return Err(value(element, "bandwidth", "above zero"));
    }
    let base = base_url(element, base)?;
    let pixels = |name: &str| inherited(name).and_then(|text| text.parse().ok());
    Ok(Representation {
        addressing: addressing(chain, &base, period, (&id, bandwidth))?,
        codecs: inherited("codecs").unwrap_or_default().to_owned(),
        mime: inherited("mimeType").unwrap_or_default().to_owned(),
        size: pixels("width").zip(pixels("height")),
        id,
        bandwidth,
    })
}

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
}

fn addressing(
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
    let found = Inherited::find(chain, "SegmentBase");
    let initialization = found.as_ref().and_then(|info| info.child("Initialization"));
    let initialization = initialization.map_or(Ok(None), |element| range(element, "range"))?;
    let index =
        match found.as_ref().and_then(|info| info.0.iter().find(|e| e.attribute("indexRange").is_some())) {
            Some(element) => range(element, "indexRange")?,
            None => None,
        };
    Ok(Addressing::Base { url: base.to_owned(), initialization, index })
}

fn segment_list(info: &Inherited<'_>, base: &str, period: Option<Duration>) -> Result<Addressing, MpdError> {
    let timescale = info.above_zero("timescale")?.unwrap_or(1);
    let mut segments = Vec::new();
    for element in info.0.iter().flat_map(|element| element.children_named("SegmentURL")) {
        segments.push(Request {
            url: element.attribute("media").map_or(Ok(base.to_owned()), |media| resolve(base, media))?,
            range: range(element, "mediaRange")?,
        });
    }
    let one = info.above_zero("duration")?.map(|units| {
        let nanos = u128::from(units) * 1_000_000_000 / u128::from(timescale);
        Duration::from_nanos(u64::try_from(nanos).unwrap_or(u64::MAX))
    });
    // A list of one segment needs no duration: the segment lasts the whole period.
    let duration = one.or(period).ok_or_else(|| absent(info.0[0], "duration"))?;
    let initialization = match info.child("Initialization") {
        Some(element) => Some(Request {
            url: element.attribute("sourceURL").map_or(Ok(base.to_owned()), |url| resolve(base, url))?,
            range: range(element, "range")?,
        }),
        None => None,
    };
    Ok(Addressing::List { initialization, duration, segments })
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
    let timescale = info.above_zero("timescale")?.unwrap_or(1);
    let offset = info.integer("presentationTimeOffset")?.unwrap_or(0);
    let timeline = match info.child("SegmentTimeline") {
        Some(element) => timeline(element, timescale, offset, period)?,
        None => Vec::new(),
    };
    let media = known(info.attribute("media").ok_or_else(|| absent(info.0[0], "media"))?);
    let duration = if timeline.is_empty() { info.above_zero("duration")? } else { None };
    if duration.is_none() && timeline.is_empty() {
        return Err(absent(info.0[0], "duration or SegmentTimeline"));
    }
    // Numbers in a URL do not change whether it can be resolved, so one test suffices.
    resolve(base, &fill(&media, |_, _| Some("0".to_owned())))?;
    let initialization = info.attribute("initialization").map(|pattern| {
        let reference = fill(&known(pattern), |name, _| name.is_empty().then(|| "$".to_owned()));
        resolve(base, &reference).map(|url| Request { url, range: None })
    });
    Ok(Addressing::Template(Template {
        base: base.to_owned(),
        media,
        initialization: initialization.transpose()?,
        timescale,
        start_number: info.integer("startNumber")?.unwrap_or(1),
        presentation_offset: offset,
        duration,
        timeline,
        period,
    }))
}

/// Reads the `S` elements. A negative repeat count repeats until the next entry or the end of the period
/// (ISO/IEC 23009-1:2022 §5.3.9.6).
fn timeline(
    element: &Element,
    timescale: u64,
    offset: u64,
    period: Option<Duration>,
) -> Result<Vec<TimelineEntry>, MpdError> {
    let entries: Vec<&Element> = element.children_named("S").collect();
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
            let end = next.or_else(|| {
                let units = period?.as_nanos() * u128::from(timescale) / 1_000_000_000;
                u64::try_from(units).ok()?.checked_add(offset)
            });
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

/// The first `BaseURL` child, resolved against the parent's URL.
fn base_url(element: &Element, base: &str) -> Result<String, MpdError> {
    element.child("BaseURL").map_or_else(|| Ok(base.to_owned()), |found| resolve(base, &found.text))
}

fn range(element: &Element, name: &str) -> Result<Option<ByteRange>, MpdError> {
    let wanted = "a byte range such as 0-785";
    let read = |text| ByteRange::parse(text).ok_or_else(|| value(element, name, wanted));
    element.attribute(name).map(read).transpose()
}

fn time(element: &Element, name: &str) -> Result<Option<Duration>, MpdError> {
    let wanted = "a duration such as PT4S";
    let read = |text| duration(text).ok_or_else(|| value(element, name, wanted));
    element.attribute(name).map(read).transpose()
}

fn integer(element: &Element, name: &str) -> Result<Option<u64>, MpdError> {
    let read = |text: &str| text.trim().parse().map_err(|_| value(element, name, "a whole number"));
    element.attribute(name).map(read).transpose()
}

fn value(element: &Element, name: &str, wanted: &'static str) -> MpdError {
    let value = element.attribute(name).unwrap_or_default().chars().take(80).collect();
    MpdError::Value { element: element.name.clone(), name: name.to_owned(), value, wanted }
}

fn absent(element: &Element, what: &'static str) -> MpdError {
    MpdError::Absent { element: element.name.clone(), what }
}
