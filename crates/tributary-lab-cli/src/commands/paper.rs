//! A paper's runs, its verdicts and its report, for `reproduce`, `reproduce all` and `sweep`.

use super::report::Rendered;
use anyhow::Result;
use tributary_bench::Stacks;
use tributary_cli::{Progress, output};
use tributary_lab::World;
use tributary_lab::reproduce::{EXPERIMENTS, Experiment, Outcome, Page, Paper, Settings, expected, run};

/// Makes the runs that are missing, judges the claims and writes the drawings.
pub(super) fn measured(paper: &Paper, settings: &Settings) -> Result<(Outcome, Rendered)> {
    let mut progress = Progress::new();
    if settings.selection.world == World::Emu {
        let seconds = expected(paper, &settings.selection)?.as_secs_f64();
        progress.note(&format!("at most about {:.0} minutes", (seconds / 60.0).ceil()));
    }
    let outcome = run(paper, &experiments(), settings, &mut |share, text| progress.at(share, text))?;
    progress.end();
    let page = Page::new(paper, &outcome);
    for (name, drawing) in page.drawings() {
        output::file(&settings.directory, &format!("{name}.svg"), &drawing)?;
    }
    let report = Rendered {
        name: outcome.reproduction.name.clone(),
        json: serde_json::to_string(&outcome)?,
        markdown: page.markdown(),
        html: Some(page.html()),
        text: page.text(),
    };
    Ok((outcome, report))
}

/// Every experiment that needs no files of the user.
pub(super) fn experiments() -> Vec<&'static dyn Experiment> {
    EXPERIMENTS.into_iter().chain([&Stacks as &dyn Experiment]).collect()
}
