//! `cargo xtask book`: the documents as one book of HTML pages in `target/book`, with a chapter for each paper.
//!
//! The pages are those of the repository: nothing is written for the book alone. Links lead to the pages of the book; a source file that
//! a page links to becomes a page too. The links themselves are checked first, by tidy's rule.

use crate::tidy::{self, Project, SourceFile, anchors, resolve};
use anyhow::{Context, Result, bail};
use pulldown_cmark::{CowStr, Event, Options, Parser, Tag, TagEnd, html};
use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};

/// Where the book goes, from the project root.
const PLACE: &str = "target/book";
/// Parts of the book: title, and the folder of its pages. The first page of a folder is its README.
const PARTS: [(&str, &str); 6] = [
    ("Overview", ""),
    ("Papers", "docs/reproductions/"),
    ("Guides", "docs/guide/"),
    ("Models", "docs/models/"),
    ("Formats, benchmarks, threats", "docs/"),
    ("Decisions", "docs/decisions/"),
];
/// Pages of the first part, in order; other pages beside the manifest are for one crate or tool.
const OVERVIEW: [&str; 6] =
    ["README.md", "ARCHITECTURE.md", "GLOSSARY.md", "CONTRIBUTING.md", "SECURITY.md", "CHANGELOG.md"];
/// Ending of the pages with generated tables, each of which follows its page.
const TABLES: &str = ".tables.md";
const STYLE: &str = include_str!("book/style.css");

/// A page of the book.
struct Page<'a> {
    source: &'a SourceFile,
    title: String,
    part: usize,
}

/// Makes the book. True unless a link leads nowhere.
pub fn run() -> Result<bool> {
    let project = Project::load()?;
    if !tidy::links_lead_somewhere(&project) {
        return Ok(false);
    }
    let pages = pages(&project);
    let place = project.root.join(PLACE);
    if place.exists() {
        fs::remove_dir_all(&place).with_context(|| format!("cannot remove {}", place.display()))?;
    }
    let mut linked = BTreeSet::new();
    for (at, page) in pages.iter().enumerate() {
        let body = body(page.source, &project, &mut linked);
        write(&place, &target(&page.source.path), &framed(&pages, at, &body))?;
    }
    let mut written: BTreeSet<String> = pages.iter().map(|page| page.source.path.clone()).collect();
    while let Some(path) = linked.pop_first() {
        if !written.insert(path.clone()) {
            continue;
        }
        match project.file(&path).filter(|_| !is_picture(&path)) {
            // Of a crate or a tool: it may link to further files.
            Some(file) if path.ends_with(".md") => {
                let text = format!("<main>{}</main>", body(file, &project, &mut linked));
                write(&place, &target(&path), &document(&title(file), &text))?;
            }
            Some(file) => {
                let text =
                    format!("<main><h1>{}</h1><pre>{}</pre></main>", escaped(&path), escaped(&file.text));
                write(&place, &target(&path), &document(&path, &text))?;
            }
            None => copy(&project.root, &place, &path)?,
        }
    }
    let first = format!("<meta http-equiv=\"refresh\" content=\"0; url={}\">", target(OVERVIEW[0]));
    write(&place, "index.html", &document("Tributary", &first))?;
    println!("{} pages: {}", pages.len(), place.join("index.html").display());
    Ok(true)
}

/// All pages in the order of the book.
fn pages(project: &Project) -> Vec<Page<'_>> {
    let mut pages = Vec::new();
    for (part, (_, folder)) in PARTS.iter().enumerate() {
        let mut own: Vec<&SourceFile> = if folder.is_empty() {
            OVERVIEW.iter().filter_map(|path| project.file(path)).collect()
        } else {
            let inside = |file: &&SourceFile| {
                file.path
                    .strip_prefix(folder)
                    .is_some_and(|rest| rest.ends_with(".md") && !rest.contains('/'))
            };
            project.files.iter().filter(inside).collect()
        };
        if !folder.is_empty() {
            // `x.md` before `x.tables.md`, and the index before both.
            own.sort_by_key(|file| {
                (!file.path.ends_with("README.md"), file.path.trim_end_matches(".md").to_owned())
            });
        }
        pages.extend(own.into_iter().map(|source| Page { source, title: title(source), part }));
    }
    pages
}

