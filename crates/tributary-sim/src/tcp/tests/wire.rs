//! Two sockets and a wire that loses, delays, reorders and repeats segments according to a seed. Unlike a
//! link, it lets segments overtake one another.

use core::time::Duration;
use std::collections::BTreeMap;

use tributary_cc::{Setup, Siblings, create};
use tributary_types::{Instant, Rng};

use crate::packet::TcpSegment;
use crate::tcp::{TcpConfig, TcpSocket};

/// Behaviour of the wire.
#[derive(Clone, Debug)]
pub struct Weather {
    pub delay: Duration,
    pub jitter: Duration,
    pub loss: f64,
    pub repeat: f64,
}

impl Default for Weather {
    fn default() -> Self {
        Self { delay: Duration::from_millis(10), jitter: Duration::ZERO, loss: 0.0, repeat: 0.0 }
    }
}

/// One direction's application: writes up to `total`, reads at most `appetite` at a time.
#[derive(Clone, Copy, Debug, Default)]
pub struct Flow {
    pub total: u64,
    pub written: u64,
    pub read: u64,
    pub ended: bool,
}

pub struct Wire {
    pub now: Instant,
    pub ends: [TcpSocket; 2],
    /// `flows[i]` goes from `ends[i]` to the other.
    pub flows: [Flow; 2],
    pub weather: Weather,
    under_way: BTreeMap<(Instant, u64), (usize, TcpSegment)>,
    number: u64,
    rng: Rng,
    pub segments: u64,
}

impl Wire {
    pub fn new(config: &TcpConfig, controller: &str, weather: Weather, seed: u64) -> Self {
        let make = || create(controller, Setup::new(config.mss)).expect("a known controller");
        Self {
            now: Instant::from_millis(1),
            ends: [
                TcpSocket::connect(config.clone(), make(), 0),
                TcpSocket::listen(config.clone(), make(), 0),
            ],
            flows: [Flow::default(); 2],
            weather,
            under_way: BTreeMap::new(),
            number: 0,
            rng: Rng::new(seed),
            segments: 0,
        }
    }

    fn send(&mut self, from: usize, segment: TcpSegment) {
        self.segments += 1;
        let copies = 1 + u64::from(self.rng.chance(self.weather.repeat));
        for _ in 0..copies {
            if self.rng.chance(self.weather.loss) {
                continue;
            }
            let jitter = self.weather.jitter.as_nanos() as u64;
            let extra = if jitter == 0 { 0 } else { self.rng.below(jitter) };
            let at = self.now + self.weather.delay + Duration::from_nanos(extra);
            self.number += 1;
            self.under_way.insert((at, self.number), (1 - from, segment));
        }
    }

    /// Lets applications and sockets do everything they can now.
    fn settle(&mut self) {
        for end in 0..2 {
            let flow = &mut self.flows[end];
            let socket = &mut self.ends[end];
            if socket.is_established() && !flow.ended {
                flow.written += socket.write(flow.total - flow.written);
                if flow.written == flow.total {
                    flow.ended = true;
                    socket.finish();
                }
            }
            let readable = socket.readable();
            socket.read(self.now, readable);
            self.flows[1 - end].read += readable;
            while let Some(segment) = self.ends[end].poll_transmit(self.now) {
                self.send(end, segment);
            }
            self.check(end);
        }
    }

    fn check(&self, end: usize) {
        let (socket, flow) = (&self.ends[end], self.flows[end]);
        let info = socket.info();
        assert!(info.in_flight <= info.sent + info.retransmitted + 2);
        assert_eq!(flow.written, info.sent + info.unsent);
        assert!(flow.read <= flow.written);
    }

    /// Runs until both directions are over, or to `limit`. Returns whether they are.
    pub fn run(&mut self, limit: Duration) -> bool {
        let end = self.now + limit;
        self.settle();
        loop {
            if self.ends.iter().all(TcpSocket::is_closed) && self.under_way.is_empty() {
                return true;
            }
            let arrival = self.under_way.first_key_value().map(|((at, _), _)| *at);
            let timers = self.ends.iter().filter_map(TcpSocket::poll_timeout).min();
            let Some(at) = arrival.into_iter().chain(timers).min().filter(|at| *at <= end) else {
                return self.ends.iter().all(TcpSocket::is_closed);
            };
            self.now = self.now.max(at);
            if arrival == Some(at) {
                let (_, (to, segment)) = self.under_way.pop_first().expect("an arrival");
                let view = [self.ends[to].controller_view()];
                self.ends[to].handle_segment(self.now, &segment, Siblings::new(&view, 0));
            } else {
                for socket in &mut self.ends {
                    let view = [socket.controller_view()];
                    socket.handle_timeout(self.now, Siblings::new(&view, 0));
                }
            }
            self.settle();
        }
    }
}
