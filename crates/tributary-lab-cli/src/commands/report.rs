//! A result in all its output formats.

use super::page::TablesBeside;
use anyhow::Result;
use std::path::{Path, PathBuf};
use tributary_cli::output::{file, line};

/// How a result is printed.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Form {
    pub json: bool,
    pub markdown: bool,
}

/// A result in all its output formats.
pub(crate) struct Report {
    /// Name of the files, without their endings.
    pub name: String,
    pub json: String,
    pub markdown: String,
    /// The HTML page, if there is one.
    pub html: Option<String>,
    /// The text that is printed by default.
    pub text: String,
}

impl Report {
    /// Writes the files, prints the requested format, and prints where the report is.
    pub(crate) fn publish(&self, into: &Path, form: Form, beside: Option<&TablesBeside>) -> Result<()> {
        file(into, &format!("{}.json", self.name), &self.json)?;
        let mut page = file(into, &format!("{}.md", self.name), &self.markdown)?;
        if let Some(html) = &self.html {
            page = file(into, &format!("{}.html", self.name), html)?;
        }
        let printed = match form {
            Form { json: true, .. } => &self.json,
            Form { markdown: true, .. } => &self.markdown,
            _ => &self.text,
        };
        line(printed)?;
        if let Some(beside) = beside {
            beside.write(&self.name, &self.markdown)?;
        }
        eprintln!("report: {}", page.display());
        Ok(())
    }
}

/// The user's cache directory for encoded videos.
pub(crate) fn cache() -> PathBuf {
    let home = |name: &str| std::env::var_os(name).filter(|v| !v.is_empty()).map(PathBuf::from);
    let base = home("XDG_CACHE_HOME").or_else(|| home("HOME").map(|home| home.join(".cache")));
    base.unwrap_or_else(std::env::temp_dir).join("tributary")
}
