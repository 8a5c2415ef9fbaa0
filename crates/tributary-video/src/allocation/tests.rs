//! All allocators in one test driver, the distortion model compared with a naive one, and `ows` with every
//! order and every choice.

use proptest::prelude::*;
use tributary_types::Rng;

use super::*;

fn tile(weight: f64, concealed_mse: f64, choices: &[(u64, f64)]) -> TileMenu {
    let choices = choices.iter().map(|(bytes, mse)| Choice { bytes: *bytes, mse: *mse }).collect();
    TileMenu { seen: (3.0 * weight).min(1.0), weight, concealed_mse, choices }
}

fn problem(tiles: Vec<TileMenu>, samples: &[f64], arrival: ArrivalOrder) -> GopProblem {
    // Both ends: a steady path that sends forward and a changing one that sends backward.
    let paths = match arrival {
        ArrivalOrder::InOrder => vec![samples.to_vec()],
        ArrivalOrder::BothEnds => {
            vec![vec![30.0; samples.len()], samples.iter().map(|sample| (sample - 30.0).max(0.0)).collect()]
        }
    };
    let capacity = Capacity::from_paths(&paths).expect("capacities");
    GopProblem::new(tiles, capacity, arrival).expect("a problem")
}

fn allocate(name: &str, problem: &GopProblem) -> Allocation {
    create(name, Settings::default()).expect("a known name").allocate(problem)
}

/// A GoP as from an encoder: some tiles complex, some static, some visible.
fn encoded(seed: u64, tiles: usize, qualities: usize) -> GopProblem {
    let mut rng = Rng::new(seed);
    let mut unit = move || rng.uniform();
    let raw: Vec<f64> = (0..tiles).map(|_| unit() * unit() * unit()).collect();
    let whole: f64 = raw.iter().sum();
    let menus: Vec<TileMenu> = raw
        .iter()
        .map(|share| {
            let (busy, mse) = (2_000.0 + 60_000.0 * unit() * unit(), 0.5 + 3.0 * unit());
            let choices: Vec<(u64, f64)> = (0..qualities)
                .map(|at| {
                    let step = at as f64;
                    ((busy * libm::exp2(-0.8 * step)) as u64 + 40, mse * libm::exp2(step))
                })
                .collect();
            tile(share / whole, 10.0 + 3000.0 * unit() * unit(), &choices)
        })
        .collect();
    let mean = menus.iter().map(|menu| menu.choices[qualities / 2].bytes as f64).sum::<f64>();
    let samples: Vec<f64> = (0..30).map(|_| mean * (0.2 + 1.6 * unit())).collect();
    let capacity = Capacity::from_paths(&[samples]).expect("capacities");
    GopProblem::new(menus, capacity, ArrivalOrder::InOrder).expect("a problem")
}

/// Displayed distortion at one capacity sample, computed message by message.
fn shown(problem: &GopProblem, order: &[TileChoice], (head, tail): (f64, f64)) -> f64 {
    let bytes = |message: &TileChoice| problem.tiles()[message.tile].choices[message.choice].bytes as f64;
    let total: f64 = order.iter().map(bytes).sum();
    let arrived = |at: usize| {
        let through: f64 = order[..=at].iter().map(bytes).sum();
        let after: f64 = order[at..].iter().map(bytes).sum();
        match problem.arrival() {
            ArrivalOrder::InOrder => through <= head + tail,
            ArrivalOrder::BothEnds => total <= head + tail || through <= head || after <= tail,
        }
    };
    let one = |(tile, menu): (usize, &TileMenu)| {
        let copies = order.iter().enumerate().filter(|(at, message)| message.tile == tile && arrived(*at));
        let finest = copies.map(|(_, message)| message.choice).min();
        menu.weight * finest.map_or(menu.concealed_mse, |choice| menu.choices[choice].mse)
    };
    problem.tiles().iter().enumerate().map(one).sum()
}

fn expected(problem: &GopProblem, order: &[TileChoice]) -> f64 {
    let samples = problem.capacity().samples();
    samples.iter().map(|sample| shown(problem, order, *sample)).sum::<f64>() / samples.len() as f64
}

