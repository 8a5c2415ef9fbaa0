//! The list of rules. Each is one file with a pure `check` and with tests in which a bad input fails.

mod circles;
mod forbidden_text;
mod heads;
mod layers;
mod licences;
mod links;
mod lock_file;
mod module_files;
mod named_functions;
mod package_names;
mod packages;
mod pages;
mod provenance;
mod sans_io;
mod sentences;
mod sizes;
mod unfinished;
mod unsafe_code;
mod waiting;

use super::finding::Finding;
use super::project::Project;
pub use links::{anchors, resolve};

/// A named check over the whole project.
pub struct Rule {
    /// Name, printed with every finding.
    pub name: &'static str,
    /// Returns the violations.
    pub check: fn(&Project) -> Vec<Finding>,
}

/// The rule `links` alone.
pub fn links(project: &Project) -> Vec<Finding> {
    links::check(project)
}

/// All rules, in the order of the report.
pub const ALL: &[Rule] = &[
    Rule { name: "layers", check: layers::check },
    Rule { name: "circles", check: circles::check },
    Rule { name: "sans-io", check: sans_io::check },
    Rule { name: "package-names", check: package_names::check },
    Rule { name: "packages", check: packages::check },
    Rule { name: "module-files", check: module_files::check },
    Rule { name: "heads", check: heads::check },
    Rule { name: "sizes", check: sizes::check },
    Rule { name: "unsafe-code", check: unsafe_code::check },
    Rule { name: "unfinished", check: unfinished::check },
    Rule { name: "waiting", check: waiting::check },
    Rule { name: "forbidden-text", check: forbidden_text::check },
    Rule { name: "licences", check: licences::check },
    Rule { name: "lock-file", check: lock_file::check },
    Rule { name: "links", check: links::check },
    Rule { name: "named-functions", check: named_functions::check },
    Rule { name: "pages", check: pages::check },
    Rule { name: "sentences", check: sentences::check },
    Rule { name: "provenance", check: provenance::check },
];
