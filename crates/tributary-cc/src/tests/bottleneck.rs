//! A model of shared bottlenecks for closed loops: windows, queues and losses, no segments.
//!
//! Time advances in steps of a millisecond. A bottleneck queues what the windows exceed its rate by. The loss
//! probability of a segment increases with the queue (RED), so that the flows' losses are not synchronised.
//! Slow start, timeouts and reordering are not modelled.

use tributary_types::Rng;

use super::*;

pub const MSS: u64 = 1000;

/// A queue and a rate.
#[derive(Clone, Debug)]
pub struct Bottleneck {
    /// Bytes a millisecond.
    rate: f64,
    /// Bytes at which every segment is lost.
    room: f64,
    /// Bytes waiting.
    queue: f64,
    /// Peak of the bytes waiting.
    largest: f64,
}

impl Bottleneck {
    pub fn new(rate: f64, room: f64) -> Self {
        Self { rate, room, queue: 0.0, largest: 0.0 }
    }
}

/// A subflow of connection `connection` over bottleneck `over`.
#[derive(Debug)]
struct Subflow {
    controller: Box<dyn CongestionController>,
    connection: usize,
    over: usize,
    /// Milliseconds without a queue.
    base: f64,
    delivered: f64,
    /// Fraction of a byte not yet acknowledged.
    due: f64,
    recovering_until: f64,
    round_until: f64,
}

/// Bottlenecks and the subflows over them.
#[derive(Debug)]
pub struct World {
    bottlenecks: Vec<Bottleneck>,
    subflows: Vec<Subflow>,
    rng: Rng,
    millis: u64,
}

impl World {
    pub fn new(bottlenecks: Vec<Bottleneck>, seed: u64) -> Self {
        Self { bottlenecks, subflows: Vec::new(), rng: Rng::new(seed), millis: 0 }
    }

    /// A connection under `name` with a subflow over each of `over`, of `base` milliseconds.
    pub fn connect(&mut self, name: &str, over: &[usize], base: f64) {
        let connection = self.subflows.last().map_or(0, |last| last.connection + 1);
        for over in over {
            let mut controller = create(name, Setup::new(MSS)).unwrap();
            let view = [controller.view()];
            let loss = Loss { now: Instant::ZERO, kind: LossKind::Fast, bytes: 0, in_flight: 0 };
            controller.on_loss(&loss, Siblings::new(&view, 0)); // slow start is not modelled
            self.subflows.push(Subflow {
                controller,
                connection,
                over: *over,
                base,
                delivered: 0.0,
                due: 0.0,
                recovering_until: 0.0,
                round_until: 0.0,
            });
        }
    }

    /// Bytes per millisecond of each subflow, over `seconds` after a warm-up of the same length.
    pub fn rates(&mut self, seconds: u64) -> Vec<f64> {
        self.run(seconds);
        let before: Vec<f64> = self.subflows.iter().map(|subflow| subflow.delivered).collect();
        self.run(seconds);
        let time = seconds as f64 * 1e3;
        self.subflows
            .iter()
            .zip(before)
            .map(|(subflow, before)| (subflow.delivered - before) / time)
            .collect()
    }

    /// Peak of the bytes waiting at bottleneck `at`.
    pub fn largest_queue(&self, at: usize) -> f64 {
        self.bottlenecks[at].largest
    }

    fn run(&mut self, seconds: u64) {
        for _ in 0..seconds * 1000 {
            self.millis += 1;
            let mut arrived: Vec<f64> = vec![0.0; self.bottlenecks.len()];
            for at in 0..self.subflows.len() {
                let over = self.subflows[at].over;
                arrived[over] += self.step(at);
            }
            for (bottleneck, arrived) in self.bottlenecks.iter_mut().zip(arrived) {
                bottleneck.queue = (bottleneck.queue + arrived - bottleneck.rate).max(0.0);
                bottleneck.largest = bottleneck.largest.max(bottleneck.queue);
            }
        }
    }

    /// One millisecond of subflow `at`; returns what it puts into its bottleneck.
    fn step(&mut self, at: usize) -> f64 {
        let connection = self.subflows[at].connection;
        let first = self.subflows.iter().position(|subflow| subflow.connection == connection).unwrap();
        let views: Vec<SiblingView> = self
            .subflows
            .iter()
            .filter(|subflow| subflow.connection == connection)
            .map(|subflow| subflow.controller.view())
            .collect();
        let siblings = Siblings::new(&views, at - first);
        let subflow = &mut self.subflows[at];
        let bottleneck = &self.bottlenecks[subflow.over];
        let now = self.millis as f64;
        let rtt = subflow.base + bottleneck.queue / bottleneck.rate;
        let window = subflow.controller.window() as f64;
        let put = window / rtt;
        subflow.delivered += put;
        subflow.due += put;
        let lost = (bottleneck.queue / bottleneck.room).powi(3).min(1.0) * put / MSS as f64;
        if now >= subflow.recovering_until && self.rng.uniform() < lost {
            subflow.recovering_until = now + rtt;
            let at = Instant::from_millis(self.millis);
            let loss = Loss { now: at, kind: LossKind::Fast, bytes: MSS, in_flight: window as u64 };
            subflow.controller.on_loss(&loss, siblings);
            return put;
        }
        let round_ended = now >= subflow.round_until;
        if round_ended {
            subflow.round_until = now + rtt;
        }
        let bytes = subflow.due as u64;
        subflow.due -= bytes as f64;
        let time = Duration::from_nanos((rtt * 1e6) as u64);
        let ack = Ack {
            now: Instant::from_millis(self.millis),
            bytes,
            in_flight_before: window as u64,
            in_flight: window as u64 - bytes.min(window as u64),
            rtt: Some(time),
            srtt: time,
            min_rtt: Duration::from_nanos((subflow.base * 1e6) as u64),
            rate: None,
            cwnd_limited: true,
            in_recovery: now < subflow.recovering_until,
            round_ended,
        };
        subflow.controller.on_ack(&ack, siblings);
        put
    }
}
