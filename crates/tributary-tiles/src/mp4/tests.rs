//! Segments survive writing and reading, and truncated or changed ones cause no panic.

use super::*;
use crate::rate::FrameRate;

const FIRST: &[u8] = &[0x65, 0x80, 9, 9];
const LATER: &[u8] = &[0x41, 0x9a, 7];

fn stream(units: &[&[u8]]) -> Vec<u8> {
    units.iter().flat_map(|unit| [&[0, 0, 0, 1], *unit].concat()).collect()
}

fn parameters() -> Parameters {
    Parameters { sequence: vec![0x67, 100, 0, 13, 0xac], picture: vec![0x68, 0xee] }
}

fn timing() -> Timing {
    Timing::of(FrameRate::new(30_000, 1001).expect("a rate"))
}

fn pair() -> (Vec<u8>, Vec<u8>) {
    let gop = stream(&[&parameters().sequence, &parameters().picture, &[6, 5, 1], FIRST, LATER, LATER]);
    let segment = media_segment(&gop, (1, 0), timing()).expect("a GoP");
    (init_segment(&parameters(), (256, 128), timing()), segment)
}

#[test]
fn written_streams_are_read_back_without_the_encoders_metadata() {
    let (init, segment) = pair();
    let read = to_annex_b(&init, &segment).expect("our own");
    assert_eq!(read, stream(&[&parameters().sequence, &parameters().picture, FIRST, LATER, LATER]));
    assert_eq!(Parameters::of(&read), Ok(parameters()));
    assert_eq!(picture_size(&init), Ok((256, 128)));
    assert_eq!(parameters().codec(), "avc1.64000d");
}

#[test]
fn the_data_offset_leads_to_the_first_unit() {
    let (_, segment) = pair();
    let at = segment.windows(4).position(|w| w == b"trun").expect("a run") + 12;
    let offset = u32::from_be_bytes(segment[at..at + 4].try_into().expect("four bytes")) as usize;
    assert_eq!(segment[offset..offset + 8], [0, 0, 0, 4, 0x65, 0x80, 9, 9]);
}

#[test]
fn streams_without_parameters_or_pictures_are_refused() {
    assert!(Parameters::of(&stream(&[FIRST])).is_err());
    assert!(Parameters::of(&stream(&[&[0x67, 100], &[0x68, 1]])).is_err());
    assert!(media_segment(&[], (1, 0), timing()).is_err());
    assert!(media_segment(&stream(&[LATER]), (1, 0), timing()).is_err());
    assert!(media_segment(&stream(&[&[0x65, 0x40]]), (1, 0), timing()).is_err());
}

#[test]
fn truncated_or_changed_files_give_errors_or_other_bytes() {
    let (init, segment) = pair();
    for length in 0..init.len() {
        assert!(to_annex_b(&init[..length], &segment).is_err(), "init cut at {length}");
    }
    for length in 0..segment.len() {
        assert!(to_annex_b(&init, &segment[..length]).is_err(), "segment cut at {length}");
    }
    for at in 0..init.len() {
        let mut changed = init.clone();
        changed[at] ^= 0xff;
        let _ = to_annex_b(&changed, &segment);
    }
    for at in 0..segment.len() {
        let mut changed = segment.clone();
        changed[at] ^= 0xff;
        let _ = to_annex_b(&init, &changed);
    }
}
