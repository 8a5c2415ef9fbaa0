//! A result in all its output formats.

use super::page::TablesBeside;
use anyhow::{Context, Result};
use std::path::{Path, PathBuf};
use tributary_cli::output::{file, line};
use tributary_cli::private;

/// How a result is printed.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Form {
    pub json: bool,
    pub markdown: bool,
}

/// A result in all its output formats.
pub(crate) struct Rendered {
    /// Name of the files, without their endings.
    pub name: String,
    pub json: String,
    pub markdown: String,
    /// The HTML page, if there is one.
    pub html: Option<String>,
    /// The text that is printed by default.
    pub text: String,
}

impl Rendered {
    /// Writes the files, and prints where the report is.
    pub(crate) fn write(&self, into: &Path) -> Result<()> {
        file(into, &format!("{}.json", self.name), &self.json)?;
        let mut page = file(into, &format!("{}.md", self.name), &self.markdown)?;
        if let Some(html) = &self.html {
            page = file(into, &format!("{}.html", self.name), html)?;
        }
        eprintln!("report: {}", page.display());
        Ok(())
    }

    /// Writes the files and the tables beside a page, prints the requested format, and prints where the report is.
    pub(crate) fn publish(&self, into: &Path, form: Form, beside: Option<&TablesBeside>) -> Result<()> {
        let printed = match form {
            Form { json: true, .. } => &self.json,
            Form { markdown: true, .. } => &self.markdown,
            _ => &self.text,
        };
        line(printed)?;
        if let Some(beside) = beside {
            beside.write(&self.name, &self.markdown)?;
        }
        self.write(into)
    }
}

/// The user's cache directory for encoded videos. Without a home it is a directory of the user's own in the temporary
/// directory.
pub(crate) fn cache() -> Result<PathBuf> {
    let home = |name: &str| std::env::var_os(name).filter(|v| !v.is_empty()).map(PathBuf::from);
    if let Some(base) = home("XDG_CACHE_HOME").or_else(|| home("HOME").map(|home| home.join(".cache"))) {
        return Ok(base.join("tributary"));
    }
    let directory = private::temporary(private::user());
    private::make(&directory).context("no cache for encoded videos: set HOME or XDG_CACHE_HOME, or")?;
    Ok(directory.join("cache"))
}
