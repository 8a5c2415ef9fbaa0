//! Pictures of the worst second, as each viewer saw it.

use super::Outcome;
use tributary_report::Media;
use tributary_stream::{Ladder, LadderError, LiveRecord};

/// Width of a picture.
const WIDTH: u32 = 960;

/// One picture each of the product, MPTCP and the first radio alone.
pub(super) fn worst_second(outcome: &Outcome, ladder: &Ladder) -> Result<Vec<Media>, LadderError> {
    let index = outcome.worst_gop();
    let radio = outcome.scenario.paths.first().map_or("", |path| path.name.as_str());
    let mut images = Vec::new();
    for name in ["fbdt", "mptcp", radio] {
        let Some(transport) = outcome.transport(name) else { continue };
        let record = transport.record();
        let Some((shown, words)) = in_front_of_the_eyes(&record, index) else { continue };
        let gop = &record.gops[shown];
        let Some(representation) = gop.representation else { continue };
        images.push(Media {
            media_type: "image/jpeg",
            bytes: ladder.still(representation, gop.index, WIDTH)?,
            alt: format!("Picture of second {index} over {}", transport.label),
            caption: format!("{}: {words}", transport.label),
        });
    }
    Ok(images)
}

/// The GoP shown in the slot of GoP `index`, and its state.
fn in_front_of_the_eyes(record: &LiveRecord, index: usize) -> Option<(usize, String)> {
    let gop = record.gops.get(index)?;
    let mbps = |i: usize| record.gops[i].rate_bps / 1_000_000;
    if gop.in_time {
        return Some((index, format!("{} Mbit/s, in time", mbps(index))));
    }
    let last = (0..index).rev().find(|i| record.gops[*i].in_time)?;
    let frozen = gop.frozen_ms;
    Some((
        last,
        format!("frozen for {frozen:.0} ms of this second on the picture before ({} Mbit/s)", mbps(last)),
    ))
}

#[cfg(test)]
mod tests {
    use super::*;
    use tributary_stream::GopRecord;

    #[test]
    fn a_late_gop_leaves_the_previous_one_on_the_screen() {
        let gop = |index, in_time, frozen_ms| GopRecord {
            index,
            in_time,
            frozen_ms,
            rate_bps: 10_000_000,
            representation: Some(0),
            ..GopRecord::default()
        };
        let gops = vec![gop(0, true, 0.0), gop(1, false, 300.0)];
        let record = LiveRecord { gops, ..LiveRecord::default() };
        assert_eq!(in_front_of_the_eyes(&record, 0).unwrap().0, 0);
        let (shown, words) = in_front_of_the_eyes(&record, 1).unwrap();
        assert!(shown == 0 && words.contains("frozen for 300 ms"), "{words}");
        assert_eq!(in_front_of_the_eyes(&record, 2), None);
    }
}
