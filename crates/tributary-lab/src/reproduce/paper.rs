//! A paper as data: its cells, claims, tables and figures, in TOML.
//!
//! The guide `docs/guide/reproductions.md` has a complete example. Checked in `check.rs`; runs nothing.

use super::evaluate::Method;
use super::expression::{Expression, ExpressionError};
use super::matrix::{Axes, Cell, CellError, Matrices, Matrix, Selection, cells};
use super::sample::Labels;
use crate::result::World;
use core::fmt;
use serde::Deserialize;
use std::collections::BTreeMap;
use std::path::PathBuf;
use thiserror::Error;
use tributary_report::{Expectation, Tone};

/// The papers that are part of the program: name, file, text.
pub(super) const SHIPPED: &[(&str, &str)] = &[
    ("fbdt", include_str!("../../papers/fbdt.toml")),
    ("fbdt-ablation", include_str!("../../papers/fbdt-ablation.toml")),
    ("fbdt-published", include_str!("../../papers/fbdt-published.toml")),
    ("avira", include_str!("../../papers/avira.toml")),
    ("cotag", include_str!("../../papers/cotag.toml")),
    ("decision-engine", include_str!("../../papers/decision-engine.toml")),
    ("handoff", include_str!("../../papers/handoff.toml")),
    ("simulator-linux", include_str!("../../papers/simulator-linux.toml")),
    ("simulator-ns3", include_str!("../../papers/simulator-ns3.toml")),
];

/// A paper's experiments and claims.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct Paper {
    /// Short name, used for the files of the report.
    pub name: String,
    /// Headline of the page.
    #[serde(default)]
    pub title: String,
    /// Summary in one or two sentences.
    #[serde(default)]
    pub lead: String,
    /// Default world.
    #[serde(default)]
    pub world: World,
    /// Seconds after which a quick run starts no further cells.
    pub quick_limit: Option<u64>,
    /// A folder that the paper's scenarios read, as named in them. Without it nothing can be run.
    pub needs: Option<PathBuf>,
    /// Transports that claims refer to; always run.
    #[serde(default)]
    pub reference: Vec<String>,
    /// Method of the intervals.
    #[serde(default)]
    pub interval: Method,
    /// Factor for the paper's values in a world, for links slower than the paper's.
    #[serde(default)]
    pub paper_scale: BTreeMap<String, f64>,
    /// The paper's numbers: table name, then value of the first axis of rows, then subject.
    #[serde(default)]
    pub paper: BTreeMap<String, BTreeMap<String, BTreeMap<String, f64>>>,
    /// Display names of values: axis, then value, then name.
    #[serde(default)]
    pub label: BTreeMap<String, BTreeMap<String, String>>,
    /// Subjects of expressions, with the labels that they stand for.
    #[serde(default)]
    pub subject: BTreeMap<String, Labels>,
    /// The runs.
    pub matrix: Vec<Matrix>,
    /// The claims.
    #[serde(default)]
    pub claim: Vec<ClaimSpec>,
    /// The tables.
    #[serde(default)]
    pub table: Vec<TableSpec>,
    /// The figures.
    #[serde(default)]
    pub figure: Vec<FigureSpec>,
    /// Directory of the file; scenario files are searched there.
    #[serde(skip)]
    pub beside: PathBuf,
}

