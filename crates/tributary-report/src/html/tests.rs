//! The page escapes text, is self-contained, and shows a warning for an invalid run.

use super::*;
use crate::plot::{Band, Bar, Bars, Cdf, Layout, Series, Strip, TimeSeries, Tone};
use crate::schema::Audit;

const EVIL: &str = "<script>alert(1)</script>\"'&";

fn page_of_evil() -> String {
    let mut series = TimeSeries::per_second(EVIL, EVIL);
    series.description = EVIL.to_owned();
    series.series.push(Series::per_second(EVIL, Tone::Hero, &[1.0, f64::NAN, 3.0]).note(EVIL));
    series.bands.push(Band::new(0.5, 1.5, EVIL));
    let stacked = TimeSeries { layout: Layout::Stacked, ..series.clone() };
    let mut cdf = Cdf::new(EVIL, EVIL);
    cdf.push(EVIL, Tone::Rival, &[1.0, 2.0, f64::INFINITY]);
    let mut bars = Bars::new(EVIL, EVIL, &[(EVIL, Tone::Hero)]);
    bars.push(EVIL, [Bar::new(3.0).paper(f64::NAN)]);
    let mut strip = Strip::new(EVIL, EVIL, 10.0);
    strip.push(EVIL, EVIL, &[1.0]);
    strip.bands.push(Band::new(0.0, 1.0, EVIL));
    let mut report = HtmlReport::new(EVIL);
    report.headline(EVIL).lead(EVIL).section(EVIL).text(EVIL);
    report.card(KeyFigure::new(EVIL, EVIL, EVIL).note(EVIL).ahead(false));
    for plot in [&series as &dyn Plot, &stacked, &cdf, &bars, &strip] {
        report.figure(plot, EVIL);
        assert!(plot.standalone().contains("prefers-color-scheme"));
    }
    let image =
        Media { media_type: "image/png", bytes: vec![0, 255], alt: EVIL.into(), caption: EVIL.into() };
    let video = Media { media_type: "video/mp4", ..image.clone() };
    report.images(&[image]).video(&video);
    let run = RunInfo {
        command: EVIL.into(),
        configuration: [(EVIL.to_owned(), EVIL.to_owned())].into(),
        audit: Some(Audit { valid: false, detail: EVIL.into() }),
        ..RunInfo::default()
    };
    report.made(&run).render()
}

#[test]
fn hostile_text_never_becomes_markup() {
    let page = page_of_evil();
    assert!(!page.contains("<script") && page.contains("&lt;script&gt;"));
}

#[test]
fn the_page_stands_alone_and_holds_no_nan() {
    let page = page_of_evil();
    assert!(!page.contains("src=\"http") && !page.contains("href=") && !page.contains("url("));
    assert!(!page.contains("NaN") && !page.contains("=\"inf"), "a coordinate is broken");
    assert!(page.contains("This run is not valid.") && page.contains("Run it again"));
    let valid = RunInfo { audit: Some(Audit { valid: true, ..Audit::default() }), ..RunInfo::default() };
    assert_eq!([valid.warning(), RunInfo::default().warning()], [None, None]);
    assert!(page.contains("data:image/png;base64,AP8=") && page.contains("data:video/mp4;base64,AP8="));
}

#[test]
fn tags_are_balanced() {
    let page = page_of_evil();
    for tag in ["svg", "figure", "div", "dl", "table", "main", "text", "section", "h2", "p"] {
        let opened = page.matches(&format!("<{tag} ")).count() + page.matches(&format!("<{tag}>")).count();
        assert_eq!(opened, page.matches(&format!("</{tag}>")).count(), "{tag}");
    }
}

#[test]
fn empty_plots_draw() {
    for plot in [&TimeSeries::default() as &dyn Plot, &Cdf::default(), &Bars::default(), &Strip::default()] {
        assert!(plot.svg().contains("</svg>"));
    }
}
