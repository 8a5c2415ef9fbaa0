//! Reads the network configuration when the kernel reports a change, and adds and removes a session's paths.
//!
//! Not here: deciding about the paths ([`super::Follow`]).

use std::io;
use std::sync::Arc;
use std::time::Duration;

use tokio::io::unix::AsyncFd;
use tokio::sync::watch;
use tributary_tun::{Network, NetworkChanges};
use tributary_types::{Instant, PathId};

use super::{Change, Follow};
use crate::config::PathConfig;
use crate::shared::{Command, Shared};
use crate::sockopt::readiness;

/// Minimum time between two readings, so that frequent route changes cost little.
const SPACING: Duration = Duration::from_millis(20);

/// The configured paths of a session, which may be replaced while it runs.
pub(crate) type Wanted = watch::Receiver<Vec<PathConfig>>;

/// A session's paths and the source of change notifications.
#[derive(Debug)]
pub(crate) struct Watcher {
    /// `None` while no path depends on the network's configuration.
    changes: Option<AsyncFd<NetworkChanges>>,
    follow: Follow,
}

/// Why the watcher looks again.
enum Cause {
    Ended,
    Timer,
    Network(io::Result<bool>),
    /// Other paths are configured; `false`: there will be no others.
    Wanted(bool),
}

impl Watcher {
    /// The present paths, and a watcher of their changes.
    pub(crate) fn begin(wanted: &[PathConfig]) -> io::Result<(Vec<(PathId, PathConfig)>, Self)> {
        let follow = Follow::new(wanted.to_vec(), Instant::ZERO);
        let mut watcher = Self { changes: None, follow };
        let network = watcher.read(wanted)?;
        watcher.follow.handle_network(Instant::ZERO, &network);
        Ok((added(&mut watcher.follow), watcher))
    }

    /// The network's configuration, if these paths depend on it. From then on its changes are noticed.
    fn read(&mut self, wanted: &[PathConfig]) -> io::Result<Network> {
        // The subscription comes first: a change in between is read twice instead of being missed.
        if self.changes.is_none() {
            if !Follow::is_needed(wanted) {
                return Ok(Network::default());
            }
            self.changes = Some(readiness::register(NetworkChanges::subscribe()?)?);
        }
        Network::read()
    }

    /// Waits for a reason to look again.
    async fn cause(&self, due: Option<tokio::time::Instant>, wanted: &mut Option<Wanted>) -> Cause {
        let timer = async {
            match due {
                Some(at) => tokio::time::sleep_until(at).await,
                None => std::future::pending().await,
            }
        };
        let network = async {
            match &self.changes {
                Some(changes) => changed(changes).await,
                None => std::future::pending().await,
            }
        };
        let others = async {
            match wanted {
                Some(wanted) => wanted.changed().await.is_ok(),
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            () = timer => Cause::Timer,
            changed = network => Cause::Network(changed),
            more = others => Cause::Wanted(more),
        }
    }

    /// Follows the network, and the configured paths if they may be replaced, until the session has ended.
    pub(crate) async fn run(mut self, shared: Arc<Shared>, mut wanted: Option<Wanted>) {
        let ended = shared.lock().ended.clone();
        let mut ended = std::pin::pin!(ended.notified());
        ended.as_mut().enable();
        while shared.lock().closed.is_none() {
            let due = self.follow.poll_timeout().map(|at| shared.timer(at));
            let cause = tokio::select! {
                () = ended.as_mut() => Cause::Ended,
                cause = self.cause(due, &mut wanted) => cause,
            };
            let read = match cause {
                Cause::Ended => return,
                Cause::Timer | Cause::Network(Ok(false)) => Ok(None),
                Cause::Network(Ok(true)) => Network::read().map(Some),
                Cause::Network(Err(error)) => Err(error),
                Cause::Wanted(true) => {
                    let paths = wanted.as_mut().expect("it has changed").borrow_and_update().clone();
                    self.follow.set_wanted(paths.clone());
                    self.read(&paths).map(Some)
                }
                Cause::Wanted(false) => {
                    wanted = None;
                    continue;
                }
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
                    Change::Cap(path, cap) => Command::SetCap(path, cap),
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
        Change::Remove(..) | Change::Cap(..) => None,
    };
    std::iter::from_fn(|| follow.poll_change()).filter_map(add).collect()
}
