//! A table of columns, as CSV (RFC 4180) and Parquet.

use parquet::basic::{Compression, LogicalType, Repetition, Type as Physical};
use parquet::data_type::{ByteArray, ByteArrayType, DoubleType, Int64Type};
use parquet::errors::ParquetError;
use parquet::file::properties::WriterProperties;
use parquet::file::writer::{SerializedFileWriter, SerializedRowGroupWriter};
use parquet::schema::types::Type;
use std::fmt::Write as _;
use std::io::Write;
use std::sync::Arc;

/// One column.
#[derive(Clone, Debug, PartialEq)]
pub enum Column {
    /// Texts.
    Text(Vec<Option<String>>),
    /// Numbers.
    Number(Vec<Option<f64>>),
    /// Non-negative integers.
    Whole(Vec<u64>),
}

/// A table: columns of equal length.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Frame {
    /// Name and values.
    pub columns: Vec<(String, Column)>,
}

impl Column {
    fn len(&self) -> usize {
        match self {
            Self::Text(values) => values.len(),
            Self::Number(values) => values.len(),
            Self::Whole(values) => values.len(),
        }
    }

    fn csv(&self, row: usize) -> String {
        match self {
            Self::Text(values) => values[row].as_deref().map(quoted).unwrap_or_default(),
            Self::Number(values) => values[row].map(|number| number.to_string()).unwrap_or_default(),
            Self::Whole(values) => values[row].to_string(),
        }
    }

    fn schema(&self, name: &str) -> Result<Type, ParquetError> {
        let (physical, logical) = match self {
            Self::Text(_) => (Physical::BYTE_ARRAY, Some(LogicalType::String)),
            Self::Number(_) => (Physical::DOUBLE, None),
            Self::Whole(_) => (Physical::INT64, None),
        };
        let repetition =
            if matches!(self, Self::Whole(_)) { Repetition::REQUIRED } else { Repetition::OPTIONAL };
        Type::primitive_type_builder(name, physical)
            .with_logical_type(logical)
            .with_repetition(repetition)
            .build()
    }
}

impl Frame {
    /// Number of rows.
    #[must_use]
    pub fn rows(&self) -> usize {
        self.columns.first().map_or(0, |(_, column)| column.len())
    }

    /// As CSV with a heading line; lines end with `\n`. Missing values are empty.
    #[must_use]
    pub fn to_csv(&self) -> String {
        let names: Vec<&str> = self.columns.iter().map(|(name, _)| name.as_str()).collect();
        let mut out = names.join(",");
        out.push('\n');
        for row in 0..self.rows() {
            let cells: Vec<String> = self.columns.iter().map(|(_, column)| column.csv(row)).collect();
            let _ = writeln!(out, "{}", cells.join(","));
        }
        out
    }

    /// Writes a Parquet file with one row group, uncompressed. Counts are signed 64-bit integers.
    ///
    /// # Errors
    /// When `to` cannot be written.
    pub fn to_parquet<W: Write + Send>(&self, to: W) -> Result<(), ParquetError> {
        let fields = self.columns.iter().map(|(name, column)| column.schema(name).map(Arc::new));
        let fields = fields.collect::<Result<Vec<_>, _>>()?;
        let schema = Type::group_type_builder("sweep").with_fields(fields).build()?;
        let properties = WriterProperties::builder().set_compression(Compression::UNCOMPRESSED).build();
        let mut file = SerializedFileWriter::new(to, Arc::new(schema), Arc::new(properties))?;
        let mut group = file.next_row_group()?;
        for (_, column) in &self.columns {
            write_column(&mut group, column)?;
        }
        group.close()?;
        file.close().map(|_| ())
    }
}

fn write_column<W: Write + Send>(
    group: &mut SerializedRowGroupWriter<'_, W>,
    column: &Column,
) -> Result<(), ParquetError> {
    let missing = || ParquetError::General("fewer columns in the schema than in the table".to_owned());
    let mut writer = group.next_column()?.ok_or_else(missing)?;
    match column {
        Column::Text(values) => {
            let (present, levels) = split(values, |text| ByteArray::from(text.as_str()));
            writer.typed::<ByteArrayType>().write_batch(&present, Some(&levels), None)?;
        }
        Column::Number(values) => {
            let (present, levels) = split(values, |number| *number);
            writer.typed::<DoubleType>().write_batch(&present, Some(&levels), None)?;
        }
        Column::Whole(values) => {
            let signed: Vec<i64> = values.iter().map(|n| i64::try_from(*n).unwrap_or(i64::MAX)).collect();
            writer.typed::<Int64Type>().write_batch(&signed, None, None)?;
        }
    }
    writer.close().map(|_| ())
}

/// The values that are present, and for each row whether it has one.
fn split<T, U>(values: &[Option<T>], convert: impl Fn(&T) -> U) -> (Vec<U>, Vec<i16>) {
    let levels = values.iter().map(|value| i16::from(value.is_some())).collect();
    (values.iter().flatten().map(convert).collect(), levels)
}

fn quoted(text: &str) -> String {
    if text.contains([',', '"', '\n', '\r']) {
        format!("\"{}\"", text.replace('"', "\"\""))
    } else {
        text.to_owned()
    }
}

#[cfg(test)]
mod tests;
