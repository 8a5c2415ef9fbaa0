//! Packets made by hand, as the payload formats' documents draw them.

use proptest::prelude::*;

use super::*;

/// An RTP packet of time 9000 of source 7 with this payload.
fn packet(payload: &[u8]) -> Vec<u8> {
    at(9000, payload)
}

fn at(time: u32, payload: &[u8]) -> Vec<u8> {
    [&[0x80, 96, 0, 1][..], &time.to_be_bytes(), &7_u32.to_be_bytes(), payload].concat()
}

fn is_key(format: RtpFormat, payload: &[u8]) -> bool {
    KeyFrames::new(format).observe(&packet(payload))
}

/// Units behind each other, each with its size in front and `between` bytes behind the size.
fn units(units: &[&[u8]], between: usize) -> Vec<u8> {
    let unit = |unit: &&[u8]| [&(unit.len() as u16).to_be_bytes()[..], &vec![0xff; between], unit].concat();
    units.iter().flat_map(unit).collect()
}

#[test]
fn h264_shows_key_frames_and_their_parameters_in_every_form_of_packet() {
    let h264 = |payload: &[u8]| is_key(RtpFormat::H264, payload);
    // Single units: IDR, SPS, PPS; a slice of another picture, SEI, AUD.
    for (nal, key) in [(0x65, true), (0x67, true), (0x68, true), (0x41, false), (0x06, false), (0x09, false)]
    {
        assert_eq!(h264(&[nal, 0x88, 0x84]), key, "{nal:#x}");
        // FU-A and FU-B: first, middle and last part.
        for part in [0x80, 0, 0x40] {
            assert_eq!(h264(&[0x7c, part | nal & 31, 1, 2]), key, "{nal:#x} {part:#x}");
            assert_eq!(h264(&[0x7d, part | nal & 31, 0, 1, 2]), key, "{nal:#x} {part:#x}");
        }
        // Aggregations: STAP-A, STAP-B, MTAP16, MTAP24, behind an AUD.
        for (head, order, between) in [(0x78, 0, 0), (0x79, 2, 0), (0x7a, 2, 3), (0x7b, 2, 4)] {
            let payload =
                [&[head][..], &vec![0; order], &units(&[&[0x09, 0xf0], &[nal, 1, 2, 3]], between)].concat();
            assert_eq!(h264(&payload), key, "{nal:#x} in {head:#x}");
            assert!(!h264(&payload[..payload.len() - 3]), "{nal:#x} in {head:#x}, cut short");
        }
    }
    for short in [&[][..], &[0x7c], &[0x7d], &[0x78], &[0x79, 0], &[0x78, 0, 9, 0x65]] {
        assert!(!h264(short), "{short:?}");
    }
}

#[test]
fn h265_shows_key_frames_and_their_parameters_in_every_form_of_packet() {
    let h265 = |payload: &[u8]| is_key(RtpFormat::H265, payload);
    // BLA, IDR, CRA, VPS, SPS, PPS; trailing and leading pictures, AUD, SEI.
    let kinds = [(16, true), (19, true), (20, true), (21, true), (32, true), (33, true), (34, true)];
    let others = [(0, false), (1, false), (8, false), (9, false), (35, false), (39, false)];
    for (kind, key) in kinds.into_iter().chain(others) {
        let nal = [kind << 1, 1, 0xaf];
        assert_eq!(h265(&nal), key, "{kind}");
        for part in [0x80, 0, 0x40] {
            assert_eq!(h265(&[49 << 1, 1, part | kind, 0xaf]), key, "FU of {kind}");
            // PACI with an extension of three bytes (PHSsize 3).
            assert_eq!(
                h265(&[50 << 1, 1, 49 << 1, 3 << 4, 1, 2, 3, part | kind, 0xaf]),
                key,
                "FU of {kind} in PACI"
            );
        }
        let together = units(&[&[35 << 1, 1, 0x50], &nal], 0);
        assert_eq!(h265(&[&[48 << 1, 1][..], &together].concat()), key, "AP with {kind}");
        assert_eq!(h265(&[50 << 1, 1, kind << 1, 0, 0xaf]), key, "{kind} in PACI");
        let carried = [&[50 << 1, 1, 48 << 1, 1 << 4, 9][..], &together].concat();
        assert_eq!(h265(&carried), key, "AP with {kind} in PACI");
    }
    for short in
        [&[][..], &[38], &[98, 1], &[100, 1], &[100, 1, 98], &[100, 1, 98, 0xf0, 1], &[96, 1, 0, 9, 38]]
    {
        assert!(!h265(short), "{short:?}");
    }
}

