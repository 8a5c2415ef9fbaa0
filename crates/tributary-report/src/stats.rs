//! Descriptive statistics of samples. Results have the unit of the samples.
//!
//! Every function ignores samples that are not finite and returns `None` when none is left, so no
//! NaN reaches a table or a plot. Quantiles interpolate linearly between order statistics (Hyndman and
//! Fan 1996, definition 7, the default of R and NumPy).

use core::time::Duration;
use tributary_types::Rng;

pub use crate::schema::Interval;

#[cfg(test)]
mod tests;

/// The finite samples in ascending order.
fn sorted(samples: &[f64]) -> Vec<f64> {
    let mut finite: Vec<f64> = samples.iter().copied().filter(|v| v.is_finite()).collect();
    finite.sort_by(f64::total_cmp);
    finite
}

/// Arithmetic mean.
#[must_use]
pub fn mean(samples: &[f64]) -> Option<f64> {
    let (sum, count) =
        samples.iter().filter(|v| v.is_finite()).fold((0.0, 0_u32), |(sum, count), v| (sum + v, count + 1));
    (count > 0).then(|| sum / f64::from(count))
}

/// Standard deviation of the population the samples come from (divides by n − 1); needs two samples.
#[must_use]
pub fn deviation(samples: &[f64]) -> Option<f64> {
    let finite = sorted(samples);
    let mean = mean(&finite)?;
    let squares: f64 = finite.iter().map(|v| (v - mean).powi(2)).sum();
    (finite.len() > 1).then(|| (squares / (finite.len() - 1) as f64).sqrt())
}

/// The middle sample, or the mean of the middle two.
#[must_use]
pub fn median(samples: &[f64]) -> Option<f64> {
    percentile(samples, 50.0)
}

/// The value below which `percent` (0 to 100, clamped) of the samples lie.
#[must_use]
pub fn percentile(samples: &[f64], percent: f64) -> Option<f64> {
    percentile_of_sorted(&sorted(samples), percent)
}

fn percentile_of_sorted(sorted: &[f64], percent: f64) -> Option<f64> {
    let last = sorted.len().checked_sub(1)?;
    let percent = if percent.is_finite() { percent.clamp(0.0, 100.0) } else { 50.0 };
    let place = percent / 100.0 * last as f64;
    let below = place.floor() as usize;
    let above = (below + 1).min(last);
    Some(sorted[below] + (place - place.floor()) * (sorted[above] - sorted[below]))
}

/// The 95 % interval of a percentile of the population, without an assumption about its distribution: two of the samples in order,
/// each beyond the percentile with at most 2.5 % (David and Nagaraja, Order Statistics, 7.1). `None` if the samples are too few for
/// both ends: the 99th percentile needs 368.
///
/// ```
/// let samples: Vec<f64> = (1..=368).map(f64::from).collect();
/// assert_eq!(tributary_report::stats::percentile_interval(&samples, 99.0).unwrap().high, 368.0);
/// assert_eq!(tributary_report::stats::percentile_interval(&samples[1..], 99.0), None);
/// ```
#[must_use]
pub fn percentile_interval(samples: &[f64], percent: f64) -> Option<Interval> {
    const TAIL: f64 = 0.025;
    let sorted = sorted(samples);
    let (count, share) = (sorted.len(), percent / 100.0);
    if count == 0 || !(share > 0.0 && share < 1.0) {
        return None;
    }
    // Probability that exactly `below` of the samples are below the percentile, and its sum: the binomial distribution.
    let mut chance = count as f64 * (1.0 - share).ln();
    let (mut sum, mut low, mut high) = (0.0, None, None);
    for (below, sample) in sorted.iter().enumerate() {
        sum += chance.exp();
        if sum <= TAIL {
            low = Some(*sample);
        }
        if sum >= 1.0 - TAIL {
            high = high.or(Some(*sample));
        }
        chance += ((count - below) as f64 / (below + 1) as f64 * share / (1.0 - share)).ln();
    }
    Some(Interval { low: low?, high: high? })
}

/// The tenth percentile.
#[must_use]
pub fn p10(samples: &[f64]) -> Option<f64> {
    percentile(samples, 10.0)
}

/// The smallest sample.
#[must_use]
pub fn minimum(samples: &[f64]) -> Option<f64> {
    sorted(samples).first().copied()
}

/// The largest sample.
#[must_use]
pub fn maximum(samples: &[f64]) -> Option<f64> {
    sorted(samples).last().copied()
}

/// The empirical distribution: (value, share of samples ≤ value), ascending, one point per distinct value.
#[must_use]
pub fn cdf(samples: &[f64]) -> Vec<(f64, f64)> {
    let sorted = sorted(samples);
    let mut points: Vec<(f64, f64)> = Vec::with_capacity(sorted.len());
    for (i, value) in sorted.iter().enumerate() {
        let share = (i + 1) as f64 / sorted.len() as f64;
        match points.last_mut() {
            Some(last) if last.0 == *value => last.1 = share,
            _ => points.push((*value, share)),
        }
    }
    points
}

/// The 95 % confidence interval of the mean by Student's t; needs two samples.
#[must_use]
pub fn mean_interval(samples: &[f64]) -> Option<Interval> {
    let finite = sorted(samples);
    let centre = mean(&finite)?;
    let half = t_quantile(finite.len().checked_sub(1)?) * deviation(&finite)? / (finite.len() as f64).sqrt();
    Some(Interval { low: centre - half, high: centre + half })
}

