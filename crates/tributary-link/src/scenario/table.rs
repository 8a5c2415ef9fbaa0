//! A TOML tree with file, line and field of each value, for error messages.

use super::{Name, ScenarioError, WrittenAt};
use core::ops::Range;
use toml::de::{DeTable, DeValue};

/// The text being read.
#[derive(Clone, Copy)]
pub(super) struct Source<'a> {
    pub(super) file: &'a str,
    pub(super) text: &'a str,
}

impl Source<'_> {
    pub(super) fn refuse(
        &self,
        span: Range<usize>,
        field: &str,
        problem: impl Into<String>,
    ) -> ScenarioError {
        ScenarioError::Field {
            file: self.file.to_owned(),
            line: self.line(&span),
            field: field.to_owned(),
            problem: problem.into(),
        }
    }

    /// The line in which `span` begins, counted from one.
    fn line(&self, span: &Range<usize>) -> usize {
        let before = self.text.as_bytes().get(..span.start).unwrap_or(self.text.as_bytes());
        before.iter().filter(|byte| **byte == b'\n').count() + 1
    }
}

/// A value with its place.
pub(super) struct Value<'a> {
    pub(super) source: Source<'a>,
    pub(super) field: String,
    span: Range<usize>,
    value: &'a DeValue<'a>,
}

/// A table with its place.
pub(super) struct Table<'a> {
    pub(super) source: Source<'a>,
    pub(super) field: String,
    span: Range<usize>,
    table: &'a DeTable<'a>,
}

impl<'a> Value<'a> {
    pub(super) fn refuse(&self, problem: impl Into<String>) -> ScenarioError {
        self.source.refuse(self.span.clone(), &self.field, problem)
    }

    /// As `refuse`, but the error is in `field`; this value is the innermost existing part of it.
    pub(super) fn refuse_as(&self, field: &str, problem: impl Into<String>) -> ScenarioError {
        self.source.refuse(self.span.clone(), field, problem)
    }

    /// The value at the dotted `field` inside this one, or the innermost existing value around it.
    pub(super) fn descend(&self, field: &str) -> Value<'a> {
        let mut value = Value { field: self.field.clone(), span: self.span.clone(), ..*self };
        for key in field.split('.') {
            match value.table().ok().and_then(|table| table.optional(key)) {
                Some(inner) => value = inner,
                None => break,
            }
        }
        value
    }

    /// A name that a higher crate resolves, with its place.
    pub(super) fn name(&self) -> Result<Name, ScenarioError> {
        let text = self.text()?;
        if text.is_empty() || text.len() > 64 {
            return Err(self.refuse("must be a name of 1 to 64 characters"));
        }
        Ok(Name::read(text, self.written_at()))
    }

    /// Its position.
    pub(super) fn written_at(&self) -> WrittenAt {
        let (file, line) = (self.source.file.to_owned(), self.source.line(&self.span));
        WrittenAt { file, line, field: self.field.clone() }
    }

    /// A text that must be one of `known`.
    pub(super) fn one_of<T: Copy>(&self, known: &[(&str, T)]) -> Result<T, ScenarioError> {
        let text = self.text()?;
        known.iter().find(|(name, _)| *name == text).map(|(_, value)| *value).ok_or_else(|| {
            let names: Vec<&str> = known.iter().map(|(name, _)| *name).collect();
            self.refuse(format!("`{text}` is unknown; known: {}", names.join(", ")))
        })
    }

    /// A number that is finite and above zero.
    pub(super) fn positive(&self) -> Result<f64, ScenarioError> {
        let digits = self.digits().ok_or_else(|| self.expected("a number"))?;
        match digits.parse::<f64>() {
            Ok(number) if number.is_finite() && number > 0.0 => Ok(number),
            _ => Err(self.refuse(format!("{digits} is not a number above zero"))),
        }
    }

    fn digits(&self) -> Option<String> {
        match self.value {
            DeValue::Float(number) => Some(number.as_str().replace('_', "")),
            DeValue::Integer(number) => Some(number.as_str().replace('_', "")),
            _ => None,
        }
    }

    fn expected(&self, what: &str) -> ScenarioError {
        self.refuse(format!("expected {what}, found a value of type {}", self.value.type_str()))
    }

    pub(super) fn is_text(&self) -> bool {
        self.value.is_str()
    }

    pub(super) fn text(&self) -> Result<&'a str, ScenarioError> {
        self.value.as_str().ok_or_else(|| self.expected("a text in quotes"))
    }

    /// Text parsed by `parse`; adds the place to its error.
    pub(super) fn quantity<T>(&self, parse: fn(&str) -> Result<T, String>) -> Result<T, ScenarioError> {
        parse(self.text()?).map_err(|problem| self.refuse(problem))
    }

    pub(super) fn whole(&self) -> Result<u64, ScenarioError> {
        let number = self.value.as_integer().ok_or_else(|| self.expected("a whole number"))?;
        u64::from_str_radix(&number.as_str().replace('_', ""), number.radix())
            .map_err(|_| self.refuse(format!("{} is not a whole number from 0 to 2⁶⁴ − 1", number.as_str())))
    }

    pub(super) fn truth(&self) -> Result<bool, ScenarioError> {
        self.value.as_bool().ok_or_else(|| self.expected("true or false"))
    }

    /// A whole number from 1 to 10 000.
    pub(super) fn count(&self) -> Result<u32, ScenarioError> {
        match self.whole()? {
            n @ 1..=10_000 => Ok(n as u32),
            n => Err(self.refuse(format!("{n} is not from 1 to 10000"))),
        }
    }

    /// A whole number from 0 to 255.
    pub(super) fn small(&self) -> Result<u8, ScenarioError> {
        u8::try_from(self.whole()?).map_err(|_| self.refuse("must be a whole number from 0 to 255"))
    }

    /// A probability: a number from 0 to 1, or text such as `5 %`.
    pub(super) fn probability(&self) -> Result<f64, ScenarioError> {
        if self.is_text() {
            return self.quantity(super::quantity::share);
        }
        let expected = || self.expected("a probability such as 0.05 or \"5 %\"");
        let digits = self.digits().ok_or_else(expected)?;
        match digits.parse::<f64>() {
            Ok(p) if (0.0..=1.0).contains(&p) => Ok(p),
            _ => Err(self.refuse(format!("{digits} is not a probability from 0 to 1"))),
        }
    }

    pub(super) fn items(&self) -> Result<Vec<Value<'a>>, ScenarioError> {
        let array = self.value.as_array().ok_or_else(|| self.expected("a list"))?;
        let place = |(i, item): (usize, &'a toml::Spanned<DeValue<'a>>)| Value {
            source: self.source,
            field: format!("{}[{i}]", self.field),
            span: item.span(),
            value: item.get_ref(),
        };
        Ok(array.iter().enumerate().map(place).collect())
    }

    /// A list of exactly two values.
    pub(super) fn pair(&self) -> Result<[Value<'a>; 2], ScenarioError> {
        <[Value<'a>; 2]>::try_from(self.items()?)
            .map_err(|items| self.refuse(format!("expected a list of two values, found {}", items.len())))
    }

    pub(super) fn table(&self) -> Result<Table<'a>, ScenarioError> {
        let table = self.value.as_table().ok_or_else(|| self.expected("a table"))?;
        Ok(Table { source: self.source, field: self.field.clone(), span: self.span.clone(), table })
    }
}