fn title(page: &SourceFile) -> String {
    let first = page.text.lines().find_map(|line| line.strip_prefix("# "));
    first.unwrap_or(&page.path).replace('`', "")
}

/// Where a file of the project is in the book.
fn target(path: &str) -> String {
    match path.strip_suffix(".md") {
        Some(stem) => format!("{stem}.html"),
        None if is_picture(path) => path.to_owned(),
        None => format!("{path}.html"),
    }
}

fn is_picture(path: &str) -> bool {
    [".svg", ".png", ".jpg"].iter().any(|ending| path.ends_with(ending))
}

/// The page's text as HTML; adds the files that it links to.
fn body(page: &SourceFile, project: &Project, linked: &mut BTreeSet<String>) -> String {
    let options = Options::ENABLE_TABLES | Options::ENABLE_FOOTNOTES | Options::ENABLE_STRIKETHROUGH;
    let mut events: Vec<Event<'_>> = Parser::new_ext(&page.text, options).collect();
    let mut names = anchors(page).into_iter();
    for event in &mut events {
        match event {
            Event::Start(Tag::Heading { id, .. }) => *id = names.next().map(CowStr::from),
            Event::Start(Tag::Link { dest_url, .. } | Tag::Image { dest_url, .. }) => {
                let link = local(&page.path, dest_url, project, linked);
                *dest_url = link.into();
            }
            _ => {}
        }
    }
    let mut text = String::new();
    html::push_html(&mut text, wide_tables(events).into_iter());
    text
}

/// Tables scroll by themselves where they are wider than the page.
fn wide_tables(events: Vec<Event<'_>>) -> Vec<Event<'_>> {
    let mut all = Vec::with_capacity(events.len());
    for event in events {
        match event {
            Event::Start(Tag::Table(_)) => all.extend([Event::Html("<div class=\"wide\">".into()), event]),
            Event::End(TagEnd::Table) => all.extend([event, Event::Html("</div>".into())]),
            other => all.push(other),
        }
    }
    all
}

/// A link of the page at `from` as a link of the book.
fn local(from: &str, link: &str, project: &Project, linked: &mut BTreeSet<String>) -> String {
    if link.contains(':') || link.starts_with('#') {
        return link.to_owned();
    }
    let (path, heading) =
        link.split_once('#').map_or((link, String::new()), |(path, name)| (path, format!("#{name}")));
    let mut path = resolve(from, path);
    if project.file(&path).is_none() && !is_picture(&path) {
        // A folder: its index, or the page of the book that begins its part.
        let index = format!("{}/README.md", path.trim_end_matches('/'));
        let folder = format!("{}/", path.trim_end_matches('/'));
        let first = || {
            project
                .files
                .iter()
                .map(|file| &file.path)
                .find(|path| path.starts_with(&folder) && path.ends_with(".md"))
        };
        match (project.file(&index), first()) {
            (Some(file), _) => path.clone_from(&file.path),
            (None, Some(first)) => path.clone_from(first),
            (None, None) => return link.to_owned(),
        }
    }
    linked.insert(path.clone());
    format!("{}{}{heading}", up(from), target(&path))
}

/// The way from a page to the top of the book.
fn up(from: &str) -> String {
    "../".repeat(from.matches('/').count())
}

/// A page with the contents at its side and the neighbours at its end.
fn framed(pages: &[Page<'_>], at: usize, body: &str) -> String {
    let here = &pages[at];
    let top = up(&here.source.path);
    let link = |page: &Page<'_>| {
        format!("<a href=\"{top}{}\">{}</a>", target(&page.source.path), escaped(&page.title))
    };
    let mut side = String::new();
    for (part, (name, _)) in PARTS.iter().enumerate() {
        let open = if part == here.part { " open" } else { "" };
        let _ = write!(side, "<details{open}><summary>{name}</summary><ul>");
        for page in pages.iter().filter(|page| page.part == part && !page.source.path.ends_with(TABLES)) {
            let class = if page.source.path == here.source.path { " class=\"here\"" } else { "" };
            let _ = write!(side, "<li{class}>{}</li>", link(page));
        }
        side.push_str("</ul></details>");
    }
    let before = at.checked_sub(1).map_or(String::new(), |before| format!("← {}", link(&pages[before])));
    let after = pages.get(at + 1).map_or(String::new(), |after| format!("{} →", link(after)));
    let body = format!(
        "<nav>{side}</nav><main>{body}<footer><span>{before}</span><span>{after}</span></footer></main>"
    );
    document(&here.title, &body)
}

fn document(title: &str, body: &str) -> String {
    format!(
        "<!doctype html><html lang=\"en\"><head><meta charset=\"utf-8\"><meta name=\"viewport\" content=\"width=device-width\">\
         <title>{}</title><style>{STYLE}</style></head><body>{body}</body></html>\n",
        escaped(title)
    )
}

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}

