//! A scenario of which the beginning has passed: runs that begin at different times of one recording see different conditions.

use super::{Moment, Scenario};
use crate::LinkSpec;
use core::time::Duration;
use tributary_types::Instant;

impl Scenario {
    /// The scenario without its first `after`. Its duration is what is left. Traces and cycles still repeat; random
    /// processes begin anew.
    #[must_use]
    pub fn begun_at(mut self, after: Duration) -> Self {
        let whole = self.duration;
        let rest = |moment: Moment| Moment::At(moment.resolve(whole).saturating_since(Instant::ZERO + after));
        let windows = |windows: &mut Vec<(Moment, Moment)>| {
            windows.retain(|window| window.1.resolve(whole) > Instant::ZERO + after);
            windows.iter_mut().for_each(|window| *window = (rest(window.0), rest(window.1)));
        };
        for path in &mut self.paths {
            path.links_mut().into_iter().for_each(|link| begin(link, after));
            windows(&mut path.dead);
            windows(&mut path.absent);
        }
        for hop in &mut self.hops {
            [&mut hop.down, &mut hop.up].into_iter().for_each(|link| begin(link, after));
            windows(&mut hop.dead);
        }
        self.background.retain(|source| source.to.resolve(whole) > Instant::ZERO + after);
        for source in &mut self.background {
            (source.from, source.to) = (rest(source.from), rest(source.to));
        }
        self.duration = whole.saturating_sub(after);
        self
    }
}

fn begin(link: &mut LinkSpec, after: Duration) {
    link.rate = link.rate.begun_at(after);
    link.loss = link.loss.begun_at(after);
    link.delay.base = link.delay.base_at(Instant::ZERO + after);
    link.delay.changes.retain(|change| change.0 > after);
    link.delay.changes.iter_mut().for_each(|change| change.0 -= after);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Direction, LossSpec};

    /// Every rate process with a schedule, a delay that changes, and windows.
    const TEXT: &str = r#"
        name = "walk"
        duration = "20 s"
        [[path]]
        name = "a"
        dead = [["1 s", "2 s"], ["25 %", "8 s"]]
        down.rate = { trace = { lasting = 1, rate = 2, text = "1.5,10\n2,20\n0.7,0\n3,7\n" } }
        down.delay = { base = "10 ms", changes = [["3 s", "20 ms"], ["7 s", "30 ms"]] }
        down.loss = { steps = [["0 s", 0], ["4 s", "20 %"], ["9 s", 0.05]] }
        up.rate = { turns = [["1.5 s", "140 Mbit/s"], ["1 s", "3 Mbit/s"]] }
        [[path]]
        name = "b"
        down.rate = { steps = [["0 s", "5 Mbit/s"], ["4 s", "9 Mbit/s"], ["6 s", "1 Mbit/s"]] }
        "#;

    #[test]
    fn what_is_left_is_what_it_was() {
        let whole = Scenario::parse(TEXT, "walk.toml").unwrap();
        let ms = Instant::from_millis;
        for after in [0_u64, 250, 1500, 3000, 5000, 6999, 9300] {
            let rest = whole.clone().begun_at(Duration::from_millis(after));
            rest.check().unwrap();
            assert_eq!(rest.duration, Duration::from_millis(20_000 - after));
            for (path, direction) in [(0, Direction::Down), (0, Direction::Up), (1, Direction::Down)] {
                for from in (0..10_000).step_by(130) {
                    let bytes = |of: &Scenario, at: u64| of.capacity(path, direction, ms(at), ms(at + 130));
                    assert_eq!(
                        bytes(&rest, from),
                        bytes(&whole, from + after),
                        "{path} {direction:?}, {from} ms after {after} ms"
                    );
                    let delay = |of: &Scenario, at: u64| of.paths[path].link(direction).delay.base_at(ms(at));
                    assert_eq!(delay(&rest, from), delay(&whole, from + after));
                }
            }
        }
        let loss = whole.clone().begun_at(Duration::from_secs(6)).paths[0].down.loss.clone();
        assert_eq!(loss, LossSpec::Steps(vec![(Duration::ZERO, 0.2), (Duration::from_secs(3), 0.05)]));
        assert_eq!(whole.clone().begun_at(Duration::from_secs(6)).paths[0].dead.len(), 1);
        assert_eq!(whole.clone().begun_at(Duration::ZERO).paths[1].down, whole.paths[1].down);
    }
}
