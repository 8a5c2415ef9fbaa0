//! Captures, byte by byte.

use super::*;
use crate::packet::{Packet, SackBlock, TcpSegment};
use crate::run::RouteMap;
use crate::{HostId, World};
use tributary_link::{Direction, LinkConfig, LinkSpec};
use tributary_types::{Bitrate, Instant};

/// A writer that keeps what was written, or fails.
#[derive(Clone, Default)]
struct Kept {
    bytes: Rc<RefCell<Vec<u8>>>,
    room: Option<usize>,
}

impl Write for Kept {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let mut kept = self.bytes.borrow_mut();
        if self.room.is_some_and(|room| kept.len() + bytes.len() > room) {
            return Err(io::Error::other("full"));
        }
        kept.extend(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

fn routes() -> (RouteMap, crate::RouteId) {
    let mut world = World::new(100);
    let link = world.add_link(LinkConfig::new(LinkSpec::constant(Bitrate::from_mbps(1)), 1));
    let host: HostId = world.reserve_host();
    let down = world.add_route(&[link], host);
    let map = RouteMap::single(down, 1, Direction::Down);
    (map, down)
}

fn sent(segment: TcpSegment, kept: &Kept) -> io::Result<u64> {
    let (map, route) = routes();
    let capture = Capture::begin(kept.clone(), &map)?;
    let packet = Packet::segment(route, segment);
    let record = |what| LogRecord {
        now: Instant::from_millis(1500),
        what,
        link: None,
        packet: Some(&packet),
        count: 1,
    };
    let mut sink = capture.sink();
    sink.record(&record(What::Sent));
    sink.record(&record(What::Arrived)); // at the client: not seen by the server
    capture.end()
}

#[test]
fn a_segment_has_the_expected_headers() {
    let kept = Kept::default();
    let mut segment = TcpSegment {
        connection: 3,
        seq: 0x1_0000_0005,
        length: 1448,
        ack: 77,
        is_ack: true,
        ..TcpSegment::default()
    };
    segment.window = 3 << 10;
    segment.sack[0] = SackBlock { from: 100, to: 200 };
    segment.sack_count = 1;
    assert_eq!(sent(segment, &kept).unwrap(), 1);
    let bytes = kept.bytes.borrow();
    assert_eq!(bytes[..4], 0xa1b2_3c4d_u32.to_le_bytes());
    assert_eq!(bytes[20..24], 101_u32.to_le_bytes());
    let word = |at: usize| u32::from_le_bytes(bytes[at..at + 4].try_into().unwrap());
    assert_eq!([word(24), word(28)], [1, 500_000_000]);
    assert_eq!([word(32), word(36)], [64, 64 + 1448]); // 20 + 20 + 12 of timestamps + 12 of blocks
    let packet = &bytes[40..];
    assert_eq!(packet.len(), 64);
    assert_eq!(packet[12..20], [10, 77, 2, 1, 10, 77, 2, 2]);
    let sum: u32 = packet[..20].chunks(2).map(|w| u32::from(u16::from_be_bytes([w[0], w[1]]))).sum();
    assert_eq!((sum & 0xffff) + (sum >> 16), 0xffff);
    assert_eq!(packet[20..24], [0x1b, 0x58, 0x9c, 0x40]); // 7000 to 40000
    assert_eq!(packet[24..28], [0, 0, 0, 5]);
    assert_eq!((packet[32] >> 4, packet[33], packet[35]), (11, 0x18, 3));
    assert_eq!(packet[52..56], [1, 1, 5, 10]);
}

#[test]
fn a_failed_write_is_reported_at_the_end() {
    let kept = Kept { room: Some(30), ..Kept::default() };
    assert_eq!(sent(TcpSegment::default(), &kept).unwrap_err().to_string(), "full");
    let kept = Kept { room: Some(3), ..Kept::default() };
    assert!(sent(TcpSegment::default(), &kept).is_err());
}
