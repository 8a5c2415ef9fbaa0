//! Allocators that differ from the product's in one respect, to measure the effect of that respect alone.
//!
//! Each changes the problem that it gives to one of the product's allocators, or the order of the answer. Not here:
//! how often a GoP is planned (`viewing`).

use core::cell::Cell;

use tributary_stream::tiled;
use tributary_video::allocation::{Allocation, Allocator, Capacity, GopProblem, TileChoice, TileMenu};

use super::OwsError;

/// `fix-q` with its tiles sent in order of gain per byte.
pub const BY_GAIN: &str = "fix-q-by-gain";
/// The same with the weights of `ows`: a tile counts with its expected share of the viewport, not with the probability
/// that any of it is seen.
pub const BY_WEIGHT: &str = "fix-q-weights";
/// `fix` planned as often as `ows-updated`. Tiles that have arrived or are being sent cost nothing.
pub const FIX_UPDATED: &str = "fix-updated";
/// `fix` that knows what the links carry during each GoP, as the paper assumes.
pub const FIX_KNOWN: &str = "fix-known";
/// `ows` that knows it too.
pub const OWS_KNOWN: &str = "ows-known";

/// `fix` with the capacity that a player over MPTCP measures in the same viewing. Over another transport it shows whether
/// that one carries the same plans as well, whatever is measured over it.
pub const FIX_AS_MPTCP: &str = "fix-as-mptcp";
/// The reverse: with the capacity that is measured over `fbdt`.
pub const FIX_AS_FBDT: &str = "fix-as-fbdt";

/// Names of the variants.
pub const NAMES: [&str; 7] =
    [BY_GAIN, BY_WEIGHT, FIX_UPDATED, FIX_KNOWN, OWS_KNOWN, FIX_AS_MPTCP, FIX_AS_FBDT];

/// Where the capacity of each GoP comes from, if not from the player's own measurements.
#[derive(Clone, Copy, Debug)]
pub enum Budgets {
    /// What the links carry.
    Links,
    /// What a player with `fix` measures over this transport.
    Measured(&'static str),
}

/// The variant of this name; `budgets` returns the capacity of each GoP, bytes. `None`: not a variant.
///
/// # Errors
/// Those of `budgets`.
pub fn create(
    name: &str,
    budgets: impl FnOnce(Budgets) -> Result<Vec<f64>, OwsError>,
) -> Result<Option<Box<dyn Allocator>>, OwsError> {
    let product = |name| tiled::allocator(name, 1, false);
    let variant = |name, inner, change| Box::new(Variant { name, inner, change });
    Ok(Some(match name {
        BY_GAIN => variant(BY_GAIN, product("fix-q")?, Change::Order),
        BY_WEIGHT => variant(BY_WEIGHT, product("fix-q")?, Change::WeightsAndOrder),
        FIX_UPDATED => variant(FIX_UPDATED, product("fix")?, Change::HeldTilesAreFree),
        FIX_KNOWN => variant(FIX_KNOWN, product("fix")?, Change::known(budgets(Budgets::Links)?)),
        OWS_KNOWN => variant(OWS_KNOWN, product("ows")?, Change::known(budgets(Budgets::Links)?)),
        FIX_AS_MPTCP => {
            variant(FIX_AS_MPTCP, product("fix")?, Change::known(budgets(Budgets::Measured("mptcp"))?))
        }
        FIX_AS_FBDT => {
            variant(FIX_AS_FBDT, product("fix")?, Change::known(budgets(Budgets::Measured("fbdt"))?))
        }
        _ => return Ok(None),
    }))
}

/// What a variant changes.
enum Change {
    /// The order: gain per byte. The reported expectations are still those of the original order.
    Order,
    /// The weights, and the order.
    WeightsAndOrder,
    /// The sizes of qualities that the player has already.
    HeldTilesAreFree,
    /// The capacity: bytes of each GoP, and the number of the next one. A GoP is planned once.
    Capacity(Vec<f64>, Cell<usize>),
}

impl Change {
    fn known(bytes: Vec<f64>) -> Self {
        Self::Capacity(bytes, Cell::new(0))
    }
}

struct Variant {
    name: &'static str,
    inner: Box<dyn Allocator>,
    change: Change,
}

impl Allocator for Variant {
    fn name(&self) -> &'static str {
        self.name
    }

