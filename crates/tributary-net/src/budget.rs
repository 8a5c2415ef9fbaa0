//! Memory of a listener, shared by its sessions.
//!
//! Half of it is reserved: the minimum that each session needs. A session that is accepted always has this minimum.
//! The other half is the pool, for sessions that need more. The pool is shared by dynamic thresholds (Choudhury and
//! Hahne, 1998): a session may take more as long as it then has no more than what is still free. So one session alone
//! gets at most half of the pool, and each of `n` sessions that want everything gets one part in `n + 1`. While half
//! of the pool is free, a session gets the memory of an ample start at once. A quarter of the pool is reserved for
//! sessions with steady traffic. Sessions that fill what they were granted and then stop share the other three
//! quarters, so they do not slow down the steady ones. For a connection, of a subflow or to a target, what is free is
//! compared with the memory of the session's connections alone: a session that has its share in windows, which it gives
//! back only as its client sends, still opens connections. Not here: which sessions need more ([`tributary_proto::Demand`]).

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use serde::Serialize;
use tokio::sync::Notify;
use tributary_proto::{LEAST_SEND, LEAST_WINDOW, Memory};

use crate::config::Limits;
use crate::subflow::BLOCK;
use crate::tls::record::SEALED;

/// Bytes of a subflow: its receive block, the ciphertext that it holds, and records.
const SUBFLOW: u64 = (BLOCK + SEALED + (32 << 10)) as u64;

const SESSION: u64 = Limits::SESSION;

const _: () = assert!(LEAST_WINDOW + 2 * BLOCK as u64 + LEAST_SEND as u64 + 2 * SUBFLOW < SESSION);

/// Memory that a session may use.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Use {
    /// Memory of the session itself.
    pub memory: Memory,
    /// Number of its subflows' connections.
    pub subflows: usize,
    /// Proxied TCP connections to targets, one for each of its streams.
    pub connections: usize,
    /// Its traffic is steady ([`tributary_proto::Session::is_steady`]).
    pub steady: bool,
}

/// Number of receive blocks that each subflow keeps for reuse, in a session that may pin `blocks` blocks.
pub(crate) fn kept(blocks: usize) -> usize {
    blocks / 6
}

impl Use {
    /// Total bytes.
    pub fn bytes(&self) -> u64 {
        let blocks = self.memory.blocks + kept(self.memory.blocks) * self.subflows;
        self.memory.receive
            + self.memory.send
            + self.memory.records
            + (blocks * BLOCK) as u64
            + self.of_connections()
    }

    /// Bytes of subflows, and of connections to targets.
    fn of_connections(&self) -> u64 {
        self.subflows as u64 * SUBFLOW + self.connections as u64 * Limits::CONNECTION
    }

    /// Bytes beyond the reserved part of a session.
    fn extra(&self) -> u64 {
        self.bytes().saturating_sub(SESSION)
    }
}

/// The memory of all sessions of a listener.
#[derive(Debug, Default)]
pub(crate) struct Budget {
    total: AtomicU64,
    taken: Mutex<Taken>,
    refused: AtomicU64,
    gave_way: AtomicU64,
    /// Notified when a session's memory, or its place in the listener's table, is free again.
    freed: Notify,
}

#[derive(Debug, Default)]
struct Taken {
    sessions: u64,
    /// Bytes that all sessions together have taken in addition to the [`Limits::SESSION`] reserved for each.
    extra: u64,
}

/// Whether a session has a fair share of the pool.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fairness {
    Fair,
    /// The session has more than twice what is free: it should give some back.
    Above,
    /// More is taken than the pool has, and the session's records, which cannot be refused, use more than a
    /// quarter of [`Limits::SESSION`].
    Exhausted,
}

/// A session's share of the memory, given back when it is dropped.
#[derive(Debug)]
pub(crate) struct Share {
    budget: Arc<Budget>,
    extra: u64,
}

impl Budget {
    pub fn new(total: u64) -> Arc<Self> {
        Arc::new(Self { total: total.into(), ..Self::default() })
    }

