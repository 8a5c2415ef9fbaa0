//! Reading a settings file again while its program runs, on SIGHUP or by the control socket.
//!
//! A file with an error changes nothing. Not here: which settings a program can change while it runs, and how.

use super::manager;
use anyhow::{Context, Result, bail};
use serde_json::{Value, json};
use std::sync::{Arc, Mutex, PoisonError};
use tokio::signal::unix::{SignalKind, signal};
use tributary_cli::settings::Document;

/// A settings file that is being run, with arguments of the type `A`.
pub(crate) struct SettingsFile<A> {
    /// The settings that the program began with.
    began: Document,
    read: fn(&Document) -> Result<(Document, A)>,
}

impl<A> SettingsFile<A> {
    /// `read` reads the file again.
    pub(crate) fn new(began: Document, read: fn(&Document) -> Result<(Document, A)>) -> Self {
        Self { began, read }
    }
}

/// Carries out new settings.
pub(crate) type Apply<A> = Box<dyn Fn(&A) -> Result<()> + Send>;

/// A program whose settings can be read again.
#[derive(Clone)]
pub(crate) struct Reload(Arc<Mutex<dyn FnMut() -> Result<Value> + Send>>);

impl Reload {
    /// `live` are the keys that `apply` carries out; others need a restart.
    pub(crate) fn new<A: 'static>(
        file: SettingsFile<A>,
        live: &'static [&'static str],
        apply: Apply<A>,
    ) -> Self {
        let SettingsFile { began, read } = file;
        let mut last = began.clone();
        let reload = move || {
            let (newer, arguments) = read(&began)?;
            let is_live = |key: &String| live.contains(&key.as_str());
            let (changed, _): (Vec<_>, Vec<_>) = last.changed(&newer).into_iter().partition(is_live);
            let (_, restart): (Vec<_>, Vec<_>) = began.changed(&newer).into_iter().partition(is_live);
            if !changed.is_empty() {
                apply(&arguments).map_err(|error| newer.locate(error))?;
            }
            last = newer;
            Ok(json!({ "file": began.file(), "changed": changed, "needs_restart": restart }))
        };
        Self(Arc::new(Mutex::new(reload)))
    }

    /// Reads the file again, carries out what can be changed, and logs what was.
    ///
    /// # Errors
    /// The file has an error. Nothing is changed then.
    pub(crate) fn reload(&self) -> Result<Value> {
        manager::reloading();
        let outcome = (*self.0.lock().unwrap_or_else(PoisonError::into_inner))();
        manager::ready();
        match &outcome {
            Ok(done) => {
                let names = |list: &Value| match list.as_array().map(Vec::as_slice) {
                    None | Some([]) => "nothing".to_owned(),
                    Some(keys) => keys.iter().filter_map(Value::as_str).collect::<Vec<_>>().join(", "),
                };
                let (changed, restart) = (names(&done["changed"]), names(&done["needs_restart"]));
                let file = done["file"].as_str().unwrap_or_default();
                tracing::info!("{file} was read again; changed: {changed}; needs a restart: {restart}");
            }
            Err(error) => tracing::error!("{error:#}; the settings that were read before stay in force"),
        }
        outcome
    }

    /// Reads the file again on every SIGHUP, until the runtime ends. Call it before privileges are given up.
    ///
    /// # Errors
    /// The signal cannot be listened for.
    pub(crate) fn follow(&self) -> Result<()> {
        let mut hangup = signal(SignalKind::hangup()).context("cannot listen for SIGHUP")?;
        let reload = self.clone();
        tokio::spawn(async move {
            while hangup.recv().await.is_some() {
                let _ = reload.reload();
            }
        });
        Ok(())
    }
}

/// Settings of which nothing can be changed while the program runs.
pub(crate) fn nothing<A>() -> Apply<A> {
    Box::new(|_| bail!("these settings need a restart"))
}
