//! What stands on the viewer's screen where a tile does not come: how far from the source it probably is.
//!
//! The table's error of freezing a tile takes the GoP before for granted. A tile that was left out or late
//! before is older than that, and one that never came is black. Errors of successive GoPs are added up: as
//! if what changes from one to the next had nothing to do with what changed before.

use tributary_video::rd::{RdTable, TileCells};

/// Per tile, the error of what is shown at a GoP's end against that GoP; `None` where nothing ever came.
#[derive(Debug, Clone, Default)]
pub(super) struct Shown {
    tiles: Vec<Option<f64>>,
}

impl Shown {
    /// A GoP has been shown: `quality` gives what of each tile was in time.
    pub(super) fn gop_over(&mut self, menu: &RdTable, quality: impl Fn(usize) -> Option<u8>) {
        let cells = menu.gop(0);
        self.tiles.resize(cells.len(), None);
        for (tile, (shown, cells)) in self.tiles.iter_mut().zip(cells).enumerate() {
            let coded = quality(tile).and_then(|quality| cells.mse.get(usize::from(quality)).copied());
            *shown = coded.or_else(|| shown.map(|error| bounded(error + cells.freeze_mse, cells)));
        }
    }

    /// The error of freezing a tile through a GoP.
    pub(super) fn frozen(&self, tile: usize, cells: &TileCells) -> f64 {
        let shown = self.tiles.get(tile).copied().flatten();
        shown.map_or(cells.black_mse, |error| bounded(error + cells.freeze_mse, cells))
    }
}

/// A picture of the same place is seldom further off than a black one.
fn bounded(error: f64, cells: &TileCells) -> f64 {
    error.min(cells.black_mse.max(cells.freeze_mse))
}

#[cfg(test)]
mod tests {
    use super::*;
    use tributary_video::projection::Projection;
    use tributary_video::rd::TableLayout;
    use tributary_video::tiles::TileGrid;

    #[test]
    fn old_tiles_grow_worse_and_missing_ones_are_black() {
        let cells = TileCells { bytes: vec![9, 5], mse: vec![1.0, 8.0], freeze_mse: 30.0, black_mse: 100.0 };
        let grid = TileGrid::new(2, 1, Projection::Equirectangular).unwrap();
        let layout = TableLayout { grid, width: 32, height: 16, gop_duration_s: 1.0, qps: vec![20, 30] };
        let menu = RdTable::new(layout, vec![cells.clone(), cells.clone()]).unwrap();
        let mut shown = Shown::default();
        assert_eq!(shown.frozen(0, &cells), 100.0);
        shown.gop_over(&menu, |tile| (tile == 0).then_some(1));
        assert_eq!((shown.frozen(0, &cells), shown.frozen(1, &cells)), (38.0, 100.0));
        shown.gop_over(&menu, |_| None);
        assert_eq!((shown.frozen(0, &cells), shown.frozen(1, &cells)), (68.0, 100.0));
        shown.gop_over(&menu, |_| None);
        shown.gop_over(&menu, |_| None);
        assert_eq!(shown.frozen(0, &cells), 100.0);
        shown.gop_over(&menu, |_| Some(0));
        assert_eq!(shown.frozen(1, &cells), 31.0);
    }
}
