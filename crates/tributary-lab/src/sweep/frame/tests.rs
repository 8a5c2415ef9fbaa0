//! Tables written as files and read back.

use super::*;
use parquet::file::reader::{FileReader, SerializedFileReader};
use parquet::record::RowAccessor;

fn frame() -> Frame {
    Frame {
        columns: vec![
            ("name".to_owned(), Column::Text(vec![Some("a, \"b\"".to_owned()), None])),
            ("value".to_owned(), Column::Number(vec![None, Some(2.5)])),
            ("count".to_owned(), Column::Whole(vec![1, 2])),
        ],
    }
}

#[test]
fn csv_quotes_fields_with_separators() {
    assert_eq!(frame().to_csv(), "name,value,count\n\"a, \"\"b\"\"\",,1\n,2.5,2\n");
}

#[test]
fn parquet_is_read_back_as_it_was_written() {
    let mut bytes = Vec::new();
    frame().to_parquet(&mut bytes).unwrap();
    let reader = SerializedFileReader::new(bytes::Bytes::from(bytes)).unwrap();
    let rows: Vec<_> = reader.get_row_iter(None).unwrap().collect::<Result<_, _>>().unwrap();
    assert_eq!(rows.len(), 2);
    assert_eq!(rows[0].get_string(0).unwrap(), "a, \"b\"");
    assert!(rows[0].get_double(1).is_err() && rows[1].get_string(0).is_err());
    assert_eq!((rows[1].get_double(1).unwrap(), rows[1].get_long(2).unwrap()), (2.5, 2));
}

#[test]
fn an_empty_table_is_a_table() {
    let empty = Frame { columns: vec![("name".to_owned(), Column::Text(Vec::new()))] };
    assert_eq!((empty.rows(), empty.to_csv().as_str()), (0, "name\n"));
    empty.to_parquet(Vec::new()).unwrap();
}
