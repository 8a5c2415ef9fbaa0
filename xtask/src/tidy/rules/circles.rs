//! Modules of one crate do not use each other in a circle, so that each can be read, tested and moved with only the
//! modules below it.
//!
//! Neighbours are compared: modules with the same parent, each with all that is inside it. A module and its own parts
//! may use each other, and tests may use anything. A name that a module passes on with `use` counts as the module
//! where it is defined. Not a compiler: macros and names made by them are not followed.

mod paths;

use std::collections::{BTreeMap, BTreeSet};

use super::super::finding::Finding;
use super::super::project::{Project, SourceFile};
use paths::{Use, uses};

type Path = Vec<String>;
/// Which neighbour uses which, with one place in the code.
type Edges = BTreeMap<(String, String), (String, usize)>;

/// Reports circles between neighbouring modules of a crate.
pub fn check(project: &Project) -> Vec<Finding> {
    let mut crates: BTreeMap<&str, Crate> = BTreeMap::new();
    for file in project.rust() {
        let Some((root, inside)) = file.path.split_once("/src/") else { continue };
        if let Some(module) = module_of(inside) {
            crates.entry(root).or_default().add(module, file);
        }
    }
    crates.values().flat_map(Crate::check).collect()
}

/// The module that a file of `src/` is; `None` for tests and for programs of their own.
fn module_of(inside: &str) -> Option<Path> {
    let parts: Path = inside.strip_suffix(".rs")?.split('/').map(str::to_owned).collect();
    match parts.first().map(String::as_str) {
        Some("lib" | "main") if parts.len() == 1 => Some(Path::new()),
        Some("bin") => None,
        _ if parts.iter().any(|part| part == "tests") => None,
        _ => Some(parts),
    }
}

/// The modules of one crate.
#[derive(Default)]
struct Crate<'a> {
    modules: BTreeMap<Path, (&'a SourceFile, Vec<Use>)>,
}

impl<'a> Crate<'a> {
    fn add(&mut self, module: Path, file: &'a SourceFile) {
        self.modules.insert(module, (file, uses(&file.code)));
    }

    fn check(&self) -> Vec<Finding> {
        let mut levels: BTreeMap<Path, Edges> = BTreeMap::new();
        for (module, (file, uses)) in &self.modules {
            for used in uses {
                let Some(target) = self.resolve(module, &used.path, 0) else { continue };
                let shared = module.iter().zip(&target).take_while(|(a, b)| a == b).count();
                if let (Some(from), Some(to)) = (module.get(shared), target.get(shared)) {
                    let edges = levels.entry(module[..shared].to_vec()).or_default();
                    let place = || (file.path.clone(), used.line);
                    edges.entry((from.clone(), to.clone())).or_insert_with(place);
                }
            }
        }
        levels.values().flat_map(circles).collect()
    }

    /// The module that a path written in `module` leads to; `None` when that is outside the crate.
    fn resolve(&self, module: &[String], path: &[String], depth: usize) -> Option<Path> {
        let mut at = module.to_vec();
        let mut rest = path;
        match path.first()?.as_str() {
            "crate" => (at, rest) = (Path::new(), &path[1..]),
            "self" => rest = &path[1..],
            "super" => {
                while let Some((_, after)) = rest.split_first().filter(|(first, _)| *first == "super") {
                    at.pop()?;
                    rest = after;
                }
            }
            child if !self.modules.contains_key(&joined(&at, child)) => return None,
            _ => {}
        }
        while let Some((name, after)) = rest.split_first() {
            let inner = joined(&at, name);
            if self.modules.contains_key(&inner) {
                (at, rest) = (inner, after);
                continue;
            }
            return self.passed_on(&at, name, depth).or(Some(at));
        }
        Some(at)
    }

    /// The module in which a name that `module` imports by `use` is defined.
    fn passed_on(&self, module: &[String], name: &str, depth: usize) -> Option<Path> {
        let (_, uses) = self.modules.get(module)?;
        let known = uses.iter().find(|used| used.imports.as_deref() == Some(name))?;
        // A name that leads back to itself is reported by the compiler.
        (depth < 8).then(|| self.resolve(module, &known.path, depth + 1)).flatten()
    }
}

fn joined(module: &[String], name: &str) -> Path {
    module.iter().cloned().chain([name.to_owned()]).collect()
}

