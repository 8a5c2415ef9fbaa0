//! BOLA with the addition BOLA-U: the quality follows the buffer level by Lyapunov optimisation, and rises no further
//! than one step above what the throughput sustains. Source: Spiteri, Urgaonkar and Sitaraman, "BOLA: Near-Optimal
//! Bitrate Adaptation for Online Videos" (INFOCOM 2016) §IV–V.

use super::{Decision, Progress, Rule, View};

/// γp: the weight of rebuffering against quality.
const GAMMA_P: f64 = 5.0;
/// Smallest buffer size used, in segments: the size at the beginning and at the end of a title.
const LEAST_SEGMENTS: f64 = 3.0;

/// Scores of BOLA's objective for one ladder.
#[derive(Clone, Debug)]
pub(super) struct Objective {
    pub utilities: Vec<f64>,
    pub gamma_p: f64,
    /// V·p in seconds: converts utility to buffer.
    pub v_p: f64,
}

impl Objective {
    /// Gain per bit of choosing `quality` with `level` seconds in the buffer.
    pub fn score(&self, quality: usize, level: f64, bits: f64) -> f64 {
        (self.v_p * (self.gamma_p + self.utilities[quality]) - level) / bits
    }

    /// The quality with the highest score.
    pub fn best(&self, view: &View<'_>, level: f64) -> usize {
        let mut best = (0, f64::NEG_INFINITY);
        for quality in 0..view.ladder.len() {
            let score = self.score(quality, level, view.ladder.bitrate(quality));
            if score > best.1 {
                best = (quality, score);
            }
        }
        best.0
    }

    /// A lower quality with a better score than continuing a download with `left` bits missing.
    pub fn better_than(&self, view: &View<'_>, progress: &Progress, level: f64, left: f64) -> Option<usize> {
        let mut best = self.score(progress.quality, level, left);
        let mut found = None;
        for quality in 0..progress.quality {
            let size = progress.size * view.ladder.bitrate(quality) / view.ladder.bitrate(progress.quality);
            let score = self.score(quality, level, size);
            // Never abandon for a segment with more bits than this one still needs.
            if size < left && score > best {
                best = score;
                found = Some(quality);
            }
        }
        found
    }
}

/// BOLA.
#[derive(Clone, Debug, Default)]
pub struct Bola {
    objective: Option<Objective>,
    last: usize,
    /// Segment where playback started.
    origin: usize,
}

impl Bola {
    /// The objective with the buffer that is usable in this part of the title.
    fn objective(&mut self, view: &View<'_>) -> &Objective {
        let segment = view.ladder.segment().as_secs_f64();
        let since = view.next.saturating_sub(self.origin);
        let usable = (view.remaining.map_or(since, |left| left.min(since)) as f64 / 2.0).max(LEAST_SEGMENTS);
        let buffer = view.capacity.as_secs_f64().min(usable * segment);
        let objective = self.objective.get_or_insert_with(|| Objective {
            utilities: view.ladder.utilities(0.0),
            gamma_p: GAMMA_P,
            v_p: 0.0,
        });
        let top = objective.utilities.last().copied().unwrap_or(0.0);
        objective.v_p = (buffer - segment).max(0.0) / (top + GAMMA_P);
        objective
    }
}

impl Rule for Bola {
    fn choose(&mut self, view: &View<'_>) -> Decision {
        let level = view.level.as_secs_f64();
        let mut quality = self.objective(view).best(view, level);
        if quality > self.last
            && let Some(estimate) = view.estimate
        {
            let sustained = view.ladder.sustainable(estimate.throughput, estimate.latency);
            if quality > sustained {
                // BOLA-U: at most one step above the throughput's quality; it never lowers the quality.
                quality = if self.last > sustained { self.last } else { sustained + 1 };
            }
        }
        self.last = quality;
        Decision::at_once(quality)
    }

    fn abandon(&mut self, view: &View<'_>, progress: &Progress) -> Option<usize> {
        let left = progress.size - progress.arrived;
        let level = view.level.as_secs_f64();
        let objective = self.objective.as_ref()?;
        if progress.arrived <= 0.0 || left <= 0.0 || objective.score(progress.quality, level, left) < 0.0 {
            return None;
        }
        let found = objective.better_than(view, progress, level, left)?;
        self.last = found;
        Some(found)
    }

    fn seeked(&mut self, to: usize) {
        self.origin = to;
    }

    fn new_ladder(&mut self) {
        (self.objective, self.last) = (None, 0);
    }
}
