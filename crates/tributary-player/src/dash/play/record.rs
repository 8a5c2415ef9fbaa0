//! Record of a playback: the six metrics of Hayes, Chang and Riley, "Omnidirectional Adaptive Bitrate Media Delivery
//! using MPTCP/QUIC over an SDN Architecture", and the data they are computed from.

use core::time::Duration;

use serde::{Deserialize, Serialize};
use tributary_types::Instant;

use super::{Request, Title};
use crate::buffer::PlayBuffer;

/// Maximum number of seconds listed; ten days.
const MOST_SECONDS: usize = 864_000;

/// One second of playback.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Second {
    /// Its end, from the start of the playback.
    pub at_s: f64,
    /// Media in the play buffer at its end.
    pub buffer_s: f64,
    /// Throughput in it, bit/s.
    pub throughput_bps: f64,
    /// Quality of the last request; `None` before the first request.
    pub quality: Option<usize>,
}

/// A loaded segment.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Loaded {
    /// Media segment, from zero.
    pub segment: usize,
    /// Its quality.
    pub quality: usize,
    /// Its size in bytes.
    pub bytes: u64,
    /// Time of the (last) request, from the start of the playback.
    pub requested_s: f64,
    /// Time when the response began.
    pub first_byte_s: f64,
    /// Time when it was complete.
    pub complete_s: f64,
}

/// Record of a playback.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Qoe {
    /// Time from the viewer's request to the first picture; `None` when there was none.
    pub start_up_s: Option<f64>,
    /// Total time of all stalls, without the wait before the first picture.
    pub stalled_s: f64,
    /// Number of stalls.
    pub stalls: usize,
    /// Number of quality switches between consecutive segments.
    pub switches: usize,
    /// Mean throughput of all seconds, including idle ones.
    pub throughput_bps: f64,
    /// Mean nominal bitrate of the loaded segments.
    pub bitrate_bps: f64,
    /// Bytes of loaded segments.
    pub bytes: u64,
    /// Bytes of abandoned downloads.
    pub wasted_bytes: u64,
    /// Number of downloads abandoned for a lower quality.
    pub abandoned: usize,
    /// Number of downloads that failed and were repeated.
    pub failed: usize,
    /// Media shown.
    pub played_s: f64,
    /// Each second: play buffer and throughput over time.
    pub seconds: Vec<Second>,
    /// Each segment.
    pub segments: Vec<Loaded>,
}

impl Qoe {
    /// Network efficiency: share of `available` bits (the capacity of all paths over the session) that carried media.
    /// `None` if no capacity was available.
    #[must_use]
    pub fn efficiency(&self, available: f64) -> Option<f64> {
        (available > 0.0).then(|| self.bytes as f64 * 8.0 / available)
    }
}

/// Collects the record.
#[derive(Debug)]
pub(super) struct Recorder {
    began: Instant,
    /// End of the next second to record.
    due: Instant,
    /// Bytes since the end of the last recorded second.
    bytes: u64,
    wasted: u64,
    abandoned: usize,
    failed: usize,
    seconds: Vec<Second>,
    segments: Vec<Loaded>,
}

impl Recorder {
    pub(super) fn new(now: Instant) -> Self {
        Self {
            began: now,
            due: now + Duration::from_secs(1),
            bytes: 0,
            wasted: 0,
            abandoned: 0,
            failed: 0,
            seconds: Vec::new(),
            segments: Vec::new(),
        }
    }

    /// End of the present second.
    pub(super) fn due(&self) -> Instant {
        self.due
    }

    fn since(&self, at: Instant) -> f64 {
        at.saturating_since(self.began).as_secs_f64()
    }

    /// Records the seconds that have ended.
    pub(super) fn up_to(&mut self, now: Instant, buffer: &PlayBuffer, quality: Option<usize>) {
        while self.due <= now {
            let second = Second {
                at_s: self.since(self.due),
                buffer_s: buffer.level(self.due).as_secs_f64(),
                throughput_bps: core::mem::take(&mut self.bytes) as f64 * 8.0,
                quality,
            };
            if self.seconds.len() < MOST_SECONDS {
                self.seconds.push(second);
            }
            self.due += Duration::from_secs(1);
        }
    }

    pub(super) fn arrived(&mut self, bytes: u64) {
        self.bytes += bytes;
    }

    pub(super) fn abandoned(&mut self, wasted: u64) {
        self.abandoned += 1;
        self.wasted += wasted;
    }

    pub(super) fn failed(&mut self) {
        self.failed += 1;
    }

    pub(super) fn loaded(
        &mut self,
        request: &Request,
        (requested, first_byte, complete): (Instant, Instant, Instant),
        bytes: u64,
    ) {
        self.segments.push(Loaded {
            segment: request.segment,
            quality: request.quality,
            bytes,
            requested_s: self.since(requested),
            first_byte_s: self.since(first_byte),
            complete_s: self.since(complete),
        });
    }

    pub(super) fn qoe(&self, buffer: &PlayBuffer, title: &Title, now: Instant) -> Qoe {
        let segments = self.segments.len().max(1) as f64;
        let seconds = self.seconds.len().max(1) as f64;
        Qoe {
            start_up_s: buffer.start_up().map(|time| time.as_secs_f64()),
            stalled_s: buffer.stalled(now).as_secs_f64(),
            stalls: buffer.stalls(now).count(),
            switches: self.segments.windows(2).filter(|pair| switched(title, &pair[0], &pair[1])).count(),
            throughput_bps: self.seconds.iter().map(|second| second.throughput_bps).sum::<f64>() / seconds,
            bitrate_bps: self.segments.iter().map(|loaded| nominal(title, loaded)).sum::<f64>() / segments,
            bytes: self.segments.iter().map(|loaded| loaded.bytes).sum(),
            wasted_bytes: self.wasted,
            abandoned: self.abandoned,
            failed: self.failed,
            played_s: buffer.position(now).as_secs_f64(),
            seconds: self.seconds.clone(),
            segments: self.segments.clone(),
        }
    }
}

/// Nominal bitrate of a segment, bit/s.
fn nominal(title: &Title, loaded: &Loaded) -> f64 {
    title.ladder_at(loaded.segment).bitrate(loaded.quality)
}

/// Whether the viewer sees another quality after `one`: another index, or in another ladder another bitrate.
fn switched(title: &Title, one: &Loaded, next: &Loaded) -> bool {
    let same_ladder = title.ladder_at(one.segment) == title.ladder_at(next.segment);
    if same_ladder { one.quality != next.quality } else { nominal(title, one) != nominal(title, next) }
}
