//! The rate and the loss of a path from the packets of a train that arrived: their numbers and their times.

use super::wire::{LARGE, Train};
use core::time::Duration;

/// A train with fewer packets says nothing about the rate.
const LEAST: u16 = 4;
/// The packets of a train are spread by the link over at least this time; less is below what a program's clock can tell.
const SHORTEST: Duration = Duration::from_micros(50);
/// So many packets missing at the end of a train did not fit into the queue.
const CUT: u16 = 2;

/// What arrived of one train, as sums: it takes the same memory for every length.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Arrivals {
    /// When the first one arrived; `None`: nothing arrived.
    pub first: Option<Duration>,
    last: Duration,
    arrived: u16,
    /// One more than the highest number that arrived.
    reached: u16,
    /// Length of the train.
    packets: u16,
    time: f64,
    time_squared: f64,
    /// Sum of the numbers, and of number times time: as they were sent, and as they arrived.
    sent: (f64, f64),
    order: (f64, f64),
}

impl Arrivals {
    /// Packet `index` of a train of `packets` arrived.
    pub fn push(&mut self, at: Duration, index: u16, packets: u16) {
        let time = at.saturating_sub(*self.first.get_or_insert(at)).as_secs_f64();
        for (sums, number) in [(&mut self.sent, index), (&mut self.order, self.arrived)] {
            sums.0 += f64::from(number);
            sums.1 += f64::from(number) * time;
        }
        self.time += time;
        self.time_squared += time * time;
        self.last = self.last.max(at);
        self.arrived = self.arrived.saturating_add(1);
        self.reached = self.reached.max(index.saturating_add(1));
        self.packets = packets;
    }

    /// Packets that arrived.
    pub fn arrived(&self) -> u16 {
        self.arrived
    }

    /// Packets up to the last one that arrived, if the queue had no room for the rest.
    pub fn room(&self) -> Option<u16> {
        (self.packets.saturating_sub(self.reached) >= CUT).then_some(self.reached)
    }

    /// The rate in bit/s of IP packets with a header of `header` bytes: the slope of the least-squares line through numbers over
    /// times of arrival. A packet that was lost at random used the link's time, so the numbers are those of sending; one that did
    /// not fit into the queue used none, so in a train that was cut they are those of arrival. Packets that arrive in groups do
    /// not bias the slope. `None`: too few packets, or all at once.
    pub fn rate(&self, header: usize) -> Option<f64> {
        let first = self.first?;
        if self.arrived < LEAST || self.last.saturating_sub(first) < SHORTEST {
            return None;
        }
        let (number, product) = if self.room().is_some() { self.order } else { self.sent };
        let count = f64::from(self.arrived);
        let slope =
            (product - number * self.time / count) / (self.time_squared - self.time * self.time / count);
        (slope.is_finite() && slope > 0.0).then_some(slope * (LARGE + header) as f64 * 8.0)
    }

    /// Packets of which it is known whether they were lost at random, and how many were: those before the last that arrived. In a
    /// train that was cut nobody knows.
    pub fn losses(&self) -> (u16, u16) {
        match (self.first, self.room()) {
            (Some(_), None) => (self.reached - 1, self.reached.saturating_sub(self.arrived)),
            _ => (0, 0),
        }
    }

    /// As it is reported.
    pub fn train(&self, slot: u32, header: usize) -> Option<Train> {
        let (counted, lost) = self.losses();
        let rate = self.rate(header).unwrap_or(0.0) as u64;
        Some(Train { slot, first: self.first?, rate, counted, lost, room: self.room().unwrap_or(0) })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A train over a link that carries a packet every 100 µs, in groups of `group`, without those that `lost` names.
    fn train(packets: u16, group: u64, lost: impl Fn(u16) -> bool) -> Arrivals {
        let mut arrivals = Arrivals::default();
        for index in (0..packets).filter(|index| !lost(*index)) {
            let at = (u64::from(index) / group + 1) * group * 100;
            arrivals.push(Duration::from_secs(1) + Duration::from_micros(at), index, packets);
        }
        arrivals
    }

    /// The rate over the real one of 112 Mbit/s.
    fn ratio(arrivals: &Arrivals) -> f64 {
        arrivals.rate(28).unwrap() / 112e6
    }

    #[test]
    fn the_rate_is_that_of_the_link_even_if_packets_arrive_in_groups() {
        for group in [1, 2, 4, 8] {
            let ratio = ratio(&train(64, group, |_| false));
            assert!((ratio - 1.0).abs() < 0.02, "groups of {group}: {ratio}");
        }
    }

    #[test]
    fn packets_that_the_link_carried_and_lost_count() {
        let arrivals = train(64, 1, |index| index % 5 == 3);
        assert!((ratio(&arrivals) - 1.0).abs() < 1e-3, "{}", ratio(&arrivals));
        assert_eq!(arrivals.losses(), (62, 12));
    }

    #[test]
    fn packets_that_did_not_fit_into_the_queue_do_not() {
        // The queue holds twenty packets; then each packet in service makes room for one of three.
        let mut arrivals = Arrivals::default();
        for (order, index) in (0..20).chain((20..60).step_by(3)).enumerate() {
            arrivals.push(Duration::from_micros(100 * order as u64), index, 80);
        }
        assert!((ratio(&arrivals) - 1.0).abs() < 1e-3, "{}", ratio(&arrivals));
        assert_eq!((arrivals.losses(), arrivals.room()), ((0, 0), Some(60)));
    }

    #[test]
    fn short_trains_say_nothing() {
        assert_eq!(train(3, 1, |_| false).rate(28), None);
        assert_eq!(train(20, 20, |_| false).rate(28), None);
        assert_eq!(Arrivals::default().rate(28), None);
        assert_eq!((Arrivals::default().losses(), Arrivals::default().train(1, 28)), ((0, 0), None));
        assert_eq!(train(1, 1, |_| false).losses(), (0, 0));
    }
}
