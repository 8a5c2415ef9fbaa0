//! Opens a session for a client that has proved the key, if need be in place of another one ([`super::tenure`]).

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::mpsc;
use tokio::time::{Instant, timeout_at};
use tributary_proto::handshakes::accept;
use tributary_proto::{AMPLE, Session as Machine, Side};

use super::tenure::{Newcomer, Reason, Tenant, Verdict, judge};
use super::{Entry, Registration, Registry, refusal_of, refuse};
use crate::budget::Use;
use crate::clients::Client;
use crate::driver::Driver;
use crate::handshake::{Channel, HandshakeError, random};
use crate::hello::{Answer, Auth, HELLO_LENGTH, Hello, Refusal, Reply, SessionSecret, SessionTag};
use crate::identity::PublicKey;
use crate::places::Source;
use crate::session::Session;
use crate::shared::{CODE_REPLACED, Command, Shared};

/// Time for a session that is ended to free its place, and for one that has lost its last subflow to be noticed.
const PATIENCE: Duration = Duration::from_millis(500);
/// Interval at which a client that waits for a place is judged again, if no place is freed before.
const LOOK: Duration = Duration::from_millis(50);

/// A fresh session and the messages to its driver.
type Fresh = (Arc<Shared>, mpsc::UnboundedReceiver<Command>);

/// What a client asks for when it opens a session.
#[derive(Clone)]
struct Request {
    tag: SessionTag,
    secret: SessionSecret,
    hello: Hello,
    owner: Source,
    /// The client's entry in the list, unless all clients have the same key.
    client: Option<Arc<Client>>,
}

impl Request {
    fn newcomer(&self) -> Newcomer {
        let most = self.client.as_ref().and_then(|client| client.sessions);
        Newcomer { owner: self.owner, most: most.unwrap_or(usize::MAX) }
    }
}

impl Registry {
    pub(super) async fn open(
        self: &Arc<Self>,
        channel: Channel,
        bytes: &[u8; HELLO_LENGTH],
        hello: Hello,
        from: SocketAddr,
    ) -> Result<(), HandshakeError> {
        let binding = channel.binding;
        let (key, peer) = (channel.secret.clone(), channel.peer);
        let auth = Auth::opening(&key, &binding);
        auth.verify_hello(bytes)?;
        let tag = self.instance.issue()?;
        let client = match self.client(peer) {
            Ok(client) => client,
            Err(refusal) => {
                self.wrong_keys.tell(|more| {
                    let key = peer.map(|key| key.to_string()).unwrap_or_default();
                    tracing::warn!(%from, "connection refused: no client of the list has the key {key}{more}");
                });
                let reply = auth.seal_reply(bytes, Answer::Refused(refusal), &tag);
                return refuse(channel, reply, refusal.into()).await;
            }
        };
        let secret = SessionSecret::derive(&key, &binding, &hello, &tag);
        let request = Request { tag, secret, hello, owner: Source::of_client(peer, from), client };
        let (shared, commands) = match self.place(&request).await? {
            Ok(fresh) => fresh,
            Err(refusal) => {
                let reply = auth.seal_reply(bytes, Answer::Refused(refusal), &tag);
                return refuse(channel, reply, refusal.into()).await;
            }
        };
        let registration = Registration { registry: self.clone(), tag };
        let session = Session::new(shared.clone());
        let mark = self.common.siblings.mark(self.common.congestion.as_deref());
        Driver::spawn(shared.clone(), commands, None, mark, Some(Box::new(registration)));
        let address = self.own.clone().filter(|_| hello.takes_address);
        let told = Reply { answer: Answer::Accepted, session: tag, address, obeys_caps: true };
        let reply = auth.seal_reply_with(bytes, &told);
        self.hand_over(&shared, channel, hello, &reply).await?;
        let _ = self.fresh.send((session, from)).await;
        Ok(())
    }

    /// The client's entry in the list; `None` when all clients have the same key.
    fn client(&self, peer: Option<PublicKey>) -> Result<Option<Arc<Client>>, Refusal> {
        let Some(clients) = self.common.keys.clients() else { return Ok(None) };
        peer.and_then(|peer| clients.find(&peer)).map(Some).ok_or(Refusal::UnknownClient)
    }

