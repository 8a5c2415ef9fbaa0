//! Live prediction for one viewer: where the head is and moves, how unsure that is, and what the crowd
//! looks at.
//!
//! The head's last orientation, or the line through its last second, is carried to the GoP; the error of
//! that grows with the time ahead and is spread over yaw and pitch as a Laplace distribution; the further
//! ahead, the more the population counts. Only samples up to the moment of decision are read. (The
//! baselines of Nguyen et al., "Your Attention is Unique", ACM MM 2018, and of Wu et al., MANSY.)

use serde::{Deserialize, Serialize};

use super::{GopClock, TileOutlook};
use crate::head::{HeadSample, HeadTrace};
use crate::sphere::{Orientation, wrapped};
use crate::tiles::TileGrid;
use crate::viewport::{FieldOfView, Viewer};

/// How the head is taken to go on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Motion {
    /// It stays where it is.
    Still,
    /// Along a line fitted to the last samples, slowing down.
    #[default]
    Linear,
}

/// How live prediction works. The defaults were fitted on public traces; see the model's page.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct LiveSettings {
    /// How the head goes on.
    pub motion: Motion,
    /// The time the line is fitted to, seconds.
    pub window_s: f64,
    /// The time after which a movement has died down to 1/e, seconds.
    pub damping_s: f64,
    /// Standard deviation of the yaw's error one second ahead, degrees; it grows with the root of time.
    /// Pitch has half of it.
    pub spread_deg: f64,
    /// The time ahead at which the crowd counts as much as the viewer's own head, seconds. 0: the crowd
    /// alone; infinite: the head alone.
    pub crowd_s: f64,
}

impl Default for LiveSettings {
    fn default() -> Self {
        Self { motion: Motion::Linear, window_s: 0.5, damping_s: 0.3, spread_deg: 20.0, crowd_s: 3.0 }
    }
}

impl LiveSettings {
    /// For a crowd weighted by [`similarity`](super::similarity()): it predicts better, so it counts sooner, and the
    /// spread around the own head is smaller.
    #[must_use]
    pub fn with_similar_viewers() -> Self {
        Self { spread_deg: 15.0, crowd_s: 2.0, ..Self::default() }
    }
}

/// Predicts one viewer's next GoPs.
#[derive(Debug, Clone)]
pub struct Live {
    settings: LiveSettings,
    viewer: Viewer,
}

/// Rays of the viewport in a prediction: its errors are larger than theirs.
const RAYS: (usize, usize) = (16, 12);
/// Points of equal weight of a Laplace distribution with deviation 1, the middles of equal probabilities: heads
/// mostly stay near where they were expected and now and then go far.
const YAW_POINTS: [f64; 7] = [-1.376, -0.599, -0.238, 0.0, 0.238, 0.599, 1.376];
const PITCH_POINTS: [f64; 3] = [-0.776, 0.0, 0.776];

impl Live {
    /// A predictor for one field of view and grid.
    #[must_use]
    pub fn new(settings: LiveSettings, field: FieldOfView, grid: TileGrid) -> Self {
        Self { settings, viewer: Viewer::with_rays(field, grid, RAYS) }
    }

    /// What is expected of GoP `gop` at time `now_s`, knowing the trace up to then and what the `crowd`
    /// does in that GoP (one entry per tile; empty if there is none).
    #[must_use]
    pub fn outlook(
        &self,
        trace: &HeadTrace,
        now_s: f64,
        (clock, gop): (GopClock, usize),
        crowd: &[TileOutlook],
    ) -> Vec<TileOutlook> {
        let motion = self.motion(trace, now_s);
        let tiles = self.viewer.grid().tiles();
        let mut own = vec![TileOutlook::default(); tiles];
        let part = 1.0 / clock.moments.max(1) as f64;
        let mut shares = vec![0.0; tiles];
        let middle_s = (gop as f64 + 0.5) * clock.gop_duration_s - now_s;
        let deviation = self.settings.spread_deg.to_radians() * middle_s.max(0.0).sqrt();
        let weight = 1.0 / (YAW_POINTS.len() * PITCH_POINTS.len()) as f64;
        for yaw in YAW_POINTS {
            for pitch in PITCH_POINTS {
                shares.fill(0.0);
                for time_s in clock.moments_of(gop) {
                    let at = motion.at(time_s - now_s, self.settings.damping_s);
                    let missed = Orientation {
                        yaw: at.yaw + yaw * deviation,
                        pitch: (at.pitch + pitch * deviation / 2.0).clamp(-STRAIGHT_UP, STRAIGHT_UP),
                        roll: at.roll,
                    };
                    self.viewer.add_shares(missed, part, &mut shares);
                }
                for (own, share) in own.iter_mut().zip(&shares) {
                    own.share += weight * share;
                    own.seen += if *share > 0.0 { weight } else { 0.0 };
                }
            }
        }
        // Equal parts add up to 1 but for rounding.
        own.iter_mut().for_each(|tile| tile.seen = tile.seen.min(1.0));
        self.with_crowd(own, crowd, middle_s)
    }

