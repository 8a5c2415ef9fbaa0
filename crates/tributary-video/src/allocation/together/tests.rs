//! Decisions for several viewers against every combination of qualities, and against those for one.

use tributary_types::Rng;

use super::super::{Choice, Settings, create, names};
use super::*;

/// A tile that is seen with the probability of its share, so that the paper's weights are the viewport's.
fn tile(share: f64, scale: f64) -> TileMenu {
    let choices = [(900, 1.0), (400, 5.0), (150, 30.0)];
    let choices =
        choices.map(|(bytes, mse)| Choice { bytes: (f64::from(bytes) * scale) as u64, mse: mse * scale });
    TileMenu { seen: share, weight: share, concealed_mse: 3000.0, choices: choices.to_vec() }
}

/// Viewers with two tiles each, of different complexity.
fn viewers(count: usize, seed: u64) -> Vec<Vec<TileMenu>> {
    let mut rng = Rng::new(seed);
    let mut viewer = || {
        let (share, scale) = (rng.uniform(), 0.5 + 2.0 * rng.uniform());
        vec![tile(share, scale), tile(1.0 - share, 0.5 + 2.0 * rng.uniform())]
    };
    (0..count).map(|_| viewer()).collect()
}

fn decide(viewers: &[Vec<TileMenu>], bytes: f64, (name, sharing): (&str, Sharing)) -> Vec<Allocation> {
    let allocator = create(name, Settings { exact: true, ..Settings::default() }).unwrap();
    let capacity = Capacity::certain(bytes).unwrap();
    together(viewers, &capacity, ArrivalOrder::InOrder, (&*allocator, sharing)).unwrap()
}

fn distortions(made: &[Allocation]) -> Vec<f64> {
    made.iter().map(|viewer| viewer.expected_mse).collect()
}

/// The least cost of every combination of qualities within the capacity.
fn by_trying(viewers: &[Vec<TileMenu>], bytes: f64, sharing: Sharing) -> f64 {
    let tiles: Vec<(usize, &TileMenu)> = viewers
        .iter()
        .enumerate()
        .flat_map(|(viewer, tiles)| tiles.iter().map(move |tile| (viewer, tile)))
        .collect();
    let mut least = f64::INFINITY;
    for combination in 0..3_usize.pow(tiles.len() as u32) {
        let (mut sum, mut mse, mut rest) = (0, vec![0.0; viewers.len()], combination);
        for (viewer, tile) in &tiles {
            let choice = tile.choices[rest % 3];
            rest /= 3;
            sum += choice.bytes;
            mse[*viewer] += tile.weight * choice.mse;
        }
        if sum as f64 <= bytes {
            least = least.min(sharing.cost(&mse));
        }
    }
    least
}

#[test]
fn one_viewer_gets_what_the_allocator_decides_for_one() {
    for seed in 0..20 {
        let viewer = viewers(1, seed);
        let capacity = Capacity::from_paths(&[vec![500.0, 900.0, 1400.0]]).unwrap();
        let problem = GopProblem::new(viewer[0].clone(), capacity.clone(), ArrivalOrder::InOrder).unwrap();
        for (name, sharing) in
            names().into_iter().flat_map(|name| Sharing::names().into_iter().map(move |s| (name, s)))
        {
            let allocator = create(name, Settings::default()).unwrap();
            let how = (&*allocator, Sharing::find(sharing).unwrap());
            let made = together(&viewer, &capacity, ArrivalOrder::InOrder, how).unwrap();
            assert_eq!(made, [allocator.allocate(&problem)], "{name} {sharing}");
        }
    }
}

#[test]
fn the_papers_sum_is_the_least_of_all_combinations() {
    for seed in 0..60 {
        let (viewers, bytes) = (viewers(3, seed), 1800.0 + 60.0 * seed as f64);
        let least = by_trying(&viewers, bytes, Sharing::Sum);
        for name in ["fix", "ows-paper", "ows"] {
            let made = decide(&viewers, bytes, (name, Sharing::Sum));
            let sum = Sharing::Sum.cost(&distortions(&made));
            // `ows` may also leave tiles out.
            let is_least = (sum - least).abs() < 1e-9 * least || (name == "ows" && sum < least);
            assert!(is_least, "{name}, seed {seed}: {sum} for {least}");
            assert!(made.iter().map(|viewer| viewer.bytes).sum::<u64>() as f64 <= bytes);
        }
    }
}

/// Decisions by weights reach the corners of the hull of all distortions; between them lie others, which are few where
/// viewers have many tiles.
#[test]
fn other_objectives_are_nearer_to_their_optimum_than_the_sum() {
    for sharing in [Sharing::SumDb, Sharing::MaxMin] {
        let mut over = [0.0, 0.0];
        for seed in 0..60 {
            let (viewers, bytes) = (viewers(3, seed), 1800.0 + 60.0 * seed as f64);
            let least = by_trying(&viewers, bytes, sharing);
            let cost = |how| sharing.cost(&distortions(&decide(&viewers, bytes, ("fix", how))));
            let costs = [cost(sharing), cost(Sharing::Sum)];
            assert!(
                least <= costs[0] + 1e-9 && costs[0] <= costs[1] + 1e-9,
                "seed {seed}: {least} {costs:?}"
            );
            // Of the mean viewer, or of the worst one.
            let db = |cost: f64| match sharing {
                Sharing::SumDb => (cost - least) / 3.0,
                _ => libm::log(cost / least),
            };
            over = [over[0] + db(costs[0]), over[1] + db(costs[1])];
        }
        let mean = over.map(|sum| sum / 60.0 * 10.0 / core::f64::consts::LN_10);
        assert!(mean[0] < 0.5 && mean[0] < 0.9 * mean[1], "{sharing:?}: {mean:?} dB over the optimum");
    }
}

#[test]
fn identical_viewers_get_equal_quality_and_one_who_leaves_frees_his_share() {
    let viewer = viewers(1, 5).remove(0);
    for (name, sharing) in
        Sharing::names().into_iter().flat_map(|s| ["ows", "ows-paper"].map(|name| (name, s)))
    {
        let how = (name, Sharing::find(sharing).unwrap());
        let alone = |bytes| decide(std::slice::from_ref(&viewer), bytes, how).remove(0);
        // A corner of the hull: no division of several times these bytes is better than an equal one.
        let corner = (300..3000)
            .map(|bytes| alone(f64::from(bytes)))
            .find(|made| made.plan.gap_db() < 1e-9 && made.bytes > 500);
        let alone = corner.expect("each step of the hull ends in one");
        let bytes = alone.plan.budget;
        let all = decide(&vec![viewer.clone(); 4], 4.0 * bytes, how);
        assert!(all.iter().all(|each| each.choices == alone.choices), "{name} {sharing}: {all:?}");
        let fewer = decide(&vec![viewer.clone(); 2], 4.0 * bytes, how);
        assert!(
            fewer.iter().all(|each| each.expected_mse < alone.expected_mse),
            "{name} {sharing}: {fewer:?}"
        );
    }
}

#[test]
fn no_viewers_and_unknown_objectives_are_refused() {
    let (capacity, allocator) =
        (Capacity::certain(1.0).unwrap(), create("fix", Settings::default()).unwrap());
    assert!(together(&[], &capacity, ArrivalOrder::InOrder, (&*allocator, Sharing::Sum)).is_err());
    let error = Sharing::find("fair").unwrap_err().to_string();
    assert!(error.contains("`fair`; known are sum, sum-db, max-min"), "{error}");
}
