//! Keyword arguments and values from Python. Errors name the argument, what was given, and what is wanted: TypeError for another type,
//! ValueError for a value out of range or without its unit.

use core::time::Duration;
use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyBool, PyDict, PyFloat, PyString};
use std::path::PathBuf;
use tributary_lab::Queue;
use tributary_lab::reproduce::matrix::number;

/// Longest time, in milliseconds.
const MOST_MS: f64 = 60_000.0;

/// The keyword arguments of a call. `None` is as good as left out.
pub(crate) struct Options<'py> {
    given: Option<Bound<'py, PyDict>>,
}

/// An argument: its name, and its value.
pub(crate) struct Argument<'a, 'py>(pub &'a str, pub &'a Bound<'py, PyAny>);

impl<'py> Options<'py> {
    /// The arguments given to `function`, which knows these.
    pub fn new(function: &str, known: &[&str], given: Option<&Bound<'py, PyDict>>) -> PyResult<Self> {
        for name in given.iter().flat_map(|given| given.keys()) {
            let name: String = name.extract()?;
            if !known.contains(&name.as_str()) {
                let known = known.join(", ");
                return Err(PyTypeError::new_err(format!(
                    "{function}() has no argument `{name}`; known: {known}"
                )));
            }
        }
        Ok(Self { given: given.cloned() })
    }

    /// The argument's value as it was given.
    pub fn any(&self, name: &str) -> PyResult<Option<Bound<'py, PyAny>>> {
        let value = self.given.as_ref().map(|given| given.get_item(name)).transpose()?.flatten();
        Ok(value.filter(|value| !value.is_none()))
    }

    fn read<T>(
        &self,
        name: &str,
        read: impl FnOnce(Argument<'_, 'py>) -> PyResult<T>,
    ) -> PyResult<Option<T>> {
        self.any(name)?.map(|value| read(Argument(name, &value))).transpose()
    }

    pub fn text(&self, name: &str, wanted: &str) -> PyResult<Option<String>> {
        self.read(name, |argument| argument.text(wanted))
    }

    pub fn texts(&self, name: &str, wanted: &str) -> PyResult<Vec<String>> {
        Ok(self.read(name, |argument| argument.texts(wanted))?.unwrap_or_default())
    }

    pub fn whole(&self, name: &str, range: core::ops::RangeInclusive<u64>) -> PyResult<Option<u64>> {
        self.read(name, |argument| argument.whole(range))
    }

    pub fn number(&self, name: &str, range: core::ops::RangeInclusive<f64>) -> PyResult<Option<f64>> {
        self.read(name, |argument| argument.number(range))
    }

    /// A yes or no.
    pub fn flag(&self, name: &str) -> PyResult<bool> {
        let read = |argument: Argument<'_, 'py>| {
            argument.1.extract().map_err(|_| argument.wrong_type("True or False"))
        };
        Ok(self.read(name, read)?.unwrap_or(false))
    }

    /// A time with its unit.
    pub fn time(&self, name: &str) -> PyResult<Option<Duration>> {
        self.read(name, |argument| argument.time())
    }

    /// A path of the file system.
    pub fn path(&self, name: &str) -> PyResult<Option<PathBuf>> {
        let wanted = "a path, such as 'results'";
        self.read(name, |argument| argument.1.extract().map_err(|_| argument.wrong_type(wanted)))
    }

    /// Queue of every link.
    pub fn queue(&self, name: &str) -> PyResult<Queue> {
        const WANTED: &str = "a size such as '300 kB', or whole milliseconds such as '20 ms'";
        let Some(text) = self.text(name, WANTED)? else { return Ok(Queue::Scenario) };
        match (number(&text, "kB"), number(&text, "ms")) {
            (Some(kb), _) if (0.001..=1e6).contains(&kb) => Ok(Queue::Bytes((kb * 1e3).round() as u64)),
            (_, Some(ms)) if (1.0..=MOST_MS).contains(&ms) && ms.fract() == 0.0 => {
                Ok(Queue::Millis(ms as u64))
            }
            _ => Err(PyValueError::new_err(format!("{name}: '{text}' given; wanted {WANTED}"))),
        }
    }
}

