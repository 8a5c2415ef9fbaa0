//! Client: makes the connections that the session asks for.
//!
//! Every attempt dials and protects its connection at once; the hello waits until it is known whether it
//! opens the session or joins it, so that exactly one connection opens it, whichever path is first.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use rustls::ClientConfig;
use tokio::sync::{Mutex, mpsc};
use tokio::task::AbortHandle;
use tributary_types::{PathId, SubflowId};

use crate::config::{Common, PathConfig};
use crate::handshake::{Credentials, Established, HandshakeError, Tls, dial, introduce, protect};
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
            let attempt = attempt(&config, &common, &tls, &credentials, (path, subflow));
            let outcome = tokio::time::timeout(ATTEMPT, attempt).await;
            let command = match outcome.unwrap_or(Err(HandshakeError::Timeout(ATTEMPT))) {
                Ok(established) => Command::Opened(Box::new(established)),
                Err(error) => Command::Failed(subflow, error),
            };
            let _ = commands.send(command);
        })
        .abort_handle()
    }
}

async fn attempt(
    config: &PathConfig,
    common: &Common,
    tls: &Tls<ClientConfig>,
    credentials: &Mutex<Option<Credentials>>,
    (path, subflow): (PathId, SubflowId),
) -> Result<Established, HandshakeError> {
    let stream = dial(config, common).await?;
    let mut channel = protect(stream, tls).await?;
    // Held over the exchange only while there is no session yet.
    let mut guard = credentials.lock().await;
    match guard.clone() {
        Some(known) => {
            drop(guard);
            introduce(&mut channel, common, Some(&known), (path, subflow)).await?;
        }
        None => *guard = Some(introduce(&mut channel, common, None, (path, subflow)).await?),
    }
    Ok(Established { path, subflow, channel })
}
