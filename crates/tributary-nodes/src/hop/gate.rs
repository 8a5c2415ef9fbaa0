//! Decides which handshakes a node looks at, sans-IO: work per turn, and per source address under load.
//!
//! A turn has a budget of keyed hashes. When half of it is spent, the node is under load for a second: an `init` then
//! needs a cookie, which proves that its sender receives at the address it sends from (as in WireGuard §5.3, RFC 9000
//! §8.1), and every proven source has a token bucket. Without load sources are not limited, because anybody can send
//! in the name of another address.
//!
//! Not here: the handshake itself (`hop`).

use super::wire::{Age, COOKIE};
use aws_lc_rs::constant_time::verify_slices_are_equal;
use aws_lc_rs::hmac;
use aws_lc_rs::rand::{SecureRandom, SystemRandom};
use core::time::Duration;
use std::collections::HashMap;
use std::net::{IpAddr, SocketAddr};
use tributary_types::Instant;

/// Keyed hashes for handshakes in one turn: about 50 µs of work.
const BUDGET: u32 = 32;
/// How long the node asks for cookies after a turn with many handshakes.
const LOADED: Duration = Duration::from_secs(1);
/// How long cookies are made with one secret. They are accepted as long again.
pub(super) const SECRET_LIFE: Duration = Duration::from_secs(120);
/// Handshakes of one source at once, and time for one more.
const BURST: u32 = 20;
const REFILL: Duration = Duration::from_millis(50);
/// Most sources that are remembered.
const SOURCES: usize = 512;

/// What to do with an `init`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// Verify it.
    Admit,
    /// Answer with this cookie.
    GiveCookie([u8; COOKIE]),
    Drop,
}

/// Admission of handshakes to a node.
pub(crate) struct Gate {
    random: SystemRandom,
    /// The present secret and the one before, and since when the present one is used.
    secrets: [hmac::Key; 2],
    since: Instant,
    budget: u32,
    loaded_until: Instant,
    /// Sources that have shown a cookie.
    proven: Sources,
    /// Senders of recorded handshakes. They are not proven, so they have a table of their own.
    stale: Sources,
}

impl Gate {
    pub(crate) fn new(now: Instant) -> Self {
        let random = SystemRandom::new();
        let secrets = [fresh_key(&random), fresh_key(&random)];
        let [proven, stale] = [Sources::default(), Sources::default()];
        Self { random, secrets, since: now, budget: BUDGET, loaded_until: Instant::ZERO, proven, stale }
    }

    /// A turn begins.
    pub(crate) fn begin_turn(&mut self, now: Instant) {
        self.budget = BUDGET;
        let age = now.saturating_since(self.since);
        if age >= SECRET_LIFE {
            let present = core::mem::replace(&mut self.secrets[0], fresh_key(&self.random));
            self.secrets[1] = if age < SECRET_LIFE * 2 { present } else { fresh_key(&self.random) };
            self.since = now;
        }
    }

    /// Decides about an `init` that names one of the node's keys.
    pub(crate) fn admit(
        &mut self,
        now: Instant,
        from: SocketAddr,
        age: Age,
        cookie: &[u8; COOKIE],
    ) -> Verdict {
        match age {
            Age::Same => return Verdict::Drop,
            Age::Stale if !self.stale.take(now, from.ip()) => return Verdict::Drop,
            Age::Stale | Age::Fresh => {}
        }
        if now >= self.loaded_until {
            return self.spend(now, 1, Verdict::Admit);
        }
        if *cookie == [0; COOKIE] {
            return self.give_cookie(now, from);
        }
        // One hash or two for the cookie, one for the handshake.
        if self.spend(now, 3, Verdict::Admit) == Verdict::Drop {
            return Verdict::Drop;
        }
        let is_known = |secret| verify_slices_are_equal(&make_cookie(secret, from), cookie).is_ok();
        if !self.secrets.iter().any(is_known) {
            return self.give_cookie(now, from);
        }
        if self.proven.take(now, from.ip()) { Verdict::Admit } else { Verdict::Drop }
    }

    /// Making the cookie and the answer's MAC are two hashes.
    fn give_cookie(&mut self, now: Instant, from: SocketAddr) -> Verdict {
        match self.spend(now, 2, Verdict::Admit) {
            Verdict::Drop => Verdict::Drop,
            _ => Verdict::GiveCookie(make_cookie(&self.secrets[0], from)),
        }
    }

    /// The verdict if the turn's budget suffices.
    fn spend(&mut self, now: Instant, hashes: u32, verdict: Verdict) -> Verdict {
        let left = self.budget.checked_sub(hashes);
        if left.is_none_or(|left| left < BUDGET / 2) {
            self.loaded_until = now + LOADED;
        }
        self.budget = left.unwrap_or(self.budget);
        if left.is_some() { verdict } else { Verdict::Drop }
    }
}

fn fresh_key(random: &SystemRandom) -> hmac::Key {
    let mut bytes = [0; 32];
    random.fill(&mut bytes).expect("the operating system gives random bytes");
    hmac::Key::new(hmac::HMAC_SHA256, &bytes)
}

/// A keyed hash of address and port, so that it is of no use from another one.
fn make_cookie(secret: &hmac::Key, from: SocketAddr) -> [u8; COOKIE] {
    let mut context = hmac::Context::with_key(secret);
    match from.ip().to_canonical() {
        IpAddr::V4(v4) => context.update(&v4.octets()),
        IpAddr::V6(v6) => context.update(&v6.octets()),
    }
    context.update(&from.port().to_be_bytes());
    *context.sign().as_ref().first_chunk().expect("SHA-256 has 32 bytes")
}

/// Token buckets by source: an IPv4 address or an IPv6 /64 network.
#[derive(Default)]
struct Sources {
    /// When the bucket is full again.
    full_at: HashMap<u64, Instant>,
}

impl Sources {
    /// Takes a token of this source; `false` if it has none. A new source gets none while the table is full of others
    /// whose buckets are not.
    fn take(&mut self, now: Instant, source: IpAddr) -> bool {
        let key = match source.to_canonical() {
            IpAddr::V4(v4) => u64::from(v4.to_bits()),
            IpAddr::V6(v6) => (v6.to_bits() >> 64) as u64,
        };
        if self.full_at.len() >= SOURCES && !self.full_at.contains_key(&key) {
            self.full_at.retain(|_, full_at| now < *full_at);
            if self.full_at.len() >= SOURCES {
                return false;
            }
        }
        let full_at = self.full_at.entry(key).or_insert(now);
        let after = (*full_at).max(now) + REFILL;
        let has_token = after.saturating_since(now) <= REFILL * BURST;
        if has_token {
            *full_at = after;
        }
        has_token
    }
}

#[cfg(test)]
mod tests;
