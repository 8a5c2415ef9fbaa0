//! The worst cost of frames that a peer may send at any rate, in steps of the loops whose length the peer or the number
//! of streams decides. `docs/wire-cost.md` has the table.

use bytes::{Bytes, BytesMut};
use tributary_types::{DataSeq, Instant, PathId, StreamId};

use super::hostile::{ON, data, segment};
use super::pair::payload;
use crate::config::Config;
use crate::event::Event;
use crate::flow::FlowConfig;
use crate::session::{ProtocolError, Session, Side};
use crate::wire::{Ack, Control, DeclaredLimits, FIRST_FLOW, SegmentKind, encode_control};
use crate::work::steps;

const NOW: Instant = Instant::from_millis(5);
const STREAMS: u32 = 1000;

fn control(control: &Control) -> Bytes {
    let mut out = BytesMut::new();
    encode_control(control, &mut out);
    out.freeze()
}

fn settings(max_data: u64, stream_credit: u64) -> Bytes {
    control(&Control::Settings(DeclaredLimits { max_data, stream_credit, max_streams: 2048 }))
}

/// A server with a thousand streams that the client has opened with one segment.
fn server() -> Session {
    let mut session = Session::new(Side::Server, Config::default(), 1, Instant::ZERO).unwrap();
    session.handle_subflow_open(NOW, ON, PathId(0)).unwrap();
    session.handle_input(NOW, ON, settings(64 << 20, 1 << 20)).unwrap();
    session.handle_input(NOW, ON, data(0, 2 * (STREAMS - 1), 0, 1)).unwrap();
    assert_eq!(session.streams().peers, STREAMS);
    session
}

/// Sends everything that may be sent.
fn send(session: &mut Session) {
    for _ in 0..100_000 {
        session.handle_room(ON, 1 << 20);
        if session.poll_transmit(NOW).is_none() {
            return;
        }
    }
    panic!("the session never stops sending");
}

fn cost(session: &mut Session, input: Bytes) -> u64 {
    steps(|| session.handle_input(NOW, ON, input).expect("the input is allowed"))
}

#[test]
fn settings_that_raise_nothing_cost_nothing_and_raises_are_limited() {
    let mut session = server();
    for lower in [settings(64 << 20, 1 << 20), settings(1, 1), settings(64 << 20, 256 << 10)] {
        assert_eq!(cost(&mut session, lower), 0);
    }
    assert_eq!(session.most_streams(), 2048);
    let outcomes = (1..1000).map(|n| session.handle_input(NOW, ON, settings(64 << 20, (1 << 20) + n)));
    let raised = outcomes.take_while(Result::is_ok).count();
    assert_eq!(raised, 7, "the first settings count, too");
    let mut again = server();
    let flood = (1..100).try_for_each(|n| again.handle_input(NOW, ON, settings((64 << 20) + n, 1 << 20)));
    assert_eq!(flood, Err(ProtocolError::TooManySettings));
}

/// A driver can look at the clock between two parts; nothing is lost between them.
#[test]
fn a_part_of_the_input_has_a_limited_number_of_frames() {
    let mut session = server();
    let ping = control(&Control::Ping(7));
    let mut input = Bytes::from(ping.repeat(1000));
    let mut parts = 0;
    while !input.is_empty() {
        let before = input.len();
        session.handle_part(NOW, ON, &mut input, parts == 0).unwrap();
        parts += 1;
        assert!(before - input.len() <= crate::PART * ping.len());
    }
    assert_eq!(parts, 1000_usize.div_ceil(crate::PART));
    // A frame cut in two goes on in the next input.
    let data = data(1, 0, 0, 3);
    for part in [data.slice(..2), data.slice(2..)] {
        session.handle_input(NOW, ON, part).unwrap();
    }
    assert_eq!(session.read(StreamId(0)).unwrap().map(|bytes| bytes.len()), Some(3));
}

/// Every stream has something to send and the peer gives no credit for it, or takes it segment by segment.
#[test]
fn a_segment_costs_the_same_beside_a_thousand_streams() {
    let mut session = server();
    for stream in 0..STREAMS {
        session.write(StreamId(2 * stream), &mut payload(0, 3000)).unwrap();
    }
    session.handle_room(ON, usize::MAX);
    let mut most = 0;
    let mut sent = 0;
    while sent < 500 {
        let mut some = false;
        most = most.max(steps(|| some = session.poll_transmit(NOW).is_some()));
        assert!(some);
        sent += 1;
    }
    // A load numbers a window at once, which is a few hundred segments here, and not one for each stream and segment.
    assert!(most <= 1200, "{most} steps for one segment");
    let all = steps(|| send(&mut session));
    assert!(all <= 10 * u64::from(STREAMS), "{all} steps for {STREAMS} streams");
}

/// All but the first of many segments are acknowledged, again and again.
#[test]
fn an_acknowledgement_costs_what_is_new_in_it() {
    let mut session = server();
    for stream in 0..STREAMS {
        session.write(StreamId(2 * stream), &mut payload(0, 3000)).unwrap();
    }
    send(&mut session);
    let end = DataSeq(session.send.end().0);
    assert!(end.0 >= u64::from(STREAMS));
    let ack =
        control(&Control::Ack(Ack { next: DataSeq(0), ranges: vec![(DataSeq(1), end)], ..Ack::default() }));
    let first = cost(&mut session, ack.clone());
    assert!(first >= end.0 - 1 && first <= 3 * end.0, "{first} steps for {end:?}");
    for _ in 0..10 {
        assert_eq!(cost(&mut session, ack.clone()), 0);
    }
}

