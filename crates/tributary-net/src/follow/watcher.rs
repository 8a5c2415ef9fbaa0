//! Reads the network configuration when the kernel reports a change, and adds and removes a session's paths.
//!
//! Not here: deciding about the paths ([`super::Follow`]).

use std::io;
use std::sync::Arc;
use std::time::Duration;

use tokio::io::unix::AsyncFd;
use tributary_tun::{Network, NetworkChanges};
use tributary_types::{Instant, PathId};

use super::{Change, Follow};
use crate::config::PathConfig;
use crate::shared::{Command, Shared};
use crate::sockopt::readiness;

/// Minimum time between two readings, so that frequent route changes cost little.
const SPACING: Duration = Duration::from_millis(20);

/// A session's paths and the source of change notifications.
#[derive(Debug)]
pub(crate) struct Watcher {
    changes: AsyncFd<NetworkChanges>,
    follow: Follow,
}

impl Watcher {
    /// The present paths, and a watcher of their changes.
    pub(crate) fn begin(wanted: &[PathConfig]) -> io::Result<(Vec<(PathId, PathConfig)>, Self)> {
        // The subscription comes first: a change in between is read twice instead of being missed.
        let changes = readiness::register(NetworkChanges::subscribe()?)?;
        let mut follow = Follow::new(wanted.to_vec(), Instant::ZERO);
        follow.handle_network(Instant::ZERO, &Network::read()?);
        Ok((added(&mut follow), Self { changes, follow }))
    }

    /// Follows the network until the session has ended.
    pub(crate) async fn run(mut self, shared: Arc<Shared>) {
        let ended = shared.lock().ended.clone();
        let mut ended = std::pin::pin!(ended.notified());
        ended.as_mut().enable();
        while shared.lock().closed.is_none() {
            let due = self.follow.poll_timeout().map(|at| shared.timer(at));
            let timer = async {
                match due {
                    Some(at) => tokio::time::sleep_until(at).await,
                    None => std::future::pending().await,
                }
            };
            let changed = tokio::select! {
                () = ended.as_mut() => return,
                () = timer => Ok(false),
                changed = changed(&self.changes) => changed,
            };
            let read = match changed {
                Ok(true) => Network::read().map(Some),
                Ok(false) => Ok(None),
                Err(error) => Err(error),
            };
            let now = shared.now();
            let pause = match read {
                Ok(None) => {
                    self.follow.handle_timeout(now);
                    Duration::ZERO
                }
                Ok(Some(network)) => {
                    self.follow.handle_network(now, &network);
                    SPACING
                }
                Err(error) => {
                    tracing::warn!(
                        "the network configuration cannot be read: {error}; tried again in a second"
                    );
                    Duration::from_secs(1)
                }
            };
            while let Some(change) = self.follow.poll_change() {
                let _ = shared.commands.send(match change {
                    Change::Add(path, config) => {
                        tracing::info!("path {config} is added");
                        Command::AddPath(path, config)
                    }
                    Change::Remove(path, loss) => Command::RemovePath(path, loss.to_string()),
                });
            }
            if !pause.is_zero() {
                tokio::select! {
                    () = ended.as_mut() => return,
                    () = tokio::time::sleep(pause) => {}
                }
            }
        }
    }
}

/// Waits for notifications. Returns whether any of them is a change.
async fn changed(changes: &AsyncFd<NetworkChanges>) -> io::Result<bool> {
    let mut ready = changes.readable().await?;
    let changed = ready.get_inner().drain();
    ready.clear_ready();
    changed
}

/// The paths that a configuration read now gives, for transports whose paths do not change later.
pub(crate) fn expand(wanted: &[PathConfig]) -> io::Result<Vec<PathConfig>> {
    let mut follow = Follow::new(wanted.to_vec(), Instant::ZERO);
    follow.handle_network(Instant::ZERO, &Network::read()?);
    Ok(added(&mut follow).into_iter().map(|(_, config)| config).collect())
}

fn added(follow: &mut Follow) -> Vec<(PathId, PathConfig)> {
    let add = |change| match change {
        Change::Add(path, config) => Some((path, config)),
        Change::Remove(..) => None,
    };
    std::iter::from_fn(|| follow.poll_change()).filter_map(add).collect()
}
