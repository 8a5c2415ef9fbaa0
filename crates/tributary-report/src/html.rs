//! One self-contained HTML page: a headline, key figures, plots, tables, stills, and how it was made.
//!
//! No script, no network, no external file: the page's content security policy forbids them.
//! All text that does not come from this crate is escaped.

use crate::escape::{base64, markup};
use crate::plot::{self, Plot};
use crate::schema::{Reproduction, RunInfo};
use crate::table::Table;
use core::fmt::Write as _;

#[cfg(test)]
mod tests;

const STYLE: &str = include_str!("html/page.css");

/// A key figure: a number on a card at the top of the page.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct KeyFigure {
    /// Name of the number.
    pub label: String,
    /// The number as text.
    pub value: String,
    /// Its unit, shown small; may be empty.
    pub unit: String,
    /// A value for comparison; may be empty.
    pub note: String,
    /// Whether it is at least as good as the value for comparison; `None` without one.
    pub ahead: Option<bool>,
}

impl KeyFigure {
    /// The figure `value` `unit` called `label`.
    #[must_use]
    pub fn new(label: &str, value: &str, unit: &str) -> Self {
        Self { label: label.to_owned(), value: value.to_owned(), unit: unit.to_owned(), ..Self::default() }
    }

    /// With a value for comparison.
    #[must_use]
    pub fn note(mut self, note: &str) -> Self {
        note.clone_into(&mut self.note);
        self
    }

    /// Marked as at least as good as the value for comparison, or worse.
    #[must_use]
    pub fn ahead(mut self, ahead: bool) -> Self {
        self.ahead = Some(ahead);
        self
    }
}

/// A picture or a video, embedded in the page.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Media {
    /// The media type, for example `image/jpeg` or `video/mp4`.
    pub media_type: &'static str,
    /// The file's bytes.
    pub bytes: Vec<u8>,
    /// Text alternative: what it shows.
    pub alt: String,
    /// Text below it.
    pub caption: String,
}

/// The page under construction: blocks appear in the order in which they were added.
#[derive(Clone, Debug, Default)]
pub struct HtmlReport {
    title: String,
    headline: String,
    lead: String,
    figures: Vec<KeyFigure>,
    body: String,
    run: Option<RunInfo>,
}

impl HtmlReport {
    /// A page called `title`.
    #[must_use]
    pub fn new(title: &str) -> Self {
        Self { title: title.to_owned(), ..Self::default() }
    }

    /// The headline: one sentence with the main result and its number.
    pub fn headline(&mut self, sentence: &str) -> &mut Self {
        sentence.clone_into(&mut self.headline);
        self
    }

    /// A few sentences under the headline: the method.
    pub fn lead(&mut self, text: &str) -> &mut Self {
        text.clone_into(&mut self.lead);
        self
    }

    /// Adds a card.
    pub fn card(&mut self, figure: KeyFigure) -> &mut Self {
        self.figures.push(figure);
        self
    }

    /// Begins a section.
    pub fn section(&mut self, heading: &str) -> &mut Self {
        let _ = writeln!(self.body, "<h2>{}</h2>", markup(heading));
        self
    }

    /// Adds a paragraph.
    pub fn text(&mut self, text: &str) -> &mut Self {
        let _ = writeln!(self.body, "<p>{}</p>", markup(text));
        self
    }

    /// Adds a plot with its title above and `caption` below.
    pub fn figure(&mut self, plot: &dyn Plot, caption: &str) -> &mut Self {
        let _ = writeln!(
            self.body,
            "<figure class=\"panel\"><h3>{}</h3>\n<div class=\"scroll\">{}</div>{}</figure>",
            markup(plot.title()),
            plot.svg(),
            caption_of(caption),
        );
        self
    }

    /// Adds a table with `caption` below.
    pub fn table(&mut self, table: &Table, caption: &str) -> &mut Self {
        let _ = writeln!(
            self.body,
            "<figure class=\"panel\">{}{}</figure>",
            table.to_html(),
            caption_of(caption)
        );
        self
    }

    /// Adds pictures side by side.
    pub fn images(&mut self, images: &[Media]) -> &mut Self {
        self.body.push_str("<div class=\"stills\">\n");
        for image in images {
            let _ = writeln!(
                self.body,
                "<figure><img src=\"data:{};base64,{}\" alt=\"{}\">{}</figure>",
                markup(image.media_type),
                base64(&image.bytes),
                markup(&image.alt),
                caption_of(&image.caption),
            );
        }
        self.body.push_str("</div>\n");
        self
    }

    /// Adds a video that plays over and over, without sound.
    pub fn video(&mut self, video: &Media) -> &mut Self {
        let _ = writeln!(
            self.body,
            "<figure class=\"panel\"><video controls autoplay muted loop playsinline aria-label=\"{}\" \
             src=\"data:{};base64,{}\"></video>{}</figure>",
            markup(&video.alt),
            markup(video.media_type),
            base64(&video.bytes),
            caption_of(&video.caption),
        );
        self
    }

