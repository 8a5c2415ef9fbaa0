//! Motion to high quality: how long tiles that come into view look worse than those already in view.

use tributary_video::prediction::TileView;

/// GoPs at the beginning that quality figures leave out, because no earlier picture can be frozen and windows are
/// small. The start is reported separately.
pub const STARTING: usize = 2;
/// A tile is good when its error is at most this many times that of the others (3 dB).
const AS_GOOD: f64 = 2.0;

/// Mean time in GoPs, weighted by the tiles' shares of the view. The time of a tile starts when it comes into view.
/// It ends when the tile's error is at most twice the median of the tiles already in view, or when it leaves the
/// view. `shown` are the tiles' errors. `None` if no tile came into view.
pub(super) fn to_quality(shown: &[&[f64]], views: &[Vec<TileView>]) -> Option<f64> {
    let (mut sum, mut weight) = (0.0, 0.0);
    for gop in STARTING.max(1)..views.len() {
        for (tile, view) in views[gop].iter().enumerate() {
            if !view.seen || views[gop - 1][tile].seen {
                continue;
            }
            let worse = |at: &usize| {
                let limit = usual(shown[*at], &views[*at], &views[*at - 1]).map(|usual| AS_GOOD * usual);
                views[*at][tile].seen && limit.is_some_and(|limit| shown[*at][tile] > limit)
            };
            let waited = (gop..views.len()).take_while(worse).count();
            sum += waited as f64 * view.share;
            weight += view.share;
        }
    }
    (weight > 0.0).then(|| sum / weight)
}

/// Lower median of the errors of the tiles that are in view both in this GoP and in the previous one.
fn usual(shown: &[f64], now: &[TileView], before: &[TileView]) -> Option<f64> {
    let stay = |tile: &usize| now[*tile].seen && before[*tile].seen;
    let mut errors: Vec<f64> = (0..shown.len()).filter(stay).map(|tile| shown[tile]).collect();
    errors.sort_by(f64::total_cmp);
    errors.get(errors.len().saturating_sub(1) / 2).copied()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tile_that_comes_into_view_waits_for_its_quality() {
        let view = |seen| TileView { seen, share: if seen { 0.5 } else { 0.0 } };
        let still = vec![view(true), view(false)];
        let turned = vec![view(true), view(true)];
        let views = [still.clone(), still, turned.clone(), turned.clone(), turned];
        let to_quality = |late: [f64; 3], gops: usize| {
            let errors = [900.0, 900.0].into_iter().chain(late).map(|error| [10.0, error]);
            let shown: Vec<[f64; 2]> = errors.take(gops).collect();
            let shown: Vec<&[f64]> = shown.iter().map(|errors| errors.as_slice()).collect();
            super::to_quality(&shown, &views[..gops])
        };
        assert_eq!(to_quality([900.0, 200.0, 15.0], 5), Some(2.0));
        assert_eq!(to_quality([12.0, 900.0, 15.0], 5), Some(0.0));
        assert_eq!(to_quality([900.0; 3], 5), Some(3.0));
        assert_eq!(to_quality([900.0; 3], 2), None);
    }
}
