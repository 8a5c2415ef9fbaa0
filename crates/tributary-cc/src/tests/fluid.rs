//! Coupled control in a closed loop: fair at one bottleneck, and avoiding the congested one.

use super::bottleneck::{Bottleneck, World};

/// Rate of a connection of two subflows at one bottleneck, relative to one Reno flow beside it.
fn share_against_reno(name: &str) -> f64 {
    let mut total = [0.0; 2];
    for seed in 1..=4 {
        // 40 Mbit/s, 40 ms, half a bandwidth-delay product of queue and more.
        let mut world = World::new(vec![Bottleneck::new(5000.0, 300_000.0)], seed);
        world.connect(name, &[0, 0], 40.0);
        world.connect("reno", &[0], 40.0);
        let rates = world.rates(100);
        total[0] += rates[0] + rates[1];
        total[1] += rates[2];
    }
    println!("{name:<5} two subflows, {:.2} times a Reno flow beside them", total[0] / total[1]);
    total[0] / total[1]
}

/// Rates of a connection over bottlenecks with one and with eight Reno flows, in that order.
fn split(name: &str) -> (f64, f64) {
    let mut total = (0.0, 0.0);
    for seed in 1..=4 {
        let two = vec![Bottleneck::new(2500.0, 150_000.0), Bottleneck::new(2500.0, 150_000.0)];
        let mut world = World::new(two, seed);
        world.connect(name, &[0, 1], 40.0);
        world.connect("reno", &[0], 40.0);
        for _ in 0..8 {
            world.connect("reno", &[1], 40.0);
        }
        let rates = world.rates(60);
        total = (total.0 + rates[0], total.1 + rates[1]);
    }
    total
}

#[test]
fn uncoupled_subflows_take_twice_what_one_does() {
    let share = share_against_reno("reno");
    assert!((1.8..=2.2).contains(&share), "{share:.2}");
}

/// Slightly above one: α assumes windows in equilibrium, and each loss disturbs it.
#[test]
fn lia_takes_about_what_one_reno_flow_does() {
    let share = share_against_reno("lia");
    assert!((0.85..=1.35).contains(&share), "{share:.2}");
}

#[test]
fn olia_takes_about_what_one_reno_flow_does() {
    let share = share_against_reno("olia");
    assert!((0.85..=1.35).contains(&share), "{share:.2}");
}

#[test]
fn balia_takes_about_what_one_reno_flow_does() {
    let share = share_against_reno("balia");
    assert!((0.85..=1.35).contains(&share), "{share:.2}");
}

#[test]
fn olia_leaves_the_congested_path_further_than_lia_and_lia_further_than_reno() {
    let part = |name| {
        let (open, congested) = split(name);
        let part = congested / (open + congested);
        println!("{name:<5} {:.1} % over the path with eight others", 100.0 * part);
        part
    };
    let (reno, lia, olia) = (part("reno"), part("lia"), part("olia"));
    assert!(olia < 0.8 * lia && lia < 0.8 * reno, "{olia:.3} {lia:.3} {reno:.3}");
}

/// The queue is emptied repeatedly to measure the base round-trip time, which costs some of the rate.
#[test]
fn wvegas_keeps_the_queue_short_and_most_of_the_path_busy() {
    let mut world = World::new(vec![Bottleneck::new(5000.0, 300_000.0)], 1);
    world.connect("wvegas", &[0, 0], 40.0);
    let total: f64 = world.rates(60).iter().sum();
    let most = world.largest_queue(0);
    println!("wvegas {:.1} % of the rate, at most {most:.0} bytes waiting", total / 50.0);
    assert!(total > 0.8 * 5000.0, "{total:.0}");
    assert!(most < 20_000.0, "{most} bytes waited");
}
