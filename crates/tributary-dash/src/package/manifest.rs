//! The manifest of a packaged video. Source: ISO/IEC 23009-1:2022 §5.

use std::fmt::Write as _;
use std::time::Duration;

use super::mp4::Made;
use super::{Layout, Representation, SEGMENT};

/// Ticks per second of segment times.
const TIMESCALE: u128 = 90_000;

/// Writes the manifest. `made` has the files of the representations, in the same order.
pub(super) fn write(representations: &[Representation], made: &[Made], layout: Layout) -> String {
    let profile = match layout {
        Layout::Segments => "isoff-live",
        Layout::SingleFile => "isoff-on-demand",
    };
    let duration = made[0].duration().as_secs_f64();
    let mut text = format!(
        "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n\
         <MPD xmlns=\"urn:mpeg:dash:schema:mpd:2011\" type=\"static\" profiles=\"urn:mpeg:dash:profile:{profile}:2011\" \
         mediaPresentationDuration=\"PT{duration:.3}S\" minBufferTime=\"PT{SEGMENT}S\">\n\
         \x20<Period id=\"0\" start=\"PT0S\">\n\
         \x20 <AdaptationSet id=\"0\" contentType=\"video\" mimeType=\"video/mp4\" segmentAlignment=\"true\" startWithSAP=\"1\">\n"
    );
    if layout == Layout::Segments {
        template(&mut text, &made[0]);
    }
    for (representation, made) in representations.iter().zip(made) {
        one(&mut text, representation, made, layout);
    }
    text.push_str("  </AdaptationSet>\n </Period>\n</MPD>\n");
    text
}

/// All representations have the same segment times, because the encoder inserts key pictures at fixed times.
fn template(text: &mut String, made: &Made) {
    let _ = writeln!(
        text,
        "   <SegmentTemplate timescale=\"{TIMESCALE}\" startNumber=\"1\" initialization=\"$RepresentationID$/init.mp4\" \
         media=\"$RepresentationID$/$Number$.m4s\">\n    <SegmentTimeline>"
    );
    let units = |time: Duration| (time.as_nanos() * TIMESCALE + 500_000_000) / 1_000_000_000;
    for entry in &made.entries {
        let start = units(entry.span.start);
        let duration = units(entry.span.start + entry.span.duration) - start;
        let _ = writeln!(text, "     <S t=\"{start}\" d=\"{duration}\"/>");
    }
    text.push_str("    </SegmentTimeline>\n   </SegmentTemplate>\n");
}

fn one(text: &mut String, representation: &Representation, made: &Made, layout: Layout) {
    let Representation { id, nominal_bps, actual_bps, width, height, codecs } = representation;
    // If the encoder missed its target bitrate, clients need the actual bitrate.
    let bandwidth = nominal_bps.max(actual_bps);
    let _ = write!(
        text,
        "   <Representation id=\"{id}\" bandwidth=\"{bandwidth}\" width=\"{width}\" height=\"{height}\" codecs=\"{codecs}\""
    );
    if layout == Layout::Segments {
        text.push_str("/>\n");
        return;
    }
    let range = |range: tributary_player::dash::mpd::ByteRange| {
        format!("{}-{}", range.first, range.last.unwrap_or(range.first))
    };
    let _ = writeln!(
        text,
        ">\n    <BaseURL>{id}.mp4</BaseURL>\n    <SegmentBase indexRange=\"{}\"><Initialization range=\"{}\"/></SegmentBase>\n   \
         </Representation>",
        range(made.index),
        range(made.initialization),
    );
}
