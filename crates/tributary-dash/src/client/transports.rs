//! The transport of a playback: the one in use, the one before it while a handshake goes on, and the engine that chooses.
//!
//! Not here: the requests, and what continues after a move.

use tributary_player::engine::Conditions;

use super::steer::{EnginePath, Steer, Switch};
use super::{ClientError, LogEvent, TransportChoice, TransportPaths};
use crate::fetch::HttpConnection;

/// What has changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum TransportChange {
    /// Not the transport; its set of paths may have.
    Stayed,
    /// Requests go over another connection from now on.
    Moved,
    /// The connection in use is the only one again.
    Settled,
}

/// The transports of one playback.
pub(crate) struct Transports {
    connection: HttpConnection,
    /// The previous connection after a move, kept until the handshake of `connection` has finished.
    before: Option<HttpConnection>,
    /// Names of the transports used, in order.
    names: Vec<String>,
    steer: Option<Steer>,
}

impl Transports {
    /// Connects the chosen transport, or the one that the engine decides for. Adds the engine's events to `log`.
    ///
    /// # Errors
    /// The transport, or TCP as the engine's last choice, cannot be connected.
    pub(crate) async fn start(choice: TransportChoice, log: &mut Vec<LogEvent>) -> Result<Self, ClientError> {
        let (steer, connection, name) = match choice {
            TransportChoice::One(transport) => {
                let TransportPaths { config, paths } = *transport;
                (None, HttpConnection::connect(&config, &paths).await?, config.name.to_string())
            }
            TransportChoice::Engine(steering) => {
                let (steer, connection, name) = Steer::start(*steering, log).await?;
                (Some(steer), connection, name)
            }
        };
        Ok(Self { connection, before: None, names: vec![name], steer })
    }

    /// The connection in use.
    pub(crate) fn connection(&self) -> &HttpConnection {
        &self.connection
    }

    /// Names of the transports used, in order.
    pub(crate) fn names(&self) -> &[String] {
        &self.names
    }

    /// The engine's paths as it saw them last; none without an engine.
    pub(crate) fn paths(&self) -> Vec<EnginePath> {
        self.steer.as_ref().map(Steer::paths).unwrap_or_default()
    }

    /// Whether the connection before the one in use is still kept.
    pub(crate) fn is_settling(&self) -> bool {
        self.before.is_some()
    }

    /// Waits for the engine's next action and carries it out; never returns without an engine.
    ///
    /// Cancellation: safe, nothing is lost.
    pub(crate) async fn next(&mut self, conditions: Conditions) -> (TransportChange, Vec<LogEvent>) {
        let Some(steer) = &mut self.steer else { return std::future::pending().await };
        let mut log = Vec::new();
        let switch = steer.next(conditions, &mut log).await;
        (self.switch(switch), log)
    }

    fn switch(&mut self, switch: Switch) -> TransportChange {
        let (change, unused) = match switch {
            Switch::Stay => (TransportChange::Stayed, None),
            Switch::Move(to, name, settled) => {
                let before = self.move_to(*to, name);
                if !settled {
                    self.before = Some(before);
                    return TransportChange::Moved;
                }
                (TransportChange::Moved, Some(before))
            }
            Switch::Settle => (TransportChange::Settled, self.before.take()),
            Switch::Back => match self.before.take() {
                Some(before) => {
                    let name = self.names.iter().rev().nth(1).cloned().unwrap_or_default();
                    (TransportChange::Moved, Some(self.move_to(before, &name)))
                }
                None => (TransportChange::Settled, None),
            },
        };
        if let Some(unused) = unused {
            tokio::spawn(async move { unused.close().await });
        }
        change
    }

    /// Continues over another connection and returns the one before.
    fn move_to(&mut self, to: HttpConnection, name: &str) -> HttpConnection {
        self.names.push(name.to_owned());
        std::mem::replace(&mut self.connection, to)
    }
}