/// The least `E[D]` over every choice and every order, without guard copies.
fn best_by_trying(problem: &GopProblem) -> f64 {
    fn extend(problem: &GopProblem, order: &mut Vec<TileChoice>, best: &mut f64) {
        *best = best.min(expected(problem, order));
        for tile in 0..problem.tiles().len() {
            if order.iter().any(|message| message.tile == tile) {
                continue;
            }
            for choice in 0..problem.tiles()[tile].choices.len() {
                order.push(TileChoice { tile, choice });
                extend(problem, order, best);
                order.pop();
            }
        }
    }
    let mut best = f64::INFINITY;
    extend(problem, &mut Vec::new(), &mut best);
    best
}

#[test]
fn unknown_names_list_the_known() {
    let error = create("best", Settings::default()).err().expect("no such allocator").to_string();
    assert!(error.contains("fix, fix-q, ows, ows-no-skip, ows-paper"), "{error}");
    for name in names() {
        assert_eq!(create(name, Settings::default()).expect("a known name").name(), name);
    }
}

#[test]
fn bad_problems_are_refused() {
    let good = tile(0.5, 100.0, &[(10, 1.0)]);
    let capacity = Capacity::certain(10.0).expect("a capacity");
    let make = |tiles| GopProblem::new(tiles, capacity.clone(), ArrivalOrder::InOrder);
    assert!(make(vec![good.clone()]).is_ok());
    assert!(make(vec![]).is_err());
    assert!(make(vec![good.clone(), tile(0.5, 1.0, &[(1, 1.0), (2, 0.5)])]).is_err());
    assert!(make(vec![tile(0.5, 1.0, &[])]).is_err());
    assert!(make(vec![tile(f64::NAN, 1.0, &[(1, 1.0)])]).is_err());
    assert!(make(vec![tile(0.5, -1.0, &[(1, 1.0)])]).is_err());
    let error = make(vec![tile(0.5, 1.0, &[(1, f64::INFINITY)])]).expect_err("infinite").to_string();
    assert!(error.contains("tile 0: MSE is inf"), "{error}");
    assert!(make(vec![tile(0.5, 1.0, &[(u64::MAX, 1.0)])]).is_err());
    assert!(Capacity::from_paths(&[]).is_err());
    assert!(Capacity::from_paths(&[vec![1.0], vec![]]).is_err());
    assert!(Capacity::certain(f64::NAN).is_err() && Capacity::certain(-1.0).is_err());
}

#[test]
fn fix_keeps_the_default_order_and_the_mean() {
    let tiles = vec![tile(0.1, 500.0, &[(60, 1.0), (20, 10.0)]), tile(0.3, 500.0, &[(60, 1.0), (20, 10.0)])];
    let problem = problem(tiles, &[40.0, 120.0], ArrivalOrder::InOrder);
    let fix = allocate("fix", &problem);
    // 80 bytes at the mean: only the tile that is more likely seen is fine.
    assert_eq!(fix.choices, [Some(1), Some(0)]);
    assert_eq!(fix.order.iter().map(|message| message.tile).collect::<Vec<_>>(), [0, 1]);
    assert_eq!(fix.misses, [0.0, 0.5]);
    assert_eq!(fix.plan.budget, 80.0);
    // Half of the time tile 1 is missing.
    assert!((fix.expected_mse - (0.1 * 10.0 + 0.3 * (0.5 * 1.0 + 0.5 * 500.0))).abs() < 1e-9);
}

#[test]
fn quantile_search_gives_up_rate_for_certainty() {
    let tiles = vec![tile(0.5, 500.0, &[(60, 1.0), (20, 10.0)]), tile(0.5, 500.0, &[(60, 1.0), (20, 10.0)])];
    let problem = problem(tiles, &[40.0, 120.0], ArrivalOrder::InOrder);
    let careful = allocate("fix-q", &problem);
    assert_eq!(careful.choices, [Some(1), Some(1)]);
    assert!((careful.expected_mse - 10.0).abs() < 1e-9);
}