    /// Adds the table of `made`'s claims and the run's details as [`made`](Self::made) does.
    pub fn reproduction(&mut self, made: &Reproduction, caption: &str) -> &mut Self {
        self.table(&made.table(), caption);
        self.made(&made.run)
    }

    /// Adds the run's details at the end of the page: command, version, seeds, machine.
    pub fn made(&mut self, run: &RunInfo) -> &mut Self {
        self.run = Some(run.clone());
        self
    }

    /// The whole page.
    #[must_use]
    pub fn render(&self) -> String {
        let mut out = format!(
            "<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">\n\
             <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
             <meta name=\"color-scheme\" content=\"light dark\">\n\
             <meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; \
             style-src 'unsafe-inline'; img-src data:; media-src data:\">\n<title>{title}</title>\n\
             <style>\n{page}{plots}</style></head>\n<body><main>\n\
             <header><p class=\"kicker\">{LOGO}<span>Tributary</span> {title}</p>\n",
            title = markup(&self.title),
            page = STYLE,
            plots = plot::STYLE,
        );
        if !self.headline.is_empty() {
            let _ = writeln!(out, "<h1>{}</h1>", markup(&self.headline));
        }
        if !self.lead.is_empty() {
            let _ = writeln!(out, "<p class=\"lead\">{}</p>", markup(&self.lead));
        }
        out.push_str("</header>\n");
        self.warning(&mut out);
        self.cards(&mut out);
        out.push_str(&self.body);
        if let Some(run) = &self.run {
            how_it_was_made(&mut out, run);
        }
        out.push_str("</main></body></html>\n");
        out
    }

    /// A warning above all numbers when the run's audit found it invalid.
    fn warning(&self, out: &mut String) {
        if let Some(warning) = self.run.as_ref().and_then(RunInfo::warning) {
            let _ = writeln!(out, "<p class=\"warning\" role=\"alert\">{}</p>", markup(&warning));
        }
    }

    fn cards(&self, out: &mut String) {
        if self.figures.is_empty() {
            return;
        }
        out.push_str("<dl class=\"cards\">\n");
        for figure in &self.figures {
            let (class, sign) = match figure.ahead {
                Some(true) => ("good", "<i class=\"sign\" title=\"at least as good\">✓</i>"),
                Some(false) => ("bad", "<i class=\"sign\" title=\"worse\">✗</i>"),
                None => ("", ""),
            };
            let _ = writeln!(
                out,
                "<div class=\"card {class}\"><dt>{}{sign}</dt><dd><b>{}</b> <span>{}</span>{}</dd></div>",
                markup(&figure.label),
                markup(&figure.value),
                markup(&figure.unit),
                if figure.note.is_empty() {
                    String::new()
                } else {
                    format!("<small>{}</small>", markup(&figure.note))
                },
            );
        }
        out.push_str("</dl>\n");
    }
}

/// The logo: three streams that become one.
const LOGO: &str = "<svg class=\"mark\" viewBox=\"0 0 32 32\" aria-hidden=\"true\"><path d=\"M2 6C12 6 12 16 30 16M2 \
                    16H30M2 26C12 26 12 16 30 16\"/></svg>";

fn caption_of(caption: &str) -> String {
    if caption.is_empty() { String::new() } else { format!("<figcaption>{}</figcaption>", markup(caption)) }
}

fn how_it_was_made(out: &mut String, run: &RunInfo) {
    out.push_str("<section class=\"made\"><h2>How this was made</h2>\n");
    if !run.command.is_empty() {
        let _ = writeln!(out, "<pre><code>{}</code></pre>", markup(&run.command));
    }
    out.push_str("<dl>\n");
    let mut entry = |name: &str, value: &str| {
        if !value.is_empty() {
            let _ = writeln!(out, "<div><dt>{}</dt><dd>{}</dd></div>", markup(name), markup(value));
        }
    };
    entry("version", &run.version);
    entry("commit", run.commit.as_deref().unwrap_or_default());
    entry("started", run.started.as_deref().unwrap_or_default());
    entry("took", &run.seconds.map(|s| format!("{s:.0} s")).unwrap_or_default());
    entry("seeds", &run.seeds.iter().map(u64::to_string).collect::<Vec<_>>().join(", "));
    entry("congestion control", &run.congestion);
    entry("kernel", &run.kernel);
    entry("machine", &run.machine);
    for (name, value) in &run.configuration {
        entry(name, value);
    }
    if let Some(audit) = &run.audit {
        let verdict = if audit.valid { "valid" } else { "NOT VALID" };
        entry("emulator audit", &format!("{verdict}: {}", audit.detail));
    }
    out.push_str("</dl></section>\n");
}
