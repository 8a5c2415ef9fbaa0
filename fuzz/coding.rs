//! Fuzz targets of the coded packets and of the COTAG nodes. Included by `entry.rs`.
//!
//! The nodes' inputs are records: a command byte, a length byte, that many bytes. Command bit 0 is the
//! link, bits 1–2 the elapsed time in steps of 2 ms, and bit 3 gives the packet a valid
//! version, epoch and generation count, so that mutations are not rejected at the head.

use bytes::Bytes;
use core::time::Duration;
use tributary_coding::CoefficientKey;
use tributary_cotag::{AccessPoint, Config, Device, Gateway, Mode, Payload, decode, encode, encode_report};
use tributary_types::Instant;

const BUFFER: usize = 64;

fn config(mode: u8) -> Config {
    let mode = if mode & 1 == 0 { Mode::Systematic } else { Mode::Paper };
    Config { mode, buffer: BUFFER, ..Config::new(CoefficientKey::new([1; 32])) }
}

/// An accepted packet is encoded to the same bytes.
pub fn packet(data: &[u8]) {
    let bytes = Bytes::copy_from_slice(data);
    match decode(&bytes) {
        Ok((header, Payload::Report(needs))) => assert_eq!(encode_report(header.epoch, &needs), bytes),
        Ok((header, payload)) => assert_eq!(encode(&header, &payload), bytes),
        Err(_) => {}
    }
}

/// Calls `each` with the time, the command and the bytes of every record.
fn each_record(data: &[u8], mut each: impl FnMut(Instant, u8, Bytes)) {
    let mut now = Instant::from_millis(1);
    for (command, body) in super::records(data) {
        now += Duration::from_millis(2) * u32::from(command >> 1 & 3);
        let mut body = body.to_vec();
        if command & 8 != 0 && body.len() >= 24 {
            (body[0], body[2], body[3], body[18]) = (0xc1, body[2] & 1, 0, 1);
            body[4..8].copy_from_slice(&[0, 0, 0, 1]);
        }
        each(now, command, body.into());
    }
}

/// A gateway accepts any packets and reports; its packets can be decoded.
pub fn gateway(data: &[u8]) {
    let Some((mode, data)) = data.split_first() else { return };
    let mut gateway = Gateway::new(config(*mode), 1);
    each_record(data, |now, command, bytes| {
        gateway.handle_timeout(now);
        if command & 1 == 0 {
            gateway.handle_packet(now, u64::from(command >> 4), &bytes);
        } else {
            gateway.handle_report(&bytes);
        }
        for _ in 0..command >> 6 {
            let sent = gateway.poll_flush().or_else(|| gateway.poll_transmit(command & 32 != 0));
            if let Some(sent) = sent {
                decode(&sent).expect("it sends packets");
            }
        }
    });
}

/// An access point accepts any packets and reports within its limits; its packets can be decoded.
pub fn access_point(data: &[u8]) {
    let Some((mode, data)) = data.split_first() else { return };
    let mut point = AccessPoint::new(config(*mode), 0, 2);
    each_record(data, |now, command, bytes| {
        point.handle_timeout(now);
        if command & 16 != 0 {
            point.handle_report(&bytes);
        } else {
            point.handle_packet(now, usize::from(command & 1), bytes);
        }
        assert!(point.waiting() <= BUFFER);
        for _ in 0..command >> 6 {
            if let Some(sent) = point.poll_transmit(command & 32 != 0) {
                decode(&sent).expect("it sends packets");
            }
        }
    });
}

/// A device accepts any packets within its limits and holds nothing after its timers have expired.
pub fn device(data: &[u8]) {
    let Some((mode, data)) = data.split_first() else { return };
    let mut device = Device::new(config(*mode), 2);
    let mut last = Instant::ZERO;
    each_record(data, |now, command, bytes| {
        device.handle_timeout(now);
        device.handle_packet(now, usize::from(command & 1), &bytes);
        assert!(device.held() <= 2 * BUFFER);
        if let Some(report) = device.poll_report() {
            decode(&report).expect("it sends packets");
        }
        while let Some(packet) = device.poll_delivery() {
            assert!(!packet.is_empty());
        }
        last = now;
    });
    device.handle_timeout(last + Duration::from_secs(1));
    assert_eq!((device.held(), device.poll_timeout()), (0, None));
}