#[test]
fn the_papers_sort_puts_the_most_harmful_tile_last() {
    let tiles =
        vec![tile(0.3, 500.0, &[(40, 9.0)]), tile(0.1, 500.0, &[(40, 2.0)]), tile(0.2, 500.0, &[(40, 5.0)])];
    let problem = problem(tiles, &[30.0, 100.0], ArrivalOrder::InOrder);
    let tiles_of = |name| allocate(name, &problem).order.iter().map(|m| m.tile).collect::<Vec<_>>();
    // Default order: losses ½·P·D of tiles 0 and 1, all of tile 2; printed descending, 2 comes first.
    let printed = tiles_of("ows-paper");
    assert_eq!(printed, [0, 1, 2], "the best iterate of the ascending sort is the default order");
    assert_eq!(tiles_of("ows-paper-descending")[2], 1, "the least harmful goes last");
}

#[test]
fn ows_leaves_out_what_the_old_picture_shows_as_well() {
    let tiles = vec![tile(0.5, 3.0, &[(60, 1.0), (40, 4.0)]), tile(0.5, 900.0, &[(60, 1.0), (40, 4.0)])];
    let problem = problem(tiles, &[60.0, 60.0], ArrivalOrder::InOrder);
    let ows = allocate("ows", &problem);
    assert_eq!(ows.choices, [None, Some(0)]);
    assert!((ows.expected_mse - 2.0).abs() < 1e-9);
    assert!(allocate("ows-no-skip", &problem).choices.iter().all(Option::is_some));
}

#[test]
fn ows_guards_a_tile_that_may_come_late() {
    // Half of the time 100 bytes fit, half of the time 15: a guard copy of 10 bytes pays off.
    let problem =
        problem(vec![tile(1.0, 5000.0, &[(85, 1.0), (10, 60.0)])], &[15.0, 100.0], ArrivalOrder::InOrder);
    let ows = allocate("ows", &problem);
    let guarded = [TileChoice { tile: 0, choice: 1 }, TileChoice { tile: 0, choice: 0 }];
    assert_eq!(ows.order, guarded);
    assert!((ows.expected_mse - 30.5).abs() < 1e-9, "{}", ows.expected_mse);
    assert_eq!(ows.misses, [0.0, 0.5]);
}

#[test]
fn both_ends_keep_the_middle_for_what_matters_least() {
    let tiles = vec![
        tile(0.05, 900.0, &[(25, 1.0)]),
        tile(0.60, 900.0, &[(25, 1.0)]),
        tile(0.35, 900.0, &[(25, 1.0)]),
    ];
    let problem = problem(tiles, &[55.0, 60.0, 130.0], ArrivalOrder::BothEnds);
    let order: Vec<usize> = allocate("ows", &problem).order.iter().map(|message| message.tile).collect();
    assert_eq!(order, [1, 0, 2]);
}

#[test]
fn tiles_that_are_probably_late_and_of_little_use_are_not_sent() {
    // The second tile arrives in one sample of three, and freezing it is almost as good.
    let tiles = vec![tile(0.5, 900.0, &[(50, 1.0)]), tile(0.5, 1.1, &[(50, 1.0)])];
    let samples = [60.0, 70.0, 130.0];
    let sent = |tiles: &[TileMenu], unlikely_db| {
        let settings = Settings { unlikely_db, ..Settings::default() };
        let problem = problem(tiles.to_vec(), &samples, ArrivalOrder::InOrder);
        create("ows", settings).expect("a known name").allocate(&problem).order.len()
    };
    assert_eq!((sent(&tiles, 0.0), sent(&tiles, 0.3)), (2, 1));
    // If it helps much, it is sent.
    let needed = [tiles[0].clone(), tile(0.5, 400.0, &[(50, 1.0)])];
    assert_eq!(sent(&needed, 0.3), 2);
}

#[test]
fn minimising_decibels_and_distortion_gives_different_plans() {
    let (mut mse, mut differ) = ([0.0, 0.0], false);
    for seed in 0..20 {
        let problem = encoded(seed, 12, 5);
        let of = |objective| {
            let settings = Settings { objective, ..Settings::default() };
            create("ows", settings).expect("a known name").allocate(&problem)
        };
        let made = [of(Objective::Distortion), of(Objective::Decibels)];
        differ |= made[0].choices != made[1].choices;
        mse = [mse[0] + made[0].expected_mse, mse[1] + made[1].expected_mse];
    }
    assert!(differ && mse[0] <= mse[1], "{mse:?}");
}

