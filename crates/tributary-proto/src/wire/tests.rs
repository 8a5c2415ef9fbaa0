//! Round trips through any cutting of the bytes, and refusals.

use bytes::{Bytes, BytesMut};
use proptest::prelude::*;

use super::*;

const NUMBER: std::ops::Range<u64> = 0..(1 << 62) - (1 << 17);

fn kinds() -> impl Strategy<Value = SegmentKind> {
    prop_oneof![
        (NUMBER, 0..=MAX_SEGMENT as u32, any::<bool>()).prop_map(|(offset, length, fin)| SegmentKind::Data {
            offset,
            length,
            fin
        }),
        (any::<u32>(), NUMBER).prop_map(|(code, end)| SegmentKind::Reset { code, end }),
        any::<u32>().prop_map(|code| SegmentKind::Stop { code }),
        NUMBER.prop_map(|limit| SegmentKind::Credit { limit }),
        (0..=MAX_SEGMENT as u32).prop_map(|length| SegmentKind::Void { length }),
        (NUMBER, 0..=MAX_SEGMENT as u32, any::<bool>())
            .prop_map(|(offset, length, in_order)| { SegmentKind::Datagrams { offset, length, in_order } }),
        (NUMBER, 0..=MAX_SEGMENT as u32).prop_map(|(offset, length)| SegmentKind::Skip { offset, length }),
    ]
}

fn acks() -> impl Strategy<Value = Ack> {
    let steps = prop::collection::vec((1..1000_u64, 1..1000_u64), 0..MAX_ACK_RANGES);
    let progress = prop::collection::vec((any::<u32>(), NUMBER), 0..MAX_ACK_SUBFLOWS);
    (0..1_u64 << 60, NUMBER, steps, progress).prop_map(|(next, max_data, steps, progress)| {
        let mut edge = next;
        let ranges = steps
            .into_iter()
            .map(|(gap, length)| {
                let start = edge + gap;
                edge = start + length;
                (DataSeq(start), DataSeq(edge))
            })
            .collect();
        let progress = progress.into_iter().map(|(s, n)| (SubflowId(s), n)).collect();
        Ack { next: DataSeq(next), max_data, ranges, progress }
    })
}

fn controls() -> impl Strategy<Value = Control> {
    prop_oneof![
        acks().prop_map(Control::Ack),
        (NUMBER, NUMBER, any::<u32>()).prop_map(|(max_data, stream_credit, max_streams)| {
            Control::Settings(DeclaredLimits { max_data, stream_credit, max_streams })
        }),
        NUMBER.prop_map(Control::Ping),
        NUMBER.prop_map(Control::Pong),
        any::<u8>().prop_map(|p| Control::Refresh(PathId(p))),
        any::<u8>().prop_map(|p| Control::Replace(PathId(p))),
        any::<u32>().prop_map(|s| Control::Gone(SubflowId(s))),
        (any::<u32>(), NUMBER).prop_map(|(s, count)| Control::Apart { subflow: SubflowId(s), count }),
        proptest::option::of(1..=u32::MAX)
            .prop_map(|kbit| Control::Cap(kbit.map(|kbit| Bitrate::from_bps(u64::from(kbit) * 1000)))),
        (any::<u32>(), prop::collection::vec(any::<u8>(), 0..MAX_REASON))
            .prop_map(|(code, reason)| Control::Close { code, reason: reason.into() }),
    ]
}

#[derive(Clone, Debug)]
enum Sent {
    Control(Control),
    Segment(SegmentHead),
}

fn frames() -> impl Strategy<Value = Vec<Sent>> {
    let segment = (NUMBER, any::<u32>(), kinds()).prop_map(|(seq, stream, kind)| {
        let of_flows = matches!(kind, SegmentKind::Datagrams { .. } | SegmentKind::Skip { .. });
        let stream = StreamId(if of_flows { stream | FIRST_FLOW } else { stream });
        Sent::Segment(SegmentHead { seq: DataSeq(seq), stream, kind })
    });
    prop::collection::vec(prop_oneof![controls().prop_map(Sent::Control), segment], 1..12)
}

