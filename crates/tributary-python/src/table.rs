//! Tables: columns of text and numbers that pyarrow, pandas, polars and DuckDB read without a copy, through Arrow's PyCapsule interface
//! (<https://arrow.apache.org/docs/format/CDataInterface/PyCapsuleInterface.html>).

use crate::errors::told;
use arrow_array::ffi_stream::FFI_ArrowArrayStream;
use arrow_array::{ArrayRef, Float64Array, Int64Array, RecordBatch, RecordBatchIterator, StringArray};
use arrow_schema::{ArrowError, DataType, Field, Schema};
use pyo3::exceptions::{PyKeyError, PyOSError, PyRuntimeError};
use pyo3::prelude::*;
use pyo3::types::{PyCapsule, PyDict, PyList};
use std::fs::File;
use std::path::PathBuf;
use std::sync::Arc;
use tributary_lab::sweep::Frame;
use tributary_lab::sweep::frame::Column;

/// A table of results, in Arrow's layout.
///
/// Every library that knows Arrow's PyCapsule interface reads it without a copy: ``pyarrow.table(t)``, ``polars.DataFrame(t)``,
/// ``duckdb.sql("select … from t")``, and :meth:`to_pandas`.
///
/// Examples
/// --------
/// >>> import tributary
/// >>> trace = tributary.Trace.from_csv("seconds,mbit/s\n0,10\n1,30\n")
/// >>> table = trace.table()
/// >>> table.column_names
/// ['until_s', 'rate_bps']
/// >>> table.num_rows, table["rate_bps"][0]
/// (2, 10000000.0)
#[pyclass(frozen, module = "tributary")]
#[derive(Debug)]
pub(crate) struct Table {
    frame: Frame,
}

impl From<Frame> for Table {
    fn from(frame: Frame) -> Self {
        Self { frame }
    }
}

impl Table {
    /// A table of columns of numbers.
    pub fn of_numbers(columns: Vec<(&str, Vec<Option<f64>>)>) -> Self {
        let columns = columns.into_iter().map(|(name, values)| (name.to_owned(), Column::Number(values)));
        Frame { columns: columns.collect() }.into()
    }

    fn batch(&self) -> Result<RecordBatch, ArrowError> {
        let columns = self.frame.columns.iter().map(|(name, column)| {
            let (kind, array): (DataType, ArrayRef) = match column {
                Column::Text(values) => (DataType::Utf8, Arc::new(StringArray::from(values.clone()))),
                Column::Number(values) => (DataType::Float64, Arc::new(Float64Array::from(values.clone()))),
                Column::Whole(values) => (DataType::Int64, Arc::new(signed(values))),
            };
            (Field::new(name, kind, !matches!(column, Column::Whole(_))), array)
        });
        let (fields, arrays): (Vec<Field>, Vec<ArrayRef>) = columns.unzip();
        RecordBatch::try_new(Arc::new(Schema::new(fields)), arrays)
    }

    fn column<'py>(&self, py: Python<'py>, column: &Column) -> PyResult<Bound<'py, PyList>> {
        match column {
            Column::Text(values) => PyList::new(py, values),
            Column::Number(values) => PyList::new(py, values),
            Column::Whole(values) => PyList::new(py, values),
        }
    }
}

/// Integers as Parquet files have them.
fn signed(values: &[u64]) -> Int64Array {
    values.iter().map(|value| i64::try_from(*value).unwrap_or(i64::MAX)).collect::<Vec<i64>>().into()
}

#[pymethods]
impl Table {
    /// Names of the columns.
    #[getter]
    fn column_names(&self) -> Vec<&str> {
        self.frame.columns.iter().map(|(name, _)| name.as_str()).collect()
    }

    /// Number of rows.
    #[getter]
    fn num_rows(&self) -> usize {
        self.frame.rows()
    }

    fn __len__(&self) -> usize {
        self.frame.rows()
    }

    fn __getitem__<'py>(&self, py: Python<'py>, name: &str) -> PyResult<Bound<'py, PyList>> {
        match self.frame.columns.iter().find(|(own, _)| own == name) {
            Some((_, column)) => self.column(py, column),
            None => {
                let known = self.column_names().join(", ");
                Err(PyKeyError::new_err(format!("no column `{name}`; known: {known}")))
            }
        }
    }

    fn __repr__(&self) -> String {
        format!("Table({} rows: {})", self.frame.rows(), self.column_names().join(", "))
    }

    /// The columns as lists, by name; missing values are ``None``.
    fn to_pydict<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let columns = PyDict::new(py);
        for (name, column) in &self.frame.columns {
            columns.set_item(name, self.column(py, column)?)?;
        }
        Ok(columns)
    }

    /// The table as a ``pandas.DataFrame``; needs pandas and pyarrow.
    pub(crate) fn to_pandas<'py>(slf: &Bound<'py, Self>) -> PyResult<Bound<'py, PyAny>> {
        slf.py().import("pyarrow")?.call_method1("table", (slf,))?.call_method0("to_pandas")
    }

    /// Writes a Parquet file, as a sweep does.
    ///
    /// Parameters
    /// ----------
    /// path : str or os.PathLike
    ///     The file; an old one is replaced.
    ///
    /// Raises
    /// ------
    /// OSError
    ///     The file cannot be written.
    fn to_parquet(&self, path: PathBuf) -> PyResult<()> {
        let failed = |problem: String| PyOSError::new_err(format!("{}: {problem}", path.display()));
        let file = File::create(&path).map_err(|error| failed(error.to_string()))?;
        self.frame.to_parquet(file).map_err(|error| failed(told(&error)))
    }

    /// The table as CSV (RFC 4180) with a heading; missing values are empty.
    fn to_csv(&self) -> String {
        self.frame.to_csv()
    }

    /// Arrow's C stream interface; the schema is always the table's own.
    #[pyo3(signature = (requested_schema=None))]
    fn __arrow_c_stream__<'py>(
        &self,
        py: Python<'py>,
        requested_schema: Option<Bound<'py, PyAny>>,
    ) -> PyResult<Bound<'py, PyCapsule>> {
        let _ = requested_schema;
        let batch = self.batch().map_err(|error| PyRuntimeError::new_err(told(&error)))?;
        let schema = batch.schema();
        let stream = FFI_ArrowArrayStream::new(Box::new(RecordBatchIterator::new([Ok(batch)], schema)));
        PyCapsule::new_with_value(py, stream, c"arrow_array_stream")
    }
}
