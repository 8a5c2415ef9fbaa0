//! A table that can be written as aligned text for the terminal, HTML, CSV or Markdown.
//!
//! Alignment counts characters; this is right for all scripts that this project prints.

mod rows;

pub use rows::Rows;

use crate::escape;
use core::fmt::Write as _;

/// A column: its heading and the alignment of its cells.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Column {
    heading: String,
    unit: String,
    right: bool,
}

impl Column {
    /// Words, aligned left.
    #[must_use]
    pub fn left(heading: &str) -> Self {
        Self { heading: heading.to_owned(), unit: String::new(), right: false }
    }

    /// Numbers, aligned right.
    #[must_use]
    pub fn right(heading: &str) -> Self {
        Self { right: true, ..Self::left(heading) }
    }

    /// With the unit of its numbers, shown in the heading.
    #[must_use]
    pub fn unit(mut self, unit: &str) -> Self {
        unit.clone_into(&mut self.unit);
        self
    }

    fn title(&self) -> String {
        if self.unit.is_empty() { self.heading.clone() } else { format!("{} ({})", self.heading, self.unit) }
    }
}

impl From<&str> for Column {
    fn from(heading: &str) -> Self {
        Self::left(heading)
    }
}

impl From<(&str, &str)> for Column {
    fn from((heading, unit): (&str, &str)) -> Self {
        Self::left(heading).unit(unit)
    }
}

/// How a cell is emphasised.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Emphasis {
    #[default]
    Plain,
    Strong,
    Good,
    Bad,
}

/// One cell: text and emphasis.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TableCell {
    text: String,
    emphasis: Emphasis,
}

impl TableCell {
    /// Words.
    #[must_use]
    pub fn text(text: &str) -> Self {
        Self { text: text.to_owned(), emphasis: Emphasis::Plain }
    }

    /// A number with `decimals` digits after the point; `–` when it is not finite.
    #[must_use]
    pub fn number(value: f64, decimals: usize) -> Self {
        let text = if value.is_finite() { format!("{value:.decimals$}") } else { "–".to_owned() };
        Self { text, emphasis: Emphasis::Plain }
    }

    /// A text, or `–` when there is none.
    #[must_use]
    pub fn optional(text: Option<String>) -> Self {
        Self { text: text.unwrap_or_else(|| "–".to_owned()), emphasis: Emphasis::Plain }
    }

    /// A number, or `–` when there is none.
    #[must_use]
    pub fn optional_number(value: Option<f64>, decimals: usize) -> Self {
        Self::number(value.unwrap_or(f64::NAN), decimals)
    }

    /// Emphasised.
    #[must_use]
    pub fn strong(mut self) -> Self {
        self.emphasis = Emphasis::Strong;
        self
    }

    /// Marked as good: it satisfies its requirement.
    #[must_use]
    pub fn good(mut self) -> Self {
        self.emphasis = Emphasis::Good;
        self
    }

    /// Marked as bad: it fails its requirement.
    #[must_use]
    pub fn bad(mut self) -> Self {
        self.emphasis = Emphasis::Bad;
        self
    }
}

impl From<&str> for TableCell {
    fn from(text: &str) -> Self {
        Self::text(text)
    }
}

impl From<&String> for TableCell {
    fn from(text: &String) -> Self {
        Self::text(text)
    }
}

impl From<String> for TableCell {
    fn from(text: String) -> Self {
        Self { text, emphasis: Emphasis::Plain }
    }
}

/// Rows of cells under headed columns.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Table {
    title: String,
    columns: Vec<Column>,
    rows: Vec<(Vec<TableCell>, bool)>,
}

impl Table {
    /// An empty table called `title`; an empty title is not shown.
    #[must_use]
    pub fn new(title: &str) -> Self {
        Self { title: title.to_owned(), ..Self::default() }
    }

    /// With these columns.
    #[must_use]
    pub fn columns(mut self, columns: impl IntoIterator<Item = Column>) -> Self {
        self.columns = columns.into_iter().collect();
        self
    }

    /// Appends a row; missing cells are empty, cells beyond the last column are dropped.
    pub fn push(&mut self, cells: impl IntoIterator<Item = TableCell>) {
        self.push_row(cells, false);
    }

    /// Appends an emphasised row, for example the product's own.
    pub fn push_highlighted(&mut self, cells: impl IntoIterator<Item = TableCell>) {
        self.push_row(cells, true);
    }

    fn push_row(&mut self, cells: impl IntoIterator<Item = TableCell>, highlighted: bool) {
        let mut row: Vec<TableCell> = cells.into_iter().collect();
        row.resize(self.columns.len(), TableCell::default());
        self.rows.push((row, highlighted));
    }

    /// Number of rows.
    #[must_use]
    pub fn len(&self) -> usize {
        self.rows.len()
    }

    /// Whether the table has no rows.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }

    /// Aligned plain text, one line per row, with a rule under the headings.
    #[must_use]
    pub fn to_text(&self) -> String {
        let clean: Vec<Vec<String>> = core::iter::once(self.columns.iter().map(Column::title).collect())
            .chain(self.rows.iter().map(|(row, _)| row.iter().map(|c| c.text.clone()).collect::<Vec<_>>()))
            .map(|row| row.iter().map(|t| escape::terminal(t)).collect())
            .collect();
        let widths: Vec<usize> = (0..self.columns.len())
            .map(|i| clean.iter().map(|row| row[i].chars().count()).max().unwrap_or(0))
            .collect();
        let mut out = String::new();
        if !self.title.is_empty() {
            let _ = writeln!(out, "{}", escape::terminal(&self.title));
        }
        for (number, row) in clean.iter().enumerate() {
            let line: Vec<String> = row
                .iter()
                .zip(&widths)
                .zip(&self.columns)
                .map(
                    |((text, width), column)| {
                        if column.right { format!("{text:>width$}") } else { format!("{text:<width$}") }
                    },
                )
                .collect();
            let _ = writeln!(out, "{}", line.join("  ").trim_end());
            if number == 0 {
                let rule: Vec<String> = widths.iter().map(|w| "─".repeat(*w)).collect();
                let _ = writeln!(out, "{}", rule.join("  "));
            }
        }
        out
    }

