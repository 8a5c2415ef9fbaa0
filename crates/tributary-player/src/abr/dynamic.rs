//! Dynamic: the throughput rule while the buffer is short, BOLA when it is long. The default of dash.js. Source:
//! Spiteri, Sitaraman and Sparacio (MMSys 2018) §4.

use core::time::Duration;

use super::{Bola, Decision, Finished, Progress, Rule, Throughput, View};

/// BOLA decides above this buffer level, the throughput rule below it.
const SWITCH: Duration = Duration::from_secs(10);

/// The dynamic rule.
#[derive(Clone, Debug, Default)]
pub struct Dynamic {
    bola: Bola,
    throughput: Throughput,
    uses_bola: bool,
}

impl Rule for Dynamic {
    fn choose(&mut self, view: &View<'_>) -> Decision {
        // Both rules decide every time, so that each can take over.
        let bola = self.bola.choose(view);
        let throughput = self.throughput.choose(view);
        if self.uses_bola {
            self.uses_bola = view.level >= SWITCH || bola.quality >= throughput.quality;
        } else {
            self.uses_bola = view.level > SWITCH && bola.quality >= throughput.quality;
        }
        if self.uses_bola { bola } else { throughput }
    }

    fn waited(&mut self, time: Duration) {
        self.bola.waited(time);
        self.throughput.waited(time);
    }

    fn finished(&mut self, view: &View<'_>, download: &Finished) {
        self.bola.finished(view, download);
        self.throughput.finished(view, download);
    }

    fn abandon(&mut self, view: &View<'_>, progress: &Progress) -> Option<usize> {
        self.throughput.abandon(view, progress)
    }

    fn seeked(&mut self, to: usize) {
        self.bola.seeked(to);
        self.throughput.seeked(to);
    }

    fn new_ladder(&mut self) {
        self.bola.new_ladder();
        self.throughput.new_ladder();
    }
}
