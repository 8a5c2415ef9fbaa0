//! The real driver, fed from a script instead of from sockets. What it queues is taken before it is written. Its subflows have
//! sockets that carry nothing; only the kernel's answers are missing. A client's connector has no paths and dials nothing:
//! the script says how its attempts go.

use std::io;
use std::sync::Arc;

use bytes::Bytes;
use tokio::net::{TcpListener, TcpStream};
use tributary_proto::handshakes::Progress;
use tributary_proto::{Event, Session, Side, SubflowInfo, Transmit};
use tributary_types::{Instant, PathId, SubflowId};

use super::gather::Order;
use super::{Driver, Slice};
use crate::config::Common;
use crate::connector::Connector;
use crate::handshake::{Channel, Established, HandshakeError, Tls};
use crate::hello::{BINDING_LENGTH, Binding, Mode};
use crate::key::Key;
use crate::shared::{Command, Shared};

/// A driver that is given arrivals, turn by turn.
pub struct ScriptedDriver {
    shared: Arc<Shared>,
    driver: Driver,
    listener: TcpListener,
    /// The other ends of the subflows' sockets.
    peers: Vec<TcpStream>,
}

impl ScriptedDriver {
    /// A driver for a session of this side.
    ///
    /// Cancellation: dropping the future opens nothing.
    ///
    /// # Errors
    /// Loopback gives no socket.
    pub async fn new(side: Side, session: Session) -> io::Result<Self> {
        let listener = TcpListener::bind("127.0.0.1:0").await?;
        let (shared, commands) = Shared::new(session, false);
        let common = Common::new(Key::from_bytes([0; 32]));
        let connector = (side == Side::Client)
            .then(|| Connector::new(Vec::new(), common, Tls::Off, shared.commands.clone()));
        let driver = Driver::new(shared.clone(), commands, connector, None, None);
        Ok(Self { shared, driver, listener, peers: Vec::new() })
    }

    /// What an application does with the session.
    pub fn act<T>(&mut self, act: impl FnOnce(&mut Session) -> T) -> T {
        act(&mut self.shared.lock().session)
    }

    /// Server: a connection becomes a subflow.
    ///
    /// Cancellation: dropping the future opens no subflow.
    ///
    /// # Errors
    /// Loopback gives no connection.
    pub async fn open(&mut self, now: Instant, subflow: SubflowId, path: PathId) -> io::Result<()> {
        let established = self.connected(subflow, path).await?;
        let opened = self.act(|session| session.handle_subflow_open(now, subflow, path));
        opened.map_err(io::Error::other)?;
        self.driver.gathered.commands.push(Command::Opened(established));
        Ok(())
    }

    /// Client: an attempt makes progress.
    ///
    /// Cancellation: dropping the future leaves the attempt as it was.
    ///
    /// # Errors
    /// Loopback gives no connection.
    pub async fn progress(
        &mut self,
        now: Instant,
        (subflow, path): (SubflowId, PathId),
        progress: Progress,
    ) -> io::Result<()> {
        let established = match progress {
            Progress::Introduced => Some(self.connected(subflow, path).await?),
            _ => None,
        };
        let shared = self.shared.clone();
        let state = &mut shared.lock();
        let connector = self.driver.connector.as_mut().expect("a client makes attempts");
        established.into_iter().for_each(|established| connector.hold(established));
        connector.handshakes.handle(now, &mut state.session, subflow, progress);
        self.driver.connect(state, now);
        Ok(())
    }

    async fn connected(&mut self, subflow: SubflowId, path: PathId) -> io::Result<Box<Established>> {
        let (stream, peer) =
            tokio::try_join!(TcpStream::connect(self.listener.local_addr()?), self.listener.accept())?;
        self.peers.push(peer.0);
        let binding = Binding { mode: Mode::Plaintext, bytes: [0; BINDING_LENGTH] };
        let secret = Key::from_bytes([0; 32]);
        let channel = Channel { stream: stream.into(), security: None, binding, secret, peer: None };
        Ok(Box::new(Established { path, subflow, channel, reply: None }))
    }

    /// Bytes arrive.
    pub fn input(&mut self, subflow: SubflowId, bytes: Bytes) {
        self.driver.gathered.inputs.push_back((subflow, bytes, Order::Begins));
    }

    /// The connection of an attempt or a subflow ends.
    pub fn end(&mut self, subflow: SubflowId) {
        let gathered = &mut self.driver.gathered;
        match self.driver.subflows.contains_key(&subflow) {
            true => gathered.ended.push((subflow, "the script ends it".to_owned())),
            false => {
                let error = HandshakeError::Io(io::ErrorKind::ConnectionReset.into());
                gathered.commands.push(Command::Failed(subflow, error));
            }
        }
    }

    /// The state of a subflow's transport.
    pub fn info(&mut self, subflow: SubflowId, info: SubflowInfo) {
        self.driver.gathered.infos.push((subflow, info));
    }

    /// The room of a subflow.
    pub fn room(&mut self, subflow: SubflowId, room: usize) {
        self.driver.gathered.rooms.push((subflow, room));
    }

    /// One turn: what was queued on each subflow, in order, and the subflows that are closed, with a reset or without.
    pub fn turn(&mut self, now: Instant) -> (Vec<Transmit>, Vec<(SubflowId, bool)>) {
        let shared = self.shared.clone();
        self.driver.exchange(&mut shared.lock(), now, &Slice::endless());
        let queued = self.driver.subflows.values_mut().flat_map(|subflow| subflow.take_queued()).collect();
        let closes = |action: &Event| match *action {
            Event::CloseSubflow { subflow, abort } => Some((subflow, abort)),
            _ => None,
        };
        // An attempt of a script has no connection that could be closed.
        let known = |(subflow, _): &(SubflowId, bool)| self.driver.subflows.contains_key(subflow);
        let closed = self.driver.actions.iter().filter_map(closes).filter(known).collect();
        self.driver.act();
        (queued, closed)
    }
}
