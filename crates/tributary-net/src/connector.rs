//! Client: makes the connections that the session asks for.
//!
//! Every attempt dials and protects its connection at once; the hello waits until it is known whether it
//! opens the session or joins it, so that exactly one connection opens it, whichever path is first.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use rustls::ClientConfig;
use tokio::sync::{Mutex, mpsc, oneshot};
use tokio::task::AbortHandle;
use tributary_types::{PathId, SubflowId};

use crate::config::{Common, PathConfig};
use crate::handshake::{Credentials, Established, HandshakeError, Tls, dial, join, open_session, protect};
use crate::shared::Command;

/// Time an attempt has in all.
const ATTEMPT: Duration = Duration::from_secs(3);

pub(crate) struct Connector {
    paths: BTreeMap<PathId, PathConfig>,
    common: Arc<Common>,
    tls: Tls<ClientConfig>,
    credentials: Arc<Mutex<Option<Credentials>>>,
}

impl Connector {
    pub(crate) fn new(paths: &[PathConfig], common: Common, tls: Tls<ClientConfig>) -> Self {
        let paths = (0..).map(PathId).zip(paths.iter().cloned()).collect();
        Self { paths, common: Arc::new(common), tls, credentials: Arc::default() }
    }

    pub(crate) fn add_path(&mut self, path: PathId, config: PathConfig) {
        self.paths.insert(path, config);
    }

    /// Starts an attempt; its outcome goes to `commands`.
    pub(crate) fn start(
        &self,
        path: PathId,
        subflow: SubflowId,
        commands: mpsc::UnboundedSender<Command>,
    ) -> AbortHandle {
        let Some(config) = self.paths.get(&path).cloned() else {
            return tokio::spawn(async {}).abort_handle();
        };
        let (common, tls, credentials) = (self.common.clone(), self.tls.clone(), self.credentials.clone());
        tokio::spawn(async move {
            let attempt =
                Attempt { common: &common, tls: &tls, credentials: &credentials, commands: &commands };
            let outcome = tokio::time::timeout(ATTEMPT, attempt.run(&config, (path, subflow))).await;
            if let Err(error) = outcome.unwrap_or(Err(HandshakeError::Timeout(ATTEMPT))) {
                let _ = commands.send(Command::Failed(subflow, error));
            }
        })
        .abort_handle()
    }
}

struct Attempt<'a> {
    common: &'a Common,
    tls: &'a Tls<ClientConfig>,
    credentials: &'a Mutex<Option<Credentials>>,
    commands: &'a mpsc::UnboundedSender<Command>,
}

impl Attempt<'_> {
    async fn run(
        &self,
        config: &PathConfig,
        (path, subflow): (PathId, SubflowId),
    ) -> Result<(), HandshakeError> {
        let stream = dial(config, self.common).await?;
        let mut channel = protect(stream, self.tls).await?;
        // Held until the reply only while there is no session yet.
        let mut guard = self.credentials.lock().await;
        if let Some(known) = guard.clone() {
            drop(guard);
            join(&mut channel, self.common, &known, (path, subflow)).await?;
            self.opened(Established { path, subflow, channel, reply: None });
            return Ok(());
        }
        let (tell, told) = oneshot::channel();
        let reply = open_session(&mut channel, self.common, (path, subflow), tell).await?;
        // The driver may send behind the hello, and reads the reply before anything else.
        self.opened(Established { path, subflow, channel, reply: Some(reply) });
        *guard = told.await.ok();
        Ok(())
    }

    fn opened(&self, established: Established) {
        let _ = self.commands.send(Command::Opened(Box::new(established)));
    }
}