/// One claim, or one for each combination of values.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct ClaimSpec {
    /// Short and stable; `{axis}` stands for the value.
    pub id: String,
    /// Text; `{axis}` stands for the value's label.
    pub text: String,
    /// Expression of the measured value.
    pub value: String,
    /// The bound: `>= EXPRESSION` or `<= EXPRESSION`.
    pub wanted: String,
    /// Unit of value, bound and the paper's value; empty for a ratio.
    #[serde(default)]
    pub unit: String,
    /// The world; without it, both.
    pub world: Option<World>,
    /// A claim for each combination of these values.
    #[serde(default)]
    pub each: Axes,
    /// One claim over all combinations of these values; `take` says how they are combined.
    #[serde(default)]
    pub over: Axes,
    /// Axes whose values count as further seeds: the interval is over them.
    #[serde(default)]
    pub pool: Vec<String>,
    /// How the values over `over` are combined.
    #[serde(default)]
    pub take: Take,
    /// The paper's value: an expression of numbers, or one expression per value of the first axis of `each`.
    pub paper: Option<PaperValue>,
    /// Figure, table or section of the paper.
    #[serde(default)]
    pub source: String,
    /// Method of its interval, if it differs from the file's.
    pub interval: Option<Method>,
}

/// One value, or one for each value of an axis.
#[derive(Clone, Debug, Deserialize)]
#[serde(untagged)]
pub enum PaperValue {
    /// One value for all.
    One(String),
    /// A value for each value of the first axis of `each`.
    Each(BTreeMap<String, String>),
}

/// How several values are combined into one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Take {
    /// The smallest; the text names its place.
    #[default]
    Least,
    /// The largest; the text names its place.
    Most,
    /// The mean of all.
    Mean,
}

/// A table: a row for each combination of the values of some axes.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct TableSpec {
    /// Heading.
    pub title: String,
    /// Explanation.
    #[serde(default)]
    pub caption: String,
    /// The world; without it, both.
    pub world: Option<World>,
    /// Axes whose values make the rows, outermost first.
    pub rows: Vec<String>,
    /// Values of axes that make rows; without it, all values. For an axis that makes no rows: one value, and the table
    /// has the cells with this value only.
    #[serde(default)]
    pub only: Axes,
    /// A number is the mean over all combinations of these values.
    #[serde(default)]
    pub over: Axes,
    /// Axes whose values count as further seeds.
    #[serde(default)]
    pub pool: Vec<String>,
    /// Rows with these labels are emphasised.
    #[serde(default)]
    pub highlight: Labels,
    /// The columns after those of the axes.
    pub column: Vec<ColumnSpec>,
}

/// A column of numbers.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct ColumnSpec {
    /// Heading.
    pub head: String,
    /// Unit.
    #[serde(default)]
    pub unit: String,
    /// Expression; the subject `row` is the cell of the row.
    pub value: String,
    /// Decimals.
    #[serde(default)]
    pub digits: usize,
    /// Adds a column with the paper's numbers before this one: `TABLE.SUBJECT` of `paper`.
    pub paper: Option<String>,
    /// Whether to print the interval.
    #[serde(default)]
    pub interval: bool,
}

/// A drawing.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct FigureSpec {
    /// Kind of figure.
    pub kind: FigureKind,
    /// Heading.
    pub title: String,
    /// Explanation.
    #[serde(default)]
    pub caption: String,
    /// The world; without it, both.
    pub world: Option<World>,
    /// Label or unit of the values.
    #[serde(default)]
    pub unit: String,
    /// Name of a separate file for the figure. Of figures for each combination of `each`, the combination follows it.
    pub file: Option<String>,
    /// Bars: axes of the groups. Others: a figure for each combination.
    pub each: Axes,
    /// Bars: a value is the mean over all combinations of these values.
    #[serde(default)]
    pub over: Axes,
    /// Bars: axes whose values count as further seeds.
    #[serde(default)]
    pub pool: Vec<String>,
    /// Bars: an expression in which `{series}` stands for the subject and `{group}` for one of `groups`. Others: a
    /// metric that is a series.
    pub value: String,
    /// Bars: further groups, in each combination of `each`.
    #[serde(default)]
    pub groups: Vec<String>,
    /// Seconds and strips: the metric of the upper bound of each item, such as link capacity. Seconds show it as a
    /// grey area; cells of strips are shares of it.
    pub of: Option<String>,
    /// Seconds and strips: marks the times at which a link carries less than a third of its highest rate.
    #[serde(default)]
    pub bands: bool,
    /// Seconds: time from one item to the next, seconds.
    #[serde(default = "second")]
    pub step: f64,
    /// Seconds and strips: the second of the first item.
    #[serde(default)]
    pub from: u32,
    /// Bars: table of `paper` with the paper's values.
    pub paper: Option<String>,
    /// Subjects, their names and colours.
    pub series: Vec<SeriesSpec>,
}

