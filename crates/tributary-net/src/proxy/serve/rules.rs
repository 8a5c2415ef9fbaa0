//! What a server forwards to, what applications may choose, and what is sent first. All of it can be replaced while the server
//! runs: connections that are open keep what they have.

use super::super::{PriorityRules, ProxyError, Target};
use crate::allow::AllowRules;
use crate::rate_limited::RateLimited;

/// What a server may replace while it runs.
#[derive(Clone, Debug, Default)]
pub struct ServeRules {
    /// Targets of connections: one, or several of which at most one has no name.
    pub targets: Vec<Target>,
    /// Targets of datagrams. Without them every flow is refused.
    pub udp: Vec<Target>,
    /// Destinations that applications may choose.
    pub allow: AllowRules,
    /// Which data of this end is sent first: rules by the target's port or name, also for datagrams, or by the DSCP of the
    /// application's first packet, which the client tells.
    pub priorities: PriorityRules,
}

/// The rules in force.
#[derive(Debug)]
pub(super) struct Rules {
    pub(super) settings: ServeRules,
    /// Log of targets that are unreachable, those of datagrams last.
    pub(super) failures: Vec<RateLimited>,
}

impl Rules {
    /// `has_list`: the list of clients may allow destinations, later if not now.
    pub(super) fn new(settings: ServeRules, has_list: bool) -> Result<Self, ProxyError> {
        let ServeRules { targets, udp, allow, priorities } = &settings;
        if targets.is_empty() && allow.is_empty() && !has_list {
            return Err(ProxyError::Targets("none was given, and no destination is allowed".to_owned()));
        }
        check_names(targets)?;
        check_names(udp)?;
        // Applications choose the ports of allowed destinations.
        let is_open = !allow.is_empty() || has_list;
        let all = || targets.iter().chain(udp);
        if let Some(port) = priorities.ports().find(|port| !is_open && !all().any(|t| t.port == *port)) {
            let ports: Vec<u16> = all().map(|target| target.port).collect();
            return Err(ProxyError::Priority(format!(
                "nothing is forwarded to port {port}, only to {ports:?}"
            )));
        }
        if let Some(name) = priorities.targets().find(|name| !all().any(|t| t.name.as_ref() == Some(name))) {
            return Err(ProxyError::Priority(format!("there is no target `{name}`")));
        }
        let failures = all().map(|_| RateLimited::default()).collect();
        Ok(Self { settings, failures })
    }
}

fn check_names(targets: &[Target]) -> Result<(), ProxyError> {
    for (n, target) in targets.iter().enumerate() {
        if targets[..n].iter().any(|other| other.name == target.name) {
            let problem = target.name.as_ref().map_or_else(
                || "only one may be without a name; call the others NAME=HOST:PORT".to_owned(),
                |name| format!("`{name}` is given twice"),
            );
            return Err(ProxyError::Targets(problem));
        }
    }
    Ok(())
}
