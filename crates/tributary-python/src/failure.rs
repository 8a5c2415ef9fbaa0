//! What happens when an algorithm written in Python raises or returns nonsense: the run ends, and its caller gets the exception with
//! its traceback and a note with the seed. Python may also stop the run by a signal.

use core::ops::ControlFlow;
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use std::sync::{Arc, Mutex, PoisonError};

/// The first exception of the algorithms of one run.
#[derive(Clone, Debug, Default)]
pub(crate) struct Failure(Arc<Mutex<Option<PyErr>>>);

impl Failure {
    /// Keeps the first exception.
    pub fn keep(&self, error: PyErr) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert(error);
    }

    pub fn take(&self) -> Option<PyErr> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).take()
    }

    fn is_set(&self) -> bool {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).is_some()
    }

    /// Calls an algorithm, unless one has failed. `None`: it has failed now or before.
    pub fn guard<T>(&self, call: impl FnOnce(Python<'_>) -> PyResult<T>) -> Option<T> {
        if self.is_set() {
            return None;
        }
        Python::attach(call).map_err(|error| self.keep(error)).ok()
    }

    /// Whether the run goes on: no algorithm has failed, and no signal has come.
    pub fn watch(&self) -> ControlFlow<()> {
        let signalled = Python::attach(|py| py.check_signals());
        if let Err(error) = signalled {
            self.keep(error);
        }
        if self.is_set() { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    }

    /// The exception with a note of the run that it ended.
    pub fn told(error: PyErr, py: Python<'_>, run: &str) -> PyErr {
        match error.add_note(py, format!("in the simulated run: {run}")) {
            Ok(()) => error,
            Err(problem) => problem,
        }
    }
}

/// The error that a method returned something impossible.
pub(crate) fn nonsense(class: &str, method: &str, given: &Bound<'_, PyAny>, wanted: &str) -> PyErr {
    PyValueError::new_err(format!(
        "{class}.{method} returned {}; wanted {wanted}",
        crate::options::shown(given)
    ))
}

/// Whether an object's class defines a method of its own, not only the base class of the package.
pub(crate) fn defines(object: &Bound<'_, PyAny>, base: &str, method: &str) -> PyResult<bool> {
    let Some(own) = object.get_type().getattr_opt(method)? else { return Ok(false) };
    let base = object.py().import("tributary")?.getattr(base)?;
    Ok(base.getattr_opt(method)?.is_none_or(|inherited| !own.is(&inherited)))
}

/// Name of an object's class.
pub(crate) fn class_name(object: &Bound<'_, PyAny>) -> String {
    object.get_type().name().map_or_else(|_| "algorithm".to_owned(), |name| name.to_string())
}

/// Refuses an object without a method that it must have.
pub(crate) fn require(object: &Bound<'_, PyAny>, method: &str) -> PyResult<()> {
    let callable = object.getattr_opt(method)?.is_some_and(|method| method.is_callable());
    let problem = || PyValueError::new_err(format!("{} has no method `{method}`", class_name(object)));
    callable.then_some(()).ok_or_else(problem)
}