    fn total(&self) -> u64 {
        self.total.load(Ordering::Relaxed)
    }

    /// Replaces the limit. What is taken stays taken.
    pub fn set_total(&self, total: u64) {
        self.total.store(total.max(Limits::LEAST_MEMORY), Ordering::Relaxed);
        self.freed.notify_waiters();
    }

    fn taken(&self) -> MutexGuard<'_, Taken> {
        self.taken.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Bytes that all sessions together may have in addition to the [`Limits::SESSION`] reserved for each.
    fn pool(&self) -> u64 {
        self.total() / 2
    }

    /// Free bytes of the pool that a session may use. One without steady traffic may use `lent` bytes of the part for the others.
    fn left(&self, taken: &Taken, steady: bool, lent: u64) -> u64 {
        let pool = if steady { self.pool() } else { self.pool() / 4 * 3 + lent };
        pool.saturating_sub(taken.extra)
    }

    /// Number of sessions whose minimum fits.
    pub fn most(&self) -> usize {
        usize::try_from(self.total().div_ceil(2) / SESSION).unwrap_or(usize::MAX)
    }

    /// Notified when a session's memory or its place may be free again.
    pub fn freed(&self) -> &Notify {
        &self.freed
    }

    /// The share of a new session; `None` when no further session fits.
    pub fn enter(self: &Arc<Self>) -> Option<Share> {
        let mut taken = self.taken();
        if taken.sessions >= self.most() as u64 {
            self.refused.fetch_add(1, Ordering::Relaxed);
            return None;
        }
        taken.sessions += 1;
        Some(Share { budget: self.clone(), extra: 0 })
    }

    /// The bytes that are taken now.
    pub fn snapshot(&self) -> MemorySnapshot {
        let taken = self.taken();
        MemorySnapshot {
            bound: self.total(),
            taken: taken.sessions * SESSION + taken.extra,
            refused: self.refused.load(Ordering::Relaxed),
            gave_way: self.gave_way.load(Ordering::Relaxed),
        }
    }
}

/// The memory of all sessions of a server.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct MemorySnapshot {
    /// Bytes that all sessions may hold together.
    pub bound: u64,
    /// Bytes that they may use now, including the part reserved for each session.
    pub taken: u64,
    /// Requests for more memory that were refused because other sessions need it, including refused sessions.
    pub refused: u64,
    /// Number of times that a session gave back half of a window because other sessions need it.
    pub gave_way: u64,
}

impl Share {
    /// Takes the memory of an ample start, as long as half of the pool stays free for sessions that show a need.
    pub fn advance(&mut self, wanted: &Use) -> bool {
        let more = wanted.extra().saturating_sub(self.extra);
        let mut taken = self.budget.taken();
        if taken.extra + more > self.budget.pool() / 2 {
            return false;
        }
        taken.extra += more;
        self.extra += more;
        true
    }

    /// Takes the additional memory for this use, if the share stays fair. [`Self::settle`] gives back what is not
    /// used.
    pub fn take(&mut self, wanted: &Use) -> bool {
        let all = wanted.extra().max(self.extra);
        self.take_if_fair(wanted, all, 0)
    }

    /// The same for another subflow, or another connection to a target.
    pub fn take_connection(&mut self, wanted: &Use) -> bool {
        let part = wanted.of_connections().min(wanted.extra().max(self.extra));
        let of_steady = self.budget.pool() / 8;
        self.take_if_fair(wanted, part, of_steady)
    }

    /// `part`: what the session would have of the memory that is shared out; `lent`: what a session without steady traffic may use
    /// of the part for those with it.
    fn take_if_fair(&mut self, wanted: &Use, part: u64, lent: u64) -> bool {
        let more = wanted.extra().saturating_sub(self.extra);
        if more == 0 {
            return true;
        }
        let mut taken = self.budget.taken();
        let lent = if wanted.steady { 0 } else { lent };
        let left = self.budget.left(&taken, wanted.steady, lent);
        if more > left || part > left - more {
            self.budget.refused.fetch_add(1, Ordering::Relaxed);
            return false;
        }
        taken.extra += more;
        self.extra += more;
        true
    }

