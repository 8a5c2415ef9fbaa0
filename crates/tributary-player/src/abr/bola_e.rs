//! BOLA-E: BOLA for any buffer size. A placeholder counts as buffer that the player could have filled, so that
//! start-up and seeks follow the throughput and a short buffer does not keep the quality low. Source: Spiteri,
//! Sitaraman and Sparacio (MMSys 2018) §3; dash.js' `BolaRule`.

use super::bola::Objective;
use super::throughput::InsufficientBuffer;
use super::{Decision, Finished, Progress, Rule, View, seconds};

/// Buffer below which the lowest quality is chosen, seconds.
const MINIMUM: f64 = 10.0;
/// Buffer added to [`MINIMUM`] for each quality of the ladder, seconds.
const PER_QUALITY: f64 = 2.0;

/// BOLA-E.
#[derive(Clone, Debug, Default)]
pub struct BolaE {
    objective: Option<Objective>,
    insufficient: Option<InsufficientBuffer>,
    /// Placeholder buffer, seconds.
    placeholder: f64,
    last: usize,
}

impl BolaE {
    fn objective(&mut self, view: &View<'_>) -> Objective {
        let made = self.objective.get_or_insert_with(|| {
            let utilities = view.ladder.utilities(1.0);
            let buffer = (MINIMUM + PER_QUALITY * view.ladder.len() as f64).max(view.capacity.as_secs_f64());
            let top = utilities.last().copied().unwrap_or(1.0);
            // With one quality there is nothing to decide; any positive value works.
            let gamma_p = ((top - 1.0) / (buffer / MINIMUM - 1.0)).max(f64::MIN_POSITIVE);
            Objective { utilities, gamma_p, v_p: MINIMUM / gamma_p }
        });
        made.clone()
    }

    /// Buffer from which on `quality` is preferred to every lower one, seconds.
    fn least_level(objective: &Objective, view: &View<'_>, quality: usize) -> f64 {
        let (rate, utility) = (view.ladder.bitrate(quality), objective.utilities[quality]);
        let mut level: f64 = 0.0;
        for lower in (0..quality).filter(|lower| objective.utilities[*lower] < utility) {
            let (other, worth) = (view.ladder.bitrate(lower), objective.utilities[lower]);
            let balance = (rate * worth - other * utility) / (rate - other);
            level = level.max(objective.v_p * (objective.gamma_p + balance));
        }
        level
    }

    /// Buffer above which `quality` gains nothing, seconds.
    fn most_level(objective: &Objective, quality: usize) -> f64 {
        objective.v_p * (objective.gamma_p + objective.utilities[quality])
    }
}

impl Rule for BolaE {
    fn choose(&mut self, view: &View<'_>) -> Decision {
        let Some(estimate) = view.estimate else { return Decision::at_once(self.last) };
        let objective = self.objective(view);
        let level = view.level.as_secs_f64();
        let sustained = view.ladder.sustainable(estimate.throughput, estimate.latency);
        let Some(insufficient) = &mut self.insufficient else {
            self.insufficient = Some(InsufficientBuffer::default());
            self.placeholder = (Self::least_level(&objective, view, sustained) - level).max(0.0);
            return Decision::at_once(sustained);
        };

        let mut quality = objective.best(view, level + self.placeholder);
        if quality > self.last && quality > sustained {
            quality = self.last.max(sustained) + 1;
        }

        let mut delay = (level + self.placeholder - Self::most_level(&objective, quality)).max(0.0);
        let pretended = delay.min(self.placeholder);
        self.placeholder -= pretended;
        delay -= pretended;
        if quality == view.ladder.top() {
            delay = 0.0;
        }

        let safe = insufficient.limit(quality, view, estimate);
        if safe < quality {
            delay = 0.0;
            let room = (Self::least_level(&objective, view, safe) - level).max(0.0);
            self.placeholder = self.placeholder.min(room);
        }
        Decision { quality: safe, delay: seconds(delay) }
    }

    fn waited(&mut self, time: core::time::Duration) {
        self.placeholder += time.as_secs_f64();
    }

    fn finished(&mut self, view: &View<'_>, download: &Finished) {
        self.last = download.quality;
        let objective = self.objective(view);
        let level = view.level.as_secs_f64();
        if let Some(to) = download.abandoned_to {
            // The download was too slow: limit the placeholder to what the lower quality needs.
            let wanted = if to > 0 { Self::least_level(&objective, view, to) } else { MINIMUM };
            self.placeholder = self.placeholder.min((wanted - level).max(0.0));
            return;
        }
        let before = level + download.elapsed.as_secs_f64();
        let most = (Self::most_level(&objective, download.quality) - before).max(0.0);
        self.placeholder = self.placeholder.min(most);
        if level > 0.0 {
            let least = Self::least_level(&objective, view, download.quality) - before;
            self.placeholder = self.placeholder.max(least);
        }
    }

    fn abandon(&mut self, view: &View<'_>, progress: &Progress) -> Option<usize> {
        let downloading = progress.elapsed.saturating_sub(progress.first_byte).as_secs_f64();
        let left = progress.size - progress.arrived;
        if progress.arrived <= 0.0 || left <= 0.0 || downloading <= 0.0 {
            return None;
        }
        // A new request costs the latency again, so compare the state after it.
        let latency = progress.first_byte.as_secs_f64();
        let level = (view.level.as_secs_f64() + self.placeholder - latency).max(0.0);
        let left = left - latency * progress.arrived / downloading;
        if left <= 0.0 {
            return None;
        }
        self.objective(view).better_than(view, progress, level, left)
    }

    fn seeked(&mut self, _to: usize) {
        self.insufficient = None;
    }

    fn new_ladder(&mut self) {
        (self.objective, self.last, self.placeholder) = (None, 0, 0.0);
    }
}
