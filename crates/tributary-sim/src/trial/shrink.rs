//! Makes a trial that breaks a rule shorter: leaves out operations and paths and simplifies what is left, as long as the same rule
//! is broken.

use super::fault::{Fault, Rule};
use super::script::{Act, Trial};

/// Runs for one trial at most.
const MOST_RUNS: u32 = 600;

/// A shorter trial that breaks the same rule, and how; `run` is [`super::run`] or one with other rules.
pub fn shrink<T>(trial: &Trial, fault: Fault, run: impl Fn(&Trial) -> Result<T, Fault>) -> (Trial, Fault) {
    let mut search = Search { rule: fault.rule, best: trial.clone(), fault, run, runs: 0 };
    loop {
        let before = search.best.clone();
        search.operations();
        search.paths();
        search.settings();
        search.values();
        if search.best == before || search.runs >= MOST_RUNS {
            return (search.best, search.fault);
        }
    }
}

struct Search<R> {
    rule: Rule,
    best: Trial,
    fault: Fault,
    run: R,
    runs: u32,
}

impl<T, R: Fn(&Trial) -> Result<T, Fault>> Search<R> {
    /// Keeps a change if the rule is still broken.
    fn keep(&mut self, change: impl FnOnce(&mut Trial)) -> bool {
        let mut shorter = self.best.clone();
        change(&mut shorter);
        if self.runs >= MOST_RUNS || shorter == self.best || shorter.check().is_err() {
            return false;
        }
        self.runs += 1;
        match (self.run)(&shorter) {
            Err(fault) if fault.rule == self.rule => {
                (self.best, self.fault) = (shorter, fault);
                true
            }
            _ => false,
        }
    }

    /// Leaves out half of the operations, a quarter, and so on.
    fn operations(&mut self) {
        let mut part = self.best.operations.len().div_ceil(2);
        while part > 0 {
            let mut from = 0;
            while from < self.best.operations.len() {
                let to = (from + part).min(self.best.operations.len());
                if !self.keep(|trial| drop(trial.operations.drain(from..to))) {
                    from = to;
                }
            }
            part /= 2;
        }
    }

    fn paths(&mut self) {
        let mut path = 0;
        while path < self.best.paths.len() && self.best.paths.len() > 1 {
            if !self.keep(|trial| leave_out(trial, path)) {
                path += 1;
            }
        }
    }

    fn settings(&mut self) {
        self.keep(|trial| "fbdt".clone_into(&mut trial.scheduler));
        self.keep(|trial| "cubic".clone_into(&mut trial.congestion));
        self.keep(|trial| trial.tls = false);
        self.keep(|trial| trial.early = false);
        self.keep(|trial| trial.receive_credit = 64 << 20);
        self.keep(|trial| trial.send_buffer = 44 << 20);
        for path in 0..self.best.paths.len() {
            self.keep(|trial| trial.paths[path].loss_ppm = 0);
            self.keep(|trial| trial.paths[path].queue = 64_000);
        }
    }

    /// Fewer bytes and datagrams, sooner.
    fn values(&mut self) {
        for number in 0..self.best.operations.len() {
            while self.keep(|trial| match &mut trial.operations[number].act {
                Act::Write { bytes, .. } => *bytes /= 2,
                Act::Datagrams { count, .. } => *count /= 2,
                _ => {}
            }) {}
            while self.keep(|trial| trial.operations[number].at_ms /= 2) {}
        }
    }
}

/// Removes a path and its operations.
fn leave_out(trial: &mut Trial, path: usize) {
    trial.paths.remove(path);
    trial.operations.retain_mut(|operation| match operation.act.path_mut() {
        Some(of) if usize::from(*of) == path => false,
        Some(of) => {
            *of -= u8::from(usize::from(*of) > path);
            true
        }
        None => true,
    });
}