/// One finding for each group of neighbours that reach each other.
fn circles(edges: &Edges) -> Vec<Finding> {
    let mut reach: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
    for (from, to) in edges.keys() {
        reach.entry(from).or_default().insert(to);
    }
    loop {
        let mut grown = reach.clone();
        for further in grown.values_mut() {
            let next: Vec<&str> = further.iter().filter_map(|to| reach.get(to)).flatten().copied().collect();
            further.extend(next);
        }
        if grown == reach {
            break;
        }
        reach = grown;
    }
    let meets = |a: &str, b: &str| reach.get(a).is_some_and(|reached| reached.contains(b));
    let mut findings = Vec::new();
    let mut told = BTreeSet::new();
    for name in reach.keys().filter(|name| meets(name, name)) {
        if told.contains(name) {
            continue;
        }
        let group: BTreeSet<&str> =
            reach.keys().copied().filter(|other| meets(name, other) && meets(other, name)).collect();
        told.extend(group.iter().copied());
        let inside =
            edges.iter().filter(|((a, b), _)| group.contains(a.as_str()) && group.contains(b.as_str()));
        let places: Vec<String> =
            inside.clone().map(|((a, b), (file, line))| format!("{a} → {b} at {file}:{line}")).collect();
        let (file, line) = inside.map(|(_, place)| place).next().expect("a circle has an edge");
        let what = format!("modules use each other in a circle: {}", places.join(", "));
        let way_out = "move the shared code into a separate module below them";
        findings.push(Finding::error(file, *line, what, way_out));
    }
    findings
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(files: &[(&str, &str)]) -> Vec<String> {
        check(&Project::of_files(files)).into_iter().map(|finding| finding.what).collect()
    }

    #[test]
    fn neighbours_that_use_each_other_are_found() {
        let found = found(&[
            ("c/src/lib.rs", "mod run; mod kernel; mod below;"),
            ("c/src/run.rs", "use crate::{below, kernel::{self, prepare}};"),
            ("c/src/kernel.rs", "fn f() -> crate::run::Error { super::below::g() }"),
            ("c/src/below.rs", ""),
        ]);
        assert_eq!(found.len(), 1, "{found:?}");
        assert!(found[0].contains("kernel → run at c/src/kernel.rs:1"), "{found:?}");
        assert!(!found[0].contains("below"), "{found:?}");
    }

    #[test]
    fn a_longer_circle_and_one_deeper_down_are_found() {
        let circle = [
            ("c/src/a.rs", "mod x;\nmod y;\nuse super::b::B;"),
            ("c/src/b.rs", "use crate::d::D;"),
            ("c/src/d/inner.rs", "use crate::a::A;"),
            ("c/src/d.rs", "mod inner;"),
            ("c/src/a/x.rs", "use super::y;"),
            ("c/src/a/y.rs", "use crate::a::x;"),
        ];
        assert_eq!(found(&circle).len(), 2, "{:?}", found(&circle));
    }

    #[test]
    fn a_name_counts_where_it_is_defined() {
        let passed_on = [
            ("c/src/lib.rs", "mod a; mod b; pub use a::{Thing as Other, f};"),
            ("c/src/a.rs", "use crate::b::B;"),
            ("c/src/b.rs", "use crate::Other;"),
        ];
        assert_eq!(found(&passed_on).len(), 1);
        let defined_above = [
            ("c/src/lib.rs", "mod a; mod b; pub struct Thing; use b::B;"),
            ("c/src/a.rs", "use crate::b::B; use crate::Thing;"),
            ("c/src/b.rs", "use crate::Thing;"),
        ];
        assert!(found(&defined_above).is_empty(), "the parent's definitions are below its parts");
    }

    #[test]
    fn parts_tests_and_other_crates_are_no_circles() {
        let fine = [
            ("c/src/lib.rs", "mod a; mod b;"),
            (
                "c/src/a.rs",
                "mod part; mod tests; use crate::b::B; use part::P;\n#[cfg(test)]\nmod tests { use crate::a; }",
            ),
            ("c/src/a/part.rs", "use super::A; // crate::b is above, says a comment"),
            ("c/src/b.rs", "pub struct B;\n#[cfg(test)]\nmod tests { use crate::a::A; }"),
            ("c/src/b/tests.rs", "use crate::a::A;"),
            ("d/src/a.rs", "use crate::b;"),
            ("d/src/b.rs", "use c::a::A;"),
        ];
        assert!(found(&fine).is_empty(), "{:?}", found(&fine));
    }
}
