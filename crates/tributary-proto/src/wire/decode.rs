//! Decodes frames from a subflow's bytes, in pieces of any size.
//!
//! Payload is passed on as slices of the input without copying; only a frame head that is split between
//! two inputs is kept here. Memory is bounded by [`MAX_FRAME_HEAD`].

use bytes::{Buf, Bytes};
use thiserror::Error;
use tributary_types::{Bitrate, DataSeq, PathId, StreamId, SubflowId};

use super::encode::{
    ACK, APART, CAP, CLOSE, CREDIT, DATA, DATA_FIN, DATAGRAMS, GONE, IN_ORDER, PING, PONG, REFRESH, REPLACE,
    RESET, SETTINGS, SKIP, STOP, VOID,
};
use super::{
    Ack, Control, DeclaredLimits, FIRST_FLOW, KBIT, MAX_ACK_RANGES, MAX_ACK_SUBFLOWS, MAX_FRAME_HEAD,
    MAX_REASON, MAX_SEGMENT, MOST_CAP, SegmentHead, SegmentKind, varint,
};

/// Why bytes are not a valid frame. The subflow that carried them must be closed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum DecodeError {
    /// No frame begins with this byte.
    #[error("unknown frame type {0:#04x}: the peer speaks another version or the stream is damaged")]
    UnknownType(u8),
    /// A field is out of its range.
    #[error("frame field `{field}` is {value}, more than {limit}")]
    OutOfRange {
        /// The field's name in the wire format.
        field: &'static str,
        /// What was sent.
        value: u64,
        /// The most it may be.
        limit: u64,
    },
    /// A frame without payload does not end within the limit.
    #[error("a frame head is longer than {MAX_FRAME_HEAD} bytes")]
    HeadTooLong,
}

/// A decoded item.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Item {
    /// A control frame.
    Control(Control),
    /// A segment, or a piece of one. Pieces of one segment arrive in order and not mixed with others.
    Segment {
        /// The segment's head, the same for each of its pieces.
        head: SegmentHead,
        /// Where in the segment's payload `piece` begins.
        at: u32,
        /// The bytes.
        piece: Bytes,
        /// The segment is complete with this piece.
        last: bool,
    },
}

/// Incremental frame reader of one subflow.
#[derive(Debug, Default)]
pub struct Decoder {
    /// An incomplete frame head.
    carry: Vec<u8>,
    /// The data segment whose payload is arriving, and how much of it has.
    payload: Option<(SegmentHead, u32, u32)>,
}

enum Parsed {
    Control(Control),
    Segment(SegmentHead),
}

impl Decoder {
    /// Takes the next item off the front of `input`; `None` when more bytes are needed.
    ///
    /// # Errors
    /// [`DecodeError`] when the bytes are not a valid frame; the decoder cannot be used afterwards.
    pub fn next_item(&mut self, input: &mut Bytes) -> Result<Option<Item>, DecodeError> {
        if let Some((head, at, length)) = self.payload {
            return Ok(self.next_piece(head, at, length, input));
        }
        if input.is_empty() {
            return Ok(None);
        }
        let Some(parsed) = self.parse_head(input)? else { return Ok(None) };
        match parsed {
            Parsed::Control(control) => Ok(Some(Item::Control(control))),
            Parsed::Segment(head) => match head.kind.payload() {
                0 => Ok(Some(Item::Segment { head, at: 0, piece: Bytes::new(), last: true })),
                length => {
                    self.payload = Some((head, 0, length));
                    Ok(self.next_piece(head, 0, length, input))
                }
            },
        }
    }

    /// Whether the input so far ends within a frame.
    #[must_use]
    pub fn is_within_frame(&self) -> bool {
        !self.carry.is_empty() || self.payload.is_some()
    }

    fn next_piece(&mut self, head: SegmentHead, at: u32, length: u32, input: &mut Bytes) -> Option<Item> {
        if input.is_empty() {
            return None;
        }
        let take = input.len().min((length - at) as usize);
        let piece = input.split_to(take);
        let end = at + take as u32;
        let last = end == length;
        self.payload = (!last).then_some((head, end, length));
        Some(Item::Segment { head, at, piece, last })
    }

