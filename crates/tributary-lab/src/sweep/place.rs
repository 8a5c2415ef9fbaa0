//! Positions in a plan (file, line and field) for error messages.

use super::error::PlanError;
use core::ops::Range;
use toml::Spanned;
use toml::de::{DeTable, DeValue};

/// A table of a plan with its text.
pub(super) struct Source<'a> {
    pub file: &'a str,
    pub text: &'a str,
}

/// A value with its position.
#[derive(Clone)]
pub(super) struct Value<'a> {
    source: &'a Source<'a>,
    pub field: String,
    span: Range<usize>,
    value: &'a DeValue<'a>,
}

impl<'a> Source<'a> {
    pub fn refuse(&self, span: &Range<usize>, field: &str, problem: impl Into<String>) -> PlanError {
        let before = self.text.as_bytes().get(..span.start).unwrap_or(self.text.as_bytes());
        PlanError::Field {
            file: self.file.to_owned(),
            line: before.iter().filter(|byte| **byte == b'\n').count() + 1,
            field: field.to_owned(),
            problem: problem.into(),
        }
    }

    /// Checks that every key of `table` is in `known`.
    pub fn only(&self, table: &DeTable<'_>, known: &[&str]) -> Result<(), PlanError> {
        for key in table.keys() {
            let name = key.get_ref().as_ref();
            if !known.contains(&name) {
                let problem = format!("unknown key; known: {}", known.join(", "));
                return Err(self.refuse(&key.span(), name, problem));
            }
        }
        Ok(())
    }

    /// The value of `key`.
    pub fn value(&'a self, table: &'a DeTable<'a>, key: &str) -> Option<Value<'a>> {
        let value: &Spanned<DeValue<'a>> = table.get(key)?;
        Some(Value { source: self, field: key.to_owned(), span: value.span(), value: value.get_ref() })
    }
}

impl<'a> Value<'a> {
    pub fn refuse(&self, problem: impl Into<String>) -> PlanError {
        self.source.refuse(&self.span, &self.field, problem)
    }

    pub fn text(&self) -> Result<&'a str, PlanError> {
        let expected = || {
            self.refuse(format!("expected a text in quotes, found a value of type {}", self.value.type_str()))
        };
        self.value.as_str().ok_or_else(expected)
    }

    pub fn whole(&self) -> Result<u64, PlanError> {
        let expected = || self.refuse("expected a whole number from 0 to 2⁶⁴ − 1");
        let number = self.value.as_integer().ok_or_else(expected)?;
        u64::from_str_radix(&number.as_str().replace('_', ""), number.radix()).map_err(|_| expected())
    }

    /// The items of a list, or a single value as a list of one.
    pub fn list(&self) -> Vec<Value<'a>> {
        let Some(array) = self.value.as_array() else { return vec![self.clone()] };
        let place = |(i, item): (usize, &'a Spanned<DeValue<'a>>)| Value {
            source: self.source,
            field: format!("{}[{i}]", self.field),
            span: item.span(),
            value: item.get_ref(),
        };
        array.iter().enumerate().map(place).collect()
    }

    pub fn texts(&self) -> Result<Vec<&'a str>, PlanError> {
        self.list().iter().map(Value::text).collect()
    }

    pub fn is_whole(&self) -> bool {
        self.value.as_integer().is_some()
    }
}