fn payload(head: &SegmentHead) -> Vec<u8> {
    (0..head.kind.payload()).map(|i| (i ^ head.seq.0 as u32) as u8).collect()
}

fn encode(frames: &[Sent]) -> Bytes {
    let mut out = BytesMut::new();
    for frame in frames {
        match frame {
            Sent::Control(control) => encode_control(control, &mut out),
            Sent::Segment(head) => {
                out.extend_from_slice(encode_segment_head(head).as_slice());
                out.extend_from_slice(&payload(head));
            }
        }
    }
    out.freeze()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn any_frames_survive_any_cutting(frames in frames(), cuts in prop::collection::vec(1..5000_usize, 1..64)) {
        let mut wire = encode(&frames);
        let mut decoder = Decoder::default();
        let mut expected = frames.iter();
        let mut cuts = cuts.iter().cycle();
        let mut gathered = Vec::new();
        while !wire.is_empty() {
            let mut input = wire.split_to((*cuts.next().unwrap()).min(wire.len()));
            while let Some(item) = decoder.next_item(&mut input).unwrap() {
                match item {
                    Item::Control(got) => match expected.next() {
                        Some(Sent::Control(sent)) => prop_assert_eq!(&got, sent),
                        other => prop_assert!(false, "got {:?}, sent {:?}", got, other),
                    },
                    Item::Segment { head, at, piece, last } => {
                        prop_assert_eq!(at as usize, gathered.len());
                        gathered.extend_from_slice(&piece);
                        if last {
                            match expected.next() {
                                Some(Sent::Segment(sent)) => prop_assert_eq!(&head, sent),
                                other => prop_assert!(false, "got {:?}, sent {:?}", head, other),
                            }
                            prop_assert_eq!(std::mem::take(&mut gathered), payload(&head));
                        }
                    }
                }
            }
            prop_assert!(input.is_empty(), "the decoder leaves nothing behind");
        }
        prop_assert!(expected.next().is_none());
    }

    #[test]
    fn garbage_never_panics(bytes in prop::collection::vec(any::<u8>(), 0..4096), cut in 1..700_usize) {
        let mut decoder = Decoder::default();
        for chunk in bytes.chunks(cut) {
            let mut input = Bytes::copy_from_slice(chunk);
            loop {
                match decoder.next_item(&mut input) {
                    Ok(Some(_)) => {}
                    Ok(None) => break,
                    Err(_) => return Ok(()),
                }
            }
        }
    }
}

#[test]
fn errors_name_the_field() {
    let oversized = SegmentHead {
        seq: DataSeq(1),
        stream: StreamId(0),
        kind: SegmentKind::Data { offset: 0, length: MAX_SEGMENT as u32 + 1, fin: false },
    };
    let mut input = Bytes::copy_from_slice(encode_segment_head(&oversized).as_slice());
    let error = Decoder::default().next_item(&mut input).unwrap_err();
    assert_eq!(error.to_string(), "frame field `length` is 65537, more than 65536");
    let void = SegmentHead { kind: SegmentKind::Void { length: MAX_SEGMENT as u32 + 1 }, ..oversized };
    let mut input = Bytes::copy_from_slice(encode_segment_head(&void).as_slice());
    assert_eq!(Decoder::default().next_item(&mut input), Err(error));
    let error = Decoder::default().next_item(&mut Bytes::from_static(&[0x7f])).unwrap_err();
    assert_eq!(error, DecodeError::UnknownType(0x7f));
}

#[test]
fn an_acknowledgement_at_its_limits_fits_a_head() {
    let ack = Ack {
        next: DataSeq(1 << 40),
        max_data: 1 << 50,
        ranges: (0..MAX_ACK_RANGES as u64)
            .map(|i| (DataSeq((1 << 40) + 40_000 * (2 * i + 1)), DataSeq((1 << 40) + 40_000 * (2 * i + 2))))
            .collect(),
        progress: (0..MAX_ACK_SUBFLOWS as u32).map(|i| (SubflowId(u32::MAX - i), 1 << 50)).collect(),
    };
    let mut out = BytesMut::new();
    encode_control(&Control::Ack(ack), &mut out);
    assert!(out.len() <= MAX_FRAME_HEAD, "{} bytes", out.len());
}

