//! Which session gives its place to a new one when places or memory are full.
//!
//! A session that has a subflow keeps its place: nothing that strangers do ends it. Of the sessions without a subflow,
//! one of the client with the most sessions goes first, the one that has been without a subflow for the longest time.
//! A client may have another session only while it has fewer than seven times as many as are free
//! ([`crate::places`]); beyond that, its new session can only replace one of its own. So a client in a crash loop
//! replaces its own lost sessions. Pure: decides, changes nothing.

use std::collections::HashMap;
use std::time::Duration;

use crate::places::{Source, has_share};

/// Who wants to open a session: the client under every address if clients have keys of their own, else the address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Newcomer {
    pub owner: Source,
    /// Sessions that it may have.
    pub most: usize,
}

/// An open session.
#[derive(Clone, Copy, Debug)]
pub(super) struct Tenant<T> {
    pub id: T,
    pub owner: Source,
    /// How long it has been without a subflow; `None` while it has one.
    pub alone_for: Option<Duration>,
}

/// Why a session has to give its place to another one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Reason {
    /// All places are taken.
    Full,
    /// Its client has its share of the places.
    Share,
    /// Its client has as many sessions as it may have.
    Quota,
}

/// What happens to a client that wants to open a session.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Verdict<T> {
    /// There is a place for it.
    Free,
    /// This session has to give it its place.
    Instead(T, Reason),
    /// No session may be ended for it.
    Refused(Reason),
}

/// Judges a client that wants to open a session; `free` more are possible.
pub(super) fn judge<T: Copy>(tenants: &[Tenant<T>], free: usize, newcomer: &Newcomer) -> Verdict<T> {
    let mut held: HashMap<Source, usize> = HashMap::new();
    for tenant in tenants {
        *held.entry(tenant.owner).or_default() += 1;
    }
    let own = held.get(&newcomer.owner).copied().unwrap_or(0);
    let has_quota = own < newcomer.most;
    // When nothing is free, this is whether it may have the place that another client's session leaves.
    let has_share = has_quota && has_share(own, free.max(1));
    if free > 0 && has_share {
        return Verdict::Free;
    }
    let reason = match (has_quota, has_share) {
        (false, _) => Reason::Quota,
        (true, false) => Reason::Share,
        (true, true) => Reason::Full,
    };
    let may_go = tenants.iter().filter(|tenant| has_share || tenant.owner == newcomer.owner);
    let alone = may_go.filter_map(|tenant| Some((tenant, tenant.alone_for?)));
    let first = alone.max_by_key(|(tenant, alone_for)| (held[&tenant.owner], *alone_for));
    first.map_or(Verdict::Refused(reason), |(tenant, _)| Verdict::Instead(tenant.id, reason))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn owner(host: u8) -> Source {
        Source::of(([10, 0, 0, host], 1).into())
    }

    fn judge(tenants: &[Tenant<u32>], free: usize, owner: Source) -> Verdict<u32> {
        super::judge(tenants, free, &Newcomer { owner, most: usize::MAX })
    }

    fn tenant(id: u32, host: u8, alone_s: Option<u64>) -> Tenant<u32> {
        Tenant { id, owner: owner(host), alone_for: alone_s.map(Duration::from_secs) }
    }

    #[test]
    fn the_session_without_a_subflow_for_the_longest_time_goes_first() {
        let tenants = [tenant(1, 1, Some(3)), tenant(2, 1, None), tenant(3, 1, Some(9)), tenant(4, 2, None)];
        assert_eq!(judge(&tenants, 0, owner(2)), Verdict::Instead(3, Reason::Full));
        assert_eq!(judge(&tenants, 1, owner(2)), Verdict::Free);
        let (one, two) = (tenants[1], tenants[3]);
        assert_eq!(judge(&[one, two], 0, owner(3)), Verdict::Refused(Reason::Full), "both carry data");
    }

    #[test]
    fn a_client_that_leaves_many_sessions_behind_loses_those_before_an_honest_one_in_an_outage() {
        let mut tenants: Vec<_> = (0..1000).map(|id| tenant(id, 1, Some(0))).collect();
        tenants.extend((1000..1024).map(|id| tenant(id, 2, Some(20))));
        let Verdict::Instead(id, Reason::Full) = judge(&tenants, 0, owner(3)) else { panic!("refused") };
        assert!(id < 1000);
    }

    #[test]
    fn a_client_with_its_quota_replaces_only_its_own_sessions() {
        let newcomer = Newcomer { owner: owner(1), most: 2 };
        let mut tenants = vec![tenant(1, 1, None), tenant(2, 2, Some(5))];
        assert_eq!(super::judge(&tenants, 9, &newcomer), Verdict::Free);
        tenants.push(tenant(3, 1, None));
        assert_eq!(super::judge(&tenants, 9, &newcomer), Verdict::Refused(Reason::Quota));
        tenants[0].alone_for = Some(Duration::ZERO);
        assert_eq!(super::judge(&tenants, 9, &newcomer), Verdict::Instead(1, Reason::Quota));
    }

    #[test]
    fn a_client_with_its_share_replaces_only_its_own_sessions() {
        let mut tenants: Vec<_> = (0..7).map(|id| tenant(id, 1, None)).collect();
        assert_eq!(judge(&tenants, 1, owner(1)), Verdict::Refused(Reason::Share));
        assert_eq!(judge(&tenants, 1, owner(2)), Verdict::Free);
        // The eighth place is another client's, which has no subflow at the moment.
        tenants.push(tenant(7, 2, Some(5)));
        assert_eq!(judge(&tenants, 0, owner(1)), Verdict::Refused(Reason::Share));
        tenants[3].alone_for = Some(Duration::ZERO);
        assert_eq!(judge(&tenants, 0, owner(1)), Verdict::Instead(3, Reason::Share));
        assert_eq!(judge(&tenants, 0, owner(3)), Verdict::Instead(3, Reason::Full));
    }
}
