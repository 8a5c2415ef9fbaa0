//! The service manager (systemd) that started the program: the sockets that it passed, and what it is told (`Type=notify`).
//!
//! Without one nothing of this happens. Sources: sd_listen_fds(3), sd_notify(3).

use anyhow::Result;
use sd_notify::NotifyState;
use std::net::SocketAddr;
use tributary_net::passed::{PassedSockets, Port};

/// The sockets that the service manager passed for these ports and for the metrics. Call it before other threads are started.
///
/// # Errors
/// A descriptor is not such a socket; the error has the way out.
pub(crate) fn passed(ports: Vec<Port>, metrics: Option<SocketAddr>) -> Result<PassedSockets> {
    let wanted: Vec<Port> = ports.into_iter().chain(metrics.map(Port::Tcp)).collect();
    Ok(PassedSockets::from_environment(&wanted)?)
}

/// The program listens, and its status can be asked for.
pub(crate) fn ready() {
    tell(&[NotifyState::Ready]);
}

/// The program reads its settings again, until it is [`ready`].
pub(crate) fn reloading() {
    // `Type=notify-reload` needs the time.
    match NotifyState::monotonic_usec_now() {
        Ok(now) => tell(&[NotifyState::Reloading, now]),
        Err(error) => tracing::warn!("cannot tell the service manager of a reload: {error}"),
    }
}

/// The program takes no new connections and ends when the open ones have ended.
pub(crate) fn stopping() {
    tell(&[NotifyState::Stopping]);
}

fn tell(states: &[NotifyState<'_>]) {
    if let Err(error) = sd_notify::notify(states) {
        tracing::warn!("cannot tell the service manager its state (NOTIFY_SOCKET): {error}");
    }
}
