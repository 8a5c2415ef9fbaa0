//! Live prediction for one viewer, from orientation and movement of the head, their uncertainty, and the
//! crowd.
//!
//! The head's last orientation, or the line through its last samples, is extrapolated to the GoP. Its error
//! grows with the time ahead and is spread over yaw and pitch as a Laplace distribution. The further ahead,
//! the larger the weight of the population. Only samples up to the time of decision are read. (The baselines
//! of Nguyen et al., "Your Attention is Unique", ACM MM 2018, and of Wu et al., MANSY.)

use serde::{Deserialize, Serialize};

use super::{GopClock, TileOutlook};
use crate::head::{HeadSample, HeadTrace};
use crate::sphere::{Orientation, wrapped};
use crate::tiles::TileGrid;
use crate::viewport::{FieldOfView, Viewer};

/// Model of the head's movement.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Motion {
    /// The head stays where it is.
    Still,
    /// The head moves along a line fitted to the last samples, with decreasing speed.
    #[default]
    Linear,
}

/// Settings of live prediction. The defaults were fitted to public traces; see the model's page.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct LiveSettings {
    /// Model of the head's movement.
    pub motion: Motion,
    /// The line is fitted to the samples of this time, seconds.
    pub window_s: f64,
    /// A movement decays to 1/e in this time, seconds.
    pub damping_s: f64,
    /// Standard deviation of the yaw's error one second ahead, degrees. It grows with the square root of
    /// time. Pitch has half of it.
    pub spread_deg: f64,
    /// Time ahead at which crowd and own head have equal weight, seconds. 0: only the crowd; infinite: only
    /// the head.
    pub crowd_s: f64,
}

impl Default for LiveSettings {
    fn default() -> Self {
        Self { motion: Motion::Linear, window_s: 0.5, damping_s: 0.3, spread_deg: 20.0, crowd_s: 3.0 }
    }
}

impl LiveSettings {
    /// For a crowd weighted by [`similarity`](super::similarity()): it predicts better, so it has more
    /// weight, and the spread around the own head is smaller.
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

/// Rays of the viewport in a prediction; few, because the prediction's error is larger than theirs.
const RAYS: (usize, usize) = (16, 12);
/// Points of equal weight of a Laplace distribution with deviation 1, the middles of equal probabilities:
/// heads usually stay close to the expectation and sometimes go far.
const YAW_POINTS: [f64; 7] = [-1.376, -0.599, -0.238, 0.0, 0.238, 0.599, 1.376];
const PITCH_POINTS: [f64; 3] = [-0.776, 0.0, 0.776];

impl Live {
    /// A predictor for one field of view and grid.
    #[must_use]
    pub fn new(settings: LiveSettings, field: FieldOfView, grid: TileGrid) -> Self {
        Self { settings, viewer: Viewer::with_rays(field, grid, RAYS) }
    }

    /// The prediction for GoP `gop` at time `now_s`, from the trace up to then and the `crowd`'s prediction
    /// for that GoP (one entry per tile; empty if there is none).
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
        // Shares add up to 1 except for rounding.
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

    /// The head's orientation and angular velocity at `now_s`.
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
        // No head turns by half a turn within half a second, so angles relative to the last one need no
        // unwrapping.
        let yaw_rate = slope(window, |sample| wrapped(sample.orientation.yaw - last_yaw));
        let pitch_rate = slope(window, |sample| sample.orientation.pitch);
        Moving { yaw_rate, pitch_rate, ..still }
    }
}

/// Looking straight up, yaw is undefined.
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