impl<'a> Table<'a> {
    pub(super) fn root(source: Source<'a>, table: &'a DeTable<'a>) -> Self {
        Self { source, field: String::new(), span: 0..0, table }
    }

    pub(super) fn refuse(&self, problem: impl Into<String>) -> ScenarioError {
        let field = if self.field.is_empty() { "scenario" } else { &self.field };
        self.source.refuse(self.span.clone(), field, problem)
    }

    /// The value at the dotted `field`, or the innermost existing value around it; `None` if not even the
    /// first part of the field exists.
    pub(super) fn descend(&self, field: &str) -> Option<Value<'a>> {
        let (first, rest) = field.split_once('.').unwrap_or((field, ""));
        self.optional(first).map(|value| if rest.is_empty() { value } else { value.descend(rest) })
    }

    fn field_of(&self, key: &str) -> String {
        if self.field.is_empty() { key.to_owned() } else { format!("{}.{key}", self.field) }
    }

    pub(super) fn optional(&self, key: &str) -> Option<Value<'a>> {
        let value = self.table.get(key)?;
        Some(Value {
            source: self.source,
            field: self.field_of(key),
            span: value.span(),
            value: value.get_ref(),
        })
    }

    /// All keys with their values, in the order of the keys.
    pub(super) fn entries(&self) -> impl Iterator<Item = (&'a str, Value<'a>)> {
        let value = |key: &'a str| self.optional(key).map(|value| (key, value));
        self.table.keys().filter_map(move |key| value(key.get_ref().as_ref()))
    }

    pub(super) fn required(&self, key: &str) -> Result<Value<'a>, ScenarioError> {
        self.optional(key).ok_or_else(|| self.refuse(format!("`{key}` is missing")))
    }

    /// Refuses every key that is not in `known`.
    pub(super) fn only(&self, known: &[&str]) -> Result<(), ScenarioError> {
        for key in self.table.keys() {
            let name = key.get_ref().as_ref();
            if !known.contains(&name) {
                let problem = format!("unknown key; known: {}", known.join(", "));
                return Err(self.source.refuse(key.span(), &self.field_of(name), problem));
            }
        }
        Ok(())
    }

    /// The only key of a table, which selects one of `kinds`.
    pub(super) fn choice(&self, kinds: &[&'static str]) -> Result<(&'static str, Value<'a>), ScenarioError> {
        self.only(kinds)?;
        let mut given = kinds.iter().filter_map(|kind| self.optional(kind).map(|value| (*kind, value)));
        match (given.next(), given.next()) {
            (Some(one), None) => Ok(one),
            _ => Err(self.refuse(format!("give exactly one of {}", kinds.join(", ")))),
        }
    }
}