#[test]
fn vp8_shows_a_key_frame_in_its_first_packet_and_the_others_have_its_time() {
    // X with PictureID of one and of two bytes, with TL0PICIDX, with TID and KEYIDX.
    let forms: [&[u8]; 6] = [
        &[0x10],
        &[0x90, 0x80, 0x11],
        &[0x90, 0x80, 0x91, 0x11],
        &[0x90, 0xc0, 0x11, 3],
        &[0x90, 0xf0, 0x91, 0x11, 3, 0x40],
        &[0x90, 0x10, 0x1f],
    ];
    for form in forms {
        let mut frames = KeyFrames::new(RtpFormat::Vp8);
        let first = |last: u8| [form, &[last, 2, 0, 0x9d, 1, 0x2a]].concat();
        let rest = [&[form[0] & !0x10], &form[1..], &[1, 2, 3]].concat();
        assert!(!frames.observe(&at(0, &rest)), "no beginning was seen: {form:?}");
        assert!(frames.observe(&at(3000, &first(0x10))), "{form:?}");
        assert!(frames.observe(&at(3000, &rest)) && frames.observe(&at(3000, &rest)), "{form:?}");
        assert!(!frames.observe(&at(6000, &first(0x11))) && !frames.observe(&at(6000, &rest)), "{form:?}");
        // Another partition of the frame does not begin one.
        let partition = [&[form[0] | 1], &form[1..], &[0, 2, 3]].concat();
        assert!(!frames.observe(&at(6000, &partition)), "{form:?}");
        // A packet of the key frame that was sent late.
        assert!(frames.observe(&at(3000, &rest)), "{form:?}");
        // The same time, but a frame between key frames begins: the sender was started again.
        assert!(!frames.observe(&at(3000, &first(0x11))), "{form:?}");
    }
    for short in
        [&[][..], &[0x10], &[0x90], &[0x90, 0x80], &[0x90, 0x80, 0x80], &[0x90, 0xf0, 1, 2], &[0x90, 0x10]]
    {
        assert!(!is_key(RtpFormat::Vp8, short), "{short:?}");
    }
}

#[test]
fn av1_shows_a_new_sequence_in_its_first_packet_and_the_others_have_its_time() {
    let mut frames = KeyFrames::new(RtpFormat::Av1);
    // N with one OBU that goes on (Y, W=1), then the continuation (Z), then another frame.
    assert!(frames.observe(&at(3000, &[0x58, 0x0a, 1])));
    assert!(frames.observe(&at(3000, &[0x90, 1, 2])));
    assert!(!frames.observe(&at(6000, &[0x10, 0x32, 1])));
    assert!(frames.observe(&at(3000, &[0x90, 1, 2])), "it was sent late");
    // A continuation cannot begin a sequence.
    assert!(!frames.observe(&at(9000, &[0x98, 1, 2])));
    assert!(!is_key(RtpFormat::Av1, &[]));
}

#[test]
fn csrcs_extensions_and_padding_are_skipped_and_frames_of_other_sources_are_others() {
    let idr = [0x65, 1, 2];
    let with = |first: u8, between: &[u8], padding: &[u8]| {
        let mut datagram = packet(&[between, &idr, padding].concat());
        datagram[0] = first;
        KeyFrames::new(RtpFormat::H264).observe(&datagram)
    };
    assert!(with(0x82, &[0; 8], &[]), "two CSRCs");
    assert!(with(0x90, &[0xbe, 0xde, 0, 1, 9, 9, 9, 9], &[]), "an extension of a word");
    assert!(with(0xb1, &[0, 0, 0, 0, 0xbe, 0xde, 0, 0], &[0, 0, 3]), "all three");
    for (first, why) in
        [(0x00, "version 0"), (0x40, "version 1"), (0xc0, "version 3"), (0x8f, "CSRCs beyond the end")]
    {
        assert!(!with(first, &[], &[]), "{why}");
    }
    assert!(!with(0x90, &[0xbe, 0xde, 0, 9], &[]), "an extension beyond the end");
    assert!(!with(0xa0, &[], &[200]), "padding beyond the beginning");
    assert!(!with(0xa0, &[], &[4]), "nothing but padding");
    let mut rtcp = packet(&idr);
    rtcp[1] = 200;
    assert!(!KeyFrames::new(RtpFormat::H264).observe(&rtcp), "a sender report");
    let mut frames = KeyFrames::new(RtpFormat::Vp8);
    let (key, rest) = (packet(&[0x10, 0x10]), packet(&[0, 1]));
    let mut other = rest.clone();
    other[11] = 8;
    assert!(frames.observe(&key) && frames.observe(&rest) && !frames.observe(&other));
}

#[test]
fn formats_have_names() {
    for format in RtpFormat::ALL {
        assert_eq!(format.to_string().parse(), Ok(format));
    }
    assert_eq!("rtp-h266".parse::<RtpFormat>(), Err(UnknownFormat));
}

proptest! {
    #[test]
    fn any_bytes_are_judged(mut bytes in prop::collection::vec(any::<u8>(), 0..64), format in 0..4_usize) {
        let mut frames = KeyFrames::new(RtpFormat::ALL[format]);
        let judged = frames.observe(&bytes);
        prop_assert!(!judged || bytes.len() > 12);
        // The same bytes as an RTP packet, so that the payload is read.
        if let Some(first) = bytes.first_mut() {
            *first = 0x80;
        }
        frames.observe(&bytes);
    }
}