fn write(place: &Path, path: &str, text: &str) -> Result<()> {
    let file = parent(place, path)?;
    fs::write(&file, text).with_context(|| format!("cannot write {}", file.display()))
}

fn copy(root: &Path, place: &Path, path: &str) -> Result<()> {
    let file = parent(place, path)?;
    fs::copy(root.join(path), &file).with_context(|| format!("cannot copy {path}"))?;
    Ok(())
}

fn parent(place: &Path, path: &str) -> Result<PathBuf> {
    let file = place.join(path);
    let Some(folder) = file.parent() else { bail!("{path} has no folder") };
    fs::create_dir_all(folder).with_context(|| format!("cannot make {}", folder.display()))?;
    Ok(file)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn project() -> Project {
        Project::of_files(&[
            ("README.md", "# Top\n"),
            (
                "docs/reproductions/b.md",
                "# B\n## Results\n[table](b.tables.md#all) [code](../../src/x.rs) ![p](../img/p.svg)\n",
            ),
            ("docs/reproductions/b.tables.md", "# Tables\n## All\n| a | b |\n|---|---|\n| 1 | <2> |\n"),
            (
                "docs/models/README.md",
                "# Index\n[paper](../reproductions/b.md#results) [site](https://x.org/)\n",
            ),
            ("docs/models/a.md", "# A\n[models](../models/)\n"),
            ("src/x.rs", "//! x\nfn a<T>() {}\n"),
            ("docs/img/p.svg", "<svg/>"),
        ])
    }

    #[test]
    fn pages_are_in_the_order_of_the_book_and_tables_follow_their_page() {
        let project = project();
        let order: Vec<&str> = pages(&project).iter().map(|page| page.source.path.as_str()).collect();
        let wanted = [
            "README.md",
            "docs/reproductions/b.md",
            "docs/reproductions/b.tables.md",
            "docs/models/README.md",
            "docs/models/a.md",
        ];
        assert_eq!(order, wanted);
    }

    #[test]
    fn links_lead_to_pages_of_the_book() {
        let project = project();
        let mut linked = BTreeSet::new();
        let mut page = |path: &str| body(project.file(path).expect("it is there"), &project, &mut linked);
        let paper = page("docs/reproductions/b.md");
        for part in [
            "<h2 id=\"results\">",
            "href=\"../../docs/reproductions/b.tables.html#all\"",
            "href=\"../../src/x.rs.html\"",
            "src=\"../../docs/img/p.svg\"",
        ] {
            assert!(paper.contains(part), "{part}: {paper}");
        }
        assert!(page("docs/reproductions/b.tables.md").contains("<div class=\"wide\"><table>"));
        assert!(page("docs/models/README.md").contains("href=\"../../docs/reproductions/b.html#results\""));
        assert!(page("docs/models/README.md").contains("href=\"https://x.org/\""));
        assert!(page("docs/models/a.md").contains("href=\"../../docs/models/README.html\""));
        assert!(linked.contains("src/x.rs") && linked.contains("docs/img/p.svg"));
    }

    #[test]
    fn the_side_shows_the_part_of_the_page_open() {
        let project = project();
        let pages = pages(&project);
        let text = framed(&pages, 1, "");
        assert!(text.contains("<details open><summary>Papers"), "{text}");
        assert!(text.contains("<li class=\"here\"><a href=\"../../docs/reproductions/b.html\">B</a>"));
        assert!(!text.contains("tables.html\">Tables</a></li>"), "tables are reached from their page");
    }
}