impl Argument<'_, '_> {
    /// The error that the value has another type.
    pub fn wrong_type(&self, wanted: &str) -> PyErr {
        let Self(name, value) = self;
        PyTypeError::new_err(format!("{name}: {} given; wanted {wanted}", shown(value)))
    }

    /// The error that the value is not possible.
    pub fn refused(&self, wanted: &str) -> PyErr {
        let Self(name, value) = self;
        PyValueError::new_err(format!("{name}: {} given; wanted {wanted}", shown(value)))
    }

    pub fn text(&self, wanted: &str) -> PyResult<String> {
        self.1.extract().map_err(|_| self.wrong_type(wanted))
    }

    /// A list of texts, or one text.
    pub fn texts(&self, wanted: &str) -> PyResult<Vec<String>> {
        if let Ok(one) = self.1.cast::<PyString>() {
            return Ok(vec![one.to_string()]);
        }
        self.each(wanted, |item| item.text("a str"))
    }

    /// The items of something that can be iterated over.
    pub fn each<T>(&self, wanted: &str, read: impl Fn(Argument<'_, '_>) -> PyResult<T>) -> PyResult<Vec<T>> {
        if self.1.is_instance_of::<PyString>() {
            return Err(self.wrong_type(wanted));
        }
        let items = self.1.try_iter().map_err(|_| self.wrong_type(wanted))?;
        let item = |(at, item): (usize, PyResult<Bound<'_, PyAny>>)| {
            read(Argument(&format!("{}[{at}]", self.0), &item?))
        };
        items.enumerate().map(item).collect()
    }

    pub fn whole(&self, range: core::ops::RangeInclusive<u64>) -> PyResult<u64> {
        let wanted = format!("a whole number from {} to {}", range.start(), range.end());
        if self.1.is_instance_of::<PyBool>() || self.1.is_instance_of::<PyFloat>() {
            return Err(self.wrong_type(&wanted));
        }
        let value: i128 = self.1.extract().map_err(|_| self.wrong_type(&wanted))?;
        let value = u64::try_from(value).ok().filter(|value| range.contains(value));
        value.ok_or_else(|| self.refused(&wanted))
    }

    pub fn number(&self, range: core::ops::RangeInclusive<f64>) -> PyResult<f64> {
        let wanted = match (*range.start(), *range.end()) {
            (low, high) if high.is_finite() => format!("a number from {low} to {high}"),
            (low, _) if low.is_finite() => format!("a number, {low} or more"),
            _ => "a number".to_owned(),
        };
        if self.1.is_instance_of::<PyBool>() || self.1.is_instance_of::<PyString>() {
            return Err(self.wrong_type(&wanted));
        }
        let value: f64 = self.1.extract().map_err(|_| self.wrong_type(&wanted))?;
        if value.is_finite() && range.contains(&value) { Ok(value) } else { Err(self.refused(&wanted)) }
    }

    pub fn time(&self) -> PyResult<Duration> {
        const WANTED: &str = "a time with its unit, such as '20 ms' or '0.5 s', at most 60 s";
        let text = self.text(WANTED)?;
        let ms = number(&text, "ms").or_else(|| number(&text, "s").map(|seconds| seconds * 1e3));
        let ms = ms.filter(|ms| *ms <= MOST_MS).ok_or_else(|| self.refused(WANTED))?;
        Ok(Duration::from_nanos((ms * 1e6).round() as u64))
    }
}

/// A value and its type, for errors.
pub(crate) fn shown(value: &Bound<'_, PyAny>) -> String {
    let kind = value.get_type().name().map_or_else(|_| "?".to_owned(), |name| name.to_string());
    match value.repr().map(|text| text.to_string()) {
        Ok(text) if text.chars().count() <= 60 => format!("{text} ({kind})"),
        _ => format!("a value of type {kind}"),
    }
}