/// The slope of the least-squares line through `points` and its 95 % interval by Student's t; needs three points
/// with two different `x`.
///
/// Correlated neighbours make the interval too narrow. More than 60 points are therefore averaged first, in
/// 30 groups
/// of neighbours.
#[must_use]
pub fn slope_interval(points: &[(f64, f64)]) -> Option<(f64, Interval)> {
    let mut finite: Vec<(f64, f64)> =
        points.iter().copied().filter(|(x, y)| x.is_finite() && y.is_finite()).collect();
    finite.sort_by(|a, b| a.0.total_cmp(&b.0));
    if finite.len() > 60 {
        let groups = finite.chunks(finite.len().div_ceil(30));
        let centre = |group: &[(f64, f64)]| {
            let count = group.len() as f64;
            let sum = group.iter().fold((0.0, 0.0), |sum, point| (sum.0 + point.0, sum.1 + point.1));
            (sum.0 / count, sum.1 / count)
        };
        finite = groups.map(centre).collect();
    }
    let freedom = finite.len().checked_sub(2).filter(|freedom| *freedom > 0)?;
    let count = finite.len() as f64;
    let (x, y) =
        finite.iter().fold((0.0, 0.0), |sum, point| (sum.0 + point.0 / count, sum.1 + point.1 / count));
    let spread: f64 = finite.iter().map(|point| (point.0 - x).powi(2)).sum();
    if spread <= 0.0 {
        return None;
    }
    let slope = finite.iter().map(|point| (point.0 - x) * (point.1 - y)).sum::<f64>() / spread;
    let rest: f64 = finite.iter().map(|point| (point.1 - y - slope * (point.0 - x)).powi(2)).sum();
    let half = t_quantile(freedom) * (rest / freedom as f64 / spread).sqrt();
    Some((slope, Interval { low: slope - half, high: slope + half }))
}

/// Growth from one value to the next over the second half of `values`, and its 95 % interval ([`slope_interval`]); the first half is
/// a warm-up. Needs five values.
#[must_use]
pub fn settled_growth(values: &[f64]) -> Option<(f64, Interval)> {
    let settled = values[values.len() / 2..].iter().enumerate();
    slope_interval(&settled.map(|(at, value)| (at as f64, *value)).collect::<Vec<_>>())
}

/// The 0.975 quantile of Student's t for `freedom` degrees of freedom, rounded up between table rows.
fn t_quantile(freedom: usize) -> f64 {
    const TABLE: [f64; 30] = [
        12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228, 2.201, 2.179, 2.160, 2.145,
        2.131, 2.120, 2.110, 2.101, 2.093, 2.086, 2.080, 2.074, 2.069, 2.064, 2.060, 2.056, 2.052, 2.048,
        2.045, 2.042,
    ];
    match freedom {
        0 => TABLE[0],
        1..=30 => TABLE[freedom - 1],
        31..=60 => 2.042,
        61..=120 => 2.000,
        _ => 1.980,
    }
}

/// The 95 % percentile-bootstrap interval of `statistic` (Efron 1979): `rounds` resamples drawn from `seed`.
///
/// `None` with fewer than two finite samples.
pub fn bootstrap_interval(
    samples: &[f64],
    statistic: impl Fn(&[f64]) -> Option<f64>,
    rounds: u32,
    seed: u64,
) -> Option<Interval> {
    let finite = sorted(samples);
    if finite.len() < 2 {
        return None;
    }
    let mut rng = Rng::new(seed);
    let mut resample = vec![0.0; finite.len()];
    let mut results = Vec::with_capacity(rounds as usize);
    for _ in 0..rounds {
        resample.fill_with(|| finite[rng.below(finite.len() as u64) as usize]);
        results.extend(statistic(&resample));
    }
    let results = sorted(&results);
    Some(Interval { low: percentile_of_sorted(&results, 2.5)?, high: percentile_of_sorted(&results, 97.5)? })
}

/// The longest gap without an arrival in `[from, to]`; `arrivals` may be unsorted and may lie outside.
///
/// All times and the result are in the same unit, by convention seconds.
#[must_use]
pub fn longest_silence(arrivals: &[f64], from: f64, to: f64) -> f64 {
    let mut last = from;
    let mut longest = 0.0_f64;
    for at in sorted(arrivals).into_iter().filter(|at| (from..=to).contains(at)) {
        longest = longest.max(at - last);
        last = at;
    }
    longest.max(to - last).max(0.0)
}

/// Goodput of each whole second, in Mbit/s (10⁶ bits), from bytes counted in equal bins.
///
/// A last second that the bins cover only in part is left out.
#[must_use]
pub fn mbps_per_second(bytes_per_bin: &[u64], bin: Duration) -> Vec<f64> {
    let bins_per_second = Duration::from_secs(1).as_nanos().checked_div(bin.as_nanos()).unwrap_or(0) as usize;
    if bins_per_second == 0 {
        return Vec::new();
    }
    bytes_per_bin
        .chunks_exact(bins_per_second)
        .map(|second| second.iter().map(|b| *b as f64).sum::<f64>() * 8.0 / 1e6)
        .collect()
}

/// Jain's fairness index (1984): 1 when all shares are equal, 1/n when one has everything.
#[must_use]
pub fn fairness(shares: &[f64]) -> Option<f64> {
    let finite = sorted(shares);
    let squares: f64 = finite.iter().map(|v| v * v).sum();
    let sum: f64 = finite.iter().sum();
    (squares > 0.0).then(|| sum * sum / (finite.len() as f64 * squares))
}
