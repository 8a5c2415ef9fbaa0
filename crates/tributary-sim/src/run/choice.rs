//! The transports and congestion controls that the simulator supports. The syntax of their names is in
//! [`tributary_proto::transport`], the same for scenario files, the command line and real sockets.

use tributary_cc as congestion;
use tributary_link::Scenario;
pub use tributary_proto::transport::{TransportName, UnknownName, check_scheduler};

use super::RunError;
use crate::own::Own;
use crate::quic::quic_controllers;

/// Refuses a path, a scheduler or a congestion control that does not exist, and algorithms of the caller's own where the transport
/// cannot use them.
pub(super) fn check(
    transport: &TransportName,
    scenario: &Scenario,
    (congestion, own): (&str, &Own),
) -> Result<(), RunError> {
    let refuse = |field, problem: String| Err(RunError::Option { field, problem });
    match (&own.congestion, transport.is_quic()) {
        (Some(_), true) => {
            let name = transport.name();
            let problem = format!("`{name}` takes none of your own: take tcp, mptcp or session, or a name");
            return refuse("congestion", problem);
        }
        (Some(_), false) => {}
        (None, true) => check_quic_congestion(congestion)?,
        (None, false) => check_tcp_congestion(congestion)?,
    }
    match (&own.scheduler, transport) {
        (Some(_), TransportName::Mptcp { .. } | TransportName::Session { .. }) => Ok(()),
        (Some(_), other) => {
            let name = other.name();
            refuse("scheduler", format!("`{name}` takes none of your own: take mptcp or session, or a name"))
        }
        (None, _) => Ok(transport.check(&scenario.path_names())?),
    }
}

/// Refuses a congestion control that no transport supports.
///
/// # Errors
/// [`UnknownName`] lists the known names.
pub fn check_congestion(name: &str) -> Result<(), UnknownName> {
    if quic_controllers().contains(&name) { Ok(()) } else { check_tcp_congestion(name) }
}

/// Refuses a congestion control that QUIC does not support.
pub(super) fn check_quic_congestion(name: &str) -> Result<(), UnknownName> {
    let known = quic_controllers();
    if known.contains(&name) {
        Ok(())
    } else {
        Err(UnknownName::new("congestion control of QUIC", name, known))
    }
}

/// Refuses a congestion control that TCP does not support.
pub(super) fn check_tcp_congestion(name: &str) -> Result<(), UnknownName> {
    let known = congestion::names();
    if known.contains(&name) { Ok(()) } else { Err(UnknownName::new("congestion control", name, known)) }
}
