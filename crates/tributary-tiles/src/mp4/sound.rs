//! Segments of a track of Opus ("Encapsulation of Opus in ISO Base Media File Format", version 0.8.1).

use super::boxes::{put, put_full};
use super::write::{SYNC, Track, fragment, initialisation, words};
use crate::ogg::OpusHead;

/// Ticks per second of Opus in MP4 and Ogg, whatever was coded.
pub(crate) const TIMESCALE: u32 = 48_000;
/// Ticks of a packet of 100 ms.
pub(crate) const PACKET: u32 = TIMESCALE / 10;

/// The initialisation segment.
pub(crate) fn init_segment(head: &OpusHead) -> Vec<u8> {
    initialisation(&Track {
        timescale: TIMESCALE,
        sample: (PACKET, SYNC),
        volume: 0x100,
        size: (0, 0),
        skipped: u32::from(head.pre_skip),
        handler: b"soun\0\0\0\0\0\0\0\0\0\0\0\0sound\0",
        media_header: &|b| put_full(b, b"smhd", (0, 0), |b| words(b, &[0])),
        entry: &|b| put(b, b"Opus", |b| sample_entry(b, head)),
    })
}

fn sample_entry(b: &mut Vec<u8>, head: &OpusHead) {
    // Reserved, data reference 1, reserved, channels, 16 bits, reserved, rate with 16 bits behind the point.
    words(b, &[0, 1, 0, 0, u32::from(head.channels) << 16 | 16, 0, TIMESCALE << 16]);
    put(b, b"dOps", |b| {
        // Version, channels, samples to skip, rate of the input, no gain, mapping family 0: mono or stereo.
        b.extend([0, head.channels]);
        b.extend(head.pre_skip.to_be_bytes());
        b.extend(head.input_rate.to_be_bytes());
        b.extend([0, 0, 0]);
    });
}

/// The segment of a GoP's packets, of which the first is number `before` of the track; `number` counts from 1.
pub(crate) fn media_segment(packets: &[Vec<u8>], number: u32, before: u64) -> Vec<u8> {
    let sizes: Vec<u32> = packets.iter().map(|packet| packet.len() as u32).collect();
    fragment((number, before * u64::from(PACKET)), &sizes, &packets.concat())
}
