//! Tables with a row for each item, written column by column: a heading stands beside what its cells show.

use super::{Column, Table, TableCell};

/// A table in the making; every call adds a column.
#[derive(Debug)]
pub struct Rows<T> {
    items: Vec<T>,
    table: Table,
}

impl Table {
    /// A table called `title` with a row for each of `items`, and no column yet.
    pub fn of<T: Copy>(title: &str, items: impl IntoIterator<Item = T>) -> Rows<T> {
        let items: Vec<T> = items.into_iter().collect();
        let rows = vec![(Vec::new(), false); items.len()];
        Rows { items, table: Table { rows, ..Table::new(title) } }
    }
}

impl<T: Copy> Rows<T> {
    /// Words.
    #[must_use]
    pub fn text<C: Into<TableCell>>(self, heading: impl Into<Column>, of: impl Fn(T) -> C) -> Self {
        self.columns([heading.into()], |item| [of(item).into()])
    }

    /// Numbers with this many decimals; `–` where there is none.
    #[must_use]
    pub fn number<N: Into<Option<f64>>>(
        self,
        heading: impl Into<Column>,
        decimals: usize,
        of: impl Fn(T) -> N,
    ) -> Self {
        let column = Column { right: true, ..heading.into() };
        self.columns([column], |item| [TableCell::optional_number(of(item).into(), decimals)])
    }

    /// Several columns with the cells of each row; missing cells are empty.
    #[must_use]
    pub fn columns<C: IntoIterator<Item = TableCell>>(
        mut self,
        columns: impl IntoIterator<Item = Column>,
        of: impl Fn(T) -> C,
    ) -> Self {
        self.table.columns.extend(columns);
        for (item, (row, _)) in self.items.iter().zip(&mut self.table.rows) {
            row.extend(of(*item));
            row.resize(self.table.columns.len(), TableCell::default());
        }
        self
    }

    /// Emphasises the last column.
    #[must_use]
    pub fn strong(mut self) -> Self {
        for (row, _) in &mut self.table.rows {
            let last = row.pop().map(TableCell::strong);
            row.extend(last);
        }
        self
    }

    /// Emphasises the rows of these items, for example the product's own.
    #[must_use]
    pub fn highlighted(mut self, is: impl Fn(T) -> bool) -> Self {
        for (item, (_, highlighted)) in self.items.iter().zip(&mut self.table.rows) {
            *highlighted = is(*item);
        }
        self
    }

    /// The table.
    #[must_use]
    pub fn table(self) -> Table {
        self.table
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Expectation, Judged};

    #[test]
    fn columns_are_those_of_a_table_made_row_by_row() {
        let judged = Judged::median(&[1.0, 1.0], Expectation::AtMost(2.0));
        let rows = [("a", 1.25, Some(judged)), ("b", f64::NAN, None)];
        let columns = [Column::left("name"), Column::right("rate").unit("Mbit/s"), Column::right("seeds")];
        let mut expected = Table::new("t").columns(columns.into_iter().chain(Judged::columns("value")));
        for (name, rate, judged) in &rows {
            let cells =
                [TableCell::text(name), TableCell::number(*rate, 1).strong(), TableCell::optional(None)];
            let cells = cells.into_iter().chain(judged.iter().flat_map(|judged| judged.cells(2)));
            if *name == "b" { expected.push_highlighted(cells) } else { expected.push(cells) }
        }
        let made = Table::of("t", &rows)
            .text("name", |(name, ..)| *name)
            .number(("rate", "Mbit/s"), 1, |(_, rate, _)| *rate)
            .strong()
            .number("seeds", 0, |_| None::<f64>)
            .judged("value", |(.., judged)| judged.iter().flat_map(|judged| judged.cells(2)))
            .highlighted(|(name, ..)| *name == "b")
            .table();
        assert_eq!(made, expected);
    }
}
