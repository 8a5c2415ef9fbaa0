//! The file of generated tables beside a page of the documentation: `ows.tables.md` beside `ows.md`.
//!
//! The file has one part per run: a heading `## NAME`, a line with the run's command and commit, and the
//! run's tables
//! below `###` headings. A new run replaces the part of the same name, in capitals or not, and leaves the others alone. Nothing here opens a
//! file.

/// Ending of such a file's name, in place of the page's `.md`.
pub const ENDING: &str = ".tables.md";

/// Name of the file of tables that belongs to a page. `None`: the name is not that of a page.
///
/// ```
/// assert_eq!(tributary_report::tables_file::name_for("ows.md").as_deref(), Some("ows.tables.md"));
/// assert_eq!(tributary_report::tables_file::name_for("ows.tables.md"), None);
/// ```
#[must_use]
pub fn name_for(page: &str) -> Option<String> {
    let stem = page.strip_suffix(".md").filter(|stem| !stem.is_empty() && !page.ends_with(ENDING))?;
    Some(format!("{stem}{ENDING}"))
}

/// A page of the documentation.
#[derive(Clone, Copy, Debug)]
pub struct PageText<'a> {
    /// Name of its file, without the folder.
    pub name: &'a str,
    /// Its Markdown; the first line `# TITLE` gives the title.
    pub text: &'a str,
}

/// The text of the file of tables of `page`, after a run named `part` whose Markdown is `body`.
///
/// `existing` is the text of the file before the run, empty if there is none.
#[must_use]
pub fn with_part(page: PageText<'_>, existing: &str, part: &str, body: &str) -> String {
    let title = page.text.lines().find_map(|line| line.strip_prefix("# ")).unwrap_or(page.name);
    let head = format!("# {title}: tables\n\nText and conclusions: [{0}]({0}).\n", page.name);
    let heading = format!("## {part}");
    let mut parts = parts(existing);
    let body = format!("{heading}\n\n{}\n", body.trim());
    let is_same = |text: &str| text.lines().next().is_some_and(|line| line.eq_ignore_ascii_case(&heading));
    match parts.iter_mut().find(|text| is_same(text)) {
        Some(same) => *same = body,
        None => parts.push(body),
    }
    std::iter::once(head).chain(parts).collect::<Vec<_>>().join("\n")
}

/// The parts of a file of tables, each from its heading on. Text above the first heading is left out.
fn parts(text: &str) -> Vec<String> {
    let mut parts: Vec<String> = Vec::new();
    for line in text.lines() {
        if line.starts_with("## ") {
            parts.push(String::new());
        }
        if let Some(part) = parts.last_mut() {
            part.push_str(line);
            part.push('\n');
        }
    }
    parts.iter().map(|part| format!("{}\n", part.trim_end())).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const PAGE: PageText<'static> = PageText { name: "ows.md", text: "\n# OWS\n\n## A section\n" };

    #[test]
    fn parts_are_added_and_replaced_by_name() {
        let first = with_part(PAGE, "", "Load 2", "made\n\n### Claims\n\n| a |\n");
        assert_eq!(
            first,
            "# OWS: tables\n\nText and conclusions: [ows.md](ows.md).\n\n## Load 2\n\nmade\n\n### Claims\n\n| a |\n"
        );
        let both = with_part(PAGE, &first, "Load 3", "other\n");
        assert!(both.starts_with(first.as_str()) && both.ends_with("\n\n## Load 3\n\nother\n"), "{both}");
        let again = with_part(PAGE, &both, "Load 2", "new");
        assert_eq!(again, both.replace("made\n\n### Claims\n\n| a |", "new"));
        assert_eq!(with_part(PAGE, &again, "Load 2", "new"), again);
        assert_eq!(with_part(PAGE, &again, "load 2", "new"), again.replace("## Load 2", "## load 2"));
    }

    #[test]
    fn only_pages_have_tables() {
        assert_eq!(name_for("README.md").as_deref(), Some("README.tables.md"));
        for name in ["ows.html", "ows.tables.md", ".md", ""] {
            assert_eq!(name_for(name), None, "{name}");
        }
    }
}