#[test]
fn the_example_of_the_specification_is_right() {
    let mut input = Bytes::from_static(&[0x11, 0x05, 0x00, 0x40, 0x40, 0x03, b'a', b'b', b'c']);
    let item = Decoder::default().next_item(&mut input).unwrap();
    let kind = SegmentKind::Data { offset: 64, length: 3, fin: true };
    let head = SegmentHead { seq: DataSeq(5), stream: StreamId(0), kind };
    assert_eq!(item, Some(Item::Segment { head, at: 0, piece: Bytes::from_static(b"abc"), last: true }));
    let head = encode_segment_head(&head);
    assert_eq!(head.as_slice(), [0x11, 0x05, 0x00, 0x40, 0x40, 0x03]);
}

/// What a segment of these datagrams carries.
fn datagrams(datagrams: &[(Vec<u8>, Ecn)]) -> Bytes {
    let mut out = BytesMut::new();
    for (datagram, ecn) in datagrams {
        encode_prefix(datagram.len(), *ecn, |bytes| out.extend_from_slice(bytes));
        out.extend_from_slice(datagram);
    }
    out.freeze()
}

#[test]
fn datagrams_of_every_length_pass_and_one_byte_more_or_less_is_refused() {
    let codepoints = [Ecn::NotCapable, Ecn::Capable1, Ecn::Capable0, Ecn::Congested];
    let sent: Vec<_> = [0, 1, 15, 16, 4095, 4096]
        .map(|n| vec![7; n])
        .into_iter()
        .zip(codepoints.into_iter().cycle())
        .collect();
    let whole = datagrams(&sent);
    assert!(are_datagrams(&whole));
    let mut rest = whole.clone();
    let got: Vec<_> = std::iter::from_fn(|| next_datagram(&mut rest)).collect();
    assert!(got.iter().map(|(bytes, ecn)| (bytes.to_vec(), *ecn)).eq(sent));
    assert!(!are_datagrams(&whole[..whole.len() - 1]), "the last one is cut short");
    assert!(!are_datagrams(&[&whole[..], &[0x40]].concat()), "half of a length follows");
    let longest = datagrams(&[(vec![1; MAX_DATAGRAM], Ecn::Congested)]);
    assert!(are_datagrams(&longest) && longest.len() <= MAX_SEGMENT);
    assert!(!are_datagrams(&datagrams(&[(vec![1; MAX_DATAGRAM + 1], Ecn::Congested)])));
}

#[test]
fn the_example_of_datagrams_in_the_specification_is_right() {
    let input = [0x16, 0x05, 0x02, 0x40, 0x40, 0x05, 0x0a, b'h', b'i', 0x03, 0x00];
    let mut bytes = Bytes::copy_from_slice(&input);
    let item = Decoder::default().next_item(&mut bytes).unwrap();
    let kind = SegmentKind::Datagrams { offset: 64, length: 5, in_order: false };
    let head = SegmentHead { seq: DataSeq(5), stream: StreamId(FIRST_FLOW + 2), kind };
    let Some(Item::Segment { head: got, piece, last: true, .. }) = item else { panic!("{item:?}") };
    assert_eq!(got, head);
    assert_eq!(encode_segment_head(&head).as_slice(), &input[..6]);
    let mut rest = piece;
    let got: Vec<_> = std::iter::from_fn(|| next_datagram(&mut rest)).collect();
    let empty = |ecn| (Bytes::new(), ecn);
    assert_eq!(
        got,
        [(Bytes::from_static(b"hi"), Ecn::Capable0), empty(Ecn::Congested), empty(Ecn::NotCapable)]
    );
}
