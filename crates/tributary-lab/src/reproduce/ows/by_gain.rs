//! `fix-q` with its tiles sent in order of gain per byte, to measure the effect of the order alone.

use tributary_video::allocation::{Allocation, Allocator, GopProblem, TileChoice};

/// Its name in tables.
pub const BY_GAIN: &str = "fix-q-by-gain";

/// An allocator with a replaced order. Its reported expectations are still those of the original order.
pub struct ByGain(pub Box<dyn Allocator>);

impl Allocator for ByGain {
    fn name(&self) -> &'static str {
        BY_GAIN
    }

    fn allocate(&self, problem: &GopProblem) -> Allocation {
        let mut allocation = self.0.allocate(problem);
        let gain = |sent: &TileChoice| {
            let tile = &problem.tiles()[sent.tile];
            let choice = &tile.choices[sent.choice];
            tile.weight * (tile.concealed_mse - choice.mse) / choice.bytes.max(1) as f64
        };
        allocation.order.sort_by(|a, b| gain(b).total_cmp(&gain(a)).then(a.tile.cmp(&b.tile)));
        allocation
    }
}
