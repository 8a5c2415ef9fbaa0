//! What every long-running program has beside its work: its status on local sockets, metrics, and a line on the terminal.
//!
//! Not here: what the programs know about themselves, and `tributary status`, which asks them.

pub(crate) mod ending;
pub(crate) mod fields;
pub(crate) mod log;
pub(crate) mod manager;
pub(crate) mod metrics;
pub(crate) mod qlog;
pub(crate) mod reload;
pub(crate) mod rpc;
pub(crate) mod sockets;
pub(crate) mod table;

mod places;

use anyhow::Result;
use clap::Args;
use ending::Ending;
use metrics::{Endpoint, MetricsArguments};
use reload::Reload;
use rpc::{Fault, Methods, NoMethods};
use serde_json::Value;
use std::fmt::Display;
use std::io::{self, IsTerminal};
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};
use tributary_net::passed::PassedSockets;
use tributary_net::proxy::Watch;

/// Time between two lines of the live view.
const REFRESH: Duration = Duration::from_secs(1);

/// Arguments of every long-running program.
#[derive(Clone, Debug, Default, Args)]
pub(crate) struct ServiceArguments {
    #[command(flatten)]
    metrics: MetricsArguments,
    /// Form of the log on standard error: lines for people, or one JSON object a line
    #[arg(long, value_name = "FORMAT", value_enum, default_value = "text")]
    pub(crate) log_format: log::Format,
}

impl ServiceArguments {
    /// Address of the metrics, for the privileges that its port may need.
    pub(crate) fn metrics(&self) -> Option<SocketAddr> {
        self.metrics.metrics
    }

    /// Checks what can be checked before the program starts.
    ///
    /// # Errors
    /// Other machines reach the address of the metrics.
    pub(crate) fn check(&self) -> Result<()> {
        self.metrics.check().map(drop)
    }

    /// Listens for scrapes, before privileges are given up.
    ///
    /// # Errors
    /// The address of the metrics is in use, or other machines reach it.
    pub(crate) fn begin(&self) -> Result<Service> {
        self.begin_with(&PassedSockets::default())
    }

    /// The same for a program to which the service manager may have passed sockets.
    ///
    /// # Errors
    /// As [`Self::begin`].
    pub(crate) fn begin_with(&self, passed: &PassedSockets) -> Result<Service> {
        Ok(Service { metrics: self.metrics.bind(passed)? })
    }
}

/// A program's sockets that are not its work.
#[derive(Debug, Default)]
pub(crate) struct Service {
    metrics: Option<Endpoint>,
}

/// How a running program can be changed from outside.
pub(crate) struct Control {
    /// Its end, if it can be asked to end.
    pub(crate) ending: Option<Ending>,
    /// Its settings file, if it has one.
    pub(crate) reload: Option<Reload>,
    /// Its own methods.
    pub(crate) methods: Box<dyn Methods>,
}

impl Control {
    /// A program that can be asked to end, and whose settings file can be read again.
    pub(crate) fn new(ending: &Ending, reload: Option<Reload>) -> Self {
        Self { ending: Some(ending.clone()), reload, methods: Box::new(NoMethods) }
    }

    /// A program that ends by itself.
    pub(crate) fn none() -> Self {
        Self { ending: None, reload: None, methods: Box::new(NoMethods) }
    }
}

impl Methods for Control {
    fn call(&self, method: &str, params: &Value) -> Option<Result<Value, Fault>> {
        match (method, &self.ending, &self.reload) {
            ("drain", Some(ending), _) => {
                ending.request();
                Some(Ok(Value::Null))
            }
            ("reload", _, Some(reload)) => Some(reload.reload().map_err(|error| Fault::refused(&error))),
            _ => self.methods.call(method, params),
        }
    }
}

/// Shows a status until dropped.
#[derive(Debug, Default)]
pub(crate) struct Shown {
    sockets: Vec<PathBuf>,
    tasks: tokio::task::JoinSet<()>,
}

