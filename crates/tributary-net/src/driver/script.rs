//! The real driver of a server, fed from a script instead of from sockets. What it queues is taken before it is written. Its
//! subflows have sockets that carry nothing; only the kernel's answers are missing.

use std::io;
use std::sync::Arc;

use bytes::Bytes;
use tokio::net::{TcpListener, TcpStream};
use tributary_proto::{Event, Session, SubflowInfo, Transmit};
use tributary_types::{Instant, PathId, SubflowId};

use super::{Driver, Slice};
use crate::handshake::{Channel, Established};
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
    /// A driver for a server's session.
    ///
    /// # Errors
    /// Loopback gives no socket.
    pub async fn new(session: Session) -> io::Result<Self> {
        let listener = TcpListener::bind("127.0.0.1:0").await?;
        let (shared, commands) = Shared::new(session, false);
        let driver = Driver::new(shared.clone(), commands, None, None, None);
        Ok(Self { shared, driver, listener, peers: Vec::new() })
    }

    /// What an application does with the session.
    pub fn act<T>(&mut self, act: impl FnOnce(&mut Session) -> T) -> T {
        act(&mut self.shared.lock().session)
    }

    /// A connection becomes a subflow.
    ///
    /// # Errors
    /// Loopback gives no connection.
    pub async fn open(&mut self, now: Instant, subflow: SubflowId, path: PathId) -> io::Result<()> {
        let (stream, peer) =
            tokio::try_join!(TcpStream::connect(self.listener.local_addr()?), self.listener.accept())?;
        self.peers.push(peer.0);
        let opened = self.act(|session| session.handle_subflow_open(now, subflow, path));
        opened.map_err(io::Error::other)?;
        let binding = Binding { mode: Mode::Plaintext, bytes: [0; BINDING_LENGTH] };
        let secret = Key::from_bytes([0; 32]);
        let channel = Channel { stream, security: None, binding, secret, peer: None };
        let established = Box::new(Established { path, subflow, channel, reply: None });
        self.driver.gathered.commands.push(Command::Opened(established));
        Ok(())
    }

    /// Bytes arrive.
    pub fn input(&mut self, subflow: SubflowId, bytes: Bytes) {
        self.driver.gathered.inputs.push_back((subflow, bytes, true));
    }

    /// The connection of a subflow ends.
    pub fn end(&mut self, subflow: SubflowId) {
        self.driver.gathered.ended.push((subflow, "the script ends it".to_owned()));
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
        let closed = self.driver.actions.iter().filter_map(closes).collect();
        self.driver.act();
        (queued, closed)
    }
}
