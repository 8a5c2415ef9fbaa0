//! Expressions of claims and tables: numbers of measured cells, arithmetic and statistics.
//!
//! Example: `mean(fbdt.goodput / (wifi.goodput + wigig.goodput))` forms the ratio for each seed and takes the mean
//! over the seeds. `SUBJECT.METRIC` is one number, or a series of numbers, for each run. Arithmetic works run by run
//! and, on series, item by item. A statistic of one argument (`mean`, `median`, `min`, `max`, `p1` … `p99`, `worst5`,
//! `variance`) computes one number from all runs; with the prefix `run_`, one number for each run. `min` and `max` of two
//! arguments compare item by item. Parses only; values come from [`super::evaluate`].

use thiserror::Error;

/// A parsed expression.
#[derive(Clone, Debug, PartialEq)]
pub enum Expression {
    /// A constant.
    Number(f64),
    /// A metric of the cells of a subject.
    Metric {
        /// The cells: a subject of the file, or a transport.
        subject: String,
        /// The metric's name.
        metric: String,
    },
    /// A statistic over all runs.
    Statistic(Statistic, Box<Self>),
    /// A statistic within each run.
    RunStatistic(Statistic, Box<Self>),
    /// A function of one argument, item by item.
    Map(Map, Box<Self>),
    /// An operation on two arguments, item by item.
    Binary(Operator, Box<Self>, Box<Self>),
}

/// A statistic of a sample.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Statistic {
    /// Arithmetic mean.
    Mean,
    /// Smallest.
    Minimum,
    /// Largest.
    Maximum,
    /// The value below which this percentage of the sample lies; 50 is the median.
    Percentile(f64),
    /// Mean of the largest 5 % of the sample, at least one item.
    Worst5,
    /// Square of the standard deviation of the sample.
    Variance,
}

/// A function of one item.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Map {
    /// Its magnitude.
    Magnitude,
    /// Peak signal-to-noise ratio in dB of a mean squared error of 8-bit pictures.
    Psnr,
    /// Negation.
    Negative,
}

/// An operation on two items.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Operator {
    /// Sum.
    Plus,
    /// Difference.
    Minus,
    /// Product.
    Times,
    /// Quotient.
    Over,
    /// The smaller.
    Smaller,
    /// The larger.
    Larger,
}

/// Why an expression is invalid.
#[derive(Clone, Debug, PartialEq, Error)]
#[error("`{text}`, column {column}: {problem}")]
pub struct ExpressionError {
    text: String,
    column: usize,
    problem: String,
}

/// Largest depth of nested parentheses.
const DEPTH: usize = 32;

impl Expression {
    /// Parses a text.
    ///
    /// # Errors
    /// [`ExpressionError`] names the column and what was expected.
    pub fn parse(text: &str) -> Result<Self, ExpressionError> {
        let mut parser = Parser { text, at: 0, depth: 0 };
        let expression = parser.sum()?;
        match parser.rest().is_empty() {
            true => Ok(expression),
            false => Err(parser.refuse("expected an operator or the end")),
        }
    }

    /// Whether it gives one number in total, and not one per run.
    #[must_use]
    pub fn is_single(&self) -> bool {
        match self {
            Self::Number(_) | Self::Statistic(..) => true,
            Self::Metric { .. } | Self::RunStatistic(..) => false,
            Self::Map(_, of) => of.is_single(),
            Self::Binary(_, left, right) => left.is_single() && right.is_single(),
        }
    }

    /// Every subject and metric in it, in order.
    #[must_use]
    pub fn metrics(&self) -> Vec<(&str, &str)> {
        match self {
            Self::Number(_) => Vec::new(),
            Self::Metric { subject, metric } => vec![(subject, metric)],
            Self::Statistic(_, of) | Self::RunStatistic(_, of) | Self::Map(_, of) => of.metrics(),
            Self::Binary(_, left, right) => [left.metrics(), right.metrics()].concat(),
        }
    }
}

struct Parser<'a> {
    text: &'a str,
    at: usize,
    depth: usize,
}

