//! Common Media Client Data, version 1: data that a player sends to the server with each request. Source: CTA-5004.

use core::fmt::Write as _;
use core::time::Duration;

/// The requested object (`ot`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ObjectType {
    /// A manifest.
    Manifest,
    /// Audio without video.
    Audio,
    /// Video without audio.
    Video,
    /// Audio and video in one file.
    Muxed,
    /// An initialisation segment.
    Initialization,
    /// Captions or subtitles.
    Caption,
    /// Something else.
    Other,
}

/// Data sent with a request; fields that are `None` or false are left out.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Cmcd {
    /// `br`: encoded bitrate of the object, kbit/s.
    pub bitrate_kbps: Option<u64>,
    /// `bl`: media in the play buffer. Sent in steps of 100 ms.
    pub buffer: Option<Duration>,
    /// `bs`: the buffer ran dry after the last request.
    pub starved: bool,
    /// `cid`: the content, at most 64 characters.
    pub content_id: Option<String>,
    /// `d`: duration of the object.
    pub duration: Option<Duration>,
    /// `dl`: time in which the object should arrive. Sent in steps of 100 ms.
    pub deadline: Option<Duration>,
    /// `mtp`: measured throughput, kbit/s. Sent in steps of 100 kbit/s.
    pub throughput_kbps: Option<u64>,
    /// `nor`: the next object, relative to this one.
    pub next: Option<String>,
    /// `sf`: the manifest is MPEG-DASH.
    pub dash: bool,
    /// `ot`.
    pub object: Option<ObjectType>,
    /// `rtp`: highest useful delivery rate, kbit/s. Sent in steps of 100 kbit/s.
    pub wanted_kbps: Option<u64>,
    /// `sid`: identifier of the playback session, at most 64 characters.
    pub session_id: Option<String>,
    /// `st`: live; otherwise video on demand.
    pub live: Option<bool>,
    /// `su`: urgent, at start-up, after a seek or in a stall.
    pub urgent: bool,
    /// `tb`: highest bitrate of the title, kbit/s.
    pub top_kbps: Option<u64>,
}

/// Longest identifier (CTA-5004 §3).
const MAX_ID: usize = 64;

impl Cmcd {
    /// The value of the `CMCD` query argument before percent-encoding: keys in alphabetical order, separated by commas.
    #[must_use]
    pub fn value(&self) -> String {
        self.keys().into_iter().map(|(_, text)| text).collect::<Vec<_>>().join(",")
    }

    /// The four headers and their values, without headers that have no key.
    #[must_use]
    pub fn headers(&self) -> Vec<(&'static str, String)> {
        let names = ["CMCD-Object", "CMCD-Request", "CMCD-Session", "CMCD-Status"];
        let keys = self.keys();
        let mut headers = Vec::new();
        for (group, name) in names.into_iter().enumerate() {
            let values: Vec<&str> =
                keys.iter().filter(|(of, _)| *of == group).map(|(_, text)| text.as_str()).collect();
            if !values.is_empty() {
                headers.push((name, values.join(",")));
            }
        }
        headers
    }

    /// Keys in alphabetical order, each with its header.
    fn keys(&self) -> Vec<(usize, String)> {
        const OBJECT: usize = 0;
        const REQUEST: usize = 1;
        const SESSION: usize = 2;
        const STATUS: usize = 3;
        let number = |name: &str, value: Option<u64>| value.map(|value| format!("{name}={value}"));
        let hundreds = |value: Option<u64>| value.map(|value| value.saturating_add(50) / 100 * 100);
        let millis =
            |time: Option<Duration>| time.map(|time| u64::try_from(time.as_millis()).unwrap_or(u64::MAX));
        let text = |name: &str, value: &Option<String>| {
            value.as_ref().map(|value| format!("{name}={}", quoted(value, MAX_ID)))
        };
        let flag = |name: &str, set: bool| set.then(|| name.to_owned());
        let token = |name: &str, token: Option<&str>| token.map(|token| format!("{name}={token}"));
        let keys = [
            (STATUS, number("bl", hundreds(millis(self.buffer)))),
            (OBJECT, number("br", self.bitrate_kbps)),
            (STATUS, flag("bs", self.starved)),
            (SESSION, text("cid", &self.content_id)),
            (OBJECT, number("d", millis(self.duration))),
            (REQUEST, number("dl", hundreds(millis(self.deadline)))),
            (REQUEST, number("mtp", hundreds(self.throughput_kbps))),
            (
                REQUEST,
                self.next.as_ref().map(|next| format!("nor={}", quoted(&percent_encoded(next), usize::MAX))),
            ),
            (OBJECT, token("ot", self.object.map(ObjectType::token))),
            (STATUS, number("rtp", hundreds(self.wanted_kbps))),
            (SESSION, token("sf", self.dash.then_some("d"))),
            (SESSION, text("sid", &self.session_id)),
            (SESSION, token("st", self.live.map(|live| if live { "l" } else { "v" }))),
            (REQUEST, flag("su", self.urgent)),
            (OBJECT, number("tb", self.top_kbps)),
        ];
        keys.into_iter().filter_map(|(group, text)| text.map(|text| (group, text))).collect()
    }
}

