//! Fuzz targets of packets, of the protocols of the workloads, and of what a path controller answers. Included by `entry.rs`.

use core::time::Duration;
use std::rc::Rc;

use tributary_dash::controller::Judge;
use tributary_proto::flow::{KeyFrames, RtpFormat};
use tributary_stream::wire::{Answer, HEADER, Request};
use tributary_tun::datagram::{Packet, PacketReader, Unreachable, write_datagram, write_unreachable};
use tributary_tun::{BUFFER, Frame, Merger, Pool, Scratch, VIRTIO};
use tributary_types::Instant;

use super::records;

/// The packets of a frame from a TUN device, each complete; `None` for a frame that is refused.
fn cut(bytes: &[u8], pool: &Rc<Pool>) -> Option<Vec<Vec<u8>>> {
    let length = bytes.len();
    let frame = Frame::take(&mut bytes.to_vec(), length, pool).ok()?;
    let mut scratch = Scratch::new();
    let packets = (0..frame.segments()).map(|index| {
        let mut packet = Vec::new();
        frame.write_segment(index, &mut scratch, &mut packet);
        packet
    });
    let packets: Vec<_> = packets.collect();
    if let Some((header, segment)) = frame.shape() {
        let payloads = || packets.iter().map(|packet| packet.len() - header);
        assert_eq!(payloads().sum::<usize>(), frame.length() - header, "every byte is in one packet");
        assert!(payloads().rev().skip(1).all(|payload| payload == segment));
    }
    let (head, tail) = frame.chunk(0, frame.segments(), &mut scratch);
    assert_eq!(head.len() + tail.len(), length);
    let _ = frame.udp_probe();
    Some(packets)
}

/// A frame from a TUN device is refused, or cut into packets; joined and cut again they are the same packets.
pub fn tun_frame(data: &[u8]) {
    let pool = Rc::new(Pool::default());
    let Some(packets) = cut(&data[..data.len().min(BUFFER)], &pool) else { return };
    let (mut merger, mut joined) = (Merger::new(), Vec::new());
    let mut emit = |frame: &[u8]| joined.push(frame.to_vec());
    packets.iter().for_each(|packet| merger.push(packet, &mut emit));
    merger.flush(&mut emit);
    let again: Vec<_> =
        joined.iter().flat_map(|frame| cut(frame, &pool).expect("a merger gives frames")).collect();
    assert_eq!(again, packets);
}

/// Any datagram of a flow of RTP is judged. One that belongs to a key frame is an RTP packet; in H.264 and H.265 each is
/// judged by itself.
///
/// Input: records of a command byte (bits 0 and 1 the format), a length byte, and a datagram.
pub fn rtp(data: &[u8]) {
    let mut flows = RtpFormat::ALL.map(KeyFrames::new);
    for (command, datagram) in records(data) {
        let at = usize::from(command & 3);
        let is_key = flows[at].observe(datagram);
        assert!(!is_key || datagram.len() >= 12 && datagram[0] >> 6 == 2);
        if matches!(RtpFormat::ALL[at], RtpFormat::H264 | RtpFormat::H265) {
            assert_eq!(KeyFrames::new(RtpFormat::ALL[at]).observe(datagram), is_key);
        }
        // The same packet once more changes nothing.
        assert_eq!(flows[at].observe(datagram), is_key);
    }
}

/// Packets with datagrams, whole and in fragments, are read or passed over; a datagram is the same in a new packet, and nothing is
/// answered to an answer.
///
/// Input: records of a command byte (bits 0–3 the seconds that pass), a length byte, and a frame.
pub fn ip_packet(data: &[u8]) {
    let (mut reader, mut now) = (PacketReader::default(), Duration::ZERO);
    for (command, frame) in records(data) {
        now += Duration::from_secs(u64::from(command & 15));
        if let Packet::Datagrams { ends, bytes, each, .. } = reader.read(frame, now) {
            assert!(each > 0 || bytes.is_empty(), "the datagrams have no end");
            let mut packet = Vec::new();
            if write_datagram(&mut packet, ends, bytes) {
                let again = PacketReader::default().read(&packet, now)
                    == Packet::Datagrams { ends, bytes, each: bytes.len(), ecn: 0 };
                assert!(again, "another datagram");
            }
        }
        let mut answer = Vec::new();
        let packet = frame.get(VIRTIO..).unwrap_or_default();
        if write_unreachable(&mut answer, packet, Unreachable::Port) {
            assert_eq!(PacketReader::default().read(&answer, now), Packet::Nothing);
        }
    }
}

/// A request or an answer of the workload protocol is refused, or is the same when it is written again.
pub fn workload_wire(data: &[u8]) {
    let Some(header) = data.first_chunk::<HEADER>() else { return };
    if let Ok(request) = Request::decode(header) {
        assert_eq!(Request::decode(&request.encode()), Ok(request));
    }
    if let Ok(answer) = Answer::decode(header) {
        assert_eq!(Answer::decode(&answer.encode()), Ok(answer));
    }
}

/// A controller's answers are refused, or describe paths with different local addresses; a path keeps its number.
///
/// Input: answers, one a line, five seconds apart.
pub fn controller_json(data: &[u8]) {
    let mut judge = Judge::default();
    let mut known = std::collections::BTreeMap::new();
    for (number, answer) in data.split(|byte| *byte == b'\n').enumerate() {
        let Ok(paths) = judge.read(Instant::from_millis(number as u64 * 5000), answer) else { continue };
        for (at, (path, report)) in paths.iter().enumerate() {
            assert!(paths[..at].iter().all(|(other, _)| other.local != path.local));
            assert_eq!(*known.entry(path.id.clone()).or_insert(report.path), report.path);
        }
    }
}
