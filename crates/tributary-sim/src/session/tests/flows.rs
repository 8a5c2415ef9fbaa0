//! Flows of datagrams over simulated TCP whose radios are blocked: redundant ones, and key frames.

use core::any::Any;

use tributary_proto::flow::{Datagram, FlowConfig, RtpFormat};
use tributary_proto::wire::{Ecn, is_flow};

use super::*;
use crate::transport::Application;

/// The server sends datagrams on a flow, and perhaps bulk on a stream.
#[derive(Debug)]
struct Source {
    config: FlowConfig,
    /// The datagrams, and the time between two calls.
    make: fn(u64) -> Vec<Vec<u8>>,
    every: Duration,
    bulk: bool,
    flow: Option<StreamId>,
    stream: Option<StreamKey>,
    calls: u64,
    next: Option<Instant>,
}

/// The client keeps what it receives, and when.
#[derive(Debug, Default)]
struct Sink {
    datagrams: Vec<(Instant, Datagram)>,
    bytes: u64,
}

fn session_of(transport: &mut dyn Transport) -> &mut SessionTransport {
    let transport: &mut dyn Any = transport;
    transport.downcast_mut().expect("a session")
}

impl Source {
    fn feed(&mut self, now: Instant, transport: &mut dyn Transport) {
        if let Some(stream) = self.stream {
            transport.write(now, stream, ENDLESS);
        }
    }
}

impl Application for Source {
    fn handle_notice(&mut self, now: Instant, notice: Notice, transport: &mut dyn Transport) {
        if matches!(notice, Notice::Connected) {
            let config = self.config;
            let flow = session_of(transport).change(|session| session.open_flow(now, config).unwrap());
            self.flow = flow;
            self.stream = self.bulk.then(|| transport.open(now, 0).unwrap());
            self.next = Some(now + SECOND);
        }
        self.feed(now, transport);
    }

    fn handle_timeout(&mut self, now: Instant, transport: &mut dyn Transport) {
        let Some((flow, next)) = self.flow.zip(self.next.filter(|next| *next <= now)) else { return };
        for datagram in (self.make)(self.calls) {
            let at = now.saturating_since(Instant::ZERO).as_nanos() as u64;
            let datagram = [&datagram[..], &at.to_be_bytes(), &self.calls.to_be_bytes()].concat();
            let sent = session_of(transport)
                .change(|session| session.send_datagram(now, flow, &datagram, Ecn::NotCapable));
            sent.expect("a session").expect("the flow is open");
        }
        (self.calls, self.next) = (self.calls + 1, Some(next + self.every));
        self.feed(now, transport);
    }

    fn poll_timeout(&self) -> Option<Instant> {
        self.next
    }
}

impl Application for Sink {
    fn handle_notice(&mut self, now: Instant, notice: Notice, transport: &mut dyn Transport) {
        let Notice::Readable(key) = notice else { return };
        if !is_flow(stream(key)) {
            self.bytes += transport.read(now, key, u64::MAX);
            return;
        }
        let mut datagrams = Vec::new();
        while let Some(Ok(1..)) =
            session_of(transport).change(|session| session.recv_datagrams(stream(key), 64, &mut datagrams))
        {
        }
        self.datagrams.extend(datagrams.into_iter().map(|datagram| (now, datagram)));
    }

    fn handle_timeout(&mut self, _: Instant, _: &mut dyn Transport) {}

    fn poll_timeout(&self) -> Option<Instant> {
        None
    }
}

/// What the client received in ten seconds, with the delay of each datagram, and the bytes of bulk.
fn played(scenario: &Scenario, source: Source) -> (Vec<(Duration, Datagram)>, u64) {
    let applications: (Box<dyn Application>, Box<dyn Application>) =
        (Box::new(Sink::default()), Box::new(source));
    let mut rig = Rig::of(scenario, applications, ends(&SessionConfig::default()));
    rig.run(10 * SECOND);
    let sink: &Sink = rig.application(rig.client);
    let delay = |(at, datagram): &(Instant, Datagram)| {
        let times = &datagram.bytes[datagram.bytes.len() - 16..][..8];
        let sent = Instant::from_nanos(u64::from_be_bytes(times.try_into().unwrap()));
        (at.saturating_since(sent), datagram.clone())
    };
    (sink.datagrams.iter().map(delay).collect(), sink.bytes)
}

fn source(config: FlowConfig, make: fn(u64) -> Vec<Vec<u8>>, every: Duration, bulk: bool) -> Source {
    Source { config, make, every, bulk, flow: None, stream: None, calls: 0, next: None }
}

/// A game beside bulk: a datagram of 100 bytes every 10 ms.
fn game(redundant: bool) -> Source {
    let config = FlowConfig { redundant, ..FlowConfig::default() };
    source(config, |_| vec![vec![7; 84]], Duration::from_millis(10), true)
}

#[test]
fn redundant_datagrams_beside_bulk_wait_for_the_shorter_queue_only() {
    let scenario = Scenario::builtin("blackout").unwrap();
    let late = |redundant| {
        let (datagrams, bytes) = played(&scenario, game(redundant));
        assert!(datagrams.len() > 890, "{} arrived", datagrams.len());
        let late = datagrams.iter().filter(|(delay, _)| *delay > Duration::from_millis(40)).count();
        (late, bytes)
    };
    let ((once, without), (everywhere, with)) = (late(false), late(true));
    assert!(everywhere * 3 <= once, "{everywhere} instead of {once} datagrams take more than 40 ms");
    assert!(with as f64 > 0.97 * without as f64, "bulk: {with} instead of {without} bytes");
}

/// 30 frames of H.264 a second, every 30th a key frame of 60 packets, the others of 8: 2.4 Mbit/s.
fn video(frame: u64) -> Vec<Vec<u8>> {
    let (packets, nal) = if frame.is_multiple_of(30) { (60, 0x65) } else { (8, 0x41) };
    let time = (frame * 3000) as u32;
    let packet = |_| [&[0x80, 96, 0, 0][..], &time.to_be_bytes(), &[0, 0, 0, 7, nal], &[1; 1000]].concat();
    (0..packets).map(packet).collect()
}

#[test]
fn key_frames_pass_a_radio_that_is_too_slow_for_the_video() {
    let slow = LinkSpec::constant(Bitrate::from_bps(1_500_000));
    let scenario =
        Scenario::new("slow").with_path(PathSpec::symmetric("lte", slow)).with_rtt(Duration::from_millis(40));
    let share = |rtp| {
        let config = FlowConfig { rtp, priority: Some(5), ..FlowConfig::default() };
        let (datagrams, _) = played(&scenario, source(config, video, Duration::from_micros(33_333), false));
        let of = |nal: u8| datagrams.iter().filter(|(_, datagram)| datagram.bytes[12] == nal).count();
        // The client has had the last second's key frame at most in part.
        let (keys, frames) = (8, 8 * 29);
        (of(0x65) as f64 / f64::from(keys * 60), of(0x41) as f64 / f64::from(frames * 8))
    };
    let (keys, others) = share(Some(RtpFormat::H264));
    assert!(keys >= 1.0, "{keys:.2} of the key frames' packets arrived");
    assert!(others > 0.3, "{others:.2} of the others'");
    let (keys, _) = share(None);
    assert!(keys < 0.9, "{keys:.2} of the key frames' packets arrived without the rule");
}
