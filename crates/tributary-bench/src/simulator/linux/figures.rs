//! Windows over time of simulator and kernel in one plot, as SVG files and one HTML report.

use super::{Overlay, Report, Window};
use tributary_report::machine;
use tributary_report::{HtmlReport, Plot, Series, TimeSeries, Tone};

/// Bytes of a full segment.
const SEGMENT: f64 = 1448.0;
/// Approximate number of points of a line.
const POINTS: usize = 400;

impl Report {
    /// Name and SVG of each plot.
    #[must_use]
    pub fn drawings(&self) -> Vec<(String, String)> {
        self.overlays.iter().map(|overlay| (overlay.name.clone(), plot(overlay).standalone())).collect()
    }

    /// Tables and plots on one page; `command` is the command line that made it.
    #[must_use]
    pub fn to_html(&self, command: &str) -> String {
        let mut page = HtmlReport::new("simulator beside the kernel");
        let agree = self.rows.iter().filter(|row| row.agrees()).count();
        page.headline(&format!("{agree} of {} cells agree.", self.rows.len()));
        page.lead("The same scenario in the simulator and through Linux's own stacks in the emulator. Goodput leaves out the first second.");
        for (index, table) in self.tables().iter().enumerate() {
            let caption =
                if index == 0 { "The ratio is the simulator's goodput by the kernel's." } else { "" };
            page.table(table, caption);
        }
        if !self.overlays.is_empty() {
            page.section("Congestion windows");
            for overlay in &self.overlays {
                page.figure(&plot(overlay), "Time runs from the moment the request reaches the server.");
            }
        }
        page.made(&machine::run_info(command));
        page.render()
    }
}

fn plot(overlay: &Overlay) -> TimeSeries {
    let series = |name, tone, windows| Series::new(name, tone, points(windows));
    TimeSeries {
        title: format!("Congestion window: {}", overlay.title),
        description: "The congestion window of the kernel and of the simulator over time.".to_owned(),
        unit: "segments".to_owned(),
        series: vec![
            series("Linux", Tone::Rival, &overlay.kernel),
            series("simulator", Tone::Hero, &overlay.simulator),
        ],
        ..TimeSeries::default()
    }
}

/// Reduced to the resolution of a line: the smallest and the largest window of each interval.
fn points(windows: &[Window]) -> Vec<(f64, f64)> {
    let stretch = windows.len().div_ceil(POINTS / 2).max(1);
    let mut points = Vec::new();
    for part in windows.chunks(stretch) {
        let least = part.iter().min_by_key(|window| window.window);
        let most = part.iter().max_by_key(|window| window.window);
        let mut ends: Vec<&Window> = least.into_iter().chain(most).collect();
        ends.sort_by(|a, b| a.at.total_cmp(&b.at));
        ends.dedup();
        points.extend(ends.iter().map(|window| (window.at, window.window as f64 / SEGMENT)));
    }
    points
}