    /// RFC 4180 with a heading line; line ends are `\n`.
    #[must_use]
    pub fn to_csv(&self) -> String {
        let headings = self.columns.iter().map(|c| escape::csv(&c.title())).collect::<Vec<_>>().join(",");
        self.rows.iter().fold(headings + "\n", |out, (row, _)| {
            out + &row.iter().map(|c| escape::csv(&c.text)).collect::<Vec<_>>().join(",") + "\n"
        })
    }

    /// A Markdown table; emphasised cells are bold.
    #[must_use]
    pub fn to_markdown(&self) -> String {
        let headings: Vec<String> = self.columns.iter().map(|c| escape::markdown(&c.title())).collect();
        let rule: Vec<&str> = self.columns.iter().map(|c| if c.right { "---:" } else { "---" }).collect();
        let mut out = format!("| {} |\n| {} |\n", headings.join(" | "), rule.join(" | "));
        for (row, highlighted) in &self.rows {
            let cells: Vec<String> = row
                .iter()
                .map(|cell| {
                    let text = escape::markdown(&cell.text);
                    let bold = *highlighted || matches!(cell.emphasis, Emphasis::Strong | Emphasis::Bad);
                    if bold && !text.is_empty() { format!("**{text}**") } else { text }
                })
                .collect();
            let _ = writeln!(out, "| {} |", cells.join(" | "));
        }
        out
    }

    /// The title as a Markdown heading of the third level, and the table below it.
    #[must_use]
    pub fn to_section(&self) -> String {
        format!("### {}\n\n{}", self.title, self.to_markdown())
    }

    /// An HTML table whose first column heads its rows.
    #[must_use]
    pub fn to_html(&self) -> String {
        let mut out = String::from("<div class=\"scroll\"><table>\n");
        if !self.title.is_empty() {
            let _ = writeln!(out, "<caption>{}</caption>", escape::markup(&self.title));
        }
        out.push_str("<thead><tr>");
        for column in &self.columns {
            let class = if column.right { " class=\"num\"" } else { "" };
            let heading = escape::markup(&column.heading);
            let unit = if column.unit.is_empty() {
                String::new()
            } else {
                format!(" <small>{}</small>", escape::markup(&column.unit))
            };
            let _ = write!(out, "<th scope=\"col\"{class}>{heading}{unit}</th>");
        }
        out.push_str("</tr></thead>\n<tbody>\n");
        for (row, highlighted) in &self.rows {
            out.push_str(if *highlighted { "<tr class=\"hero\">" } else { "<tr>" });
            for (number, (cell, column)) in row.iter().zip(&self.columns).enumerate() {
                let mut class = Vec::new();
                class.extend(column.right.then_some("num"));
                class.extend(match cell.emphasis {
                    Emphasis::Plain => None,
                    Emphasis::Strong => Some("strong"),
                    Emphasis::Good => Some("good"),
                    Emphasis::Bad => Some("bad"),
                });
                let class =
                    if class.is_empty() { String::new() } else { format!(" class=\"{}\"", class.join(" ")) };
                let (tag, scope) = if number == 0 { ("th", " scope=\"row\"") } else { ("td", "") };
                let _ = write!(out, "<{tag}{scope}{class}>{}</{tag}>", escape::markup(&cell.text));
            }
            out.push_str("</tr>\n");
        }
        out.push_str("</tbody></table></div>\n");
        out
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample() -> Table {
        let mut table =
            Table::new("demo").columns([Column::left("transport"), Column::right("goodput").unit("Mbit/s")]);
        table.push([TableCell::text("kernel MPTCP"), TableCell::number(103.04, 1)]);
        table.push_highlighted([
            TableCell::text("a|b, <c>"),
            TableCell::number(f64::NAN, 1).bad(),
            TableCell::text("lost"),
        ]);
        table
    }

    #[test]
    fn text_is_aligned() {
        let expected = "demo\n\
                        transport     goodput (Mbit/s)\n\
                        ────────────  ────────────────\n\
                        kernel MPTCP             103.0\n\
                        a|b, <c>                     –\n";
        assert_eq!(sample().to_text(), expected);
    }

    #[test]
    fn csv_markdown_and_html_escape() {
        assert_eq!(sample().to_csv(), "transport,goodput (Mbit/s)\nkernel MPTCP,103.0\n\"a|b, <c>\",–\n");
        assert!(sample().to_markdown().ends_with("| **a\\|b, &lt;c>** | **–** |\n"));
        let html = sample().to_html();
        assert!(html.contains(
            "<tr class=\"hero\"><th scope=\"row\">a|b, &lt;c&gt;</th><td class=\"num bad\">–</td>"
        ));
    }

    #[test]
    fn an_empty_table_is_still_a_table() {
        let empty = Table::new("").columns([Column::left("a")]);
        assert!(empty.is_empty());
        assert_eq!(empty.to_text(), "a\n─\n");
    }
}
