//! Benchmark of the allocators on random GoPs with an encoder's statistics: time, distance of the greedy from
//! the exact plan, and expected distortion.
//!
//! ```text
//! cargo run --release -p tributary-video --example allocation
//! ```
//! Times are the thread's processor time (Linux); all other output is independent of the machine.

use rustix::time::{ClockId, clock_gettime};
use tributary_types::Rng;
use tributary_video::allocation::{
    Allocation, ArrivalOrder, Capacity, Choice, GopProblem, Settings, TileMenu, create, names,
};

/// Sizes fall by `2^-0.8` and distortions double per step of six QP, around a tile's own complexity; a few
/// tiles hold most of the view, as in real viewports.
fn encoded(rng: &mut Rng, tiles: usize, qualities: usize) -> GopProblem {
    let raw: Vec<f64> = (0..tiles).map(|_| rng.uniform() * rng.uniform() * rng.uniform()).collect();
    let whole: f64 = raw.iter().sum();
    let menus: Vec<TileMenu> = raw.iter().map(|share| menu(rng, share / whole, qualities)).collect();
    let mean: f64 = menus.iter().map(|menu| menu.choices[qualities / 2].bytes as f64).sum();
    let samples = (0..30).map(|_| mean * (0.2 + 1.6 * rng.uniform())).collect();
    let capacity = Capacity::from_paths(&[samples]).expect("capacities over 0");
    GopProblem::new(menus, capacity, ArrivalOrder::InOrder).expect("a valid problem")
}

fn menu(rng: &mut Rng, weight: f64, qualities: usize) -> TileMenu {
    let (busy, mse) = (2e3 + 6e4 * rng.uniform() * rng.uniform(), 0.5 + 3.0 * rng.uniform());
    let choice = |at: usize| {
        let step = 6.0 * at as f64 / qualities as f64;
        Choice { bytes: (busy * libm::exp2(-0.8 * step)) as u64 + 40, mse: mse * libm::exp2(step) }
    };
    TileMenu {
        seen: (3.0 * weight).min(1.0),
        weight,
        concealed_mse: 10.0 + 3000.0 * rng.uniform() * rng.uniform(),
        choices: (0..qualities).map(choice).collect(),
    }
}

fn processor_ms() -> f64 {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    time.tv_sec as f64 * 1e3 + time.tv_nsec as f64 / 1e6
}

fn quantile(values: &mut [f64], share: f64) -> f64 {
    values.sort_by(f64::total_cmp);
    values[((values.len() - 1) as f64 * share).round() as usize]
}

fn decibels(ratio: f64) -> f64 {
    10.0 * libm::log10(ratio)
}

fn main() {
    for (tiles, qualities, rounds) in [(24, 7, 500), (144, 8, 100)] {
        println!("{tiles} tiles x {qualities} QPs, 30 samples of capacity, {rounds} GoPs");
        println!(
            "{:<22} {:>9} {:>9} {:>9} {:>9} | {:>8} {:>8} {:>8}",
            "", "greedy", "99 %", "exact", "99 %", "gap 99 %", "PSNR", "to bound"
        );
        let problems: Vec<GopProblem> = {
            let mut rng = Rng::new(1);
            (0..rounds).map(|_| encoded(&mut rng, tiles, qualities)).collect()
        };
        for name in names() {
            row(name, &problems);
        }
    }
}

fn row(name: &str, problems: &[GopProblem]) {
    let run = |exact| {
        let allocator = create(name, Settings { exact, ..Settings::default() }).expect("a known name");
        let one = |problem: &GopProblem| {
            // The fastest of three runs, so that cold caches do not count.
            let times = [(); 3].map(|()| {
                let start = processor_ms();
                std::hint::black_box(allocator.allocate(problem));
                processor_ms() - start
            });
            (times.into_iter().fold(f64::INFINITY, f64::min), allocator.allocate(problem))
        };
        problems.iter().map(one).unzip::<f64, Allocation, Vec<f64>, Vec<Allocation>>()
    };
    let (mut greedy_ms, greedy) = run(false);
    let (mut exact_ms, exact) = run(true);
    // Distance of each plan from the bound at its own budget.
    let gap = |made: &Allocation| made.plan.gap_db();
    let mut gaps: Vec<f64> = greedy.iter().map(gap).collect();
    let proved = exact.iter().filter(|made| made.plan.optimal).count();
    let mean = |of: &dyn Fn(&Allocation) -> f64| greedy.iter().map(of).sum::<f64>() / greedy.len() as f64;
    println!(
        "{name:<22} {:>6.3} ms {:>6.3} ms {:>6.3} ms {:>6.3} ms | {:>5.3} dB {:>5.2} dB {:>5.2} dB  exact proved {proved}/{}, loss of greedy 99 % {:.3} dB",
        quantile(&mut greedy_ms, 0.5),
        quantile(&mut greedy_ms, 0.99),
        quantile(&mut exact_ms, 0.5),
        quantile(&mut exact_ms, 0.99),
        quantile(&mut gaps, 0.99),
        mean(&|made| decibels(65025.0 / made.expected_mse)),
        mean(&|made| decibels(made.expected_mse / made.bound_mse)),
        exact.len(),
        quantile(
            &mut greedy
                .iter()
                .zip(&exact)
                .map(|(a, b)| decibels(a.expected_mse / b.expected_mse))
                .collect::<Vec<_>>(),
            0.99
        ),
    );
}
