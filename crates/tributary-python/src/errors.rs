//! Errors of the laboratory as Python's exceptions.

use pyo3::create_exception;
use pyo3::exceptions::{PyOSError, PyRuntimeError, PyValueError};
use pyo3::prelude::*;
use std::error::Error;
use tributary_lab::compare::CompareError;
use tributary_lab::reproduce::ReproduceError;
use tributary_lab::sweep::tables::TablesError;

create_exception!(
    tributary,
    SimulationError,
    PyRuntimeError,
    "A run that began and gave no result, for example because it used up its budget of events."
);

/// The text of an error and of its causes.
pub(crate) fn told(error: &dyn Error) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(cause) = source {
        let cause_text = cause.to_string();
        if !text.contains(&cause_text) {
            text.push_str(&format!(": {cause_text}"));
        }
        source = cause.source();
    }
    text
}

/// A value that the caller gave is not possible.
pub(crate) fn refused(error: impl Error) -> PyErr {
    PyValueError::new_err(told(&error))
}

/// A file cannot be read or written.
pub(crate) fn unusable(error: impl Error) -> PyErr {
    PyOSError::new_err(told(&error))
}

/// Why a plan gave no result.
pub(crate) fn not_reproduced(error: ReproduceError) -> PyErr {
    match error {
        ReproduceError::Store(error) => unusable(error),
        error => refused(error),
    }
}

/// Why tables are not written.
pub(crate) fn not_written(error: TablesError) -> PyErr {
    match error {
        TablesError::Io { .. } => unusable(error),
        TablesError::Parquet(_) => PyRuntimeError::new_err(told(&error)),
    }
}

/// Why a comparison gave no result.
pub(crate) fn not_compared(error: CompareError) -> PyErr {
    match error {
        CompareError::Io { .. } => unusable(error),
        CompareError::Plan(error) => refused(error),
        CompareError::Runs(error) => not_reproduced(error),
        CompareError::Tables(error) => not_written(error),
    }
}