    fn parse_head(&mut self, input: &mut Bytes) -> Result<Option<Parsed>, DecodeError> {
        if self.carry.is_empty() {
            let mut cursor: &[u8] = input;
            if let Some(parsed) = parse(&mut cursor)? {
                let used = input.len() - cursor.len();
                input.advance(used);
                return Ok(Some(parsed));
            }
        }
        let kept = self.carry.len();
        let look = input.len().min(MAX_FRAME_HEAD.saturating_sub(kept));
        self.carry.extend_from_slice(&input[..look]);
        let mut cursor: &[u8] = &self.carry;
        if let Some(parsed) = parse(&mut cursor)? {
            let used = self.carry.len() - cursor.len() - kept;
            input.advance(used);
            self.carry.clear();
            return Ok(Some(parsed));
        }
        if self.carry.len() >= MAX_FRAME_HEAD {
            return Err(DecodeError::HeadTooLong);
        }
        input.advance(look);
        Ok(None)
    }
}

/// Parses one frame head (and, for control frames, the whole frame) from the front of `input`.
fn parse(input: &mut &[u8]) -> Result<Option<Parsed>, DecodeError> {
    let Some((&kind, rest)) = input.split_first() else { return Ok(None) };
    let mut rest = rest;
    let parsed = match kind {
        DATA | DATA_FIN | RESET | STOP | CREDIT | VOID | DATAGRAMS | IN_ORDER | SKIP => {
            parse_segment(kind, &mut rest)?.map(Parsed::Segment)
        }
        ACK => parse_ack(&mut rest)?.map(|ack| Parsed::Control(Control::Ack(ack))),
        SETTINGS => parse_settings(&mut rest)?.map(|s| Parsed::Control(Control::Settings(s))),
        PING => varint::read(&mut rest).map(|n| Parsed::Control(Control::Ping(n))),
        PONG => varint::read(&mut rest).map(|n| Parsed::Control(Control::Pong(n))),
        REFRESH => parse_path(&mut rest)?.map(|path| Parsed::Control(Control::Refresh(path))),
        REPLACE => parse_path(&mut rest)?.map(|path| Parsed::Control(Control::Replace(path))),
        GONE => parse_subflow(&mut rest)?.map(|subflow| Parsed::Control(Control::Gone(subflow))),
        APART => parse_apart(&mut rest)?.map(Parsed::Control),
        CAP => parse_cap(&mut rest)?.map(|cap| Parsed::Control(Control::Cap(cap))),
        CLOSE => parse_close(&mut rest)?.map(Parsed::Control),
        other => return Err(DecodeError::UnknownType(other)),
    };
    if parsed.is_some() {
        *input = rest;
    }
    Ok(parsed)
}

fn parse_path(input: &mut &[u8]) -> Result<Option<PathId>, DecodeError> {
    let Some(path) = varint::read(input) else { return Ok(None) };
    let path = limited("path", path, u64::from(u8::MAX))?;
    Ok(Some(PathId(path as u8)))
}

fn parse_subflow(input: &mut &[u8]) -> Result<Option<SubflowId>, DecodeError> {
    let Some(subflow) = varint::read(input) else { return Ok(None) };
    let subflow = limited("subflow", subflow, u64::from(u32::MAX))?;
    Ok(Some(SubflowId(subflow as u32)))
}

fn parse_apart(input: &mut &[u8]) -> Result<Option<Control>, DecodeError> {
    let Some(subflow) = parse_subflow(input)? else { return Ok(None) };
    Ok(varint::read(input).map(|count| Control::Apart { subflow, count }))
}

fn parse_cap(input: &mut &[u8]) -> Result<Option<Option<Bitrate>>, DecodeError> {
    let Some(cap) = varint::read(input) else { return Ok(None) };
    let cap = limited("cap", cap, MOST_CAP)?;
    Ok(Some((cap > 0).then(|| Bitrate::from_bps(cap * KBIT))))
}

