//! Reads a paper's file and checks it: expressions must parse and names must exist.

use super::expression::Expression;
use super::matrix::{AXES, Axes};
use super::paper::{FigureSpec, Paper, PaperError, PaperValue, SHIPPED, Wanted, papers};
use super::sample::{Labels, Metric, combined};
use std::collections::BTreeSet;
use std::path::Path;

/// Place and description of a fault.
type Fault = (String, String);

impl Paper {
    /// A paper that is part of the program, by name, or a paper from a file.
    ///
    /// # Errors
    /// [`PaperError`] names the file and the place.
    pub fn find(name: &str) -> Result<Self, PaperError> {
        if let Some((_, text)) = SHIPPED.iter().find(|(known, _)| *known == name) {
            return Self::parse(text, &format!("scenarios/papers/{name}.toml"));
        }
        if !name.ends_with(".toml") {
            let known = papers().collect::<Vec<_>>().join(", ");
            return Err(PaperError::Unknown { name: name.to_owned(), known });
        }
        let text = std::fs::read_to_string(name)
            .map_err(|source| PaperError::Unreadable { file: name.to_owned(), source })?;
        let paper = Self::parse(&text, name)?;
        let beside = Path::new(name).parent().unwrap_or(Path::new(".")).to_owned();
        if let Some(needed) = paper.needs.as_ref().map(|folder| beside.join(folder)).filter(|f| !f.is_dir()) {
            let (file, folder) = (name.to_owned(), needed.display().to_string());
            return Err(PaperError::Missing { file, folder });
        }
        Ok(Self { beside, ..paper })
    }

    /// A paper from its text.
    ///
    /// # Errors
    /// [`PaperError`] names the file and the place.
    pub fn parse(text: &str, file: &str) -> Result<Self, PaperError> {
        let format = |error: toml::de::Error| {
            let before = text.get(..error.span().map_or(0, |span| span.start)).unwrap_or(text);
            let line = before.matches('\n').count() + 1;
            let problem = error.message().replace('\n', ", ");
            PaperError::Format { file: file.to_owned(), line, problem }
        };
        let paper: Self = toml::from_str(text).map_err(format)?;
        let meaning = |(place, problem)| PaperError::Meaning { file: file.to_owned(), place, problem };
        check(&paper).map_err(meaning)?;
        Ok(paper)
    }

    /// Checks that the experiments of the paper's matrices measure every metric that the paper uses.
    ///
    /// # Errors
    /// [`PaperError::Meaning`] lists the known metrics.
    pub fn check_metrics(&self, known: &[Metric]) -> Result<(), PaperError> {
        metrics(self, known).map_err(|(place, problem)| PaperError::Meaning {
            file: self.name.clone(),
            place,
            problem,
        })
    }
}

/// Every expression of a paper with its place; placeholders are replaced by a name.
fn expressions(paper: &Paper) -> Vec<(String, String, &Axes)> {
    let none: &'static Axes = {
        static NONE: Axes = Axes::new();
        &NONE
    };
    let mut all = Vec::new();
    for claim in &paper.claim {
        all.push((format!("claim `{}`", claim.id), claim.value.clone(), &claim.each));
    }
    for table in &paper.table {
        for column in &table.column {
            all.push((
                format!("table `{}`, column `{}`", table.title, column.head),
                column.value.clone(),
                none,
            ));
        }
    }
    for figure in &paper.figure {
        for series in &figure.series {
            let place = format!("figure `{}`, series `{}`", figure.title, series.name);
            if figure.kind == super::paper::FigureKind::Bars {
                all.extend(bars(figure, &series.of).map(|text| (place.clone(), text, &figure.each)));
                continue;
            }
            for metric in [&figure.value].into_iter().chain(&figure.of) {
                all.push((place.clone(), format!("mean({}.{metric})", series.of), &figure.each));
            }
        }
    }
    all
}

/// The expressions of one series of bars, one for each group.
fn bars<'a>(figure: &'a FigureSpec, series: &'a str) -> impl Iterator<Item = String> + 'a {
    let text = figure.value.replace("{series}", series);
    figure.own_groups().map(move |group| text.replace("{group}", group))
}

fn axes(paper: &Paper) -> BTreeSet<&str> {
    let all = paper.matrix.iter().flat_map(|matrix| matrix.axes.keys().map(String::as_str));
    all.chain(AXES).collect()
}

