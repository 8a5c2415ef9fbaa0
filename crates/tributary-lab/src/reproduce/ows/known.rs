//! What a client knows of capacity: what past GoPs' time carried, part by part, and, while a GoP is sent, what
//! the rest of its time may still carry.

use core::time::Duration;
use std::collections::VecDeque;

use tributary_sim::workload::tiled::{GopRecord, PARTS};

/// GoPs that are remembered.
const REMEMBERED: usize = 30;
/// Of these so many are samples of how a GoP goes on.
const ALIKE: usize = 10;

/// Bytes that a GoP's time carried, by part.
pub type Course = [f64; PARTS];

/// The courses of the latest GoPs.
#[derive(Clone, Debug, Default)]
pub struct Known {
    courses: VecDeque<Course>,
    /// The most that an earlier viewing carried in a GoP's time.
    most: f64,
}

impl Known {
    /// From an earlier viewing, oldest GoP first.
    pub fn new(earlier: &[Course]) -> Self {
        let most = earlier.iter().map(total).fold(0.0, f64::max);
        let courses = earlier[earlier.len().saturating_sub(REMEMBERED)..].iter().copied().collect();
        Self { courses, most }
    }

    /// Learns from a GoP whose deadline has come.
    pub fn learn(&mut self, record: &GopRecord) {
        if self.courses.len() == REMEMBERED {
            self.courses.pop_front();
        }
        let mut course = course(record);
        // A GoP that was soon there is no proof of more than was ever carried.
        let most = self.most.max(record.bytes_in_time as f64);
        let much = total(&course);
        if much > most {
            course.iter_mut().for_each(|bytes| *bytes *= most / much);
        }
        self.courses.push_back(course);
    }

    /// Samples of what the parts from `part` on carry, when `carried` bytes came in those before: what followed in
    /// the GoPs that began most like this one.
    pub fn rest(&self, part: usize, carried: f64) -> Vec<f64> {
        let before = |course: &&Course| (course[..part].iter().sum::<f64>() - carried).abs();
        let mut alike: Vec<&Course> = self.courses.iter().collect();
        if part > 0 {
            alike.sort_by(|a, b| before(a).total_cmp(&before(b)));
            alike.truncate(ALIKE);
        }
        alike.iter().map(|course| course[part..].iter().sum()).collect()
    }
}

fn total(course: &Course) -> f64 {
    course.iter().sum()
}

/// What a GoP's time carried, as its client measured it: what arrived by the deadline, and where everything
/// arrived earlier, as much more as the rest of the time would have carried at that rate.
pub fn course(record: &GopRecord) -> Course {
    let mut course = record.arrivals.map(|bytes| bytes as f64);
    let whole = record.deadline.saturating_since(record.asked).as_secs_f64();
    let Some(last) = record.complete().map(|at| at.saturating_since(record.asked)) else { return course };
    if last > Duration::ZERO && whole > 0.0 {
        let share = last.as_secs_f64() / whole;
        let rate = record.bytes_in_time as f64 / (share * PARTS as f64);
        let from = ((share * PARTS as f64) as usize).min(PARTS);
        course[from..].iter_mut().for_each(|bytes| *bytes = bytes.max(rate));
    }
    course
}
