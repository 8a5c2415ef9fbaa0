//! `--page`: writes the tables of a run into the documentation, into the file of tables beside a page.
//!
//! The page itself is not changed; its author writes the text and links to the tables.

use anyhow::{Context, Result, bail};
use clap::Args;
use std::path::{Path, PathBuf};
use tributary_report::tables_file::{self, PageText};

/// Place of a run's tables in the documentation.
#[derive(Debug, Args)]
pub(crate) struct PageArguments {
    /// Also write the tables into the file of tables beside this page: --page docs/reproductions/ows.md
    /// writes docs/reproductions/ows.tables.md. Papers' tables are not written when runs gave no result
    #[arg(long, value_name = "PAGE.md")]
    pub(crate) page: Option<PathBuf>,
    /// Heading of this run in that file, by default the name of the report; a part of the same name is replaced,
    /// others stay
    #[arg(long, value_name = "HEADING")]
    pub(crate) part: Option<String>,
}

/// A page of the documentation; the run's tables go to its file of tables.
pub(crate) struct TablesBeside {
    page: PathBuf,
    file: PathBuf,
    part: Option<String>,
}

impl PageArguments {
    /// Checks the arguments before the work begins. `None`: no page was given.
    pub(crate) fn open(&self) -> Result<Option<TablesBeside>> {
        let Some(page) = &self.page else {
            if self.part.is_some() {
                bail!("--part names a part of a page's tables; give the page too: --page PAGE.md");
            }
            return Ok(None);
        };
        let name = name_of(page);
        let Some(name) = tables_file::name_for(name) else {
            bail!(
                "--page takes a page of the documentation, such as docs/reproductions/ows.md, not `{name}`"
            );
        };
        if let Some(part) = self.part.as_deref().filter(|part| part.trim().is_empty() || part.contains('\n'))
        {
            bail!("--part takes a heading of one line, not {part:?}");
        }
        let file = page.with_file_name(&name);
        if !read(page)?.contains(&name) {
            bail!("{} does not link to its tables; add a link to {name} first", page.display());
        }
        Ok(Some(TablesBeside { page: page.clone(), file, part: self.part.clone() }))
    }
}

impl TablesBeside {
    /// Writes a run's Markdown as one part of the file, and prints the file's path on standard error.
    pub(crate) fn write(&self, default_part: &str, markdown: &str) -> Result<()> {
        let text = read(&self.page)?;
        let existing = if self.file.exists() { read(&self.file)? } else { String::new() };
        let page = PageText { name: name_of(&self.page), text: &text };
        let part = self.part.as_deref().unwrap_or(default_part);
        let text = tables_file::with_part(page, &existing, part, markdown);
        std::fs::write(&self.file, text).with_context(|| format!("cannot write {}", self.file.display()))?;
        eprintln!("tables: {}", self.file.display());
        Ok(())
    }
}

fn name_of(page: &Path) -> &str {
    page.file_name().and_then(|name| name.to_str()).unwrap_or_default()
}

fn read(file: &Path) -> Result<String> {
    std::fs::read_to_string(file).with_context(|| format!("cannot read {}", file.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn arguments(page: &Path, part: Option<&str>) -> PageArguments {
        PageArguments { page: Some(page.to_owned()), part: part.map(str::to_owned) }
    }

    #[test]
    fn runs_share_the_file_beside_a_page_that_links_to_it() {
        let directory = tempfile::tempdir().unwrap();
        let page = directory.path().join("ows.md");
        std::fs::write(&page, "# OWS\n\n[Tables](ows.tables.md).\n").unwrap();
        for (part, body) in [(None, "first"), (Some("Load 3"), "second"), (None, "third")] {
            let beside = arguments(&page, part).open().unwrap().expect("a page is given");
            beside.write("Load 2", body).unwrap();
        }
        let text = std::fs::read_to_string(directory.path().join("ows.tables.md")).unwrap();
        assert!(text.ends_with("## Load 2\n\nthird\n\n## Load 3\n\nsecond\n"), "{text}");
    }

    #[test]
    fn wrong_arguments_are_refused_before_the_run() {
        let directory = tempfile::tempdir().unwrap();
        let page = directory.path().join("ows.md");
        std::fs::write(&page, "# OWS\n").unwrap();
        let fault = |arguments: PageArguments| arguments.open().err().expect("refused").to_string();
        assert!(fault(arguments(&page, None)).contains("add a link to ows.tables.md"));
        assert!(fault(arguments(&page, Some(" "))).contains("--part"));
        assert!(fault(arguments(&directory.path().join("ows.tables.md"), None)).contains("--page takes"));
        assert!(fault(arguments(&directory.path().join("none.md"), None)).contains("cannot read"));
        assert!(fault(PageArguments { page: None, part: Some("x".to_owned()) }).contains("--page PAGE.md"));
    }
}
