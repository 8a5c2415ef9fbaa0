//! A paper's runs, its verdicts, its report and its failures, for `reproduce`, `reproduce ows`, `reproduce all` and `sweep`.

use super::page::TablesBeside;
use super::report::{Form, Rendered};
use anyhow::Result;
use std::path::Path;
use std::process::ExitCode;
use tributary_bench::Stacks;
use tributary_cli::{Progress, output};
use tributary_lab::World;
use tributary_lab::reproduce::{
    EXPERIMENTS, Experiment, Outcome, Page, Paper, Sample, Settings, expected, run,
};

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

/// Publishes the report. Returns 1 if runs gave no result; their number and the first one's reason are printed, and no tables are
/// written beside a page.
pub(super) fn publish(
    outcome: &Outcome,
    report: &Rendered,
    (directory, form): (&Path, Form),
    beside: Option<&TablesBeside>,
) -> Result<ExitCode> {
    let failures = tell_failures(outcome);
    if failures && beside.is_some() {
        eprintln!("the tables of --page are left as they were");
    }
    report.publish(directory, form, beside.filter(|_| !failures))?;
    Ok(ExitCode::from(u8::from(failures)))
}

/// Prints how many runs gave no result, and the first one's reason. Returns whether there were any.
pub(super) fn tell_failures(outcome: &Outcome) -> bool {
    let text = failures(&outcome.samples);
    if let Some(text) = &text {
        eprintln!("{text}");
    }
    text.is_some()
}

fn failures(samples: &[Sample]) -> Option<String> {
    let mut failed = samples.iter().filter_map(|sample| Some((sample.title(), sample.failure.as_ref()?)));
    let (cell, failure) = failed.next()?;
    let count = 1 + failed.count();
    Some(format!("{count} of {} runs gave no result; the first, {cell}: {failure}", samples.len()))
}

/// Every experiment that needs no files of the user.
pub(super) fn experiments() -> Vec<&'static dyn Experiment> {
    EXPERIMENTS.into_iter().chain([&Stacks as &dyn Experiment]).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn runs_without_a_result_are_counted_with_the_first_ones_reason() {
        let sample = |seed, failure: Option<&str>| {
            let labels = [("transport".to_owned(), "fbdt".to_owned())].into();
            Sample { labels, seed, failure: failure.map(str::to_owned), ..Sample::default() }
        };
        let samples = [sample(1, None), sample(2, Some("no tiles")), sample(3, Some("no server"))];
        let told = failures(&samples).unwrap();
        assert_eq!(told, "2 of 3 runs gave no result; the first, fbdt · seed 2: no tiles");
        assert_eq!(failures(&samples[..1]), None);
    }
}
