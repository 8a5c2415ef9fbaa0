//! The fuzz targets: what each does with its bytes. Shared with the test that replays the seeds, so it needs no
//! nightly compiler.
//!
//! Each function panics when the code under test breaks a promise; refusing the bytes is not a fault.

mod coding;
mod files;
mod network;
mod operations;

use bytes::{Bytes, BytesMut};
use tributary_link::{Column, Direction, Scenario, TableLayout, TimeUnit, Trace, TraceTable, TraceTime};
use tributary_net::proxy::{RequestReader, Step};
use tributary_player::dash;
use tributary_proto::wire::{Control, DecodeError, Decoder, Ecn, Item, encode_control, encode_segment_head};
use tributary_proto::{Config, Event, Session, Side};
use tributary_types::{Instant, PathId, StreamId, SubflowId};

/// A target's name, which is also its folder of seeds, and what it does.
pub type Target = (&'static str, fn(&[u8]));

/// Every target.
pub const TARGETS: &[Target] = &[
    ("wire", wire),
    ("session", session),
    ("trace", trace),
    ("scenario", scenario),
    ("mpd", mpd),
    ("sidx", sidx),
    ("cotag-packet", cotag_packet),
    ("cotag-gateway", cotag_gateway),
    ("cotag-access-point", cotag_access_point),
    ("cotag-device", cotag_device),
    ("cotag-hop", cotag_hop),
    ("proxy-request", proxy_request),
    ("client-session", client_session),
    ("operations", operations),
    ("handshake", handshake),
    ("tls-record", tls_record),
    ("client-hello", client_hello),
    ("clients-file", clients_file),
    ("proxy-head", proxy_head),
    ("socks-datagram", socks_datagram),
    ("tiled-wire", tiled_wire),
    ("tiled-pusher", tiled_pusher),
    ("tiled-player", tiled_player),
    ("workload-wire", workload_wire),
    ("http-request", http_request),
    ("controller-json", controller_json),
    ("netlink", netlink),
    ("tun-frame", tun_frame),
    ("ip-packet", ip_packet),
    ("mp4", mp4),
    ("head-trace", head_trace),
    ("plan", plan),
    ("settings", settings),
    ("rtp", rtp),
];

pub use coding::access_point as cotag_access_point;
pub use coding::device as cotag_device;
pub use coding::gateway as cotag_gateway;
pub use coding::packet as cotag_packet;
pub use files::{head_trace, plan};
pub use network::{controller_json, ip_packet, rtp, tun_frame, workload_wire};
pub use operations::operations;
pub use tributary_cli::settings::fuzz::settings;
pub use tributary_dash::server::fuzz::http_request;
pub use tributary_net::fuzz::{client_hello, clients_file, handshake, tls_record};
pub use tributary_net::proxy::fuzz::{proxy_head, socks_datagram};
pub use tributary_nodes::fuzz::hop as cotag_hop;
pub use tributary_player::tiled::fuzz::{player as tiled_player, pusher as tiled_pusher, wire as tiled_wire};
pub use tributary_tun::fuzz::netlink;

/// Records of a command byte, a length byte, and that many bytes or as many as there are.
fn records(mut data: &[u8]) -> impl Iterator<Item = (u8, &[u8])> {
    core::iter::from_fn(move || {
        let [command, length, rest @ ..] = data else { return None };
        let (body, after) = rest.split_at(rest.len().min(usize::from(*length)));
        data = after;
        Some((*command, body))
    })
}

/// The request of an application to the proxy is read alike for any cut of the bytes, and every step is an end or progress.
pub fn proxy_request(data: &[u8]) {
    let read = |cut: usize| {
        let (mut reader, mut steps) = (RequestReader::default(), Vec::new());
        let mut pieces = data.chunks(cut.min(data.len()).max(1));
        loop {
            match reader.poll() {
                Step::Read => match pieces.next() {
                    Some(piece) => reader.handle_bytes(piece),
                    None => return steps,
                },
                step @ (Step::Connect(_) | Step::Associate | Step::Refuse(..)) => {
                    steps.push(step);
                    return steps;
                }
                step => steps.push(step),
            }
            assert!(steps.len() < 3, "a request has one greeting");
        }
    };
    let whole = read(usize::MAX);
    for cut in [1, 2, 7] {
        assert_eq!(read(cut), whole, "cut into pieces of {cut}");
    }
}

/// Frames decode equally for any cut of the bytes, and encoding a decoded frame gives the same frame.
pub fn wire(data: &[u8]) {
    let whole = decode(data, usize::MAX);
    for cut in [1, 2, 7] {
        assert_eq!(decode(data, cut), whole, "cut into pieces of {cut}");
    }
    for frame in whole.0 {
        if let Frame::Control(control) = frame {
            let mut again = BytesMut::new();
            encode_control(&control, &mut again);
            assert_eq!(decode(&again, usize::MAX), (vec![Frame::Control(control)], None));
        }
    }
}

#[derive(Debug, PartialEq)]
enum Frame {
    Control(Control),
    /// A segment's head, encoded, and its payload as far as it arrived.
    Segment(Vec<u8>, Vec<u8>),
}

fn decode(data: &[u8], cut: usize) -> (Vec<Frame>, Option<DecodeError>) {
    let (mut decoder, mut frames) = (Decoder::default(), Vec::new());
    for part in data.chunks(cut.min(data.len()).max(1)) {
        let mut input = Bytes::copy_from_slice(part);
        loop {
            match decoder.next_item(&mut input) {
                Ok(Some(Item::Control(control))) => frames.push(Frame::Control(control)),
                Ok(Some(Item::Segment { head, at, piece, .. })) => match frames.last_mut() {
                    Some(Frame::Segment(_, payload)) if at > 0 => payload.extend_from_slice(&piece),
                    _ => {
                        let head = encode_segment_head(&head).as_slice().to_vec();
                        frames.push(Frame::Segment(head, piece.to_vec()));
                    }
                },
                Ok(None) => break,
                Err(error) => return (frames, Some(error)),
            }
        }
    }
    (frames, None)
}

/// A server session accepts any bytes from its peer, over two subflows, and stays within its bounds.
///
/// Input: records of a command byte (bit 0 the subflow, bits 1–2 the time that passes in steps of
/// 40 ms, bit 3 whether the application writes, bit 4 whether the bytes overtake those before them, as on a stream of their own over
/// QUIC), a length byte, and that many bytes from the peer. Subflow 1 lets frames overtake.
pub fn session(data: &[u8]) {
    fed(Side::Server, data);
}

/// The same for a client session, which also writes on streams of its own.
pub fn client_session(data: &[u8]) {
    fed(Side::Client, data);
}

fn fed(side: Side, data: &[u8]) {
    let config =
        Config { receive_credit: 256 << 10, send_buffer: 256 << 10, telemetry: true, ..Config::default() };
    let credit = config.receive_credit;
    let mut now = Instant::from_millis(1);
    let mut session = Session::new(side, config, 7, now).expect("the configuration is in range");
    let mut known = Vec::new();
    for id in 0..2_u8 {
        if side == Side::Client {
            session.add_path(now, PathId(id));
        }
        let opened = session.handle_subflow_open(now, SubflowId(u32::from(id)), PathId(id));
        opened.expect("a new session takes two subflows");
    }
    session.let_overtake(SubflowId(1));
    if side == Side::Client {
        let stream = session.open_stream(0).expect("a new session has room for a stream");
        known.push(stream);
        answer(&mut session, stream);
    }
    for (command, input) in records(data) {
        now += core::time::Duration::from_millis(40 * u64::from(command >> 1 & 3));
        session.handle_timeout(now);
        let id = SubflowId(u32::from(command & 1));
        let mut input = Bytes::copy_from_slice(input);
        if command & 16 == 0 {
            let _ = session.handle_input(now, id, input);
        } else {
            while !input.is_empty() && session.handle_overtaking(now, id, &mut input).is_ok() {}
        }
        drain(&mut session, now, command & 8 != 0, &mut known);
        assert!(session.stats().receive_held <= credit, "more is held than was granted");
        let streams = session.streams();
        assert!(streams.ending <= streams.own + streams.peers, "a stream is kept that does not count");
    }
    // Once the application has dropped every stream, no open stream is left.
    for id in known.clone() {
        session.reset(id, 0);
        session.stop(id, 0);
    }
    drain(&mut session, now, false, &mut known);
    let streams = session.streams();
    assert_eq!(streams.own + streams.peers - streams.ending, 0, "a dropped stream counts as open");
}

/// `known` gets the streams that the peer opens.
fn drain(session: &mut Session, now: Instant, writes: bool, known: &mut Vec<StreamId>) {
    for id in 0..2 {
        session.handle_room(SubflowId(id), 64 << 10);
    }
    // The room above bounds the loop in a correct session; the limit shows one that never ends.
    let sent = (0..10_000).take_while(|_| session.poll_transmit(now).is_some()).count();
    assert!(sent < 10_000, "the session never stops sending");
    while let Some(event) = session.poll_event() {
        match event {
            Event::StreamOpened(stream) => {
                known.push(stream);
                if writes {
                    answer(session, stream);
                }
            }
            Event::FlowOpened(flow) => {
                known.push(flow);
                if writes {
                    let _ = session.send_datagram(now, flow, &[42; 1200], Ecn::Capable0);
                    let _ = session.finish(flow);
                }
            }
            Event::StreamReadable(stream) => {
                while let Ok(Some(_)) = session.read(stream) {}
                while let Ok(Some(_)) = session.recv_datagram(stream) {}
            }
            _ => {}
        }
    }
    let _ = session.poll_timeout();
}

fn answer(session: &mut Session, stream: StreamId) {
    let _ = session.write_slice(stream, &[42; 5000]);
    let _ = session.finish(stream);
}

/// Every trace format refuses or reads any text; a trace that was read has a period and can be written.
pub fn trace(data: &[u8]) {
    let Ok(text) = core::str::from_utf8(data) else { return };
    let mut read = vec![Trace::parse_mahimahi(text), Trace::parse_csv(text)];
    for layout in [TableLayout::Separated, TableLayout::Comma, TableLayout::Blank, TableLayout::Json] {
        let numbered = TraceTable::new(Column::Numbered(1), Column::Numbered(2));
        let named = TraceTable::new(Column::Named("t".to_owned()), Column::Named("r".to_owned()));
        let dated = TraceTime::At(Column::Numbered(1), TimeUnit::Date);
        let hold = Some(core::time::Duration::from_millis(1));
        for table in [numbered.clone(), TraceTable { hold, ..named }, TraceTable { time: dated, ..numbered }]
        {
            read.push(Trace::parse_table(
                text,
                &TraceTable { layout, sort: data.len().is_multiple_of(2), ..table },
            ));
        }
    }
    for trace in read.into_iter().flatten() {
        assert!(!trace.period().is_zero(), "a trace without a period would repeat without end");
        assert!(trace.mean() <= trace.max());
        let again = Trace::parse_csv(&trace.to_csv()).expect("it was written to be read");
        // The end of the last rate is not written: it lasts as long as the one before.
        assert!(again.iter().zip(trace.iter()).all(|(a, b)| a.1 == b.1));
    }
}

/// A scenario is refused with the file's name, or passes its own check and its links move.
pub fn scenario(data: &[u8]) {
    let Ok(text) = core::str::from_utf8(data) else { return };
    match Scenario::parse(text, "fuzz.toml") {
        Ok(scenario) => {
            scenario.check().expect("a scenario that was read has been checked");
            let end = Instant::from_nanos(100_000);
            let _ = (scenario.link_events(), scenario.needs_simulator());
            for source in 0..scenario.background.len() {
                let mut source = scenario.background(source);
                for _ in 0..100 {
                    let Some((source, at)) = source.as_mut().and_then(|s| s.poll_timeout().map(|at| (s, at)))
                    else {
                        break;
                    };
                    source.poll(at).expect("a packet is due when its source says so");
                }
            }
            for path in 0..scenario.paths.len() {
                let _ = scenario.capacity(path, Direction::Down, Instant::ZERO, end);
                let _ = scenario.capacity(path, Direction::Up, Instant::ZERO, end);
                let _ = scenario.capacity_bound(path, Direction::Down, Instant::ZERO, end);
            }
        }
        Err(error) => assert!(error.to_string().contains("fuzz.toml"), "the error names no file: {error}"),
    }
}

/// A manifest is read or refused; every request of it that can be made has an absolute URL.
pub fn mpd(data: &[u8]) {
    let Ok(mpd) = dash::mpd::Mpd::read(data, "https://example.com/title/manifest.mpd") else { return };
    for representation in mpd.periods.iter().flat_map(|p| &p.sets).flat_map(|set| &set.representations) {
        let addressing = &representation.addressing;
        let count = addressing.segments().unwrap_or(3);
        for at in [0, 1, count.saturating_sub(1)] {
            if let Some((request, _)) = addressing.segment(at) {
                assert!(request.url.contains(':'), "{}", request.url);
            }
        }
        assert_eq!(addressing.segments().and_then(|count| addressing.segment(count)), None);
    }
}

/// Segments and headers of MP4 are refused, or have what they announce.
///
/// Input: two bytes with the length of an initialisation segment, the segment, and a media segment.
pub fn mp4(data: &[u8]) {
    use tributary_tiles::mp4::{picture_size, to_annex_b};
    tributary_dash::package::fuzz::header(data);
    tributary_tiles::source::fuzz::container(data);
    let Some((length, rest)) = data.split_first_chunk() else { return };
    let (init, segment) = rest.split_at(usize::from(u16::from_be_bytes(*length)).min(rest.len()));
    let _ = picture_size(init);
    if let Ok(stream) = to_annex_b(init, segment) {
        assert!(stream.is_empty() || stream.starts_with(&[0, 0, 0, 1]));
    }
}

/// The segments of an index lie behind each other, in the file and in time.
pub fn sidx(data: &[u8]) {
    let Ok(index) = dash::sidx::read(data, 1 << 20) else { return };
    for pair in index.entries.windows(2) {
        assert_eq!(pair[0].range.last.map(|last| last + 1), Some(pair[1].range.first));
        assert_eq!(pair[0].span.start + pair[0].span.duration, pair[1].span.start);
    }
}