/// Writers wait because the send buffer is full, and the peer acknowledges nothing new.
#[test]
fn an_acknowledgement_of_nothing_looks_at_no_writer() {
    let mut session = server();
    let mut filled = 0;
    for stream in 0..STREAMS {
        let mut bytes = payload(0, 256 << 10);
        while !bytes.is_empty() && session.write(StreamId(2 * stream), &mut bytes).is_ok() {}
        filled += u32::from(!bytes.is_empty());
    }
    assert!(filled > STREAMS / 2, "{filled} writers wait");
    let ack = control(&Control::Ack(Ack::default()));
    assert_eq!(cost(&mut session, ack), 0);
}

#[test]
fn a_stop_costs_the_streams_own_segments() {
    let mut session = server();
    for stream in 0..STREAMS {
        session.write(StreamId(2 * stream), &mut payload(0, 3000)).unwrap();
    }
    send(&mut session);
    let own = session.send.end().0 / u64::from(STREAMS) + 4;
    for stream in 0..STREAMS {
        let stop = segment(1 + u64::from(stream), 2 * stream, SegmentKind::Stop { code: 0 });
        let cost = cost(&mut session, stop);
        assert!(cost <= own, "{cost} steps");
    }
    let events: Vec<_> = std::iter::from_fn(|| session.poll_event()).collect();
    let stopped = events.iter().filter(|event| matches!(event, Event::StreamStopped(..))).count();
    assert_eq!(stopped, STREAMS as usize);
}

/// One-byte pieces with gaps, each put between others.
#[test]
fn pieces_out_of_order_cost_the_same_however_many_there_are() {
    let mut session = server();
    let stream = 2 * (STREAMS - 1);
    let middle = 20_000_u64;
    for n in 0..middle {
        let seq = if n % 2 == 0 { middle + n } else { middle - n };
        let cost = cost(&mut session, data(1 + seq % 30_000, stream, 2 + 2 * (seq % 30_000), 1));
        assert!(cost <= 4, "{cost} steps");
    }
}

/// A client whose server asks for new connections again and again.
#[test]
fn requests_for_new_connections_are_met_ten_times_a_second() {
    let mut session = Session::new(Side::Client, Config::default(), 1, Instant::ZERO).unwrap();
    session.add_path(Instant::ZERO, PathId(0));
    let opened = |session: &mut Session| {
        let events: Vec<_> = std::iter::from_fn(|| session.poll_event()).collect();
        events.iter().filter(|event| matches!(event, Event::OpenSubflow { .. })).count()
    };
    assert_eq!(opened(&mut session), 1);
    session.handle_subflow_open(NOW, ON, PathId(0)).unwrap();
    opened(&mut session);
    let mut attempts = 0;
    for n in 0..1000 {
        let now = NOW + core::time::Duration::from_millis(n);
        for asks in [Control::Replace(PathId(0)), Control::Refresh(PathId(0))] {
            session.handle_input(now, ON, control(&asks)).unwrap();
            // Data arrives, so that the silence is over.
            session.handle_input(now, ON, data(n, 1, n, 1)).unwrap();
        }
        attempts += opened(&mut session);
    }
    assert!((1..=11).contains(&attempts), "{attempts} attempts in a second");
}

#[test]
fn identifiers_of_streams_end_and_do_not_wrap() {
    let mut session = server();
    let last = FIRST_FLOW - 1;
    session.next_own_stream = u64::from(last) - 2;
    assert_eq!(session.streams_left(), 2);
    assert_eq!(session.open_stream(0), Ok(StreamId(last - 2)));
    assert_eq!(session.open_stream(0), Ok(StreamId(last)));
    assert_eq!(session.open_stream(0), Err(crate::OpenStreamError::UsedUp));
    // The peer's last one.
    session.next_peer_stream = u64::from(last) - 3;
    session.handle_input(NOW, ON, data(1, last - 1, 0, 1)).unwrap();
    assert_eq!(session.next_peer_stream, u64::from(last) + 1);
    session.handle_input(NOW, ON, data(2, last - 1, 1, 1)).unwrap();
    // The same for flows.
    session.next_own_flow = u64::from(u32::MAX);
    assert_eq!(session.open_flow(NOW, FlowConfig::default()), Ok(StreamId(u32::MAX)));
    assert_eq!(session.open_flow(NOW, FlowConfig::default()), Err(crate::OpenStreamError::UsedUp));
    session.next_peer_flow = u64::from(u32::MAX) - 3;
    let end = SegmentKind::Data { offset: 0, length: 0, fin: true };
    session.handle_input(NOW, ON, segment(3, u32::MAX - 1, end)).unwrap();
    assert_eq!(session.next_peer_flow, u64::from(u32::MAX) + 1);
    assert!(!session.is_closed());
}

#[test]
fn a_path_that_the_session_does_not_have_is_not_metered() {
    let mut session = server();
    assert!(session.set_metered(PathId(9), true).is_err());
    assert!(!session.is_metered(PathId(9)));
    session.set_metered(PathId(0), true).unwrap();
    assert!(session.is_metered(PathId(0)));
}
