//! Statistics, result schema, tables, plots and HTML reports.
//!
//! Input is plain numbers in stated units. Output is text: a table for the terminal, CSV, Markdown, SVG, or one HTML
//! file that needs no network. Only [`machine`] reads a clock and files of the system; nothing here measures.

mod escape;
pub mod html;
mod judged;
pub mod machine;
pub mod plot;
pub mod schema;
pub mod stats;
mod svg;
pub mod table;
pub mod tables_file;

pub use escape::base64;
pub use html::{HtmlReport, KeyFigure, Media};
pub use judged::{FEWEST, Judged, bootstrap, bootstrap_rounds, bounds};
pub use plot::{
    Band, BarGroup, Bars, Cdf, Layout, Plot, Rank, Ranks, Series, Strip, StripRow, TimeSeries, Tone,
};
pub use schema::{Claim, Expectation, Interval, Reproduced, Reproduction, RunInfo, Verdict};
pub use table::{Column, Rows, Table, TableCell};