    /// A place for a session. If there is none, waits a moment for that of a session that has to go.
    async fn place(&self, request: &Request) -> Result<Result<Fresh, Refusal>, HandshakeError> {
        let until = Instant::now() + PATIENCE;
        loop {
            let freed = self.budget.freed().notified();
            let mut freed = std::pin::pin!(freed);
            freed.as_mut().enable();
            match self.register(request)? {
                Err(Refusal::TooManySessions | Refusal::ClientSessions) if Instant::now() < until => {}
                outcome => return Ok(outcome),
            }
            self.free_place(&request.newcomer());
            let _ = timeout_at(until.min(Instant::now() + LOOK), freed).await;
        }
    }

    /// Number of sessions that there may be.
    fn most(&self) -> usize {
        self.limits.sessions.min(self.budget.most())
    }

    /// Registers a session with its first subflow, if there is a place for it.
    fn register(&self, request: &Request) -> Result<Result<Fresh, Refusal>, HandshakeError> {
        let seed = u64::from_le_bytes(random()?);
        let machine = Machine::new(Side::Server, self.common.machine(), seed, tributary_types::Instant::ZERO);
        let mut machine = machine.expect("the configuration was checked when the listener was bound");
        let mut entries = self.entries();
        let tenants: Vec<Tenant<()>> =
            entries.values().map(|entry| Tenant { id: (), owner: entry.owner, alone_for: None }).collect();
        // The list may have changed since the hello. A change ends the sessions that are registered before it.
        if let Err(refusal) = self.client(request.client.as_ref().map(|client| client.key)) {
            return Ok(Err(refusal));
        }
        let free = self.most().saturating_sub(tenants.len());
        let full = Ok(Err(Refusal::TooManySessions));
        match judge(&tenants, free, &request.newcomer()) {
            Verdict::Free => {}
            Verdict::Instead(_, Reason::Quota) | Verdict::Refused(Reason::Quota) => {
                return Ok(Err(Refusal::ClientSessions));
            }
            _ => return full,
        }
        // Handles of a session that has ended may still hold its memory.
        let Some(mut share) = self.budget.enter() else { return full };
        machine.share_memory(AMPLE);
        if !share.advance(&Use { memory: machine.memory(), subflows: 1, ..Use::default() }) {
            machine.share_memory(0);
        }
        let (shared, commands) = Shared::new(machine, self.keep_events);
        // The subflow is part of the session from the beginning: a session without one may be replaced.
        let opened = shared.change(|state, now| {
            state.share = Some(share);
            state.tag = Some(request.tag);
            state.client.clone_from(&request.client);
            accept(now, &mut state.session, request.hello.introduction())
        });
        if let Err(error) = opened {
            return Ok(Err(refusal_of(error)));
        }
        let entry = Entry { secret: request.secret.clone(), shared: shared.clone(), owner: request.owner };
        entries.insert(request.tag, entry);
        Ok(Ok((shared, commands)))
    }

    /// Ends the session that has to give its place to a new one of this client, if there is any. While one is ending
    /// already, no further one is ended.
    fn free_place(&self, newcomer: &Newcomer) {
        let entries = self.entries();
        let sessions: Vec<(Source, Arc<Shared>)> =
            entries.values().map(|entry| (entry.owner, entry.shared.clone())).collect();
        let free = self.most().saturating_sub(sessions.len());
        drop(entries);
        let mut tenants = Vec::with_capacity(sessions.len());
        for (id, (owner, shared)) in sessions.iter().enumerate() {
            let now = shared.now();
            let state = shared.lock();
            if state.session.is_closed() {
                return;
            }
            tenants.push(Tenant { id, owner: *owner, alone_for: state.alone_for(now) });
        }
        // If a place is free but its memory is not, a session has to go, too.
        let (id, reason) = match judge(&tenants, free, newcomer) {
            Verdict::Instead(id, reason) => (id, reason),
            Verdict::Free => match judge(&tenants, 0, newcomer) {
                Verdict::Instead(id, reason) => (id, reason),
                _ => return,
            },
            Verdict::Refused(_) => return,
        };
        let (owner, shared) = &sessions[id];
        let alone_for = tenants[id].alone_for.unwrap_or_default();
        let why = match reason {
            Reason::Full => "all places for sessions are taken (see --memory)",
            Reason::Share => "its client has its share of the places for sessions",
            Reason::Quota => "its client has as many sessions as the list of clients allows",
        };
        let name = shared.change(|state, now| {
            // It may have got a subflow since.
            state.alone_for(now)?;
            state.give_up(CODE_REPLACED, "the server gave its place to another session");
            state.name()
        });
        if let Some(name) = name {
            self.replaced.tell(|more| {
                tracing::warn!(
                    "session {name} of {} is ended for a new one: no subflow for {alone_for:.1?}, and {why}{more}",
                    owner
                );
            });
        }
    }
}