    fn allocate(&self, problem: &GopProblem) -> Allocation {
        let tiles = |of: fn(&TileMenu) -> TileMenu| problem.tiles().iter().map(of).collect();
        let changed = |tiles, capacity| {
            let changed = GopProblem::new(tiles, capacity, problem.arrival());
            changed.expect(
                "weights are in the range of probabilities, sizes only fall, and capacity is not negative",
            )
        };
        match &self.change {
            Change::Order => by_gain(problem, self.inner.allocate(problem)),
            Change::WeightsAndOrder => {
                let problem = changed(tiles(weighted), problem.capacity().clone());
                by_gain(&problem, self.inner.allocate(&problem))
            }
            Change::HeldTilesAreFree => {
                self.inner.allocate(&changed(tiles(without_held), problem.capacity().clone()))
            }
            Change::Capacity(known, next) => {
                let gop = next.replace(next.get() + 1);
                let bytes = known.get(gop).or(known.last()).copied().unwrap_or(0.0);
                let capacity = Capacity::certain(bytes).expect("links carry no negative number of bytes");
                self.inner.allocate(&changed(problem.tiles().to_vec(), capacity))
            }
        }
    }
}

fn by_gain(problem: &GopProblem, mut allocation: Allocation) -> Allocation {
    let gain = |sent: &TileChoice| {
        let tile = &problem.tiles()[sent.tile];
        let choice = &tile.choices[sent.choice];
        tile.weight * (tile.concealed_mse - choice.mse) / choice.bytes.max(1) as f64
    };
    allocation.order.sort_by(|a, b| gain(b).total_cmp(&gain(a)).then(a.tile.cmp(&b.tile)));
    allocation
}

fn weighted(tile: &TileMenu) -> TileMenu {
    TileMenu { seen: tile.weight.min(1.0), ..tile.clone() }
}

/// What the player has of a tile is what it would show without more: the error of that quality, which is then free, as
/// are all coarser ones.
fn without_held(tile: &TileMenu) -> TileMenu {
    let mut tile = tile.clone();
    if let Some(held) = tile.choices.iter().position(|choice| choice.mse == tile.concealed_mse) {
        tile.choices[held..].iter_mut().for_each(|choice| choice.bytes = 0);
    }
    tile
}

#[cfg(test)]
mod tests {
    use super::*;
    use tributary_video::allocation::{ArrivalOrder, Choice};

    /// Two tiles of 100, 50 or 10 bytes. The second is seen more probably, and fills less of the viewport.
    fn problem(concealed: f64, bytes: f64) -> GopProblem {
        let choices = [(100, 1.0), (50, 4.0), (10, 30.0)].map(|(bytes, mse)| Choice { bytes, mse });
        let tile =
            |seen, weight| TileMenu { seen, weight, concealed_mse: concealed, choices: choices.to_vec() };
        let capacity = Capacity::certain(bytes).unwrap();
        GopProblem::new(vec![tile(0.5, 0.9), tile(0.9, 0.1)], capacity, ArrivalOrder::InOrder).unwrap()
    }

    fn choices(name: &str, known: f64, problem: &GopProblem) -> Vec<usize> {
        let variant = create(name, |_| Ok(vec![known])).unwrap().unwrap();
        assert_eq!(variant.name(), name);
        variant.allocate(problem).choices.into_iter().flatten().collect()
    }

    #[test]
    fn the_weights_decide_which_tile_is_finer() {
        let problem = problem(300.0, 65.0);
        assert_eq!(choices(BY_GAIN, 0.0, &problem), [2, 1]);
        assert_eq!(choices(BY_WEIGHT, 0.0, &problem), [1, 2]);
    }

    #[test]
    fn a_known_capacity_replaces_the_measured_one() {
        let problem = problem(300.0, 20.0);
        assert_eq!(choices(FIX_KNOWN, 20.0, &problem), [2, 2]);
        assert_eq!(choices(FIX_KNOWN, 200.0, &problem), [0, 0]);
        assert_eq!(choices(OWS_KNOWN, 200.0, &problem), [0, 0]);
        assert_eq!(choices(FIX_AS_MPTCP, 200.0, &problem), [0, 0]);
        assert_eq!(choices(FIX_AS_FBDT, 20.0, &problem), [2, 2]);
        let each = create(FIX_KNOWN, |_| Ok(vec![200.0, 20.0])).unwrap().unwrap();
        assert_eq!([0, 1, 2].map(|_| each.allocate(&problem).choices[0]), [Some(0), Some(2), Some(2)]);
    }

    #[test]
    fn held_tiles_leave_the_capacity_to_finer_ones() {
        // Both are held in 50 bytes: the capacity suffices for one finer quality.
        assert_eq!(choices(FIX_UPDATED, 0.0, &problem(4.0, 100.0)), [1, 0]);
        assert_eq!(choices(FIX_UPDATED, 0.0, &problem(300.0, 60.0)), [2, 1]);
        assert!(create("fix", |_| Ok(Vec::new())).unwrap().is_none());
    }
}
