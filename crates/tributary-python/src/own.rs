//! Schedulers written in Python in sweeps and comparisons: one class for all runs of a plan whose transport is `mptcp/own` or
//! `session/own`. Not here: what such a class may do ([`crate::scheduler`]).

use crate::failure::Failure;
use crate::options::{Argument, Options};
use crate::scheduler;
use pyo3::prelude::*;
use pyo3::types::PyTuple;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use tributary_lab::reproduce::own::{OwnScheduler, Watch};
use tributary_sim::own::Own;

/// A class of schedulers, and what its runs have come to.
#[derive(Debug)]
pub(crate) struct Class {
    factory: Py<PyAny>,
    name: String,
    identity: String,
    /// The first failure of all runs; none is begun after it.
    failure: Failure,
    stop: Arc<AtomicBool>,
    /// Threads that make a run with it now, by Python's identifiers.
    threads: Mutex<Vec<u64>>,
}

impl Class {
    /// The argument `scheduler`: the class, its name, and the text that stands for its source.
    pub fn of(options: &Options<'_>, stop: &Arc<AtomicBool>) -> PyResult<Option<Self>> {
        const WANTED: &str = "the class, its name and its identity";
        let Some(value) = options.any("scheduler")? else { return Ok(None) };
        let argument = Argument("scheduler", &value);
        let parts = value.cast::<PyTuple>().map_err(|_| argument.wrong_type(WANTED))?;
        let (factory, name, identity): (Bound<'_, PyAny>, String, String) =
            parts.extract().map_err(|_| argument.wrong_type(WANTED))?;
        Ok(Some(Self {
            factory: factory.unbind(),
            name,
            identity,
            failure: Failure::default(),
            stop: stop.clone(),
            threads: Mutex::default(),
        }))
    }

    /// What the first run that failed raised, with its traceback and a note of the run.
    pub fn failed(&self) -> Option<PyErr> {
        self.failure.take()
    }

    /// Raises `KeyboardInterrupt` in the runs, because a scheduler may never return.
    pub fn interrupt(&self, py: Python<'_>) -> PyResult<()> {
        let raise = py.import("ctypes")?.getattr("pythonapi")?.getattr("PyThreadState_SetAsyncExc")?;
        let kinds = py.import("ctypes")?;
        let interrupt = py.import("builtins")?.getattr("KeyboardInterrupt")?;
        for thread in self.threads.lock().unwrap_or_else(PoisonError::into_inner).iter() {
            let thread = kinds.getattr("c_ulong")?.call1((*thread,))?;
            raise.call1((thread, kinds.getattr("py_object")?.call1((&interrupt,))?))?;
        }
        Ok(())
    }

    fn enter(&self, py: Python<'_>) -> PyResult<u64> {
        let thread = py.import("threading")?.call_method0("get_ident")?.extract()?;
        self.threads.lock().unwrap_or_else(PoisonError::into_inner).push(thread);
        Ok(thread)
    }

    fn leave(&self, thread: u64) {
        self.threads.lock().unwrap_or_else(PoisonError::into_inner).retain(|other| *other != thread);
    }
}

impl OwnScheduler for Class {
    fn name(&self) -> &str {
        &self.name
    }

    fn identity(&self) -> &str {
        &self.identity
    }

    fn around(&self, title: &str, run: &mut (dyn FnMut(&Own, Watch<'_>) + Send)) -> Result<(), String> {
        // Python's state of this thread lives as long as the run, and not for one call of the scheduler only.
        Python::attach(|py| {
            let failure = Failure::default();
            let thread = self.enter(py).map_err(|error| error.to_string())?;
            let own = Own {
                scheduler: Some(scheduler::maker(self.factory.clone_ref(py), failure.clone())),
                ..Own::default()
            };
            py.detach(|| run(&own, &mut |_| failure.watch()));
            self.leave(thread);
            let Some(error) = failure.take() else { return Ok(()) };
            let text = error.to_string();
            self.failure.keep(Failure::told(error, py, title));
            self.stop.store(true, Ordering::Relaxed);
            Err(text)
        })
    }
}
