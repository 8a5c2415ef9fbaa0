//! The flows of a client end, by source.

use std::collections::BTreeMap;
use std::fmt::Display;
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::Duration;

use tokio::task::AbortHandle;
use tributary_proto::wire::Ecn;

use super::super::relay;
use super::{BATCH, Used};
use crate::flow::{Datagram, Flow, FlowConfig, Form, SendDatagramError};
use crate::rate_limited::RateLimited;
use crate::session::Session;
use crate::stream::StreamError;

/// A full table gives the place of a flow that was not used for this time to a new one.
const SPARE: Duration = Duration::from_secs(10);
/// The head of a flow is sent even after an outage of this length.
const HEAD: Duration = Duration::from_secs(60);

/// What goes back to a source.
pub(super) trait Answers<K>: Send + Sync + 'static {
    /// Datagrams that came back.
    fn datagrams(&self, source: &K, datagrams: &[Datagram]);

    /// The server refused the flow, with a code of `docs/wire-proxy.md`. Called for every attempt to send on it.
    fn refused(&self, source: &K, code: u32) {
        let _ = (source, code);
    }
}

/// How a flow begins.
pub(super) struct Opening {
    /// Its first datagram.
    pub head: Vec<u8>,
    /// How the others are sent.
    pub config: FlowConfig,
}

/// The flows of many sources. A flood of new sources is bounded: when the table is full and no flow is idle, the new ones
/// are dropped, and those that are open go on.
pub(super) struct FlowTable<K> {
    flows: Mutex<BTreeMap<K, Entry>>,
    most: usize,
    answers: Box<dyn Answers<K>>,
    refused: RateLimited,
}

struct Entry {
    flow: Arc<Flow>,
    used: Arc<Used>,
    task: AbortHandle,
}

impl Drop for Entry {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl<K: Clone + Ord + Display + Send + 'static> FlowTable<K> {
    /// A table of at most `most` flows.
    pub(super) fn new(most: usize, answers: impl Answers<K>) -> Arc<Self> {
        Arc::new(Self {
            flows: Mutex::default(),
            most,
            answers: Box::new(answers),
            refused: RateLimited::default(),
        })
    }

    /// Sends datagrams of a source, each with its ECN codepoint. Opens a flow of `session` if the source has none, or if that has ended with its session. Returns how
    /// many were not dropped.
    pub(super) fn send<'a>(
        self: &Arc<Self>,
        session: &Session,
        (source, opening): (&K, impl FnOnce() -> Opening),
        datagrams: impl Iterator<Item = (&'a [u8], u8)> + Clone,
    ) -> usize {
        let mut flows = self.lock();
        let all = datagrams.map(|(datagram, ecn)| (datagram, Ecn::from_bits(ecn)));
        if let Some(entry) = flows.get(source) {
            match entry.flow.send_datagrams(all.clone()) {
                Ok(queued) => {
                    entry.used.now();
                    return queued;
                }
                // The server does not take it: the source is dropped when it sends again after a while.
                Err(SendDatagramError::Stopped(code)) => {
                    self.refuse(source, code);
                    return 0;
                }
                Err(_) => drop(flows.remove(source)),
            }
        }
        if flows.len() >= self.most && !Self::free_place(&mut flows) {
            return 0;
        }
        let Some(flow) = open(session, &opening()) else { return 0 };
        let queued = flow.send_datagrams(all).unwrap_or(0);
        let used = Arc::new(Used::new());
        let task = receive(Arc::downgrade(self), source.clone(), (flow.clone(), used.clone()));
        let task = tokio::spawn(task).abort_handle();
        flows.insert(source.clone(), Entry { flow, used, task });
        queued
    }

    fn refuse(&self, source: &K, code: u32) {
        // Nothing listens there: no fault of either end.
        if code != relay::CODE_REFUSED {
            let why = relay::meaning(code).unwrap_or("the server ended the flow");
            self.refused.tell(|more| tracing::warn!("datagrams of {source} refused: {why}{more}"));
        }
        self.answers.refused(source, code);
    }

    /// Ends the flow that has been idle for the longest time, if it was for [`SPARE`].
    fn free_place(flows: &mut BTreeMap<K, Entry>) -> bool {
        let oldest = flows.iter().min_by_key(|(_, entry)| entry.used.at());
        let source =
            oldest.filter(|(_, entry)| entry.used.at().elapsed() >= SPARE).map(|(source, _)| source.clone());
        source.and_then(|source| flows.remove(&source)).is_some()
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, BTreeMap<K, Entry>> {
        self.flows.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Opens a flow and sends its head. `None` if the session has ended or has its limit of streams and flows.
fn open(session: &Session, Opening { head, config }: &Opening) -> Option<Arc<Flow>> {
    let first = FlowConfig { form: Some(Form::InOrder), lifetime: Some(HEAD), ..*config };
    let flow = session.try_open_flow(first)?;
    flow.send_datagram(head).ok()?;
    flow.configure(*config);
    Some(Arc::new(flow))
}

/// Passes on what comes back on a flow, until its end or until it is idle.
async fn receive<K: Clone + Ord + Display + Send + 'static>(
    table: Weak<FlowTable<K>>,
    source: K,
    (flow, used): (Arc<Flow>, Arc<Used>),
) {
    let mut batch = Vec::new();
    loop {
        let received = tokio::select! {
            received = flow.recv_datagrams(&mut batch, BATCH) => received,
            () = used.idle() => break,
        };
        match received {
            Ok(1..) => {}
            Err(StreamError::Abandoned(code)) => {
                let Some(table) = table.upgrade() else { return };
                table.refuse(&source, code);
                drop(table);
                // Something may listen there later. Every other refusal stays until it is idle, so that its source does not open
                // another flow with each datagram.
                if code != relay::CODE_REFUSED {
                    used.idle().await;
                }
                break;
            }
            _ => break,
        }
        let Some(table) = table.upgrade() else { return };
        used.now();
        table.answers.datagrams(&source, &batch);
        batch.clear();
    }
    if let Some(table) = table.upgrade() {
        let mut flows = table.lock();
        if flows.get(&source).is_some_and(|entry| Arc::ptr_eq(&entry.flow, &flow)) {
            flows.remove(&source);
        }
    }
}