fn second() -> f64 {
    1.0
}

impl FigureSpec {
    /// Its groups; one without a name if the file gives none.
    pub(super) fn own_groups(&self) -> impl Iterator<Item = &str> {
        let none = self.groups.is_empty().then_some("");
        self.groups.iter().map(String::as_str).chain(none)
    }
}

/// Kinds of drawings.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum FigureKind {
    /// A bar for each series in each group.
    Bars,
    /// The distribution of a series over all seeds.
    Distribution,
    /// A series of the first seed over time.
    Seconds,
    /// A row for each series of the first seed, a cell for each second.
    Strip,
}

/// One series of a drawing.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct SeriesSpec {
    /// Subject.
    pub of: String,
    /// Name in the legend.
    pub name: String,
    /// Colour by role.
    #[serde(default)]
    pub tone: ToneName,
}

/// Colours by role, as in [`Tone`].
#[derive(Clone, Copy, Debug, Default, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ToneName {
    /// The product.
    Hero,
    /// Its close rival.
    Rival,
    /// Related to the hero.
    Cousin,
    /// The first radio alone.
    RadioA,
    /// The second radio alone.
    RadioB,
    /// Another.
    #[default]
    Peer,
}

impl From<ToneName> for Tone {
    fn from(name: ToneName) -> Self {
        match name {
            ToneName::Hero => Self::Hero,
            ToneName::Rival => Self::Rival,
            ToneName::Cousin => Self::Cousin,
            ToneName::RadioA => Self::RadioA,
            ToneName::RadioB => Self::RadioB,
            ToneName::Peer => Self::Peer,
        }
    }
}

/// Why a paper's file is refused.
#[derive(Debug, Error)]
pub enum PaperError {
    /// No paper has this name.
    #[error("unknown paper `{name}`; known: {known}; or give a .toml file")]
    Unknown {
        /// The requested name.
        name: String,
        /// The known papers.
        known: String,
    },
    /// The file could not be read.
    #[error("cannot read {file}: {source}")]
    Unreadable {
        /// The file.
        file: String,
        /// The system's reason.
        source: std::io::Error,
    },
    /// The file is invalid.
    #[error("{file}:{line}: {problem}")]
    Format {
        /// The file.
        file: String,
        /// Line, counted from one.
        line: usize,
        /// What is wrong, and what is expected.
        problem: String,
    },
    /// The folder that its scenarios read does not exist.
    #[error(
        "{file} needs the folder {folder}, which does not exist; its scenarios say where to get the data"
    )]
    Missing {
        /// The file.
        file: String,
        /// The folder.
        folder: String,
    },
    /// A claim, table or figure cannot be evaluated.
    #[error("{file}: {place}: {problem}")]
    Meaning {
        /// The file.
        file: String,
        /// The claim, table or figure.
        place: String,
        /// Description of the error, and the expected value.
        problem: String,
    },
}

/// Names of the papers that are part of the program.
pub fn papers() -> impl Iterator<Item = &'static str> {
    SHIPPED.iter().map(|(name, _)| *name)
}

