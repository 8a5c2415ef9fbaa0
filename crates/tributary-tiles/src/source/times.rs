//! When the pictures of a track are shown: their number, their rate, and whether all intervals are equal.

use super::Times;
use super::ffprobe::Stream;
use crate::rate::FrameRate;

/// Rates to which a measured one is rounded if it is within half a per cent.
const USUAL: [(u32, u32); 11] = [
    (24_000, 1001),
    (24, 1),
    (25, 1),
    (30_000, 1001),
    (30, 1),
    (48, 1),
    (50, 1),
    (60_000, 1001),
    (60, 1),
    (90, 1),
    (120, 1),
];

/// The times of a track, from ffprobe's packets.
pub(super) fn times(stream: &Stream, packets: &[u8]) -> Times {
    let (shown, hidden) = shown(packets);
    let (rate, constant) = rate_of(stream, &shown);
    let counted = stream.nb_frames.as_ref().and_then(|n| n.parse().ok()).filter(|n| *n > 0);
    let estimate = || Some((stream.duration_s()? * rate?.as_f64()).round() as usize);
    let counted = counted.map(|n: usize| n.saturating_sub(hidden));
    let announced = counted.or_else(|| if constant { estimate() } else { None });
    Times { announced, found: shown.len(), rate, constant }
}

/// The presentation time of each picture in seconds, ascending, NaN if the file has none; and the number of
/// pictures hidden by an edit list.
fn shown(text: &[u8]) -> (Vec<f64>, usize) {
    let text = String::from_utf8_lossy(text);
    let (mut times, mut hidden) = (Vec::new(), 0);
    for line in text.lines().filter(|line| !line.trim().is_empty()) {
        let (time, flags) = line.split_once(',').unwrap_or((line, ""));
        // ffprobe's flags: key picture, discarded.
        if flags.contains('D') {
            hidden += 1;
        } else {
            times.push(time.trim().parse().unwrap_or(f64::NAN));
        }
    }
    times.sort_by(f64::total_cmp);
    (times, hidden)
}

/// The rate of a track, and whether all intervals between pictures are equal. The times of the pictures decide: what the
/// header says counts only if it agrees with them.
fn rate_of(stream: &Stream, times: &[f64]) -> (Option<FrameRate>, bool) {
    let told = |text: &Option<String>| text.as_ref().and_then(|t| t.parse::<FrameRate>().ok());
    let (average, base) = (told(&stream.avg_frame_rate), told(&stream.r_frame_rate));
    let mut steps: Vec<f64> = times.windows(2).map(|pair| pair[1] - pair[0]).collect();
    steps.sort_by(f64::total_cmp);
    let Some(step) = steps.get(steps.len() / 2).copied().filter(|_| times.iter().all(|t| t.is_finite()))
    else {
        // A raw stream has no times: only the header's rate is known.
        return (average.or(base), true);
    };
    // Containers round times, Matroska to a millisecond.
    let even = |other: &f64| (other - step).abs() <= (0.25 * step).max(0.002);
    let constant = steps.iter().all(even);
    let near = |rate: &FrameRate| (rate.as_f64() * step - 1.0).abs() < 0.05;
    let measured = || mean_rate(times, step).or_else(|| format!("{:.3}", 1.0 / step).parse().ok());
    (average.filter(near).or(base.filter(near)).or_else(measured), constant)
}

/// The mean rate, if every picture is less than 0.6 of an interval from its time at that rate: a clock that trembles, and
/// not a rate that changes.
fn mean_rate(times: &[f64], step: f64) -> Option<FrameRate> {
    let (first, last) = (*times.first()?, *times.last()?);
    let mean = (last - first) / times.len().checked_sub(1)? as f64;
    let late = |(at, time): (usize, &f64)| (time - first - at as f64 * mean).abs();
    let trembles =
        (mean / step - 1.0).abs() < 0.25 && times.iter().enumerate().map(late).all(|late| late < 0.6 * mean);
    if !trembles {
        return None;
    }
    let usual = USUAL.iter().filter_map(|(n, d)| FrameRate::new(*n, *d).ok());
    let distance = |rate: &FrameRate| (rate.as_f64() * mean - 1.0).abs();
    let nearest =
        usual.min_by(|a, b| distance(a).total_cmp(&distance(b))).filter(|rate| distance(rate) < 0.005);
    nearest.or_else(|| format!("{:.3}", 1.0 / mean).parse().ok())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stream(average: &str, base: &str) -> Stream {
        let told = |rate: &str| Some(rate.to_owned());
        Stream { avg_frame_rate: told(average), r_frame_rate: told(base), ..Stream::default() }
    }

    fn rate(stream: &Stream, times: &[f64]) -> (String, bool) {
        let (rate, constant) = rate_of(stream, times);
        (rate.map_or("none".to_owned(), |rate| rate.to_string()), constant)
    }

    #[test]
    fn times_rounded_to_milliseconds_are_still_constant() {
        let times: Vec<f64> = (0..90).map(|n| (f64::from(n) * 1001.0 / 30.0).round() / 1000.0).collect();
        assert_eq!(rate(&stream("30000/1001", "30000/1001"), &times), ("30000/1001".to_owned(), true));
        // A header that gives the time base in place of a rate.
        assert_eq!(rate(&stream("1000/1", "1000/1"), &times), ("30000/1001".to_owned(), true));
    }

    #[test]
    fn a_trembling_clock_has_its_mean_rate() {
        let tremble =
            |n: i32| (f64::from(n) * 1000.0 / 30.0 + 7.0 * (f64::from(n) * 2.3).sin()).floor() / 1000.0;
        let times: Vec<f64> = (0..120).map(tremble).collect();
        assert_eq!(rate(&stream("0/0", "1000/1"), &times), ("30/1".to_owned(), false));
        let later: Vec<f64> = times.iter().map(|time| time + 1e6).collect();
        assert_eq!(rate(&stream("0/0", "1000/1"), &later).0, "30/1", "times that do not begin at 0");
    }

    #[test]
    fn a_gap_or_a_change_of_rate_is_variable() {
        let gap: Vec<f64> = (0..90).filter(|n| *n != 40).map(|n| f64::from(n) / 25.0).collect();
        assert_eq!(rate(&stream("24/1", "25/1"), &gap), ("24/1".to_owned(), false));
        let change = (0..60).map(|n| f64::from(n) / 60.0).chain((0..30).map(|n| 1.0 + f64::from(n) / 30.0));
        assert_eq!(rate(&stream("45/1", "120/1"), &change.collect::<Vec<_>>()), ("60/1".to_owned(), false));
    }

    #[test]
    fn without_timestamps_the_header_is_used() {
        assert_eq!(rate(&stream("25/1", "50/1"), &[f64::NAN; 9]), ("25/1".to_owned(), true));
        assert_eq!(rate(&stream("0/0", "0/0"), &[0.0]), ("none".to_owned(), true));
        let (times, hidden) = shown(b"-0.04,KD\n0.04,_\n\n0.00,__,\nN/A,K_\n");
        assert_eq!((times.len(), &times[..2], hidden), (3, &[0.0, 0.04][..], 1));
    }
}
