//! Places for connections, shared by address, or by the key of a client that has one.
//!
//! An address may have another connection while it has fewer than seven times as many as are free
//! ([`tributary_net::places`]). When an address has its share, or all places are taken, an idle connection goes first:
//! one of the address with the most connections, the one on which no byte has moved for the longest time. A connection
//! that moves bytes is never ended for another one. Not here: the time limits of a connection (`patience`).

use std::collections::{BTreeMap, HashMap};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::Notify;
use tokio::time::Instant;
use tributary_net::places::{Full, Source, has_share};

use super::Connections;

/// A connection on which no byte moves for this long may be ended for another one.
const IDLE: Duration = Duration::from_secs(1);

/// When a byte last moved on a connection.
#[derive(Clone, Debug)]
pub(super) struct Activity(Arc<(Instant, AtomicU64)>);

impl Activity {
    pub(super) fn new() -> Self {
        Self(Arc::new((Instant::now(), AtomicU64::new(0))))
    }

    /// Bytes have moved.
    pub(super) fn touch(&self, now: Instant) {
        let millis = now.saturating_duration_since(self.0.0).as_millis();
        self.0.1.store(u64::try_from(millis).unwrap_or(u64::MAX), Ordering::Relaxed);
    }

    fn idle(&self, now: Instant) -> Duration {
        now.saturating_duration_since(self.0.0 + Duration::from_millis(self.0.1.load(Ordering::Relaxed)))
    }
}

#[derive(Debug)]
struct Entry {
    source: Source,
    activity: Activity,
    end: Arc<Notify>,
}

#[derive(Debug, Default)]
struct Table {
    entries: BTreeMap<u64, Entry>,
    next: u64,
    /// Connections that were ended for another one, and connections that were refused.
    ended: u64,
    refused: u64,
}

/// All places. Clones share them.
#[derive(Clone, Debug)]
pub(super) struct Slots {
    most: usize,
    table: Arc<Mutex<Table>>,
}

/// A connection's place, given back when it is dropped.
#[derive(Debug)]
pub(super) struct Slot {
    slots: Slots,
    id: u64,
    pub(super) activity: Activity,
    end: Arc<Notify>,
}

impl Slots {
    pub(super) fn new(most: usize) -> Self {
        Self { most, table: Arc::default() }
    }

    fn table(&self) -> MutexGuard<'_, Table> {
        self.table.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn counts(&self) -> Connections {
        let table = self.table();
        let (open, most) = (table.entries.len(), self.most);
        Connections { open, most, refused: table.refused, ended: table.ended }
    }

    /// Takes a place, if need be that of an idle connection.
    pub(super) fn enter(&self, who: Source) -> Result<Slot, Full> {
        let now = Instant::now();
        let mut table = self.table();
        let mut held: HashMap<Source, usize> = HashMap::new();
        table.entries.values().for_each(|entry| *held.entry(entry.source).or_default() += 1);
        let own = held.get(&who).copied().unwrap_or(0);
        let free = self.most.saturating_sub(table.entries.len());
        let has_share = has_share(own, free.max(1));
        if free == 0 || !has_share {
            let idle = table
                .entries
                .iter()
                .filter(|(_, entry)| (has_share || entry.source == who) && entry.activity.idle(now) >= IDLE);
            let first = idle.max_by_key(|(_, entry)| (held[&entry.source], entry.activity.idle(now)));
            let Some((&id, _)) = first else {
                table.refused += 1;
                return Err(match has_share {
                    true => Full::All(self.most),
                    false => Full::Source { who, held: own, most: self.most },
                });
            };
            if let Some(entry) = table.entries.remove(&id) {
                entry.end.notify_one();
                table.ended += 1;
            }
        }
        table.next += 1;
        let (id, activity, end) = (table.next, Activity::new(), Arc::<Notify>::default());
        table.entries.insert(id, Entry { source: who, activity: activity.clone(), end: end.clone() });
        Ok(Slot { slots: self.clone(), id, activity, end })
    }
}

impl Slot {
    /// Returns when the place has been given to another connection.
    pub(super) async fn lost(&self) {
        self.end.notified().await;
    }
}

impl Drop for Slot {
    fn drop(&mut self) {
        self.slots.table().entries.remove(&self.id);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn from(host: u8) -> Source {
        Source::of(([10, 0, 0, host], 1).into())
    }

    #[tokio::test(start_paused = true)]
    async fn an_idle_connection_goes_first_and_a_moving_one_never() {
        let slots = Slots::new(8);
        let held: Vec<Slot> = (0..7).map(|_| slots.enter(from(1)).unwrap()).collect();
        let error = slots.enter(from(1)).unwrap_err().to_string();
        assert!(error.starts_with("10.0.0.1 has 7 of 8 places"), "{error}");
        let other = slots.enter(from(2)).unwrap();
        assert_eq!(slots.enter(from(3)).unwrap_err(), Full::All(8));
        tokio::time::advance(IDLE).await;
        held.iter().filter(|slot| slot.id != held[4].id).for_each(|slot| slot.activity.touch(Instant::now()));
        // The only idle one of the address with the most connections, although the other address's is idle, too.
        let third = slots.enter(from(3)).unwrap();
        held[4].lost().await;
        // The address with its share gets no other address's place.
        assert!(slots.enter(from(1)).is_ok(), "six connections are less than its share");
        assert_eq!(slots.counts(), Connections { open: 7, most: 8, refused: 2, ended: 2 });
        drop((held, other, third));
        assert_eq!(slots.counts().open, 0);
    }
}
