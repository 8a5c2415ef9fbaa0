//! The media presentation description: one adaptation set per tile with its position in the picture, one
//! representation per QP (ISO/IEC 23009-1 §5 and annex H). This crate does not read it.

use std::fmt::Write;

use tributary_video::projection::Projection;
use tributary_video::rd::RdTable;

use super::sound::Heard;
use crate::layout::representation;
use crate::mp4::Timing;
use crate::mp4::sound::TIMESCALE;
use crate::rate::FrameRate;

/// The text of the manifest; `codecs` has one name per QP.
pub(super) fn manifest(table: &RdTable, rate: FrameRate, codecs: &[String], heard: Option<&Heard>) -> String {
    let layout = table.layout();
    let gop = layout.gop_duration_s;
    let mut text = format!(
        r#"<?xml version="1.0" encoding="UTF-8"?>
<MPD xmlns="urn:mpeg:dash:schema:mpd:2011" profiles="urn:mpeg:dash:profile:isoff-live:2011" type="static" mediaPresentationDuration="PT{:.6}S" maxSegmentDuration="PT{gop:.6}S" minBufferTime="PT{gop:.6}S">
  <Period id="0" start="PT0S">
"#,
        table.duration_s(),
    );
    if layout.grid.projection() == Projection::TopBottom {
        // ISO/IEC 23091-2, VideoFramePackingType: the left view above the right one.
        text.push_str(
            "    <SupplementalProperty schemeIdUri=\"urn:mpeg:mpegB:cicp:VideoFramePackingType\" value=\"4\"/>\n",
        );
    }
    for tile in 0..layout.grid.tiles() {
        adaptation_set(&mut text, table, tile, (rate, codecs));
    }
    if let Some(heard) = heard {
        sound(&mut text, table, heard);
    }
    text.push_str("  </Period>\n</MPD>\n");
    text
}

fn sound(text: &mut String, table: &RdTable, heard: &Heard) {
    let gop = table.layout().gop_duration_s;
    write!(
        text,
        r#"    <AdaptationSet id="{id}" contentType="audio" mimeType="audio/mp4" segmentAlignment="true" startWithSAP="1">
      <SegmentTemplate timescale="{TIMESCALE}" duration="{duration}" startNumber="0" initialization="sound/init.mp4" media="sound/$Number%05d$.m4s"/>
      <Representation id="sound" codecs="opus" bandwidth="{bandwidth}" audioSamplingRate="{TIMESCALE}">
        <AudioChannelConfiguration schemeIdUri="urn:mpeg:dash:23003:3:audio_channel_configuration:2011" value="{channels}"/>
      </Representation>
    </AdaptationSet>
"#,
        id = table.layout().grid.tiles() + 1,
        duration = (gop * f64::from(TIMESCALE)).round(),
        bandwidth = (f64::from(heard.longest) * 8.0 / gop).ceil(),
        channels = heard.channels,
    )
    .expect("text takes everything");
}

fn adaptation_set(text: &mut String, table: &RdTable, tile: usize, (rate, codecs): (FrameRate, &[String])) {
    let layout = table.layout();
    let place = layout.grid.pixels(tile, (layout.width, layout.height));
    let timing = Timing::of(rate);
    let pictures = (layout.gop_duration_s * rate.as_f64()).round() as u64;
    let set = format!(
        r#"    <AdaptationSet id="{id}" contentType="video" mimeType="video/mp4" segmentAlignment="true" startWithSAP="1">
      <SupplementalProperty schemeIdUri="urn:mpeg:dash:srd:2014" value="0,{x},{y},{w},{h},{width},{height}"/>
      <SegmentTemplate timescale="{scale}" duration="{duration}" startNumber="0" initialization="tiles/$RepresentationID$/init.mp4" media="tiles/$RepresentationID$/$Number%05d$.m4s"/>
"#,
        id = tile + 1,
        x = place.x,
        y = place.y,
        w = place.width,
        h = place.height,
        width = layout.width,
        height = layout.height,
        scale = timing.timescale,
        duration = u64::from(timing.picture) * pictures,
    );
    text.push_str(&set);
    for (index, (qp, codec)) in layout.qps.iter().zip(codecs).enumerate() {
        let largest = (0..table.gops()).map(|gop| table.gop(gop)[tile].bytes[index]).max().unwrap_or(0);
        // §5.3.5.2: with a start-up buffer of one GoP, every GoP must arrive within its own duration.
        let bandwidth = (largest as f64 * 8.0 / layout.gop_duration_s).ceil();
        writeln!(
            text,
            r#"      <Representation id="{}" qualityRanking="{}" codecs="{codec}" bandwidth="{bandwidth}" width="{}" height="{}" frameRate="{rate}" sar="1:1"/>"#,
            representation(tile, *qp),
            index + 1,
            place.width,
            place.height,
        )
        .expect("text takes everything");
    }
    text.push_str("    </AdaptationSet>\n");
}