/// Checks everything that does not depend on what experiments measure.
fn check(paper: &Paper) -> Result<(), Fault> {
    let axes = axes(paper);
    let known = |place: &str, names: Vec<&String>| -> Result<(), Fault> {
        let unknown = names.into_iter().find(|name| !axes.contains(name.as_str()));
        let listed = || axes.iter().copied().collect::<Vec<_>>().join(", ");
        unknown.map_or(Ok(()), |name| {
            Err((place.to_owned(), format!("`{name}` is not an axis; known: {}", listed())))
        })
    };
    for (name, labels) in &paper.subject {
        known(&format!("subject `{name}`"), labels.keys().collect())?;
    }
    let mut ids = BTreeSet::new();
    for claim in &paper.claim {
        let place = format!("claim `{}`", claim.id);
        if !ids.insert((
            &claim.id,
            claim.world.map(|world| world.to_string()),
            claim.each.values().collect::<Vec<_>>(),
        )) {
            return Err((place, "another claim has this id; give each claim its own".to_owned()));
        }
        known(&place, claim.each.keys().chain(claim.over.keys()).chain(&claim.pool).collect())?;
        let wanted = Wanted::parse(&claim.wanted).map_err(|error| {
            (place.clone(), format!("`wanted` must be `>= BOUND` or `<= BOUND`: {error}"))
        })?;
        single(&place, &wanted.bound)?;
        for text in paper_values(&claim.paper) {
            let value = Expression::parse(text).map_err(|error| (place.clone(), error.to_string()))?;
            if !value.metrics().is_empty() {
                return Err((place, format!("the paper's value `{text}` must consist of numbers")));
            }
        }
    }
    for table in &paper.table {
        known(
            &format!("table `{}`", table.title),
            table.rows.iter().chain(table.only.keys()).chain(table.over.keys()).chain(&table.pool).collect(),
        )?;
        let ambiguous =
            |(axis, values): &(&String, &Vec<String>)| !table.rows.contains(axis) && values.len() != 1;
        if let Some((axis, values)) = table.only.iter().find(ambiguous) {
            let problem = format!(
                "`only` has {} values of `{axis}`, which is not in `rows`; name one, or add it to `rows`",
                values.len()
            );
            return Err((format!("table `{}`", table.title), problem));
        }
    }
    for (place, text, each) in expressions(paper) {
        known(&place, each.keys().collect())?;
        let filled = placeholders_named(&text);
        let value = Expression::parse(&filled).map_err(|error| (place.clone(), error.to_string()))?;
        single(&place, &value)?;
    }
    Ok(())
}

fn paper_values(value: &Option<PaperValue>) -> Vec<&str> {
    match value {
        None => Vec::new(),
        Some(PaperValue::One(text)) => vec![text],
        Some(PaperValue::Each(each)) => each.values().map(String::as_str).collect(),
    }
}

fn single(place: &str, value: &Expression) -> Result<(), Fault> {
    if value.is_single() {
        return Ok(());
    }
    let problem = "the value has one number per run; use a statistic such as mean(…)";
    Err((place.to_owned(), problem.to_owned()))
}

/// Replaces `{name}` by `name`; no cell has a subject of this name.
fn placeholders_named(text: &str) -> String {
    text.replace(['{', '}'], "")
}

/// Checks that every metric is measured by some experiment.
fn metrics(paper: &Paper, known: &[Metric]) -> Result<(), Fault> {
    let check = |place: String, text: &str| -> Result<(), Fault> {
        let Ok(value) = Expression::parse(&placeholders_named(text)) else { return Ok(()) };
        let unknown = value.metrics().into_iter().find(|(_, name)| !known.iter().any(|m| m.name == *name));
        unknown.map_or(Ok(()), |(_, name)| {
            let known: Vec<&str> = known.iter().map(|metric| metric.name).collect();
            Err((place, format!("no experiment measures `{name}`; known: {}", known.join(", "))))
        })
    };
    for claim in &paper.claim {
        let bound = claim.wanted.trim_start_matches(['>', '<', '=', ' ']);
        check(format!("claim `{}`", claim.id), bound)?;
    }
    expressions(paper).into_iter().try_for_each(|(place, text, _)| check(place, &text))
}

/// Every combination of the values of these axes.
pub(super) fn combinations(axes: &Axes, planned: &[Labels]) -> Vec<Labels> {
    let values = |values: &Vec<String>, axis: &str| match values.iter().any(|value| value == "*") {
        true => values_of(axis, planned),
        false => values.clone(),
    };
    combined(Labels::new(), axes.iter().map(|(axis, own)| (axis.as_str(), values(own, axis))))
}

/// The values of an axis in the order in which they were planned.
pub(super) fn values_of(axis: &str, planned: &[Labels]) -> Vec<String> {
    let mut values: Vec<String> = Vec::new();
    for value in planned.iter().filter_map(|labels| labels.get(axis)) {
        if !values.contains(value) {
            values.push(value.clone());
        }
    }
    values
}
