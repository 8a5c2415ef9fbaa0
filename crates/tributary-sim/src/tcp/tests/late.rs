//! Late acknowledgements: reordered ones open no window; duplicate reports after an episode still undo its
//! reduction.

use tributary_cc::{Setup, Siblings, create};
use tributary_types::Instant;

use crate::packet::{SackBlock, TcpSegment};
use crate::tcp::{LossDetection, TcpConfig, TcpError, TcpSocket};

const MSS: u64 = 1448;

/// A sender; the test plays its peer.
struct Sending {
    socket: TcpSocket,
    now: Instant,
}

impl Sending {
    /// Established at 50 ms with the peer's window.
    fn new(config: TcpConfig, window: u64) -> Self {
        let controller = create("reno", Setup::new(MSS)).expect("a known controller");
        let mut sending = Self { socket: TcpSocket::connect(config, controller, 0), now: Instant::ZERO };
        let _ = sending.drain();
        sending.hear(50, TcpSegment { is_syn: true, ack: 1, window, ..TcpSegment::default() });
        sending
    }

    /// The peer's segment arrives at `at` milliseconds.
    fn hear(&mut self, at: u64, segment: TcpSegment) {
        self.now = Instant::from_millis(at);
        let segment = TcpSegment { is_ack: true, timestamp: self.now, ..segment };
        let view = [self.socket.controller_view()];
        self.socket.handle_segment(self.now, &segment, Siblings::new(&view, 0));
    }

    fn drain(&mut self) -> Vec<TcpSegment> {
        core::iter::from_fn(|| self.socket.poll_transmit(self.now)).collect()
    }

    fn cwnd(&self) -> u64 {
        self.socket.info().cwnd
    }
}

fn ack(ack: u64, echo: u64, window: u64) -> TcpSegment {
    TcpSegment { seq: 1, ack, window, echo: Instant::from_millis(echo), ..TcpSegment::default() }
}

fn with_block(segment: TcpSegment, from: u64, to: u64) -> TcpSegment {
    let mut segment = TcpSegment { sack_count: 1, ..segment };
    segment.sack[0] = SackBlock { from, to };
    segment
}

#[test]
fn duplicates_reported_after_the_episode_undo_its_reduction() {
    let config = TcpConfig { loss_detection: LossDetection::DupAck, ..TcpConfig::default() };
    let mut sending = Sending::new(config, 1 << 20);
    sending.socket.write(10 * MSS);
    sending.drain();
    let before = sending.cwnd();
    // Four segments above the first arrived: it counts as lost and is sent again.
    sending.hear(100, with_block(ack(1, 50, 1 << 20), 1 + MSS, 1 + 5 * MSS));
    assert!(sending.socket.info().in_recovery);
    assert!(sending.drain().iter().any(|segment| segment.seq == 1 && segment.length > 0));
    // Everything arrived; the echo is that of the retransmission.
    let end = 1 + 10 * MSS;
    sending.hear(150, ack(end, 100, 1 << 20));
    let info = sending.socket.info();
    assert!(!info.in_recovery && info.spurious == 0 && info.cwnd < before, "{info:?}");
    // The first segment arrived twice (RFC 2883).
    sending.hear(160, with_block(ack(end, 100, 1 << 20), 1, 1 + MSS));
    assert_eq!(sending.socket.info().spurious, 1);
    assert!(sending.cwnd() >= before, "{} of {before}", sending.cwnd());
    // Only one undo.
    sending.hear(170, with_block(ack(end, 100, 1 << 20), 1, 1 + MSS));
    assert_eq!(sending.socket.info().spurious, 1);
}

#[test]
fn an_overtaken_acknowledgement_neither_opens_the_window_nor_counts_as_an_answer() {
    let config = TcpConfig { retries: 3, ..TcpConfig::default() };
    let mut sending = Sending::new(config, 2 * MSS);
    sending.socket.write(10 * MSS);
    assert_eq!(sending.drain().iter().map(|segment| u64::from(segment.length)).sum::<u64>(), 2 * MSS);
    sending.hear(100, ack(1 + 2 * MSS, 50, 0));
    assert!(sending.drain().is_empty());
    for _ in 0..20 {
        let at = sending.now.as_nanos() / 1_000_000 + 1;
        sending.hear(at, TcpSegment { seq: 100, ..ack(1 + MSS, 50, 1 << 20) });
        assert_eq!(sending.socket.info().peer_window, 0);
        let Some(at) = sending.socket.poll_timeout() else { break };
        sending.now = sending.now.max(at);
        let view = [sending.socket.controller_view()];
        sending.socket.handle_timeout(sending.now, Siblings::new(&view, 0));
        assert!(sending.drain().iter().all(|segment| segment.length == 0));
    }
    assert_eq!(sending.socket.error(), Some(TcpError::TimedOut(3)));
}

#[test]
fn without_selective_acknowledgements_holes_are_filled_one_a_round_trip() {
    let config = TcpConfig { loss_detection: LossDetection::NewReno, ..TcpConfig::default() };
    let mut sending = Sending::new(config, 1 << 20);
    sending.socket.write(10 * MSS);
    sending.drain();
    let first =
        |sending: &mut Sending| sending.drain().iter().map(|segment| segment.seq).collect::<Vec<u64>>();
    let nothing = Vec::<u64>::new();
    // The first and the third are lost; blocks that tell of the others are not read.
    for (at, n) in [(100, 1), (101, 3)] {
        sending.hear(at, with_block(ack(1, 50, 1 << 20), 1 + n * MSS, 1 + (n + 1) * MSS));
        assert_eq!(first(&mut sending), nothing, "two duplicates are no loss");
    }
    sending.hear(102, ack(1, 50, 1 << 20));
    assert_eq!(first(&mut sending), [1], "three are");
    sending.hear(103, ack(1, 50, 1 << 20));
    assert_eq!(first(&mut sending), nothing, "the second hole is not known yet");
    sending.hear(200, ack(1 + 2 * MSS, 102, 1 << 20));
    assert_eq!(first(&mut sending), [1 + 2 * MSS], "a partial acknowledgement names it");
    sending.hear(300, ack(1 + 10 * MSS, 200, 1 << 20));
    let info = sending.socket.info();
    assert!(!info.in_recovery && info.timeouts == 0, "{info:?}");
    assert_eq!((info.duplicate_acks, info.fast_recoveries, info.retransmitted), (4, 1, 2 * MSS));
}
