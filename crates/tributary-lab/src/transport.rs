//! Transports of experiments: the product's transports, with the settings and labels of experiments. Not here: the
//! names ([`tributary_proto::transport`]) and the sockets ([`tributary_net::transport`]).

use core::time::Duration;
use serde::{Deserialize, Serialize};
use std::net::{Ipv4Addr, SocketAddr};
use tokio::time::{Instant, sleep};
use tributary_net::transport::{Acceptor, Connection, TransportConfig, TransportError, TransportStats};
use tributary_net::{Common, Key, Local, PathConfig};
use tributary_proto::transport::{MPTCP_DEFAULT, TransportName};

/// Time for every path to come up.
const ALL_PATHS: Duration = Duration::from_secs(8);
/// Time between two checks of the paths.
const LOOK: Duration = Duration::from_millis(5);

/// Settings of an experiment's session, without its scheduler. Unused by other transports.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct SessionSettings {
    /// TCP subflows without TLS.
    pub plaintext: bool,
    /// Subflows over QUIC.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub quic: bool,
    /// Largest transmission window in bytes; `None` is the default.
    pub window: Option<usize>,
    /// Cap on the kernel's retransmission timeout in milliseconds; `None` leaves it unchanged.
    pub rto_max_ms: Option<u64>,
}

impl SessionSettings {
    /// Whether all settings are the defaults.
    #[must_use]
    pub fn is_default(&self) -> bool {
        *self == Self::default()
    }
}

/// Settings of one end's transport. It uses the paths given to it and not the path in its name. Kernel sockets keep
/// the kernel's default send queue, as in ordinary programs.
#[must_use]
pub fn config(
    name: &TransportName,
    congestion: &str,
    key: Key,
    session: &SessionSettings,
) -> TransportConfig {
    let mut common = Common::new(key);
    (common.plaintext, common.quic) = (session.plaintext, session.quic);
    common.rto_max = session.rto_max_ms.map(Duration::from_millis);
    if let Some(window) = session.window {
        common.session.window = window;
    }
    let mut config = TransportConfig::new(name.without_path()).with_common(common);
    config.congestion = Some(congestion.to_owned());
    config.sockets.unsent = None;
    config
}

/// Listens on one address of each path and returns these with their ports.
///
/// # Errors
/// [`TransportError`].
pub async fn listen(
    config: &TransportConfig,
    addresses: &[Ipv4Addr],
) -> Result<(Acceptor, Vec<SocketAddr>), TransportError> {
    let any = [Ipv4Addr::UNSPECIFIED];
    // A multipath QUIC connection needs all its paths at one socket.
    let bound = if config.name == TransportName::Mpquic { &any[..] } else { addresses };
    let bound: Vec<SocketAddr> = bound.iter().map(|address| SocketAddr::from((*address, 0))).collect();
    let acceptor = Acceptor::bind(config, &bound).await?;
    let ports: Vec<u16> = acceptor.addresses().iter().map(SocketAddr::port).collect();
    let listening =
        addresses.iter().zip(ports.iter().cycle()).map(|(address, port)| (*address, *port).into());
    Ok((acceptor, listening.collect()))
}

/// The paths of a client: local address and server of each.
#[derive(Clone, Debug)]
pub struct Paths {
    /// Paths given to the transport; the kernel finds further MPTCP paths itself.
    dialled: Vec<PathConfig>,
    /// Number of paths that must come up.
    wanted: usize,
}

/// Not all paths came up.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("only {up} of {wanted} paths came up within {} s", ALL_PATHS.as_secs())]
pub struct PathsMissing {
    up: usize,
    wanted: usize,
}

impl Paths {
    /// The paths for this transport.
    #[must_use]
    pub fn new(name: &TransportName, paths: &[(Ipv4Addr, SocketAddr)]) -> Self {
        let path = |(local, server): &(Ipv4Addr, SocketAddr)| {
            PathConfig::new(Local::Address((*local).into()), *server)
        };
        let dialled = if matches!(name, TransportName::Mptcp { .. }) { 1 } else { paths.len() };
        Self { dialled: paths.iter().take(dialled).map(path).collect(), wanted: paths.len() }
    }