/// Distance of `ows` from the best of all orders and choices.
#[test]
fn ows_is_near_the_best_of_all() {
    let mut rng = Rng::new(7);
    let mut worst: f64 = 0.0;
    for round in 0..60 {
        let mut unit = || rng.uniform();
        let tiles: Vec<TileMenu> = (0..3)
            .map(|_| {
                let (size, mse) = (20.0 + 80.0 * unit(), 1.0 + 8.0 * unit());
                tile(
                    unit() / 3.0,
                    20.0 + 900.0 * unit(),
                    &[(size as u64, mse), ((size / 3.0) as u64, mse * 5.0)],
                )
            })
            .collect();
        let samples: Vec<f64> = (0..5).map(|_| 250.0 * unit()).collect();
        let arrival = if round % 2 == 0 { ArrivalOrder::InOrder } else { ArrivalOrder::BothEnds };
        let problem = problem(tiles, &samples, arrival);
        let (ours, best) = (allocate("ows", &problem).expected_mse, best_by_trying(&problem));
        let bound = allocate("ows", &problem).bound_mse;
        assert!(bound <= best + 1e-9, "round {round}: bound {bound} over {best}");
        worst = worst.max(10.0 * libm::log10(ours / best));
    }
    assert!(worst < 1.5, "{worst} dB from the best of all");
}

fn menus() -> impl Strategy<Value = Vec<TileMenu>> {
    let qualities = proptest::collection::vec((0u64..500, 0.0f64..300.0), 3);
    let one = (0.0f64..0.2, 0.0f64..4000.0, qualities)
        .prop_map(|(weight, concealed_mse, choices)| tile(weight, concealed_mse, &choices));
    proptest::collection::vec(one, 1..9)
}

proptest! {
    /// For all allocators: the report agrees with the naive model and is not better than the bound.
    #[test]
    fn reported_figures_match_the_allocation(
        menus in menus(),
        samples in proptest::collection::vec(0.0f64..3000.0, 1..8),
        both in any::<bool>(),
        exact in any::<bool>(),
    ) {
        let arrival = if both { ArrivalOrder::BothEnds } else { ArrivalOrder::InOrder };
        let problem = problem(menus, &samples, arrival);
        for name in names() {
            let settings = Settings { exact, ..Settings::default() };
            let made = create(name, settings).expect("a known name").allocate(&problem);
            let naive = expected(&problem, &made.order);
            prop_assert!((made.expected_mse - naive).abs() < 1e-6 * naive.max(1.0), "{name}: {naive}");
            prop_assert!(made.bound_mse <= made.expected_mse + 1e-6, "{name}");
            prop_assert!(made.plan.bound <= made.plan.value + 1e-9, "{name}");
            prop_assert_eq!(made.misses.len(), made.order.len());
            let mut once: Vec<(usize, usize)> = made.order.iter().map(|m| (m.tile, m.choice)).collect();
            once.sort_unstable();
            once.dedup();
            prop_assert_eq!(once.len(), made.order.len(), "{}: a message twice", name);
            for (tile, choice) in made.choices.iter().enumerate() {
                let finest = made.order.iter().filter(|m| m.tile == tile).map(|m| m.choice).min();
                prop_assert_eq!(finest, *choice);
                prop_assert!(choice.is_some() || name == "ows", "{}: leaves out", name);
            }
        }
    }

    #[test]
    fn ows_is_never_behind_the_fair_baseline(seed in 0u64..5000, exact in any::<bool>()) {
        let problem = encoded(seed, 12, 5);
        let settings = Settings { exact, ..Settings::default() };
        let mse = |name| create(name, settings).expect("a known name").allocate(&problem).expected_mse;
        let (ows, every, fixed) = (mse("ows"), mse("ows-no-skip"), mse("fix-q"));
        prop_assert!(ows <= fixed + 1e-9 && every <= fixed + 1e-9, "{ows} {every} {fixed}");
        prop_assert!(fixed <= mse("fix") + 1e-9);
        let printed = mse("ows-paper");
        prop_assert!(ows <= printed + 1e-9 && every <= printed + 1e-9, "{ows} {every} {printed}");
    }

    #[test]
    fn equal_problems_give_equal_answers(seed in 0u64..5000) {
        let (a, b) = (encoded(seed, 12, 5), encoded(seed, 12, 5));
        for name in names() {
            prop_assert_eq!(allocate(name, &a), allocate(name, &b));
        }
    }
}