impl<'a> Parser<'a> {
    fn rest(&mut self) -> &'a str {
        let rest = &self.text[self.at..];
        let trimmed = rest.trim_start();
        self.at += rest.len() - trimmed.len();
        trimmed
    }

    fn refuse(&self, problem: &str) -> ExpressionError {
        let column = self.text[..self.at].chars().count() + 1;
        ExpressionError { text: self.text.to_owned(), column, problem: problem.to_owned() }
    }

    /// Takes one of these characters, if it is next.
    fn take(&mut self, of: &[char]) -> Option<char> {
        let next = self.rest().chars().next().filter(|next| of.contains(next))?;
        self.at += next.len_utf8();
        Some(next)
    }

    fn sum(&mut self) -> Result<Expression, ExpressionError> {
        let mut left = self.product()?;
        while let Some(sign) = self.take(&['+', '-']) {
            let operator = if sign == '+' { Operator::Plus } else { Operator::Minus };
            left = Expression::Binary(operator, Box::new(left), Box::new(self.product()?));
        }
        Ok(left)
    }

    fn product(&mut self) -> Result<Expression, ExpressionError> {
        let mut left = self.factor()?;
        while let Some(sign) = self.take(&['*', '/']) {
            let operator = if sign == '*' { Operator::Times } else { Operator::Over };
            left = Expression::Binary(operator, Box::new(left), Box::new(self.factor()?));
        }
        Ok(left)
    }

    fn factor(&mut self) -> Result<Expression, ExpressionError> {
        self.depth += 1;
        if self.depth > DEPTH {
            return Err(self.refuse("nested too deeply"));
        }
        let factor = self.nested();
        self.depth -= 1;
        factor
    }

    fn nested(&mut self) -> Result<Expression, ExpressionError> {
        if self.take(&['-']).is_some() {
            return Ok(Expression::Map(Map::Negative, Box::new(self.factor()?)));
        }
        if self.take(&['(']).is_some() {
            let inner = self.sum()?;
            return self.take(&[')']).map(|_| inner).ok_or_else(|| self.refuse("expected `)`"));
        }
        let rest = self.rest();
        if rest.starts_with(|c: char| c.is_ascii_digit()) {
            let end = rest.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(rest.len());
            let number = rest[..end].parse().map_err(|_| self.refuse("expected a number such as 0.97"))?;
            self.at += end;
            return Ok(Expression::Number(number));
        }
        let start = self.at;
        let name = self.name()?;
        if self.take(&['.']).is_some() {
            let metric = self.name()?.to_owned();
            return Ok(Expression::Metric { subject: name.to_owned(), metric });
        }
        if self.take(&['(']).is_some() {
            return self.call(name, start);
        }
        Err(self.refuse("expected `.METRIC` after a subject, or `(` after a function"))
    }

    fn name(&mut self) -> Result<&'a str, ExpressionError> {
        let rest = self.rest();
        let part = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '-';
        let end = rest.find(|c| !part(c)).unwrap_or(rest.len());
        if !rest.starts_with(|c: char| c.is_ascii_alphabetic()) {
            return Err(self.refuse("expected a number, a name or `(`"));
        }
        self.at += end;
        Ok(&rest[..end])
    }

    fn call(&mut self, name: &str, start: usize) -> Result<Expression, ExpressionError> {
        let first = Box::new(self.sum()?);
        let second = self.take(&[',']).map(|_| self.sum()).transpose()?;
        self.take(&[')']).ok_or_else(|| self.refuse("expected `)`"))?;
        if let Some(second) = second {
            let operator = match name {
                "min" => Operator::Smaller,
                "max" => Operator::Larger,
                _ => {
                    self.at = start;
                    return Err(self.refuse("only `min` and `max` take two arguments"));
                }
            };
            return Ok(Expression::Binary(operator, first, Box::new(second)));
        }
        let map = match name {
            "abs" => Some(Map::Magnitude),
            "psnr" => Some(Map::Psnr),
            _ => None,
        };
        if let Some(map) = map {
            return Ok(Expression::Map(map, first));
        }
        let (within, plain) = name.strip_prefix("run_").map_or((false, name), |plain| (true, plain));
        match statistic(plain) {
            Some(statistic) if within => Ok(Expression::RunStatistic(statistic, first)),
            Some(statistic) => Ok(Expression::Statistic(statistic, first)),
            None => {
                self.at = start;
                Err(self.refuse(
                    "unknown function; known: mean, median, min, max, p1 … p99, worst5, variance, the same with the \
                     prefix run_, abs, psnr",
                ))
            }
        }
    }
}

fn statistic(name: &str) -> Option<Statistic> {
    Some(match name {
        "mean" => Statistic::Mean,
        "median" => Statistic::Percentile(50.0),
        "min" => Statistic::Minimum,
        "max" => Statistic::Maximum,
        "worst5" => Statistic::Worst5,
        "variance" => Statistic::Variance,
        _ => {
            let percent: u8 = name.strip_prefix('p')?.parse().ok()?;
            return (1..=99).contains(&percent).then(|| Statistic::Percentile(percent.into()));
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn products_bind_tighter_than_sums_and_names_may_have_hyphens() {
        let parsed = Expression::parse("1 + 2 * fbdt-paper.p10 - 3").unwrap();
        let Expression::Binary(Operator::Minus, left, _) = &parsed else { panic!("{parsed:?}") };
        let Expression::Binary(Operator::Plus, _, product) = &**left else { panic!("{left:?}") };
        assert!(matches!(**product, Expression::Binary(Operator::Times, ..)));
        assert_eq!(parsed.metrics(), [("fbdt-paper", "p10")]);
        assert!(!parsed.is_single());
        assert!(Expression::parse("median(a.x) / max(median(b.x), 0.1)").unwrap().is_single());
    }

    #[test]
    fn errors_name_the_column_and_the_expected_input() {
        for (text, column, hint) in [
            ("mean(fbdt.goodput", 18, "expected `)`"),
            ("mode(fbdt.goodput)", 1, "known: mean"),
            ("fbdt", 5, ".METRIC"),
            ("", 1, "expected a number"),
            ("mean(a.b, c.d)", 1, "two arguments"),
            ("1 2", 3, "operator"),
            ("ä", 1, "expected a number"),
            ("1.2.3", 1, "such as 0.97"),
        ] {
            let error = Expression::parse(text).unwrap_err().to_string();
            assert!(error.contains(&format!("column {column}:")) && error.contains(hint), "{error}");
        }
        assert!(Expression::parse(&"(".repeat(10_000)).unwrap_err().to_string().contains("deeply"));
    }
}