fn limited(field: &'static str, value: u64, limit: u64) -> Result<u64, DecodeError> {
    if value > limit { Err(DecodeError::OutOfRange { field, value, limit }) } else { Ok(value) }
}

/// Reads an integer or returns `Ok(None)` from the calling parser: more bytes are needed.
macro_rules! need {
    ($input:expr) => {
        match varint::read($input) {
            Some(value) => value,
            None => return Ok(None),
        }
    };
}

fn parse_segment(kind: u8, input: &mut &[u8]) -> Result<Option<SegmentHead>, DecodeError> {
    let u32_max = u64::from(u32::MAX);
    let seq = DataSeq(need!(input));
    let stream = StreamId(match kind {
        DATAGRAMS | IN_ORDER | SKIP => {
            FIRST_FLOW | limited("flow", need!(input), u64::from(FIRST_FLOW - 1))? as u32
        }
        _ => limited("stream", need!(input), u32_max)? as u32,
    });
    let kind = match kind {
        DATA | DATA_FIN | DATAGRAMS | IN_ORDER | SKIP => {
            let offset = limited("offset", need!(input), varint::MAX - MAX_SEGMENT as u64)?;
            let length = limited("length", need!(input), MAX_SEGMENT as u64)? as u32;
            match kind {
                DATA | DATA_FIN => SegmentKind::Data { offset, length, fin: kind == DATA_FIN },
                SKIP => SegmentKind::Skip { offset, length },
                _ => SegmentKind::Datagrams { offset, length, in_order: kind == IN_ORDER },
            }
        }
        RESET => {
            SegmentKind::Reset { code: limited("code", need!(input), u32_max)? as u32, end: need!(input) }
        }
        STOP => SegmentKind::Stop { code: limited("code", need!(input), u32_max)? as u32 },
        VOID => SegmentKind::Void { length: limited("length", need!(input), MAX_SEGMENT as u64)? as u32 },
        _ => SegmentKind::Credit { limit: need!(input) },
    };
    Ok(Some(SegmentHead { seq, stream, kind }))
}

fn parse_ack(input: &mut &[u8]) -> Result<Option<Ack>, DecodeError> {
    let next = DataSeq(need!(input));
    let max_data = need!(input);
    let subflows = limited("subflows", need!(input), MAX_ACK_SUBFLOWS as u64)?;
    let mut progress = Vec::with_capacity(subflows as usize);
    for _ in 0..subflows {
        let subflow = limited("subflow", need!(input), u64::from(u32::MAX))? as u32;
        progress.push((SubflowId(subflow), need!(input)));
    }
    let count = limited("ranges", need!(input), MAX_ACK_RANGES as u64)?;
    let mut ranges = Vec::with_capacity(count as usize);
    let mut edge = next.0;
    for _ in 0..count {
        // Two integers below 2^62 on a sum below 2^62 stay inside 64 bits; then the sum is checked.
        let start = limited("range start", edge + need!(input), varint::MAX)?;
        let end = limited("range end", start + need!(input), varint::MAX)?;
        ranges.push((DataSeq(start), DataSeq(end)));
        edge = end;
    }
    Ok(Some(Ack { next, max_data, ranges, progress }))
}

fn parse_settings(input: &mut &[u8]) -> Result<Option<DeclaredLimits>, DecodeError> {
    let max_data = need!(input);
    let stream_credit = need!(input);
    let max_streams = limited("max_streams", need!(input), u64::from(u32::MAX))? as u32;
    Ok(Some(DeclaredLimits { max_data, stream_credit, max_streams }))
}

fn parse_close(input: &mut &[u8]) -> Result<Option<Control>, DecodeError> {
    let code = limited("code", need!(input), u64::from(u32::MAX))? as u32;
    let length = limited("reason length", need!(input), MAX_REASON as u64)? as usize;
    let Some((reason, rest)) = input.split_at_checked(length) else { return Ok(None) };
    *input = rest;
    Ok(Some(Control::Close { code, reason: Bytes::copy_from_slice(reason) }))
}