impl Drop for Shown {
    fn drop(&mut self) {
        self.tasks.abort_all();
        for socket in &self.sockets {
            let _ = std::fs::remove_file(socket);
        }
        log::clear_line();
    }
}

impl Service {
    /// Shows the state of a proxy, on a terminal as a line, too.
    pub(crate) fn show_proxy(
        self,
        role: &'static str,
        listening: &[impl Display],
        control: Control,
        watch: Watch,
    ) -> Shown {
        let seen = watch.clone();
        let describe = move || serde_json::to_value(seen.snapshot()).unwrap_or_default();
        let mut shown = self.show(role, listening, control, describe);
        if io::stderr().is_terminal() {
            shown.tasks.spawn(live(watch));
        }
        shown
    }

    /// Shows the state of a program, the object that `describe` returns, and tells the service manager that the program is ready. If
    /// no socket can be opened, it warns.
    pub(crate) fn show(
        self,
        role: &'static str,
        listening: &[impl Display],
        control: Control,
        describe: impl Fn() -> Value + Send + Sync + 'static,
    ) -> Shown {
        let since = (Instant::now(), SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default());
        let listening: Vec<String> = listening.iter().map(ToString::to_string).collect();
        let ending = control.ending.clone().unwrap_or_default();
        let whole: metrics::Describe = Arc::new(move || {
            let mut snapshot = describe();
            snapshot["draining"] = ending.has_begun().into();
            snapshot["role"] = role.into();
            snapshot["pid"] = std::process::id().into();
            snapshot["started"] = since.1.as_secs_f64().into();
            snapshot["uptime_s"] = since.0.elapsed().as_secs_f64().into();
            snapshot["listening"] = listening.clone().into();
            snapshot
        });
        let control: Arc<dyn Methods> = Arc::new(control);
        let mut shown = Shown::default();
        let mut errors = Vec::new();
        for place in places::places() {
            match sockets::listen(&place, role) {
                Ok((path, listener)) => {
                    shown.sockets.push(path);
                    shown.tasks.spawn(rpc::serve(listener, whole.clone(), control.clone()));
                }
                Err(error) => errors.push(format!("{error:#}")),
            }
        }
        if shown.sockets.is_empty() {
            tracing::warn!("`tributary status` cannot show this program: {}", errors.join("; "));
        }
        if let Some(metrics) = self.metrics {
            shown.tasks.spawn(metrics.serve(role, whole));
        }
        manager::ready();
        shown
    }
}

/// What a player is doing, for its status.
#[derive(Clone, Debug, Default)]
pub(crate) struct Doing(Arc<Mutex<Done>>);

#[derive(Debug, Default)]
struct Done {
    share: f64,
    text: String,
    /// Further fields of the status.
    also: serde_json::Map<String, Value>,
}

impl Doing {
    /// `share` of all work is done, 0 to 1; `text` is the present step.
    pub(crate) fn at(&self, share: f64, text: &str) {
        let mut done = self.lock();
        (done.share, done.text) = (share, text.to_owned());
    }

    /// Shows this object's fields, too.
    pub(crate) fn also(&self, fields: Value) {
        if let Value::Object(fields) = fields {
            self.lock().also.extend(fields);
        }
    }

    fn lock(&self) -> MutexGuard<'_, Done> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Shows it, with the server and the paths to it.
    pub(crate) fn show(&self, service: Service, role: &'static str, server: Value) -> Shown {
        let doing = self.clone();
        service.show(role, &[] as &[String], Control::none(), move || {
            let done = doing.lock();
            let mut status = done.also.clone();
            for (name, value) in [
                ("share", done.share.into()),
                ("doing", done.text.as_str().into()),
                ("server", server.clone()),
            ] {
                status.insert(name.to_owned(), value);
            }
            status.into()
        })
    }
}

async fn live(watch: Watch) {
    loop {
        if let Ok(snapshot) = serde_json::to_value(watch.snapshot()) {
            log::show_line(table::summary(&snapshot));
        }
        tokio::time::sleep(REFRESH).await;
    }
}
