//! How much the peer may send. The receive buffer grows with what the application reads in a round trip
//! (dynamic right-sizing, Linux's `tcp_rcv_space_adjust`), the window with what arrives (`tcp_grow_window`).

use tributary_types::Instant;

use crate::packet::TcpSegment;
use crate::receive_autotune;
use crate::tcp::config::TcpConfig;

/// The window of one receiver, in payload bytes.
#[derive(Debug)]
pub(super) struct ReceiveWindow {
    mss: u64,
    auto: bool,
    /// Present buffer.
    buffer: u64,
    /// Largest buffer.
    most: u64,
    /// Largest window offered (Linux's `rcv_ssthresh`).
    threshold: u64,
    /// One past the last number that the peer was allowed.
    promised: u64,
    override_with: Option<u64>,
    /// Round-trip time from echoed timestamps, nanoseconds; zero before the first.
    rtt: u64,
    last_echo: Instant,
    /// Bytes read in the previous measured round trip.
    space: u64,
    measured_from: u64,
    measured_since: Instant,
}

impl ReceiveWindow {
    pub fn new(config: &TcpConfig) -> Self {
        let most = config.receive_buffer.max(1);
        let buffer = if config.auto_tune { config.initial_receive_window.clamp(1, most) } else { most };
        Self {
            mss: config.mss,
            auto: config.auto_tune,
            buffer,
            most,
            threshold: buffer,
            promised: 0,
            override_with: None,
            rtt: 0,
            last_echo: Instant::ZERO,
            space: buffer.min(config.initial_window_segments * config.mss).max(1),
            measured_from: 1,
            measured_since: Instant::ZERO,
        }
    }

    pub fn start(&mut self, now: Instant) {
        self.measured_since = now;
    }

    pub fn override_with(&mut self, window: Option<u64>) {
        self.override_with = window;
    }

    /// One past the last acceptable number.
    pub fn end(&self, next: u64) -> u64 {
        // Before the first promise, the initial window is on its way.
        if self.promised == 0 { next + self.buffer } else { self.promised.max(next) }
    }

    /// The receiver's round-trip time.
    pub fn rtt(&self) -> u64 {
        self.rtt
    }

    /// A segment arrived: its echo gives the round-trip time (`tcp_rcv_rtt_measure_ts`).
    pub fn on_segment(&mut self, now: Instant, segment: &TcpSegment) {
        if segment.echo == self.last_echo || u64::from(segment.length) < self.mss {
            return;
        }
        self.last_echo = segment.echo;
        let sample = now.saturating_since(segment.echo).as_nanos() as u64;
        self.rtt = if self.rtt == 0 { sample } else { self.rtt - self.rtt / 8 + sample / 8 };
    }

    /// The stream advanced.
    pub fn on_progress(&mut self, bytes: u64) {
        if bytes >= 128 && self.threshold < self.buffer {
            self.threshold = (self.threshold + 2 * self.mss).min(self.buffer);
        }
    }

    /// The application has read up to `read`.
    pub fn on_read(&mut self, now: Instant, read: u64) {
        let elapsed = now.saturating_since(self.measured_since).as_nanos() as u64;
        if !self.auto || self.rtt == 0 || elapsed < self.rtt {
            return;
        }
        let copied = read - self.measured_from;
        if copied > self.space {
            let wanted = receive_autotune::wanted(copied, self.space, self.mss);
            self.buffer = self.buffer.max(wanted.min(self.most));
            self.space = copied;
        }
        self.measured_from = read;
        self.measured_since = now;
    }

    /// The window that can be offered with `held` bytes waiting (`__tcp_select_window`).
    fn select(&self, held: u64) -> u64 {
        if let Some(window) = self.override_with {
            return window;
        }
        let free = self.buffer.saturating_sub(held);
        if free < self.buffer / 2 && (free < self.buffer / 16 || free < self.mss.min(self.buffer)) {
            return 0; // no silly windows (RFC 9293 §3.8.6.2.2)
        }
        free.min(self.threshold)
    }

    /// The window for the peer. It never takes back a promise.
    pub fn advertise(&mut self, next: u64, held: u64) -> u64 {
        let end = next.saturating_add(self.select(held)).max(self.promised.max(next));
        self.promised = end;
        end - next
    }

    /// Whether the window has at least doubled since the last announcement (`tcp_cleanup_rbuf`).
    pub fn has_opened(&self, next: u64, held: u64) -> bool {
        let told = self.promised.saturating_sub(next);
        let window = self.select(held);
        window > 0 && window >= 2 * told
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_buffer_grows_with_what_is_read_in_a_round_trip_up_to_its_limit() {
        let mut window = ReceiveWindow::new(&TcpConfig::default());
        assert_eq!(window.advertise(1, 0), 65_535);
        let segment = TcpSegment { length: 1448, echo: Instant::from_millis(1), ..TcpSegment::default() };
        window.on_segment(Instant::from_millis(51), &segment);
        assert_eq!(window.rtt(), 50_000_000);
        let mut read = 1;
        for round in 1..12_u32 {
            read += 14_480 << round;
            window.on_read(Instant::from_millis(u64::from(round) * 51), read);
        }
        assert_eq!(window.buffer, 6 << 20);
        assert_eq!(window.advertise(read, 0), 65_535);
        (0..5000).for_each(|_| window.on_progress(1448));
        assert_eq!(window.advertise(read, 0), 6 << 20);
    }

    #[test]
    fn a_window_is_never_taken_back_and_a_silly_one_never_offered() {
        let config = TcpConfig { receive_buffer: 10_000, auto_tune: false, ..TcpConfig::default() };
        let mut window = ReceiveWindow::new(&config);
        assert_eq!(window.advertise(1, 0), 10_000);
        assert_eq!(window.advertise(9_001, 9_000), 1_000);
        assert_eq!(window.advertise(10_001, 10_000), 0);
        assert!(!window.has_opened(10_001, 9_500));
        assert!(window.has_opened(10_001, 5_000));
        assert_eq!(window.advertise(10_001, 5_000), 5_000);
    }
}
