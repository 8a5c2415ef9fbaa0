//! Which adaptation set of a period is its main content. Source: ISO/IEC 23009-1:2022 §5.8.4.8 (essential properties),
//! §5.8.5.5 (roles); DASH-IF IOP §3.2.9 (trick modes).

use super::tree::Element;
use super::{AdaptationSet, Period, Representation};

/// Scheme of the roles that say whether a set is main content.
const ROLES: &str = "urn:mpeg:dash:role:2011";
/// Scheme of sets with few pictures, for fast forward.
const TRICK_MODE: &str = "http://dashif.org/guidelines/trickmode";
/// Essential properties that a player may ignore if it does not show the picture: they describe its colours.
const HARMLESS: [&str; 2] = ["urn:mpeg:mpegB:cicp:", "urn:mpeg:dash:hdr"];

/// The purpose of an adaptation set.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Purpose {
    /// Marked as main content.
    Main,
    /// Not marked.
    Unmarked,
    /// Marked as something else: an alternate view, sign language, commentary.
    Other(String),
    /// Not to be played as ordinary content: trick modes, layers that need others, properties that a player must know
    /// and this one does not.
    Excluded(String),
}

/// The purpose that a set's elements state.
pub(super) fn purpose(set: &Element) -> Purpose {
    for property in set.children_named("EssentialProperty") {
        let scheme = property.attribute("schemeIdUri").unwrap_or_default();
        if scheme == TRICK_MODE {
            return Purpose::Excluded("it is for trick play".to_owned());
        }
        if !HARMLESS.iter().any(|known| scheme.starts_with(known)) {
            return Purpose::Excluded(format!(
                "it has the EssentialProperty `{scheme}`, which is unknown here"
            ));
        }
    }
    if set.children_named("SupplementalProperty").any(|one| one.attribute("schemeIdUri") == Some(TRICK_MODE))
    {
        return Purpose::Excluded("it is for trick play".to_owned());
    }
    let roles = set.children_named("Role").filter(|role| role.attribute("schemeIdUri") == Some(ROLES));
    let roles: Vec<&str> = roles.filter_map(|role| role.attribute("value")).collect();
    match roles.first() {
        None => Purpose::Unmarked,
        Some(_) if roles.contains(&"main") => Purpose::Main,
        Some(role) => Purpose::Other((*role).to_owned()),
    }
}

/// `contentType`, the first half of the MIME type, or what the codecs are; empty if none of them says.
pub(super) fn content(set: &Element) -> String {
    let representation = set.child("Representation");
    let of = |name: &str| {
        set.attribute(name).or_else(|| representation.and_then(|one| one.attribute(name))).unwrap_or_default()
    };
    let component = set.child("ContentComponent").and_then(|one| one.attribute("contentType"));
    if let Some(stated) = set.attribute("contentType").or(component) {
        return stated.to_owned();
    }
    let (mime, codecs) = (of("mimeType"), of("codecs"));
    let coded = |names: &[&str]| names.iter().any(|name| codecs.starts_with(name));
    match mime.split('/').next().unwrap_or_default() {
        // Subtitles in MP4 are `application/mp4`.
        "application" if coded(&["stpp", "wvtt"]) || mime.ends_with("ttml+xml") => "text".to_owned(),
        "" if coded(&["avc", "hvc", "hev", "dvh", "vp0", "vp8", "vp9", "av01", "vvc", "mp4v"]) => {
            "video".to_owned()
        }
        "" if coded(&["mp4a", "ac-", "ec-", "opus", "vorbis", "flac"]) => "audio".to_owned(),
        "" if coded(&["stpp", "wvtt"]) => "text".to_owned(),
        kind => kind.to_owned(),
    }
}

/// Drops representations that cannot be played without another one (`dependencyId`).
pub(super) fn is_complete(representation: &Element) -> bool {
    representation.attribute("dependencyId").is_none_or(|id| id.trim().is_empty())
}

impl Period {
    /// The set of this content to play: main content before other content, then the highest `selectionPriority`, the
    /// most representations, and the first in the manifest. `None` if all are excluded.
    #[must_use]
    pub fn set(&self, content: &str) -> Option<&AdaptationSet> {
        let rank = |set: &AdaptationSet| match set.purpose {
            Purpose::Main => Some(2),
            Purpose::Unmarked => Some(1),
            Purpose::Other(_) => Some(0),
            Purpose::Excluded(_) => None,
        };
        let matching = self.sets.iter().filter(|set| set.content == content);
        let ranked = matching.filter_map(|set| Some((rank(set)?, set)));
        // The last of equal ones is the maximum, so the first one in the manifest comes last here.
        let best = ranked.rev().max_by_key(|(rank, set)| (*rank, set.priority, set.representations.len()));
        best.map(|(_, set)| set)
    }

    /// The video to play: the main video set, or else a set whose content is not stated.
    ///
    /// # Errors
    /// For each set, why it is not played.
    pub fn video(&self) -> Result<&AdaptationSet, String> {
        self.set("video").or_else(|| self.set("")).ok_or_else(|| {
            let sets = self.sets.iter().map(|set| match &set.purpose {
                Purpose::Excluded(why) => {
                    format!("an AdaptationSet of {} is left out: {why}", named(&set.content))
                }
                _ => format!("an AdaptationSet is {}", named(&set.content)),
            });
            let all: Vec<String> = sets.chain(self.unreadable.iter().map(ToString::to_string)).collect();
            if all.is_empty() { "it has no AdaptationSet".to_owned() } else { all.join("; ") }
        })
    }
}

fn named(content: &str) -> &str {
    if content.is_empty() { "unknown content" } else { content }
}

/// Sorted by bandwidth; those of equal bandwidth stay in the manifest's order.
pub(super) fn sort(representations: &mut [Representation]) {
    representations.sort_by_key(|representation| representation.bandwidth);
}
