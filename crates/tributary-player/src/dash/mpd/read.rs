//! Converts the XML tree to the model.

use core::time::Duration;

use super::address::resolve;
use super::main_content::{content, is_complete, purpose, sort};
use super::segments::addressing;
use super::time::duration;
use super::tree::Element;
use super::values::{absent, integer, time};
use super::{AdaptationSet, Mpd, MpdError, Period, Purpose, Representation};

/// Reads the root element of the manifest fetched from `url`.
pub(super) fn mpd(root: &Element, url: &str) -> Result<Mpd, MpdError> {
    if root.name != "MPD" {
        return Err(MpdError::Root(root.name.clone()));
    }
    let base = base_url(root, url, url)?;
    let total = time(root, "mediaPresentationDuration")?;
    // A link to this name says that the element is to be removed (ISO/IEC 23009-1:2022 §5.5.3).
    let removed = |element: &&Element| {
        element.attribute("href").is_some_and(|href| href == "urn:mpeg:dash:resolve-to-zero:2013")
    };
    let elements: Vec<&Element> = root.children_named("Period").filter(|one| !removed(one)).collect();
    let starts = starts(&elements)?;
    let mut periods = Vec::new();
    for (at, element) in elements.iter().enumerate() {
        let (start, next) = (starts[at], elements.get(at + 1));
        let until = |end: Duration| end.saturating_sub(start);
        let stated = time(element, "duration")?;
        // A period ends when the next one starts, whatever its duration.
        let ends = match next {
            Some(next) => next.attribute("start").and(starts.get(at + 1)).copied().map(until),
            None => total.map(until),
        };
        let length = match (stated, ends) {
            (Some(stated), Some(ends)) if next.is_some() => Some(stated.min(ends)),
            (stated, ends) => stated.or(ends),
        };
        periods.push(period(element, (&base, url), start, length)?);
    }
    if periods.is_empty() {
        return Err(absent(root, "Period"));
    }
    // Only a hint, so a value that cannot be read does not matter.
    let min_buffer = root.attribute("minBufferTime").and_then(duration).unwrap_or_default();
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
    (base, manifest): (&str, &str),
    start: Duration,
    length: Option<Duration>,
) -> Result<Period, MpdError> {
    if element.attribute("href").is_some() {
        return Err(MpdError::Remote(element.name.clone()));
    }
    let base = base_url(element, base, manifest)?;
    let (mut sets, mut unreadable) = (Vec::new(), Vec::new());
    for set in element.children_named("AdaptationSet") {
        let content = content(set);
        match adaptation_set((set, element), (&base, manifest), &content, length) {
            Ok(set) => sets.extend(set),
            // What is not played need not be right.
            Err(error) if !matches!(content.as_str(), "video" | "") => unreadable.push(error),
            Err(error) if matches!(purpose(set), Purpose::Excluded(_)) => unreadable.push(error),
            Err(error) => return Err(error),
        }
    }
    Ok(Period { start, duration: length, sets, unreadable })
}

/// A set and the period that it is in; `None` without representations that can be played alone.
fn adaptation_set(
    (set, period): (&Element, &Element),
    (base, manifest): (&str, &str),
    content: &str,
    length: Option<Duration>,
) -> Result<Option<AdaptationSet>, MpdError> {
    if set.attribute("href").is_some() {
        return Err(MpdError::Remote(set.name.clone()));
    }
    let base = base_url(set, base, manifest)?;
    let mut representations = Vec::new();
    for representation in set.children_named("Representation").filter(|one| is_complete(one)) {
        let base = base_url(representation, &base, manifest)?;
        representations.push(self::representation(&[representation, set, period], &base, length)?);
    }
    if representations.is_empty() {
        return Ok(None);
    }
    if content == "video" && representations.len() > 1 && representations.iter().any(|one| one.bandwidth == 0)
    {
        let unknown = set
            .children_named("Representation")
            .find(|one| !matches!(integer(one, "bandwidth"), Ok(Some(1..))));
        let what = "bandwidth above zero, by which a player chooses between several";
        return Err(absent(unknown.unwrap_or(set), what));
    }
    sort(&mut representations);
    let language = set.attribute("lang").map(str::to_owned);
    let priority = integer(set, "selectionPriority").ok().flatten().unwrap_or(1);
    Ok(Some(AdaptationSet {
        content: content.to_owned(),
        language,
        purpose: purpose(set),
        priority,
        representations,
    }))
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
    let bandwidth = integer(element, "bandwidth")?.unwrap_or(0);
    let pixels = |name: &str| inherited(name).and_then(|text| text.parse().ok());
    Ok(Representation {
        addressing: addressing(chain, base, period, (&id, bandwidth))?,
        codecs: inherited("codecs").unwrap_or_default().to_owned(),
        mime: inherited("mimeType").unwrap_or_default().to_owned(),
        size: pixels("width").zip(pixels("height")),
        id,
        bandwidth,
    })
}

/// The `BaseURL` child resolved against the parent's URL: the first one on the manifest's server, or else the first.
fn base_url(element: &Element, base: &str, manifest: &str) -> Result<String, MpdError> {
    let urls = element.children_named("BaseURL").map(|found| resolve(base, &found.text));
    let urls = urls.collect::<Result<Vec<String>, _>>()?;
    let near = urls.iter().find(|url| server(url) == server(manifest));
    Ok(near.or(urls.first()).cloned().unwrap_or_else(|| base.to_owned()))
}

/// Scheme and authority of an absolute URL.
fn server(url: &str) -> &str {
    let after = url.find("://").map_or(0, |at| at + 3);
    let end = url[after..].find(['/', '?', '#']).map_or(url.len(), |at| after + at);
    &url[..end]
}
