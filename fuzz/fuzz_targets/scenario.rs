//! Any text as a scenario file: refused or understood, never a panic; what is understood can be built
//! and asked for its capacity.

#![no_main]

use libfuzzer_sys::fuzz_target;
use tributary_link::{Direction, Link, Scenario};
use tributary_types::Instant;

fuzz_target!(|text: &str| {
    if let Ok(scenario) = Scenario::parse(text, "fuzz") {
        scenario.check().expect("what was read has been checked");
        for path in 0..scenario.paths.len() {
            let end = Instant::from_millis(20);
            let capacity = scenario.capacity(path, Direction::Down, Instant::ZERO, end);
            assert!(capacity.as_bytes() <= 100_000_000_000 / 8 / 50);
            let mut link: Link<()> = scenario.link(path, Direction::Up);
            link.push(Instant::ZERO, tributary_link::Packet::whole(1500, ()));
            let _ = link.poll(end);
            assert!(link.stats().is_conserved());
        }
    }
});
