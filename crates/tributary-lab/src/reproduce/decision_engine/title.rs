//! A title without pictures, as files: each quality is a file with an initialisation segment, a segment index and
//! segments of the nominal bitrate, like the simulated title. The files are sparse and use no disk space. Source of
//! the index: ISO/IEC 14496-12 §8.16.3.

use core::time::Duration;
use std::fs::File;
use std::io::{self, Write};
use std::path::Path;
use tributary_player::dash::play::Title;

/// Bytes of an initialisation segment, as in the simulator.
const INITIALIZATION: usize = 800;
/// Units of time per second.
const TIMESCALE: u32 = 1000;

/// Writes the title into a new directory: `manifest.mpd` and a file for each quality.
pub(super) fn write(directory: &Path, title: &Title) -> io::Result<()> {
    std::fs::create_dir(directory)?;
    let mut qualities = String::new();
    for quality in 0..title.ladder.len() {
        let rate = title.ladder.bitrate(quality);
        let sizes: Vec<u32> =
            title.segments.iter().map(|time| (rate * time.as_secs_f64() / 8.0) as u32).collect();
        let index = index(&sizes, &title.segments);
        let mut file = File::create(directory.join(format!("{quality}.mp4")))?;
        file.write_all(&[0; INITIALIZATION])?;
        file.write_all(&index)?;
        let media: u64 = sizes.iter().map(|size| u64::from(*size)).sum();
        file.set_len((INITIALIZATION + index.len()) as u64 + media)?;
        let (last, end) = (INITIALIZATION - 1, INITIALIZATION + index.len() - 1);
        qualities.push_str(&format!(
            "<Representation id='{quality}' bandwidth='{rate}'><BaseURL>{quality}.mp4</BaseURL>\
             <SegmentBase indexRange='{INITIALIZATION}-{end}'><Initialization range='0-{last}'/></SegmentBase>\
             </Representation>"
        ));
    }
    let seconds = title.segments.iter().sum::<Duration>().as_secs_f64();
    let manifest = format!(
        "<MPD mediaPresentationDuration='PT{seconds}S'><Period><AdaptationSet contentType='video'>{qualities}\
         </AdaptationSet></Period></MPD>"
    );
    std::fs::write(directory.join("manifest.mpd"), manifest)
}

/// A segment index box: 32 bytes, and 12 for each segment.
fn index(sizes: &[u32], lengths: &[Duration]) -> Vec<u8> {
    let whole = 32 + 12 * sizes.len() as u32;
    let mut out = Vec::with_capacity(whole as usize);
    out.extend(whole.to_be_bytes());
    out.extend(b"sidx");
    // Version and flags, reference, time scale, earliest time, offset of the first segment.
    for field in [0, 1, TIMESCALE, 0, 0] {
        out.extend(u32::to_be_bytes(field));
    }
    out.extend((sizes.len() as u32).to_be_bytes());
    for (size, length) in sizes.iter().zip(lengths) {
        // Each begins with a stream access point of type 1.
        for field in [*size, length.as_millis() as u32, 0x9000_0000] {
            out.extend(field.to_be_bytes());
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use tributary_player::abr::Ladder;
    use tributary_player::dash::mpd::{Addressing, Mpd};
    use tributary_player::dash::sidx;
    use tributary_types::Bitrate;

    #[test]
    fn the_player_can_read_the_title() {
        let (directory, length) = (tempfile::tempdir().unwrap(), Duration::from_secs(4));
        let ladder = Ladder::new(length, [45, 3800].map(|kbps| Bitrate::from_bps(kbps * 1000)).to_vec());
        let place = directory.path().join("title");
        write(&place, &Title { ladder: ladder.unwrap(), later: Vec::new(), segments: vec![length; 3] })
            .unwrap();
        let manifest = std::fs::read(place.join("manifest.mpd")).unwrap();
        let mpd = Mpd::read(&manifest, "http://10.0.0.1/manifest.mpd").unwrap();
        assert_eq!(mpd.duration, Some(3 * length));
        let qualities = &mpd.periods[0].set("video").unwrap().representations;
        assert_eq!(qualities.iter().map(|one| one.bandwidth).collect::<Vec<_>>(), [45_000, 3_800_000]);
        for one in qualities {
            let Addressing::Base { index: Some(range), .. } = &one.addressing else { panic!("{one:?}") };
            let file = std::fs::read(place.join(format!("{}.mp4", one.id))).unwrap();
            let (first, last) = (range.first as usize, range.last.unwrap() as usize);
            assert_eq!((first, last + 1 - first), (800, 32 + 12 * 3), "as in the simulator");
            let entries = sidx::read(&file[first..=last], range.first).unwrap().entries;
            assert!(entries.iter().all(|entry| entry.span.duration == length), "{entries:?}");
            let sizes: Vec<u64> = entries.iter().map(|entry| entry.range.length().unwrap()).collect();
            assert_eq!(sizes, [one.bandwidth / 2; 3]);
            assert_eq!(entries[2].range.last, Some(file.len() as u64 - 1));
        }
    }
}
