//! Claims of a paper judged on measured cells: the verdict comes from the interval.

use super::check::combinations;
use super::error::ReproduceError;
use super::evaluate::{Bound, Measured, Measurements, labels_of, matches, measure};
use super::expression::Expression;
use super::matrix::Selection;
use super::paper::{ClaimSpec, Paper, PaperValue, Take, Wanted};
use super::sample::{Labels, Sample, filled};
use crate::result::World;
use std::collections::BTreeSet;
use tributary_report::Claim;

/// Judges every claim of a world. Claims about cells that were not planned are left out.
///
/// # Errors
/// [`ReproduceError::Ambiguous`] when an expression names several cells at once.
pub(super) fn claims(
    paper: &Paper,
    world: World,
    planned: &[Labels],
    measurements: Measurements<'_>,
) -> Result<Vec<Claim>, ReproduceError> {
    let mut claims = Vec::new();
    for spec in paper.claim.iter().filter(|claim| claim.world.is_none_or(|own| own == world)) {
        for at in combinations(&spec.each, planned) {
            claims.extend(Judge { paper, planned, measurements, spec }.claim(&at)?);
        }
    }
    Ok(claims)
}

/// Checks that no claim about the chosen cells names several of them at once: before the runs, which may take hours.
///
/// # Errors
/// [`ReproduceError::Ambiguous`], and as [`Paper::cells`].
pub(super) fn check(paper: &Paper, chosen: &Selection) -> Result<(), ReproduceError> {
    let planned: BTreeSet<Labels> = paper.cells(chosen)?.into_iter().map(|cell| cell.labels).collect();
    let planned: Vec<Labels> = planned.into_iter().collect();
    let samples: Vec<Sample> =
        planned.iter().map(|labels| Sample { labels: labels.clone(), ..Sample::default() }).collect();
    let measurements = Measurements { samples: &samples, subjects: &paper.subject, metrics: &[], pool: &[] };
    claims(paper, chosen.world, &planned, measurements).map(drop)
}

struct Judge<'a> {
    paper: &'a Paper,
    planned: &'a [Labels],
    measurements: Measurements<'a>,
    spec: &'a ClaimSpec,
}

impl Judge<'_> {
    fn claim(&self, at: &Labels) -> Result<Option<Claim>, ReproduceError> {
        let spec = self.spec;
        let mut places: Vec<(Labels, Expression)> = Vec::new();
        for more in combinations(&spec.over, self.planned) {
            let place: Labels = at.clone().into_iter().chain(more).collect();
            let value = parsed(&filled(&spec.value, &place));
            if self.is_planned(&value, &place) {
                places.push((place, value));
            }
        }
        if places.is_empty() {
            return Ok(None);
        }
        let id = filled(&spec.id, at);
        let ambiguous = |source| ReproduceError::Ambiguous { place: format!("claim `{id}`"), source };
        let measurements = Measurements { pool: &spec.pool, ..self.measurements };
        let bound = |place: &Labels, value| measurements.bind(value, place).map_err(ambiguous);
        let terms = places.iter().map(|(place, value)| bound(place, value)).collect::<Result<Vec<_>, _>>()?;
        let method = spec.interval.unwrap_or(self.paper.interval);
        let Measured { value, interval, deterministic, .. } =
            measure(&terms, |values| taken(spec.take, values), method);
        let wanted = parsed_wanted(&spec.wanted);
        let limit = measure(&[bound(at, &wanted.bound)?], |values| values[0], method).value;
        let expected = wanted.expectation(limit.unwrap_or(f64::NAN));
        let mut text = self.text(at, &places, &terms, value);
        if deterministic {
            text.push_str("; deterministic, the same for every seed");
        }
        let mut claim = Claim::judge(&id, &text, value, expected).interval(interval).unit(&spec.unit);
        claim.source = filled(&spec.source, at);
        if let Some(paper) = self.paper_value(at) {
            claim = claim.paper(paper);
        }
        Ok(Some(claim))
    }

    /// Whether there is a planned cell for every subject of the expression.
    fn is_planned(&self, value: &Expression, place: &Labels) -> bool {
        value.metrics().into_iter().all(|(subject, _)| {
            let wanted = labels_of(self.measurements.subjects, subject, place);
            self.planned.iter().any(|labels| matches(labels, &wanted))
        })
    }

    /// The text of the claim; if it covers several places, it names the decisive one. If the claim has no value, it names
    /// the places without a result.
    fn text(
        &self,
        at: &Labels,
        places: &[(Labels, Expression)],
        terms: &[Bound<'_>],
        value: Option<f64>,
    ) -> String {
        let label =
            |(axis, value): (&String, &String)| (axis.clone(), self.paper.label(axis, value).to_owned());
        let named: Labels = at.iter().map(label).collect();
        let text = filled(&self.spec.text, &named);
        if self.spec.over.is_empty() || self.spec.take == Take::Mean {
            return text;
        }
        let alone = |term: &Bound<'_>| {
            measure(std::slice::from_ref(term), |values| values[0], self.paper.interval).value
        };
        let values: Vec<Option<f64>> = terms.iter().map(alone).collect();
        let own = |place: &Labels| {
            let own = place.iter().filter(|(axis, _)| !at.contains_key(*axis)).map(label);
            own.map(|(_, label)| label).collect::<Vec<_>>().join(", ")
        };
        if value.is_none() {
            let unknown = places.iter().zip(&values).filter(|(_, value)| value.is_none());
            let unknown: Vec<String> = unknown.map(|((place, _), _)| own(place)).collect();
            return format!("{text}; without a result: {}", unknown.join("; "));
        }
        let decides =
            taken(self.spec.take, &values).and_then(|taken| values.iter().position(|v| *v == Some(taken)));
        let Some(place) = decides.map(|index| &places[index].0) else { return text };
        format!("{text}: {}", own(place))
    }

    fn paper_value(&self, at: &Labels) -> Option<f64> {
        let text = match self.spec.paper.as_ref()? {
            PaperValue::One(text) => text,
            PaperValue::Each(each) => at.values().find_map(|value| each.get(value))?,
        };
        let expression = parsed(text);
        let measurements = Measurements { samples: &[], ..self.measurements };
        let bound = measurements.bind(&expression, &Labels::new()).ok()?;
        measure(&[bound], |values| values[0], self.paper.interval).value
    }
}

pub(super) fn taken(take: Take, values: &[Option<f64>]) -> Option<f64> {
    let known = values.iter().copied().flatten();
    match take {
        Take::Least => known.min_by(f64::total_cmp),
        Take::Most => known.max_by(f64::total_cmp),
        Take::Mean => {
            let all: Vec<f64> = values.iter().copied().collect::<Option<_>>()?;
            tributary_report::stats::mean(&all)
        }
    }
}

/// The expressions were parsed when the file was checked. One that becomes invalid by its placeholders is never
/// planned.
fn parsed(text: &str) -> Expression {
    Expression::parse(text).unwrap_or(Expression::Number(f64::NAN))
}

fn parsed_wanted(text: &str) -> Wanted {
    Wanted::parse(text).expect("it was parsed when the file was checked")
}

#[cfg(test)]
mod tests;