    /// Counts that the session gave back memory that other sessions need.
    pub fn count_given(&self) {
        self.budget.gave_way.fetch_add(1, Ordering::Relaxed);
    }

    /// Reports the memory that the session uses.
    pub fn settle(&mut self, used: &Use) -> Fairness {
        let extra = used.extra();
        if extra == self.extra && extra == 0 {
            return Fairness::Fair;
        }
        let mut taken = self.budget.taken();
        taken.extra = taken.extra - self.extra + extra;
        self.extra = extra;
        let left = self.budget.left(&taken, used.steady, 0);
        if taken.extra > self.budget.pool() && used.memory.records > SESSION / 4 {
            Fairness::Exhausted
        } else if extra / 2 > left {
            Fairness::Above
        } else {
            Fairness::Fair
        }
    }
}

impl Drop for Share {
    fn drop(&mut self) {
        let mut taken = self.budget.taken();
        taken.sessions -= 1;
        taken.extra -= self.extra;
        drop(taken);
        self.budget.freed.notify_waiters();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MIB: u64 = 1 << 20;

    fn holding(receive: u64) -> Use {
        Use { memory: Memory { receive, ..Memory::default() }, steady: true, ..Use::default() }
    }

    /// Grows a share in steps of 1 MiB as far as is allowed. Returns its size.
    fn grow(share: &mut Share) -> u64 {
        (1..)
            .map(|mib| mib * MIB)
            .take_while(|extra| share.take(&holding(SESSION + extra)))
            .last()
            .unwrap_or(0)
    }

    #[test]
    fn sessions_are_accepted_while_their_minimum_memory_fits() {
        let budget = Budget::new(80 * MIB);
        let mut shares: Vec<Share> = std::iter::from_fn(|| budget.enter()).collect();
        assert_eq!(shares.len(), 10);
        for share in &mut shares {
            grow(share);
        }
        assert!(budget.snapshot().taken <= 80 * MIB);
        shares.pop();
        assert!(budget.enter().is_some() && shares.len() == 9);
    }

    #[test]
    fn a_session_gets_at_most_half_of_the_pool_and_later_sessions_get_a_share() {
        let budget = Budget::new(2000 * MIB);
        let mut shares: Vec<Share> = (0..4).filter_map(|_| budget.enter()).collect();
        let got: Vec<u64> = shares.iter_mut().map(|share| grow(share) / MIB).collect();
        assert_eq!(got, [500, 250, 125, 62]);
        // A session with more than twice what is free gives some back, until all shares are nearly equal.
        for _ in 0..20 {
            for share in &mut shares {
                if share.settle(&holding(SESSION + share.extra)) == Fairness::Above {
                    share.settle(&holding(SESSION + share.extra / 2));
                }
                grow(share);
            }
        }
        let (least, most) = (shares.iter().map(|s| s.extra).min(), shares.iter().map(|s| s.extra).max());
        assert!(most.unwrap() <= 3 * least.unwrap(), "{shares:?}");
        drop(shares);
        assert_eq!(budget.snapshot().taken, 0);
    }

    /// Windows that a session was granted do not keep it from opening connections, and connections are shared out alike.
    #[test]
    fn a_session_that_has_its_share_in_windows_still_opens_connections() {
        let budget = Budget::new(2000 * MIB);
        let mut shares: Vec<Share> = (0..3).filter_map(|_| budget.enter()).collect();
        let windows: Vec<u64> = shares.iter_mut().map(grow).collect();
        assert!(!shares[0].take(&holding(SESSION + windows[0] + MIB)), "it has no more windows");
        let open = |share: &mut Share, windows: u64| {
            let with = |connections| Use { connections, ..holding(SESSION + windows) };
            (1..).take_while(|count| share.take_connection(&with(*count))).count() as u64 * Limits::CONNECTION
                / MIB
        };
        let got: Vec<u64> =
            shares.iter_mut().zip(&windows).map(|(share, windows)| open(share, *windows)).collect();
        assert_eq!(got, [62, 31, 15], "half of the 125 MiB that are free, and so on");
        assert!(budget.snapshot().taken <= 2000 * MIB);
    }

    #[test]
    fn idle_sessions_leave_a_quarter_of_the_pool_to_steady_ones() {
        let budget = Budget::new(2000 * MIB);
        let mut steady = budget.enter().unwrap();
        let mut still: Vec<Share> = (0..200).filter_map(|_| budget.enter()).collect();
        let stands = |bytes| Use { steady: false, ..holding(bytes) };
        // One MiB each in turn, until no session gets more.
        while still.iter_mut().filter_map(|s| s.take(&stands(SESSION + s.extra + MIB)).then_some(())).count()
            > 0
        {}
        let taken = budget.taken().extra / MIB;
        assert!((700..=750).contains(&taken), "{taken} of 1000 MiB");
        assert!(grow(&mut steady) >= 120 * MIB);
        assert_eq!(steady.settle(&holding(SESSION)), Fairness::Fair);
        // Nor do connections of the idle ones take all of that quarter.
        for share in &mut still {
            let windows = SESSION + share.extra;
            let with = |connections| Use { connections, ..stands(windows) };
            let _ = (1..).take_while(|count| share.take_connection(&with(*count))).count();
        }
        assert!((800..=875).contains(&(budget.taken().extra / MIB)), "{:?}", budget.taken());
        assert!(grow(&mut steady) >= 60 * MIB);
        steady.settle(&holding(SESSION));
        for share in &mut still {
            share.settle(&stands(SESSION + share.extra.min(3 * MIB)));
        }
        assert!(grow(&mut steady) >= 120 * MIB);
        // A steady session keeps this memory as long as it needs it. An idle session with the same amount gives some
        // back.
        assert_eq!(steady.settle(&holding(SESSION + 120 * MIB)), Fairness::Fair);
        assert_eq!(steady.settle(&stands(SESSION + 120 * MIB)), Fairness::Above);
    }

    #[test]
    fn large_records_end_a_session_only_when_no_memory_is_left() {
        let budget = Budget::new(40 * MIB);
        let mut share = budget.enter().unwrap();
        let records = |mib| {
            let memory = Memory { records: mib * MIB, ..Memory::default() };
            Use { memory, steady: true, ..Use::default() }
        };
        assert_eq!(share.settle(&records(10)), Fairness::Fair);
        assert_eq!(share.settle(&records(23)), Fairness::Above);
        assert_eq!(share.settle(&records(25)), Fairness::Exhausted);
    }

    #[test]
    fn sessions_start_with_ample_memory_while_half_of_the_pool_is_free() {
        let budget = Budget::new(800 * MIB);
        let mut shares: Vec<Share> = std::iter::from_fn(|| budget.enter()).collect();
        let ample =
            shares.iter_mut().filter_map(|share| share.advance(&holding(24 * MIB)).then_some(())).count();
        assert_eq!((shares.len(), ample), (100, 10), "200 MiB in parts of 20");
        // A session that needs more gets memory from the other half, however many sessions there are.
        assert_eq!(grow(&mut shares[50]), 100 * MIB);
        shares.truncate(5);
        assert_eq!(budget.snapshot().taken, 5 * (SESSION + 20 * MIB));
    }

    #[test]
    fn the_guide_states_the_memory_of_a_fast_session() {
        let config = tributary_proto::Config::default();
        let memory = Memory {
            receive: config.receive_credit,
            blocks: tributary_proto::blocks_for(config.receive_credit),
            send: config.send_buffer as u64,
            records: 0,
        };
        let most = Use { memory, subflows: 2, ..Use::default() }.bytes() / MIB;
        let page = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/guide/proxy.md");
        let page = std::fs::read_to_string(page).unwrap();
        assert!(page.contains(&format!("over two paths takes {most} MiB")), "{most} MiB");
    }
}
