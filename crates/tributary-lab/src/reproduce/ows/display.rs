//! What the player shows: per tile the finest copy that arrived in time, else what concealment leaves.
//!
//! Errors are the table's measured ones. A frozen tile shows what it showed last, with that picture's own error
//! and that of every GoP since, added as those of uncorrelated changes are, up to twice what freezing costs in the
//! present GoP: two pictures that have nothing in common any more differ no further. The client plans with the same
//! figures; it knows what it shows.

use tributary_sim::workload::tiled::GopRecord;
use tributary_video::prediction::TileView;
use tributary_video::rd::{Concealment, TileCells};

/// No two pictures differ by more.
const MOST_MSE: f64 = 255.0 * 255.0;

/// The player's state.
#[derive(Clone, Debug)]
pub struct Display {
    concealment: Concealment,
    /// Per tile, the error of the picture it shows and what freezing it has added; `None` while it has shown none.
    held: Vec<Option<(f64, f64)>>,
}

/// Freezing for long costs so many times what freezing for a GoP does, at most.
const MOST_GROWN: f64 = 2.0;

/// What freezing has added when this GoP is frozen, too.
fn grown(added: f64, cell: &TileCells) -> f64 {
    (added + cell.freeze_mse).min(MOST_GROWN * cell.freeze_mse)
}

/// What became of a tile in a GoP.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fate {
    /// A copy arrived in time.
    Shown,
    /// It was to be sent, and none did.
    Late,
    /// The plan left it out.
    LeftOut,
}

/// One GoP as it was seen.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Seen {
    /// Mean squared error in the viewport.
    pub mse: f64,
    /// Share of the viewport whose tiles were late.
    pub late: f64,
    /// Share of the viewport whose tiles were left out.
    pub left_out: f64,
}

impl Display {
    /// Nothing shown so far.
    #[must_use]
    pub fn new(tiles: usize, concealment: Concealment) -> Self {
        Self { concealment, held: vec![None; tiles] }
    }

    /// What each tile of a GoP would show if nothing of it arrived.
    #[must_use]
    pub fn concealed(&self, cells: &[TileCells]) -> Vec<f64> {
        let tile = |(held, cell): (&Option<(f64, f64)>, &TileCells)| match (self.concealment, held) {
            (Concealment::Freeze, Some((coded, added))) => (coded + grown(*added, cell)).min(MOST_MSE),
            _ => cell.black_mse,
        };
        self.held.iter().zip(cells).map(tile).collect()
    }

    /// Shows a GoP whose deadline has come: per tile the error and why.
    pub fn advance(&mut self, cells: &[TileCells], record: &GopRecord) -> Vec<(f64, Fate)> {
        let finest = finest(cells.len(), record);
        let mut wanted = vec![false; cells.len()];
        record.planned.iter().filter(|p| !p.withdrawn).for_each(|p| wanted[p.message.tile] = true);
        self.show(cells, &finest, &wanted)
    }

    /// The same from the finest choice of each tile that arrived, and whether the tile was wanted.
    fn show(&mut self, cells: &[TileCells], finest: &[Option<usize>], wanted: &[bool]) -> Vec<(f64, Fate)> {
        let concealed = self.concealed(cells);
        let mut shown = Vec::with_capacity(cells.len());
        for (tile, cell) in cells.iter().enumerate() {
            let (mse, fate) = match finest[tile] {
                Some(choice) => (cell.mse[choice], Fate::Shown),
                None if wanted[tile] => (concealed[tile], Fate::Late),
                None => (concealed[tile], Fate::LeftOut),
            };
            let held = &mut self.held[tile];
            // What was never shown holds nothing that could be frozen.
            *held = match (fate, *held) {
                (Fate::Shown, _) => Some((mse, 0.0)),
                (_, Some((coded, added))) => Some((coded, grown(added, cell))),
                (_, None) => None,
            };
            shown.push((mse, fate));
        }
        shown
    }
}

/// Per tile, the finest choice that arrived in time.
#[must_use]
pub fn finest(tiles: usize, record: &GopRecord) -> Vec<Option<usize>> {
    let mut finest: Vec<Option<usize>> = vec![None; tiles];
    for message in record.in_time() {
        let best = &mut finest[message.tile];
        *best = Some(best.map_or(message.choice, |known| known.min(message.choice)));
    }
    finest
}

/// What a viewer saw of tiles that were shown like that.
#[must_use]
pub fn seen(shown: &[(f64, Fate)], views: &[TileView]) -> Seen {
    let mut seen = Seen::default();
    for ((mse, fate), view) in shown.iter().zip(views) {
        seen.mse += mse * view.share;
        match fate {
            Fate::Shown => {}
            Fate::Late => seen.late += view.share,
            Fate::LeftOut => seen.left_out += view.share,
        }
    }
    seen
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_frozen_grows_worse_up_to_a_point_and_what_never_came_is_black() {
        let cell =
            TileCells { bytes: vec![9, 1], mse: vec![2.0, 20.0], freeze_mse: 300.0, black_mse: 9000.0 };
        let cells = [cell.clone(), cell];
        let mut display = Display::new(2, Concealment::Freeze);
        let first = display.show(&cells, &[Some(1), None], &[true, false]);
        assert_eq!(first, [(20.0, Fate::Shown), (9000.0, Fate::LeftOut)]);
        let next = |display: &mut Display| display.show(&cells, &[None, None], &[true, true]);
        assert_eq!(next(&mut display), [(320.0, Fate::Late), (9000.0, Fate::Late)]);
        assert_eq!(next(&mut display)[0].0, 620.0);
        assert_eq!(next(&mut display)[0].0, 620.0);
        let views = [TileView { seen: true, share: 0.25 }, TileView { seen: true, share: 0.75 }];
        let seen = seen(&display.show(&cells, &[Some(0), None], &[true, false]), &views);
        assert_eq!((seen.mse, seen.late, seen.left_out), (0.25 * 2.0 + 0.75 * 9000.0, 0.0, 0.75));
        assert_eq!(Display::new(2, Concealment::Black).concealed(&cells), [9000.0; 2]);
    }
}
