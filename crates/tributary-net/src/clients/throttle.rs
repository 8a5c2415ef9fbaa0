//! Limits what a server carries for one client, in each direction: `rate` in the list of clients. All sessions and QUIC connections of
//! the client share the limit; back-pressure passes it on to its peer. Datagrams above it are dropped.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use tokio::time::{Instant, sleep_until};

use super::Clients;
use crate::identity::PublicKey;

/// What may be carried at once, as time at the limit. The timer of the runtime is exact to a millisecond.
const BURST: Duration = Duration::from_millis(20);

/// The limits of a server's clients.
#[derive(Debug, Default)]
pub(super) struct Throttles(Mutex<HashMap<PublicKey, Weak<Throttle>>>);

/// Which way data goes.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Way {
    ToClient,
    FromClient,
}

/// The limits of one client. They are read from the list every time, so that they follow its changes.
#[derive(Debug)]
pub(crate) struct Throttle {
    client: PublicKey,
    clients: Clients,
    /// For each [`Way`]: when what was carried until now is paid for.
    paid: [Mutex<Instant>; 2],
}

impl Throttles {
    /// The limits of this client.
    pub(super) fn of(&self, clients: &Clients, client: PublicKey) -> Arc<Throttle> {
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(throttle) = all.get(&client).and_then(Weak::upgrade) {
            return throttle;
        }
        all.retain(|_, throttle| throttle.strong_count() > 0);
        let paid = [(); 2].map(|()| Mutex::new(Instant::now()));
        let throttle = Arc::new(Throttle { client, clients: clients.clone(), paid });
        all.insert(client, Arc::downgrade(&throttle));
        throttle
    }
}

impl Throttle {
    fn paid(&self, way: Way) -> MutexGuard<'_, Instant> {
        self.paid[way as usize].lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Time that this many bytes take at the limit; `None` without one.
    fn time(&self, bytes: usize) -> Option<Duration> {
        let rate = self.clients.find(&self.client)?.rate?;
        Some(Duration::from_secs_f64(bytes as f64 * 8.0 / rate as f64))
    }

    /// Counts these bytes. Returns when they may be carried, if that is not now.
    pub(crate) fn count(&self, way: Way, bytes: usize) -> Option<Instant> {
        let (time, now) = (self.time(bytes)?, Instant::now());
        let mut paid = self.paid(way);
        *paid = (*paid).max(now - BURST) + time;
        (*paid > now).then_some(*paid)
    }

    /// Waits until these bytes may be carried.
    pub(crate) async fn wait(&self, way: Way, bytes: usize) {
        if let Some(until) = self.count(way, bytes) {
            sleep_until(until).await;
        }
    }

    /// Whether a datagram may be carried now.
    pub(crate) fn admits(&self, way: Way, bytes: usize) -> bool {
        let Some(time) = self.time(bytes) else { return true };
        let mut paid = self.paid(way);
        let now = Instant::now();
        let after = (*paid).max(now - BURST) + time;
        let admits = after <= now + BURST;
        if admits {
            *paid = after;
        }
        admits
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::clients::Client;

    fn limited(rate: Option<u64>) -> (Clients, PublicKey) {
        let key = crate::identity::PrivateKey::from_seed([1; 32]).public();
        (Clients::new([Client { rate, ..Client::new("one", key) }]), key)
    }

    #[tokio::test(start_paused = true)]
    async fn all_sessions_of_a_client_share_its_rate_and_it_follows_the_list() {
        let (clients, key) = limited(Some(8_000_000));
        let (one, two) = (clients.throttle(key), clients.clone().throttle(key));
        let began = Instant::now();
        for _ in 0..50 {
            tokio::join!(one.wait(Way::ToClient, 10_000), two.wait(Way::ToClient, 10_000));
        }
        let took = began.elapsed();
        assert!((970..=1001).contains(&took.as_millis()), "1 MB at 1 MB/s took {took:?}");
        one.wait(Way::FromClient, 10_000).await;
        assert_eq!(began.elapsed(), took, "the other direction has a limit of its own");
        clients.replace([Client::new("one", key)]);
        one.wait(Way::ToClient, 100_000_000).await;
        assert_eq!(began.elapsed(), took, "without a limit nothing waits");
    }

    #[tokio::test(start_paused = true)]
    async fn datagrams_above_the_rate_are_dropped() {
        let (clients, key) = limited(Some(8_000_000));
        let throttle = clients.throttle(key);
        let mut carried = 0;
        for _ in 0..1000 {
            carried += (0..5).filter(|_| throttle.admits(Way::FromClient, 1000)).count();
            tokio::time::advance(Duration::from_millis(1)).await;
        }
        assert!((1000..=1060).contains(&carried), "{carried} of 1000 bytes in a second at 1 MB/s");
    }
}
