//! Motion to high quality: how long a tile that comes into view is worse than the rest of the view.
//!
//! A tile *comes into view* when it fills at least 2 % of the viewport and did not do so in the previous picture. It
//! is *good* when its QP is at most six above the finest QP in view (twice the quantiser step). The measured time is
//! that from coming into view to being good. Tiles that leave the view earlier are counted separately, without a
//! time.

use serde::{Deserialize, Serialize};

/// Share of the viewport above which a tile is in view.
const VISIBLE: f64 = 0.02;
/// QP steps above the finest in view that are still good.
const GOOD_QP: u8 = 6;

/// Times from coming into view to good quality, in milliseconds.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
pub struct Motion {
    /// Tiles that came into view while the head moved.
    pub came: u32,
    /// Number of these that were good when they came into view.
    pub good_at_once: u32,
    /// Number of these that left the view before they were good, or were not good at the end.
    pub left_before: u32,
    /// Mean time of those that became good later.
    pub mean_ms: Option<f64>,
    /// 95th percentile of the same times.
    pub p95_ms: Option<f64>,
}

/// Evaluates picture after picture.
#[derive(Debug)]
pub(super) struct MotionMeter {
    qps: Vec<u8>,
    picture_s: f64,
    /// Whether each tile was in view in the previous picture; `None` before the first.
    before: Option<Vec<bool>>,
    /// Pictures since a tile came into view, until it is good.
    waiting: Vec<Option<u32>>,
    times: Vec<u32>,
    came: u32,
    left: u32,
}

impl MotionMeter {
    pub(super) fn new(qps: &[u8], tiles: usize, picture_s: f64) -> Self {
        Self {
            qps: qps.to_vec(),
            picture_s,
            before: None,
            waiting: vec![None; tiles],
            times: Vec::new(),
            came: 0,
            left: 0,
        }
    }

    /// Evaluates a picture, with each tile's share of the viewport and its quality, `None` if it is
    /// concealed.
    pub(super) fn picture(&mut self, shares: &[f64], shown: &[Option<u8>]) {
        let visible: Vec<bool> = shares.iter().map(|share| *share >= VISIBLE).collect();
        let qp = |tile: usize| shown[tile].and_then(|quality| self.qps.get(usize::from(quality))).copied();
        let finest = (0..visible.len()).filter(|tile| visible[*tile]).filter_map(qp).min();
        for tile in 0..visible.len() {
            let good = match (qp(tile), finest) {
                (Some(qp), Some(finest)) => qp <= finest.saturating_add(GOOD_QP),
                _ => false,
            };
            let came = visible[tile] && self.before.as_ref().is_some_and(|before| !before[tile]);
            if came {
                self.came += 1;
                self.waiting[tile] = Some(0);
            }
            match self.waiting[tile] {
                Some(_) if !visible[tile] => {
                    self.left += 1;
                    self.waiting[tile] = None;
                }
                Some(pictures) if good => {
                    self.times.push(pictures);
                    self.waiting[tile] = None;
                }
                Some(pictures) => self.waiting[tile] = Some(pictures + 1),
                None => {}
            }
        }
        self.before = Some(visible);
    }

    pub(super) fn finish(&mut self) -> Motion {
        self.left += self.waiting.iter().flatten().count() as u32;
        let mut times = std::mem::take(&mut self.times);
        times.sort_unstable();
        let millis = |pictures: f64| pictures * self.picture_s * 1e3;
        let mean = times.iter().map(|time| f64::from(*time)).sum::<f64>() / times.len().max(1) as f64;
        let p95 = times.get((times.len() * 95).div_ceil(100).saturating_sub(1)).copied();
        Motion {
            came: self.came,
            good_at_once: times.iter().filter(|time| **time == 0).count() as u32,
            left_before: self.left,
            mean_ms: (!times.is_empty()).then(|| millis(mean)),
            p95_ms: p95.map(|time| millis(f64::from(time))),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tiles_come_into_view_good_late_or_not_at_all() {
        let mut meter = MotionMeter::new(&[22, 27, 37], 4, 0.1);
        let view = |b: f64, c: f64, d: f64| vec![1.0 - b - c - d, b, c, d];
        let good = [Some(0), Some(2), Some(1), None];
        // Tiles in view at the beginning have not come into view.
        meter.picture(&view(0.0, 0.0, 0.0), &good);
        // Tile 1 comes into view coarse, tile 2 good, tile 3 concealed.
        meter.picture(&view(0.1, 0.1, 0.1), &good);
        meter.picture(&view(0.1, 0.1, 0.1), &good);
        // Tile 1 becomes good after two pictures, tile 3 leaves.
        meter.picture(&view(0.1, 0.1, 0.0), &[Some(0), Some(1), Some(1), None]);
        let motion = meter.finish();
        assert_eq!((motion.came, motion.good_at_once, motion.left_before), (3, 1, 1));
        assert!((motion.mean_ms.unwrap() - 100.0).abs() < 1e-9, "{motion:?}");
        assert!((motion.p95_ms.unwrap() - 200.0).abs() < 1e-9, "{motion:?}");
    }

    #[test]
    fn a_still_head_has_no_times() {
        let mut meter = MotionMeter::new(&[22], 1, 0.1);
        meter.picture(&[1.0], &[None]);
        meter.picture(&[1.0], &[Some(0)]);
        assert_eq!(meter.finish(), Motion::default());
    }
}
