//! Figures of groups of viewings, and gains between groups with paired intervals.
//!
//! Only viewings that both groups have are compared. Intervals are bootstrapped over viewings, the same viewers for
//! all clips, so that GoPs of one viewing, which resemble each other, count once.

use std::collections::BTreeMap;

use tributary_report::{Interval, stats};
use tributary_video::metrics::{Summary, psnr_db};
use tributary_video::rd::Concealment;

use super::viewing::Viewed;

/// Rounds and seed of the bootstrap.
const BOOTSTRAP: (u32, u64) = (400, 1);

/// A quality figure.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Quality {
    /// Mean of the GoPs' dB.
    Mean,
    /// dB of the mean error.
    Pooled,
    /// dB of the mean error of the worst 5 % of GoPs.
    Worst,
}

/// Transport and allocator.
pub(super) type Pair = (&'static str, &'static str);
type Group<'a> = BTreeMap<usize, &'a Viewed>;

/// All viewings by what they are of.
pub(super) struct Figures<'a> {
    groups: BTreeMap<(usize, &'static str, Pair, u8), Group<'a>>,
}

/// Where two groups are compared.
#[derive(Clone, Copy, Debug)]
pub(super) struct Where<'a> {
    pub clips: &'a [usize],
    pub scene: &'static str,
    pub concealment: Concealment,
}

/// A value and its 95 % interval.
pub(super) type Value = (f64, Option<Interval>);

impl<'a> Figures<'a> {
    pub fn new(viewings: &'a [Viewed]) -> Self {
        let mut groups: BTreeMap<_, Group<'_>> = BTreeMap::new();
        for viewed in viewings {
            let pair = (viewed.transport, viewed.allocator);
            let key = (viewed.clip, viewed.scene, pair, viewed.concealment as u8);
            groups.entry(key).or_default().insert(viewed.viewing, viewed);
        }
        Self { groups }
    }

    fn group(&self, clip: usize, at: &Where<'_>, pair: Pair) -> Option<&Group<'a>> {
        self.groups.get(&(clip, at.scene, pair, at.concealment as u8))
    }

    /// Viewings of all clips together.
    pub fn count(&self, at: &Where<'_>, pair: Pair) -> usize {
        at.clips.iter().filter_map(|clip| self.group(*clip, at, pair)).map(BTreeMap::len).sum()
    }

    /// A quality figure, mean of the clips.
    pub fn quality(&self, quality: Quality, at: &Where<'_>, pair: Pair) -> Option<f64> {
        self.mean_of_clips(at, |clip| {
            let all: Vec<&Viewed> = self.group(clip, at, pair)?.values().copied().collect();
            figure(quality, &all)
        })
    }

    /// Any number of a viewing, mean of viewings and clips.
    pub fn mean(&self, at: &Where<'_>, pair: Pair, number: fn(&Viewed) -> f64) -> Option<Value> {
        let viewings = self.common(at, pair, pair);
        let of = |viewings: &[f64]| {
            self.mean_of_clips(at, |clip| {
                let group = self.group(clip, at, pair)?;
                let numbers: Vec<f64> = picked(group, viewings).into_iter().map(number).collect();
                stats::mean(&numbers)
            })
        };
        Some((of(&viewings)?, stats::bootstrap_interval(&viewings, of, BOOTSTRAP.0, BOOTSTRAP.1)))
    }

    /// How much better the first pair is than the second, dB, mean of the clips.
    pub fn gain(&self, quality: Quality, at: &Where<'_>, ours: Pair, theirs: Pair) -> Option<Value> {
        let viewings = self.common(at, ours, theirs);
        let of = |viewings: &[f64]| {
            self.mean_of_clips(at, |clip| {
                let (ours, theirs) = (self.group(clip, at, ours)?, self.group(clip, at, theirs)?);
                Some(figure(quality, &picked(ours, viewings))? - figure(quality, &picked(theirs, viewings))?)
            })
        };
        Some((of(&viewings)?, stats::bootstrap_interval(&viewings, of, BOOTSTRAP.0, BOOTSTRAP.1)))
    }

    fn mean_of_clips(&self, at: &Where<'_>, of: impl Fn(usize) -> Option<f64>) -> Option<f64> {
        let values: Option<Vec<f64>> = at.clips.iter().map(|clip| of(*clip)).collect();
        stats::mean(&values?)
    }

    /// Numbers of the viewings that both pairs have of every clip.
    fn common(&self, at: &Where<'_>, a: Pair, b: Pair) -> Vec<f64> {
        let has = |viewing: &usize, clip: usize, pair| {
            self.group(clip, at, pair).is_some_and(|group| group.contains_key(viewing))
        };
        let Some(first) = at.clips.first().and_then(|clip| self.group(*clip, at, a)) else {
            return Vec::new();
        };
        let everywhere =
            |viewing: &&usize| at.clips.iter().all(|clip| has(viewing, *clip, a) && has(viewing, *clip, b));
        first.keys().filter(everywhere).map(|viewing| *viewing as f64).collect()
    }
}

fn picked<'a>(group: &Group<'a>, viewings: &[f64]) -> Vec<&'a Viewed> {
    viewings.iter().filter_map(|viewing| group.get(&(*viewing as usize)).copied()).collect()
}

fn figure(quality: Quality, viewings: &[&Viewed]) -> Option<f64> {
    let errors = || viewings.iter().flat_map(|viewed| &viewed.errors).map(|error| f64::from(*error));
    match quality {
        Quality::Mean => stats::mean(&viewings.iter().map(|viewed| viewed.mean_db).collect::<Vec<_>>()),
        Quality::Pooled => stats::mean(&errors().collect::<Vec<_>>()).map(psnr_db),
        Quality::Worst => Summary::of(&errors().collect::<Vec<_>>()).map(|summary| summary.worst_db),
    }
}