    /// Paths given to the transport.
    pub(crate) fn dialled(&self) -> &[PathConfig] {
        &self.dialled
    }

    /// Connects over them.
    ///
    /// # Errors
    /// [`TransportError`].
    pub async fn connect(&self, config: &TransportConfig) -> Result<Connection, TransportError> {
        Connection::connect(config, &self.dialled).await
    }

    /// Waits until the transport uses every path, or has fallen back to one. The kernel adds MPTCP's further paths
    /// only after the first data was acknowledged.
    ///
    /// # Errors
    /// [`PathsMissing`].
    pub async fn all_up(&self, connection: &Connection) -> Result<TransportStats, PathsMissing> {
        let look = || {
            let stats = connection.stats();
            (if stats.fallback { self.wanted } else { stats.paths.len() }, stats)
        };
        self.until_up(look).await
    }

    /// Looks until every path is up. `look` returns how many are, and what the caller wants to know.
    ///
    /// # Errors
    /// [`PathsMissing`].
    pub(crate) async fn until_up<T>(&self, look: impl Fn() -> (usize, T)) -> Result<T, PathsMissing> {
        let (until, wanted) = (Instant::now() + ALL_PATHS, self.wanted);
        loop {
            let (up, seen) = look();
            if up >= wanted {
                return Ok(seen);
            }
            if Instant::now() >= until {
                return Err(PathsMissing { up, wanted });
            }
            sleep(LOOK).await;
        }
    }
}

/// Whether it can run on real sockets. The kernel has its own MPTCP scheduler.
#[must_use]
pub fn is_on_sockets(name: &TransportName) -> bool {
    !matches!(name, TransportName::Mptcp { scheduler } if scheduler != MPTCP_DEFAULT)
}

/// Name for tables and figures.
#[must_use]
pub fn label(name: &TransportName) -> String {
    match name {
        TransportName::Tcp(Some(path)) => format!("{} alone", radio(path)),
        TransportName::Quic(Some(path)) => format!("QUIC on {}", radio(path)),
        other => tributary_stream::viewing::label(other),
    }
}

/// The usual spelling of a radio's name.
#[must_use]
pub fn radio(path: &str) -> String {
    match path {
        "wifi" => "WiFi".to_owned(),
        "wigig" => "WiGig".to_owned(),
        other => other.to_owned(),
    }
}

/// Transports in JSON: their text, such as `session/fbdt`.
pub(crate) mod text {
    use serde::{Deserialize, Deserializer, Serializer, de::Error};
    use tributary_proto::transport::TransportName;

    pub(crate) fn serialize<S: Serializer>(name: &TransportName, to: S) -> Result<S::Ok, S::Error> {
        to.collect_str(name)
    }

    pub(crate) fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<TransportName, D::Error> {
        String::deserialize(from)?.parse().map_err(D::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn labels_name_the_radio_and_the_transport() {
        let label = |name: &str| label(&TransportName::find(name, None, &["wifi", "wigig"]).unwrap());
        for (name, wanted) in [
            ("wigig", "WiGig alone"),
            ("tcp", "WiFi alone"),
            ("quic:wigig", "QUIC on WiGig"),
            ("mptcp", "kernel MPTCP"),
            ("mpquic", "multipath QUIC"),
            ("avira+fbdt", "avira+fbdt"),
        ] {
            assert_eq!(label(name), wanted);
        }
    }

    #[test]
    fn schedulers_of_mptcp_are_simulator_only() {
        let on_sockets = |name: &str| is_on_sockets(&name.parse().unwrap());
        assert!(tributary_proto::transport::names().into_iter().all(on_sockets));
        assert!(!on_sockets("mptcp/min-rtt"));
    }
}
