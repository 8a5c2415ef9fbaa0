//! Colours: high dynamic range and BT.2020 are converted to BT.709, full range to limited.

use std::process::Command;

use super::Upright;
use super::ffprobe::Stream;
use super::refusal::Refusal;
use crate::program::{self, ProgramError};

/// Filters that the conversions need; ffmpeg has them when it is built with zimg.
const NEEDED: [&str; 2] = ["zscale", "tonemap"];
/// Output of the conversions.
const BT_709: &str = "p=bt709:t=bt709:m=bt709:r=tv";

/// Adds the filters of a track's colours; returns why they cannot be converted.
pub(super) fn convert(stream: &Stream, upright: &mut Upright) -> Result<Option<Refusal>, ProgramError> {
    let is =
        |field: &Option<String>, names: &[&str]| field.as_deref().is_some_and(|name| names.contains(&name));
    let curve = match stream.color_transfer.as_deref() {
        Some("smpte2084") => Some("PQ"),
        Some("arib-std-b67") => Some("HLG"),
        _ => None,
    };
    let wide = is(&stream.color_primaries, &["bt2020"]) || is(&stream.color_space, &["bt2020nc", "bt2020c"]);
    let profile = stream.side("DOVI configuration record").and_then(|data| data.dv_profile);
    if let Some(profile @ 5) = profile {
        let problem =
            format!("its colours are Dolby Vision's (profile {profile}), which ordinary players cannot show");
        return Ok(Some(Refusal::new(problem, "libplacebo=tonemapping=auto:colorspace=bt709")));
    }
    if curve.is_none() && !wide {
        if is(&stream.color_range, &["pc"]) {
            upright.filters.push("scale=in_range=full:out_range=limited".to_owned());
            upright.notes.push("converted from full to limited range".to_owned());
        }
        return Ok(None);
    }
    let name = curve.map_or("BT.2020".to_owned(), |curve| format!("HDR ({curve})"));
    if !has_filters()? {
        let mut refusal = Refusal::new(
            format!(
                "its colours are {name}, and this ffmpeg cannot convert them: it has no {}",
                NEEDED.join(" or no ")
            ),
            "zscale=t=linear,tonemap=hable,zscale=p=bt709:t=bt709:m=bt709,format=yuv420p",
        );
        refusal.way.push_str(", with an ffmpeg that is built with zimg");
        return Ok(Some(refusal));
    }
    let input = tags(stream, curve.is_some());
    let chain = match curve {
        // In linear light relative to 100 cd/m², the reference white of BT.709.
        Some(_) => format!(
            "zscale={input}:t=linear:npl=100,format=gbrpf32le,zscale=p=bt709,tonemap=hable:desat=0,zscale={BT_709}"
        ),
        None => format!("zscale={input}:{BT_709}"),
    };
    upright.filters.extend([chain, "format=yuv420p".to_owned()]);
    upright.notes.push(match curve {
        Some(_) => format!("tone-mapped from {name} to BT.709"),
        None => "colours converted from BT.2020 to BT.709".to_owned(),
    });
    Ok(None)
}

/// zscale's input options. Colours that the file does not state are those of BT.2020.
fn tags(stream: &Stream, hdr: bool) -> String {
    let stated = |field: &Option<String>, otherwise: &str| {
        let known = field.as_deref().filter(|name| !matches!(*name, "unknown" | "reserved" | "gbr"));
        known.unwrap_or(otherwise).to_owned()
    };
    let matrix = stated(&stream.color_space, "bt2020nc");
    let matrix =
        if matrix == "bt2020c" { "2020_cl".to_owned() } else { matrix.replace("bt2020nc", "2020_ncl") };
    let primaries = stated(&stream.color_primaries, "bt2020").replace("bt2020", "2020");
    let transfer = match (stated(&stream.color_transfer, "bt709").as_str(), hdr) {
        (curve @ ("smpte2084" | "arib-std-b67"), true) => curve.to_owned(),
        // Both have the curve of BT.709.
        _ => "709".to_owned(),
    };
    let range = if stream.color_range.as_deref() == Some("pc") { "full" } else { "limited" };
    format!("min={matrix}:pin={primaries}:tin={transfer}:rin={range}")
}

/// Whether ffmpeg has the filters.
fn has_filters() -> Result<bool, ProgramError> {
    let list = program::run("ffmpeg", Command::new("ffmpeg").args(["-v", "quiet", "-filters"]), b"")?;
    let list = String::from_utf8_lossy(&list);
    let names: Vec<&str> = list.lines().filter_map(|line| line.split_whitespace().nth(1)).collect();
    Ok(NEEDED.iter().all(|needed| names.contains(needed)))
}