    fn with_crowd(&self, mut own: Vec<TileOutlook>, crowd: &[TileOutlook], ahead_s: f64) -> Vec<TileOutlook> {
        let ahead_s = ahead_s.max(1e-9);
        let trust = if crowd.len() == own.len() { ahead_s / (ahead_s + self.settings.crowd_s) } else { 0.0 };
        for (own, crowd) in own.iter_mut().zip(crowd) {
            own.seen = ((1.0 - trust) * own.seen + trust * crowd.seen).clamp(0.0, 1.0);
            own.share = ((1.0 - trust) * own.share + trust * crowd.share).clamp(0.0, 1.0);
        }
        own
    }

    /// Where the head is at `now_s` and how fast it turns.
    fn motion(&self, trace: &HeadTrace, now_s: f64) -> Moving {
        let samples = trace.samples();
        let known = &samples[..samples.partition_point(|sample| sample.time_s <= now_s).max(1)];
        let last = &known[known.len() - 1];
        let still = Moving { from: last.orientation, yaw_rate: 0.0, pitch_rate: 0.0 };
        if self.settings.motion == Motion::Still {
            return still;
        }
        let from = known.partition_point(|sample| sample.time_s < last.time_s - self.settings.window_s);
        let window = &known[from..];
        let last_yaw = last.orientation.yaw;
        // Within half a second no head turns half round, so angles from the last one need no more unwrapping.
        let yaw_rate = slope(window, |sample| wrapped(sample.orientation.yaw - last_yaw));
        let pitch_rate = slope(window, |sample| sample.orientation.pitch);
        Moving { yaw_rate, pitch_rate, ..still }
    }
}

/// Looking straight up, yaw says nothing any more.
const STRAIGHT_UP: f64 = std::f64::consts::FRAC_PI_2;

struct Moving {
    from: Orientation,
    yaw_rate: f64,
    pitch_rate: f64,
}

impl Moving {
    /// The orientation `ahead_s` later: the rates decay with `damping_s`.
    fn at(&self, ahead_s: f64, damping_s: f64) -> Orientation {
        let ahead_s = ahead_s.max(0.0);
        let way = if damping_s > 0.0 { damping_s * (1.0 - libm::exp(-ahead_s / damping_s)) } else { 0.0 };
        Orientation {
            yaw: self.from.yaw + self.yaw_rate * way,
            pitch: (self.from.pitch + self.pitch_rate * way).clamp(-STRAIGHT_UP, STRAIGHT_UP),
            roll: self.from.roll,
        }
    }
}

/// The least-squares slope per second; 0 for a single sample.
fn slope(samples: &[HeadSample], value: impl Fn(&HeadSample) -> f64) -> f64 {
    let count = samples.len() as f64;
    let time = samples.iter().map(|sample| sample.time_s).sum::<f64>() / count;
    let mean = samples.iter().map(&value).sum::<f64>() / count;
    let (mut above, mut below) = (0.0, 0.0);
    for sample in samples {
        above += (sample.time_s - time) * (value(sample) - mean);
        below += (sample.time_s - time) * (sample.time_s - time);
    }
    if below > 0.0 { above / below } else { 0.0 }
}
