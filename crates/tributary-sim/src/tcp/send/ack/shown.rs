//! What one acknowledgement has shown about the segments in flight, and its round-trip samples. Decides nothing.

use tributary_types::Instant;

use crate::tcp::rack::Rack;
use crate::tcp::rate_sample::RateEstimator;
use crate::tcp::scoreboard::{EVER_RETRANSMITTED, Sent};

/// What one acknowledgement has shown.
#[derive(Debug)]
pub(super) struct Shown {
    pub now: Instant,
    pub echo: Instant,
    pub min_rtt: u64,
    /// The cumulative number moved.
    pub advanced: bool,
    /// End of the recovery episode.
    pub high: u64,
    /// Highest selectively acknowledged byte before it.
    pub highest: u64,
    /// When the first and the last acknowledged segment that was never retransmitted were sent.
    pub acked: Option<(Instant, Instant)>,
    pub sacked: Option<(Instant, Instant)>,
    pub retransmitted_acked: bool,
    pub any_acked: bool,
    pub any_sacked: bool,
    /// Lowest segment that arrived after a higher one.
    pub reordered: Option<u64>,
    /// A segment that was sent before the episode, and only once, has arrived.
    pub original: bool,
    pub duplicate: bool,
}

/// Extends the span from the first to the last time to `at`.
pub(super) fn extend(span: &mut Option<(Instant, Instant)>, at: Instant) {
    *span = Some((span.map_or(at, |(first, _)| first), at));
}

impl Shown {
    /// A segment is reported as delivered for the first time.
    pub fn delivered(&mut self, sent: &Sent, rate: &mut RateEstimator, rack: &mut Rack) {
        rate.on_delivered(sent);
        let again = sent.has(EVER_RETRANSMITTED);
        let spurious = again && self.echo > Instant::ZERO && self.echo < sent.at;
        if !spurious {
            rack.on_delivered(self.now, sent, self.min_rtt);
        }
        if !again {
            if sent.seq < self.highest {
                self.reordered = Some(self.reordered.map_or(sent.seq, |seq| seq.min(sent.seq)));
            }
            self.original |= sent.end() <= self.high;
        }
    }

    /// Samples for the smoothed and for the minimum round-trip time (Linux's `seq_rtt`, `ca_rtt`).
    pub fn rtt(&self) -> (Option<u64>, Option<u64>) {
        let since = |at: Instant| self.now.saturating_since(at).as_nanos() as u64;
        let acked = self.acked.filter(|_| !self.retransmitted_acked);
        let newest = self.sacked.or(acked).map(|(_, last)| since(last));
        let oldest = acked.or(self.sacked).map(|(first, _)| since(first));
        if oldest.is_none() && self.any_acked && self.echo > Instant::ZERO {
            let rtt = Some(since(self.echo)); // RFC 7323 §4
            return (rtt, rtt);
        }
        (oldest, newest)
    }
}