impl ObjectType {
    fn token(self) -> &'static str {
        match self {
            Self::Manifest => "m",
            Self::Audio => "a",
            Self::Video => "v",
            Self::Muxed => "av",
            Self::Initialization => "i",
            Self::Caption => "c",
            Self::Other => "o",
        }
    }
}

/// A string in quotes, with quotes and backslashes escaped, limited to `most` characters.
fn quoted(text: &str, most: usize) -> String {
    let mut quoted = String::from("\"");
    for character in text.chars().filter(|c| !c.is_control()).take(most) {
        if matches!(character, '"' | '\\') {
            quoted.push('\\');
        }
        quoted.push(character);
    }
    quoted.push('"');
    quoted
}

/// Percent-encodes all except unreserved characters (RFC 3986 §2.3), as a query argument requires.
#[must_use]
pub fn percent_encoded(text: &str) -> String {
    let mut encoded = String::with_capacity(text.len());
    for byte in text.bytes() {
        if byte.is_ascii_alphanumeric() || b"-._~".contains(&byte) {
            encoded.push(char::from(byte));
        } else {
            let _ = write!(encoded, "%{byte:02X}");
        }
    }
    encoded
}

#[cfg(test)]
mod tests {
    use super::*;

    /// CTA-5004 §2.2, the example with the common keys.
    #[test]
    fn the_specification_s_example_of_a_video_request() {
        let cmcd = Cmcd {
            bitrate_kbps: Some(3200),
            starved: true,
            duration: Some(Duration::from_millis(4004)),
            throughput_kbps: Some(25_400),
            object: Some(ObjectType::Video),
            wanted_kbps: Some(15_000),
            session_id: Some("6e2fb550-c457-11e9-bb97-0800200c9a66".to_owned()),
            top_kbps: Some(6000),
            ..Cmcd::default()
        };
        let session = "sid=\"6e2fb550-c457-11e9-bb97-0800200c9a66\"";
        assert_eq!(
            cmcd.headers(),
            [
                ("CMCD-Object", "br=3200,d=4004,ot=v,tb=6000".to_owned()),
                ("CMCD-Request", "mtp=25400".to_owned()),
                ("CMCD-Session", session.to_owned()),
                ("CMCD-Status", "bs,rtp=15000".to_owned()),
            ]
        );
        assert_eq!(
            percent_encoded(&cmcd.value()),
            "br%3D3200%2Cbs%2Cd%3D4004%2Cmtp%3D25400%2Cot%3Dv%2Crtp%3D15000%2Csid%3D%226e2fb550-c457-11e9-bb97-\
             0800200c9a66%22%2Ctb%3D6000"
        );
    }

    #[test]
    fn values_are_rounded_to_hundreds_and_strings_escaped() {
        let cmcd = Cmcd {
            buffer: Some(Duration::from_millis(21_349)),
            content_id: Some("a\"b\\c\n".to_owned()),
            next: Some("../300kbps/track 2.m4v".to_owned()),
            dash: true,
            urgent: true,
            ..Cmcd::default()
        };
        assert_eq!(cmcd.value(), r#"bl=21300,cid="a\"b\\c",nor="..%2F300kbps%2Ftrack%202.m4v",sf=d,su"#);
        assert_eq!(percent_encoded(r#"a="b""#), "a%3D%22b%22");
    }
}
