//! Model of the viewer's screen. Each tile shows its finest copy that arrived in time, or the concealment.
//!
//! Errors come from the rate–distortion table. The error of a frozen tile is that of its picture plus a freezing
//! error. Each frozen GoP adds its freezing error, as if the changes were uncorrelated. The sum is limited to twice
//! the freezing error of the present GoP, which is the difference of unrelated pictures. Example: picture 20,
//! freezing 300 a GoP: 320, 620, 620, …

use tributary_video::rd::{Concealment, TileCells};

/// Largest possible error of a picture.
const MOST_MSE: f64 = 255.0 * 255.0;
/// Limit of the error that freezing adds, in units of freezing for one GoP.
const MOST_FREEZES: f64 = 2.0;

/// A tile that was shown before.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Held {
    /// The error of the picture when it was new.
    coded: f64,
    /// Error that freezing has added since then.
    frozen: f64,
}

/// The tiles on a viewer's screen.
#[derive(Debug, Clone)]
pub struct Screen {
    concealment: Concealment,
    /// Per tile; `None` until one of its copies was in time.
    held: Vec<Option<Held>>,
}

impl Screen {
    /// A black screen.
    #[must_use]
    pub fn new(tiles: usize, concealment: Concealment) -> Self {
        Self { concealment, held: vec![None; tiles] }
    }

    /// The error of each tile in a GoP if no tile of it arrives.
    #[must_use]
    pub fn concealed(&self, cells: &[TileCells]) -> Vec<f64> {
        let tile = |(held, cell): (&Option<Held>, &TileCells)| match (self.concealment, held) {
            (Concealment::Freeze, Some(held)) => (held.coded + frozen(held, cell)).min(MOST_MSE),
            _ => cell.black_mse,
        };
        self.held.iter().zip(cells).map(tile).collect()
    }

    /// Shows a GoP and returns the error of each tile. `quality` is the finest copy of each tile that was in time.
    pub fn show(&mut self, cells: &[TileCells], quality: impl Fn(usize) -> Option<u8>) -> Vec<f64> {
        let mut errors = self.concealed(cells);
        for (tile, (held, cell)) in self.held.iter_mut().zip(cells).enumerate() {
            let coded = quality(tile).and_then(|quality| cell.mse.get(usize::from(quality)));
            if let Some(coded) = coded {
                errors[tile] = *coded;
                *held = Some(Held { coded: *coded, frozen: 0.0 });
            } else if let Some(held) = held {
                held.frozen = frozen(held, cell);
            }
        }
        errors
    }
}

/// Error that freezing has added at the end of one more GoP.
fn frozen(held: &Held, cell: &TileCells) -> f64 {
    (held.frozen + cell.freeze_mse).min(MOST_FREEZES * cell.freeze_mse)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn frozen_tiles_grow_worse_up_to_a_limit_and_missing_ones_are_black() {
        let cell =
            TileCells { bytes: vec![9, 1], mse: vec![2.0, 20.0], freeze_mse: 300.0, black_mse: 9000.0 };
        let cells = [cell.clone(), cell];
        let mut screen = Screen::new(2, Concealment::Freeze);
        assert_eq!(screen.show(&cells, |tile| (tile == 0).then_some(1)), [20.0, 9000.0]);
        assert_eq!(screen.show(&cells, |_| None), [320.0, 9000.0]);
        assert_eq!(screen.show(&cells, |_| None), [620.0, 9000.0]);
        assert_eq!(screen.concealed(&cells), [620.0, 9000.0]);
        assert_eq!(screen.show(&cells, |_| Some(0)), [2.0, 2.0]);
        assert_eq!(Screen::new(2, Concealment::Black).concealed(&cells), [9000.0; 2]);
    }
}
