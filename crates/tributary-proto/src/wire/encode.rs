//! Encodes frames.

use bytes::{BufMut, BytesMut};

use super::{
    Ack, Control, FIRST_FLOW, KBIT, MAX_ACK_RANGES, MAX_ACK_SUBFLOWS, MAX_REASON, MOST_CAP, SegmentHead,
    SegmentKind, varint,
};

pub(super) const DATA: u8 = 0x10;
pub(super) const DATA_FIN: u8 = 0x11;
pub(super) const RESET: u8 = 0x12;
pub(super) const STOP: u8 = 0x13;
pub(super) const CREDIT: u8 = 0x14;
pub(super) const VOID: u8 = 0x15;
pub(super) const DATAGRAMS: u8 = 0x16;
pub(super) const IN_ORDER: u8 = 0x17;
pub(super) const SKIP: u8 = 0x18;
pub(super) const ACK: u8 = 0x20;
pub(super) const SETTINGS: u8 = 0x21;
pub(super) const PING: u8 = 0x22;
pub(super) const PONG: u8 = 0x23;
pub(super) const REFRESH: u8 = 0x24;
pub(super) const CLOSE: u8 = 0x25;
pub(super) const REPLACE: u8 = 0x26;
pub(super) const GONE: u8 = 0x27;
pub(super) const CAP: u8 = 0x28;
pub(super) const APART: u8 = 0x29;

/// The bytes of a segment in front of its payload, held inline so that sending allocates nothing.
#[derive(Clone, Copy)]
pub struct Head {
    bytes: [u8; 39],
    length: u8,
}

impl Head {
    /// The encoded bytes.
    #[must_use]
    pub fn as_slice(&self) -> &[u8] {
        &self.bytes[..usize::from(self.length)]
    }

    fn put(&mut self, slice: &[u8]) {
        let start = usize::from(self.length);
        // One type byte and at most four integers of eight bytes: 33 bytes.
        self.bytes[start..start + slice.len()].copy_from_slice(slice);
        self.length += slice.len() as u8;
    }

    fn put_varint(&mut self, value: u64) {
        varint::write(value, |slice| self.put(slice));
    }
}

impl Default for Head {
    fn default() -> Self {
        Self { bytes: [0; 39], length: 0 }
    }
}

impl std::fmt::Debug for Head {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Head({} bytes)", self.length)
    }
}

/// Encodes the head of a segment.
#[must_use]
pub fn encode_segment_head(segment: &SegmentHead) -> Head {
    let mut head = Head::default();
    head.put(&[match segment.kind {
        SegmentKind::Data { fin: false, .. } => DATA,
        SegmentKind::Data { fin: true, .. } => DATA_FIN,
        SegmentKind::Reset { .. } => RESET,
        SegmentKind::Stop { .. } => STOP,
        SegmentKind::Credit { .. } => CREDIT,
        SegmentKind::Void { .. } => VOID,
        SegmentKind::Datagrams { in_order: false, .. } => DATAGRAMS,
        SegmentKind::Datagrams { in_order: true, .. } => IN_ORDER,
        SegmentKind::Skip { .. } => SKIP,
    }]);
    head.put_varint(segment.seq.0);
    head.put_varint(u64::from(match segment.kind {
        // Short, because every segment of a flow carries it.
        SegmentKind::Datagrams { .. } | SegmentKind::Skip { .. } => segment.stream.0 % FIRST_FLOW,
        _ => segment.stream.0,
    }));
    match segment.kind {
        SegmentKind::Data { offset, length, .. }
        | SegmentKind::Datagrams { offset, length, .. }
        | SegmentKind::Skip { offset, length } => {
            head.put_varint(offset);
            head.put_varint(u64::from(length));
        }
        SegmentKind::Reset { code, end } => {
            head.put_varint(u64::from(code));
            head.put_varint(end);
        }
        SegmentKind::Stop { code } => head.put_varint(u64::from(code)),
        SegmentKind::Credit { limit } => head.put_varint(limit),
        SegmentKind::Void { length } => head.put_varint(u64::from(length)),
    }
    head
}

/// Appends a control frame to `out`. Lists beyond the format's limits are cut.
pub fn encode_control(frame: &Control, out: &mut BytesMut) {
    out.put_u8(match frame {
        Control::Ack(_) => ACK,
        Control::Settings(_) => SETTINGS,
        Control::Ping(_) => PING,
        Control::Pong(_) => PONG,
        Control::Refresh(_) => REFRESH,
        Control::Replace(_) => REPLACE,
        Control::Gone(_) => GONE,
        Control::Cap(_) => CAP,
        Control::Apart { .. } => APART,
        Control::Close { .. } => CLOSE,
    });
    let mut put = |value: u64| varint::write(value, |slice| out.put_slice(slice));
    match frame {
        Control::Ack(ack) => encode_ack(ack, &mut put),
        Control::Settings(settings) => {
            put(settings.max_data);
            put(settings.stream_credit);
            put(u64::from(settings.max_streams));
        }
        Control::Ping(number) | Control::Pong(number) => put(*number),
        Control::Refresh(path) | Control::Replace(path) => put(u64::from(path.0)),
        Control::Gone(subflow) => put(u64::from(subflow.0)),
        Control::Apart { subflow, count } => {
            put(u64::from(subflow.0));
            put(*count);
        }
        // Rounded up, so that no cap becomes none.
        Control::Cap(cap) => put(cap.map_or(0, |cap| cap.as_bps().div_ceil(KBIT).clamp(1, MOST_CAP))),
        Control::Close { code, reason } => {
            let reason = &reason[..reason.len().min(MAX_REASON)];
            put(u64::from(*code));
            put(reason.len() as u64);
            out.put_slice(reason);
        }
    }
}

fn encode_ack(ack: &Ack, put: &mut impl FnMut(u64)) {
    put(ack.next.0);
    put(ack.max_data);
    let progress = &ack.progress[..ack.progress.len().min(MAX_ACK_SUBFLOWS)];
    put(progress.len() as u64);
    for (subflow, segments) in progress {
        put(u64::from(subflow.0));
        put(*segments);
    }
    let ranges = &ack.ranges[..ack.ranges.len().min(MAX_ACK_RANGES)];
    put(ranges.len() as u64);
    let mut edge = ack.next.0;
    for (start, end) in ranges {
        put(start.0 - edge);
        put(end.0 - start.0);
        edge = end.0;
    }
}
