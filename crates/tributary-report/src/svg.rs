//! A small SVG writer: elements in drawing order, every text escaped, coordinates to a tenth.
//!
//! Colours come only from classes (`plot/plot.css`), so one drawing works on light and dark pages.

use crate::escape::markup;
use core::fmt::{Display, Write as _};

/// A drawing under construction.
pub(crate) struct Canvas {
    width: f64,
    height: f64,
    body: String,
}

/// A coordinate: at most one decimal, and never `NaN`.
pub(crate) struct At(pub(crate) f64);

impl Display for At {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        let rounded = if self.0.is_finite() { (self.0 * 10.0).round() / 10.0 } else { 0.0 };
        // Negative zero would print as "-0".
        write!(f, "{}", if rounded == 0.0 { 0.0 } else { rounded })
    }
}

/// Alignment of a text relative to its point.
#[derive(Clone, Copy)]
pub(crate) enum Anchor {
    Start,
    Middle,
    End,
}

/// Left, top, width, height.
#[derive(Clone, Copy)]
pub(crate) struct Rect {
    pub(crate) x: f64,
    pub(crate) y: f64,
    pub(crate) w: f64,
    pub(crate) h: f64,
}

impl Canvas {
    pub(crate) fn new(width: f64, height: f64) -> Self {
        Self { width, height, body: String::new() }
    }

    pub(crate) fn text(&mut self, class: &str, (x, y): (f64, f64), anchor: Anchor, text: &str) {
        let anchor = match anchor {
            Anchor::Start => "start",
            Anchor::Middle => "middle",
            Anchor::End => "end",
        };
        let (x, y, text) = (At(x), At(y), markup(text));
        let _ = writeln!(
            self.body,
            "<text class=\"{class}\" x=\"{x}\" y=\"{y}\" text-anchor=\"{anchor}\">{text}</text>"
        );
    }

    /// A name followed by a lighter note; the reader's font decides their widths.
    pub(crate) fn name(&mut self, (x, y): (f64, f64), name: &str, note: &str) {
        let (x, y, name, note) = (At(x), At(y), markup(name), markup(note));
        let note =
            if note.is_empty() { note } else { format!("<tspan class=\"note\" dx=\"7\">{note}</tspan>") };
        let _ = writeln!(self.body, "<text class=\"name\" x=\"{x}\" y=\"{y}\">{name}{note}</text>");
    }

    pub(crate) fn line(&mut self, class: &str, from: (f64, f64), to: (f64, f64)) {
        let _ = writeln!(
            self.body,
            "<line class=\"{class}\" x1=\"{}\" y1=\"{}\" x2=\"{}\" y2=\"{}\"/>",
            At(from.0),
            At(from.1),
            At(to.0),
            At(to.1)
        );
    }

    /// A rectangle with corners rounded by `radius`, and a hover title unless it is empty.
    pub(crate) fn rect(&mut self, class: &str, rect: Rect, radius: f64, title: &str) {
        let Rect { x, y, w, h } = rect;
        let (x, y, w, h) = (At(x), At(y), At(w.max(0.0)), At(h.max(0.0)));
        let round = if radius > 0.0 { format!(" rx=\"{}\"", At(radius)) } else { String::new() };
        let _ = write!(
            self.body,
            "<rect class=\"{class}\" x=\"{x}\" y=\"{y}\" width=\"{w}\" height=\"{h}\"{round}"
        );
        self.close("rect", title);
    }

    pub(crate) fn circle(&mut self, class: &str, (x, y): (f64, f64), radius: f64, title: &str) {
        let _ = write!(
            self.body,
            "<circle class=\"{class}\" cx=\"{}\" cy=\"{}\" r=\"{}\"",
            At(x),
            At(y),
            At(radius)
        );
        self.close("circle", title);
    }

    /// A path from its `d` data, which the caller builds only from coordinates.
    pub(crate) fn path(&mut self, class: &str, d: &str, title: &str) {
        let _ = write!(self.body, "<path class=\"{class}\" d=\"{d}\"");
        self.close("path", title);
    }

    fn close(&mut self, element: &str, title: &str) {
        if title.is_empty() {
            self.body.push_str("/>\n");
        } else {
            let _ = writeln!(self.body, "><title>{}</title></{element}>", markup(title));
        }
    }

    /// The finished drawing; `style` goes into a `<style>` element unless it is empty.
    pub(crate) fn finish(self, title: &str, description: &str, style: &str) -> String {
        let (w, h) = (At(self.width), At(self.height));
        let (title, description) = (markup(title), markup(description));
        let style = if style.is_empty() {
            String::new()
        } else {
            format!(
                "<style>{style}</style>\n<rect class=\"sheet\" width=\"{w}\" height=\"{h}\" rx=\"10\"/>\n"
            )
        };
        let body = self.body;
        format!(
            "<svg xmlns=\"http://www.w3.org/2000/svg\" class=\"plot\" viewBox=\"0 0 {w} {h}\" width=\"{w}\" \
             height=\"{h}\" role=\"img\" aria-label=\"{title}\">\n<title>{title}</title>\n\
             <desc>{description}</desc>\n{style}{body}</svg>\n"
        )
    }
}

/// Builds the `d` of a path from runs of points; a point that is not finite breaks the line.
pub(crate) fn polyline(points: impl IntoIterator<Item = (f64, f64)>) -> String {
    let mut d = String::new();
    let mut pen_down = false;
    for (x, y) in points {
        if !(x.is_finite() && y.is_finite()) {
            pen_down = false;
            continue;
        }
        let _ = write!(d, "{}{} {}", if pen_down { "L" } else { "M" }, At(x), At(y));
        pen_down = true;
    }
    d
}

/// Closes each run of points of `polyline` down to `base`, for a filled area.
pub(crate) fn area(points: &[(f64, f64)], base: f64) -> String {
    points
        .split(|(x, y)| !(x.is_finite() && y.is_finite()))
        .filter_map(|run| {
            let (first, last) = (run.first()?, run.last()?);
            let outline = core::iter::once((first.0, base))
                .chain(run.iter().copied())
                .chain(core::iter::once((last.0, base)));
            Some(polyline(outline) + "Z")
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_gap_breaks_the_line_and_the_area() {
        let points = [(0.0, 1.0), (1.0, f64::NAN), (2.0, 3.04), (3.0, 4.0)];
        assert_eq!(polyline(points), "M0 1M2 3L3 4");
        assert_eq!(area(&points, 9.0), "M0 9L0 1L0 9ZM2 9L2 3L3 4L3 9Z");
    }

    #[test]
    fn names_are_escaped_and_nan_is_drawn_at_zero() {
        let mut canvas = Canvas::new(10.0, 10.0);
        canvas.text("label", (f64::NAN, -0.01), Anchor::Start, "<script>");
        let svg = canvas.finish("a\"b", "<i>", "");
        assert!(svg.contains("x=\"0\" y=\"0\"") && svg.contains("&lt;script&gt;"));
        assert!(svg.contains("aria-label=\"a&quot;b\"") && svg.contains("<desc>&lt;i&gt;</desc>"));
    }
}