impl Paper {
    /// The paper's matrices, with the other fields of the paper that they use.
    fn matrices(&self) -> Matrices<'_> {
        let Self { name, matrix, reference, beside, .. } = self;
        Matrices { name, matrix, reference, beside }
    }

    /// The runs of a choice in order, seed by seed: if the time runs out, cells have fewer seeds, but no cell is missing.
    ///
    /// # Errors
    /// [`CellError::Empty`] when the choice leaves nothing.
    pub fn cells(&self, chosen: &Selection) -> Result<Vec<Cell>, CellError> {
        cells(&self.matrices(), chosen)
    }

    /// Replaces the value `@group` of an axis, or of the list of scenarios, by `values`, for values that depend on the
    /// user's files, such as the names of clips.
    pub fn fill(&mut self, axis: &str, group: &str, values: &[String]) {
        let place = format!("@{group}");
        let claims = self.claim.iter_mut().flat_map(|claim| [&mut claim.each, &mut claim.over]);
        let tables = self.table.iter_mut().flat_map(|table| [&mut table.only, &mut table.over]);
        let figures = self.figure.iter_mut().flat_map(|figure| [&mut figure.each, &mut figure.over]);
        let all = claims.chain(tables).chain(figures).filter_map(|axes| axes.get_mut(axis));
        let lists = self.matrix.iter_mut().filter_map(|matrix| matrix.values_mut(axis));
        for list in lists.chain(all) {
            if let Some(at) = list.iter().position(|value| *value == place) {
                list.splice(at..=at, values.iter().cloned());
            }
        }
    }

    /// Display name of a value of an axis.
    #[must_use]
    pub fn label<'a>(&'a self, axis: &str, value: &'a str) -> &'a str {
        self.label.get(axis).and_then(|labels| labels.get(value)).map_or(value, String::as_str)
    }

    /// Sets the rates of a world's links to `scale` times the paper's; the paper's numbers are scaled alike.
    ///
    /// # Errors
    /// [`CellError::Value`] when they are not a whole multiple of the scenario files' rates.
    pub fn set_scale(&mut self, world: World, scale: f64) -> Result<(), CellError> {
        let present = self.paper_scale.insert(world.to_string(), scale).unwrap_or(1.0);
        for matrix in self.matrix.iter_mut().filter(|matrix| matrix.world == world) {
            let factor = matrix.scale as f64 * scale / present;
            let valid = (1.0..=1000.0).contains(&factor.round()) && (factor - factor.round()).abs() < 1e-6;
            if !valid {
                let least = present / matrix.scale as f64;
                let expected = format!("a whole multiple of {least}, up to {}", 1000.0 * least);
                return Err(CellError::Value { axis: "scale", value: scale.to_string(), expected });
            }
            matrix.scale = factor.round() as u64;
        }
        Ok(())
    }

    /// The paper's number for a row of a table, scaled for a world.
    #[must_use]
    pub fn number(&self, table: &str, row: &str, subject: &str, world: World) -> Option<f64> {
        let value = self.paper.get(table)?.get(row)?.get(subject)?;
        Some(value * self.paper_scale.get(&world.to_string()).copied().unwrap_or(1.0))
    }
}

/// A bound: a relation and an expression.
#[derive(Clone, Debug, PartialEq)]
pub struct Wanted {
    at_least: bool,
    /// The bound itself.
    pub bound: Expression,
}

impl Wanted {
    /// Parses `>= EXPRESSION` or `<= EXPRESSION`.
    ///
    /// # Errors
    /// [`ExpressionError`] of the bound, also if the relation is missing.
    pub fn parse(text: &str) -> Result<Self, ExpressionError> {
        let text = text.trim();
        let (at_least, bound) = match (text.strip_prefix(">="), text.strip_prefix("<=")) {
            (Some(bound), _) => (true, bound),
            (_, Some(bound)) => (false, bound),
            _ => (true, text.trim_start_matches(|c: char| c.is_ascii_digit() || c == '.')),
        };
        Ok(Self { at_least, bound: Expression::parse(bound.trim())? })
    }

    /// The bound with its value.
    #[must_use]
    pub fn expectation(&self, bound: f64) -> Expectation {
        if self.at_least { Expectation::AtLeast(bound) } else { Expectation::AtMost(bound) }
    }
}

impl fmt::Display for World {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Emu => "emu",
            Self::Sim => "sim",
        })
    }
}
