//! Drawings of a reproduction, from the paper's file: bars, distributions, seconds and strips.

use super::check::combinations;
use super::evaluate::{Measured, labels_of, matches};
use super::page::{Page, Scope};
use super::paper::{FigureKind, FigureSpec, SeriesSpec};
use super::sample::{Labels, Sample};
use crate::figures::blockages;
use tributary_report::plot::Bar;
use tributary_report::{Band, Bars, Cdf, Plot, Series, Strip, TimeSeries, Tone, stats};

/// A series of the file and its samples, first seed first.
type Found<'a> = (&'a SeriesSpec, Vec<&'a Sample>);

impl Page<'_> {
    /// The drawings of a figure: one of bars, for which the place is empty, or one for each combination of `each` with
    /// values.
    pub(super) fn plots(&self, spec: &FigureSpec) -> Vec<(Labels, Box<dyn Plot>)> {
        if spec.kind == FigureKind::Bars {
            let bars = Some(self.bars(spec)).filter(|bars| !bars.groups.is_empty());
            return bars.into_iter().map(|bars| (Labels::new(), Box::new(bars) as Box<dyn Plot>)).collect();
        }
        let drawn = |at: Labels| {
            let found = self.found(spec, &at);
            let labels = at.iter().rev().map(|(axis, value)| self.paper.label(axis, value));
            let title = format!("{}: {}", spec.title, labels.collect::<Vec<_>>().join(", "));
            let plot = (!found.is_empty()).then(|| -> Box<dyn Plot> {
                match spec.kind {
                    FigureKind::Seconds => Box::new(self.seconds(spec, &title, &found)),
                    FigureKind::Strip => Box::new(self.strip(spec, &title, &found)),
                    FigureKind::Bars | FigureKind::Distribution => {
                        Box::new(distribution(spec, &title, &found))
                    }
                }
            });
            plot.map(|plot| (at, plot))
        };
        combinations(&spec.each, &self.outcome.planned).into_iter().filter_map(drawn).collect()
    }

    /// The series of a figure that have values in a place.
    fn found<'a>(&'a self, spec: &'a FigureSpec, at: &Labels) -> Vec<Found<'a>> {
        let of = |series: &'a SeriesSpec| {
            let wanted = labels_of(&self.subjects, &series.of, at);
            let has = |s: &Sample| s.metrics.get(&spec.value).is_some_and(|values| !values.is_empty());
            let fits = |s: &&Sample| s.failure.is_none() && matches(&s.labels, &wanted) && has(s);
            (series, self.outcome.samples.iter().filter(fits).collect::<Vec<_>>())
        };
        spec.series.iter().map(of).filter(|(_, samples)| !samples.is_empty()).collect()
    }

    fn seconds(&self, spec: &FigureSpec, title: &str, found: &[Found<'_>]) -> TimeSeries {
        let mut plot = TimeSeries::per_second(title, &spec.unit);
        let points = |values: &[f64]| {
            let at = |(item, value): (usize, &f64)| (item as f64 * spec.step + f64::from(spec.from), *value);
            values.iter().enumerate().map(at).collect::<Vec<_>>()
        };
        for (series, samples) in found {
            let values = &samples[0].metrics[&spec.value];
            plot.series.push(Series::new(&series.name, series.tone.into(), points(values)));
        }
        let behind =
            found.iter().find_map(|(_, s)| Some((spec.of.as_ref()?, s[0].metrics.get(spec.of.as_ref()?)?)));
        if let Some((name, values)) = behind {
            let metric = self.outcome.metrics.iter().find(|metric| metric.name == name);
            let name = metric.map_or(name.as_str(), |metric| metric.what);
            plot.capacity = Some(Series::new(name, Tone::Neutral, points(values)));
        }
        plot.bands = self.bands(spec, found);
        plot
    }

    /// One row per series, one cell per second, as a share of `of`, or of the largest value if `of` is not given.
    fn strip(&self, spec: &FigureSpec, title: &str, found: &[Found<'_>]) -> Strip {
        let all = found.iter().flat_map(|(_, samples)| &samples[0].metrics[&spec.value]);
        let largest = all.copied().fold(0.0, f64::max);
        let (unit, full) = match &spec.of {
            Some(name) => (format!("% of {name}"), 100.0),
            None => (spec.unit.clone(), largest),
        };
        let mut strip = Strip::new(title, &unit, full);
        strip.bands = self.bands(spec, found);
        for (series, samples) in found {
            let values = &samples[0].metrics[&spec.value];
            let of = spec.of.as_ref().and_then(|of| samples[0].metrics.get(of));
            let share = |(item, value): (usize, &f64)| match of {
                Some(of) => of.get(item).map_or(f64::NAN, |of| value / of.max(1e-9) * 100.0),
                None => *value,
            };
            let left_out = core::iter::repeat_n(f64::NAN, spec.from as usize);
            let cells: Vec<f64> = left_out.chain(values.iter().enumerate().map(share)).collect();
            let worst = stats::minimum(values).unwrap_or(f64::NAN);
            strip.push(&series.name, &format!("least {worst:.0} {}", spec.unit), &cells);
        }
        strip
    }

    /// Intervals in which a link of the first seed's network is blocked.
    fn bands(&self, spec: &FigureSpec, found: &[Found<'_>]) -> Vec<Band> {
        let Some(sample) = found.first().map(|(_, samples)| samples[0]).filter(|_| spec.bands) else {
            return Vec::new();
        };
        let cell = self.outcome.first.iter().find(|cell| cell.labels == sample.labels);
        let network = cell.and_then(|cell| cell.network().ok());
        let length = sample.metrics[&spec.value].len() + spec.from as usize;
        network.map_or_else(Vec::new, |network| blockages(&network, length as f64))
    }

    fn bars(&self, spec: &FigureSpec) -> Bars {
        let series: Vec<_> = spec.series.iter().map(|s| (s.name.as_str(), s.tone.into())).collect();
        let mut bars = Bars::new(&spec.title, &spec.unit, &series);
        let places = combinations(&spec.each, &self.outcome.planned);
        let groups = places.iter().flat_map(|at| spec.own_groups().map(move |group| (at, group)));
        for (at, group) in groups {
            let text = spec.value.replace("{group}", group);
            let place = Scope { at, over: &spec.over, pool: &spec.pool };
            let value = |series: &SeriesSpec| self.value(&text.replace("{series}", &series.of), place, true);
            let values: Vec<Measured> = spec.series.iter().map(value).collect();
            if values.iter().all(|measured| measured.value.is_none()) {
                continue;
            }
            let bar = |(series, measured): (&SeriesSpec, &Measured)| {
                let bar = Bar::new(measured.value.unwrap_or(f64::NAN)).interval(measured.interval);
                let of = |table: &String| {
                    at.values().find_map(|row| self.paper.number(table, row, &series.of, self.outcome.world))
                };
                match spec.paper.as_ref().and_then(of) {
                    Some(number) => bar.paper(number),
                    None => bar,
                }
            };
            let label = |(axis, value): (&String, &String)| self.paper.label(axis, value).to_owned();
            let differs = |axis: &String| places.iter().any(|place| place.get(axis) != at.get(axis));
            let only = places.len() == 1 && group.is_empty();
            let place = at.iter().rev().filter(|(axis, _)| only || differs(axis)).map(label);
            let name =
                place.chain((!group.is_empty()).then(|| group.to_owned())).collect::<Vec<_>>().join(" ");
            bars.push(&name, spec.series.iter().zip(&values).map(bar));
        }
        bars
    }
}

fn distribution(spec: &FigureSpec, title: &str, found: &[Found<'_>]) -> Cdf {
    let mut plot = Cdf::new(title, &spec.unit);
    for (series, samples) in found {
        let pooled: Vec<f64> = samples.iter().flat_map(|s| &s.metrics[&spec.value]).copied().collect();
        plot.push(&series.name, series.tone.into(), &pooled);
    }
    plot
}
