//! Merging and splitting returns the original packets.

use super::*;
use crate::{BUFFER, Frame, Scratch};
use proptest::prelude::*;
use std::rc::Rc;

/// A TCP segment with right checksums.
fn packet(v6: bool, flow: u8, sequence: u32, flags: u8, payload: &[u8]) -> Vec<u8> {
    let ip = if v6 { 40 } else { 20 };
    let total = ip + 20 + payload.len();
    let mut bytes = vec![0; ip + 20];
    if v6 {
        bytes[0] = 0x60;
        bytes[4..6].copy_from_slice(&((total - 40) as u16).to_be_bytes());
        bytes[6..8].copy_from_slice(&[6, 64]);
        (8..40).for_each(|i| bytes[i] = i as u8);
    } else {
        bytes[0] = 0x45;
        bytes[2..4].copy_from_slice(&(total as u16).to_be_bytes());
        bytes[8..10].copy_from_slice(&[64, 6]);
        (12..20).for_each(|i| bytes[i] = i as u8);
        let sum = !fold(sum_of(&bytes[..20]));
        bytes[10..12].copy_from_slice(&sum.to_be_bytes());
    }
    bytes[ip + 1] = flow;
    bytes[ip + 4..ip + 8].copy_from_slice(&sequence.to_be_bytes());
    bytes[ip + 12] = 0x50;
    bytes[ip + 13] = flags;
    bytes.extend_from_slice(payload);
    let segment = TcpSegment { v6, transport: ip, payload: ip + 20, sequence };
    let sum = !fold(segment.pseudo(&bytes) + sum_of(&bytes[ip..]));
    bytes[ip + 16..ip + 18].copy_from_slice(&sum.to_be_bytes());
    bytes
}

/// Splits emitted frames into packets, as the kernel does.
fn cut(frames: &[Vec<u8>]) -> Vec<Vec<u8>> {
    let mut packets = Vec::new();
    for bytes in frames {
        let mut buffer = bytes.clone();
        buffer.resize(BUFFER, 0);
        let frame =
            Frame::take(&mut buffer, bytes.len(), &Rc::default()).expect("an emitted frame is well-formed");
        for index in 0..frame.segments() {
            let mut packet = Vec::new();
            frame.write_segment(index, &mut Scratch::new(), &mut packet);
            packets.push(packet);
        }
    }
    packets
}

fn merge(packets: &[Vec<u8>]) -> Vec<Vec<u8>> {
    let (mut merger, mut frames) = (Merger::new(), Vec::new());
    packets.iter().for_each(|packet| merger.push(packet, &mut |frame| frames.push(frame.to_vec())));
    merger.flush(&mut |frame| frames.push(frame.to_vec()));
    frames
}

/// In a split super-frame the IPv4 identification counts up, so it and the checksum are not compared.
fn without_identification(mut packet: Vec<u8>) -> Vec<u8> {
    if packet[0] == 0x45 {
        packet[4..6].fill(0);
        packet[10..12].fill(0);
    }
    packet
}

proptest! {
    #[test]
    fn merging_keeps_every_flow_unchanged(
        v6: bool,
        steps in prop::collection::vec((0..3_u8, 0..10_u8, 1..1400_usize), 1..60),
    ) {
        let mut next = [0xffff_f000_u32; 3];
        let mut sent: Vec<Vec<u8>> = Vec::new();
        for (flow, kind, length) in steps {
            // Mostly full segments, some short, pushed, final, empty or out of sequence.
            let length = if kind < 6 { 1000 } else { length };
            let flags = match kind { 7 => ACK | PSH, 8 => ACK | 1, _ => ACK };
            let payload = if kind == 9 { Vec::new() } else { vec![flow; length] };
            let at = &mut next[usize::from(flow)];
            sent.push(packet(v6, flow, *at, flags, &payload));
            *at = at.wrapping_add(payload.len() as u32 + u32::from(kind == 6));
        }
        let arrived = cut(&merge(&sent));
        for flow in 0..3 {
            let port = if v6 { 41 } else { 21 };
            let of = |all: &[Vec<u8>]| -> Vec<Vec<u8>> {
                all.iter().filter(|p| p[port] == flow).cloned().map(without_identification).collect()
            };
            prop_assert_eq!(of(&arrived), of(&sent));
        }
    }
}

#[test]
fn a_run_of_segments_becomes_one_super_frame() {
    for v6 in [false, true] {
        let packets: Vec<Vec<u8>> = (0..40).map(|i| packet(v6, 1, i * 1000, ACK, &[7; 1000])).collect();
        assert_eq!(merge(&packets).len(), 1);
    }
}

#[test]
fn packets_that_must_not_be_merged_pass_unchanged() {
    let good = || packet(false, 1, 1000, ACK, &[7; 1000]);
    let frames_with = |change: fn(&mut Vec<u8>)| {
        let mut second = packet(false, 1, 2000, ACK, &[7; 1000]);
        change(&mut second);
        merge(&[good(), second]).len()
    };
    assert_eq!(frames_with(|_| {}), 1);
    assert_eq!(frames_with(|bytes| bytes[500] ^= 1), 2, "a wrong checksum");
    assert_eq!(frames_with(|bytes| bytes[6] = 0x20), 2, "a fragment");
    assert_eq!(frames_with(|bytes| bytes.truncate(700)), 2, "shorter than its length field");
    for length in 0..=40 {
        assert_eq!(merge(&[good()[..length].to_vec()]).len(), 1, "{length} bytes");
    }
    assert_eq!(merge(&[good(), packet(false, 1, 2500, ACK, &[7; 9])]).len(), 2, "a gap");
    assert_eq!(merge(&[Vec::new()]).len(), 1);
}
