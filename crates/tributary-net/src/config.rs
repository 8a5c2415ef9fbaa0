//! Settings of sessions: key, paths, limits. Values are checked where they are used.

mod check;
mod own_address;
mod siblings;

use std::net::{IpAddr, SocketAddr};
use std::str::FromStr;
use std::time::Duration;

use thiserror::Error;
use tributary_proto::handshakes::HANDSHAKE_TIME;
use tributary_types::Bitrate;

use crate::keys::Keys;
use crate::passed::{PassedSockets, Port};
use crate::sockopt;

/// Settings that servers and clients share.
#[derive(Clone, Debug)]
pub struct Common {
    /// How the ends know each other.
    pub keys: Keys,
    /// No TLS: peers are authenticated when they connect, but data is neither encrypted nor authenticated. For
    /// experiments, with a shared key only.
    pub plaintext: bool,
    /// Congestion controller of every subflow; `None` leaves the kernel's default.
    pub congestion: Option<String>,
    /// Subflows over QUIC where UDP passes, else TLS on TCP. A server listens on both, at the same addresses; a client tries
    /// QUIC first. Only with encryption, and with the congestion control `cubic` (the default), `bbr` or `reno`.
    pub quic: bool,
    /// Mark (`SO_MARK`) of the session's sockets. A coupled congestion controller treats sockets with the same mark
    /// as one session.
    pub siblings: Siblings,
    /// Cap on the kernel's retransmission timeout, where the kernel has `TCP_RTO_MAX_MS`.
    pub rto_max: Option<Duration>,
    /// Scheduler, window, credit and the other settings of the session itself.
    pub session: tributary_proto::Config,
}

impl Common {
    /// The defaults with these keys: of one end, or a shared [`Key`](crate::Key).
    #[must_use]
    pub fn new(keys: impl Into<Keys>) -> Self {
        Self {
            keys: keys.into(),
            plaintext: false,
            congestion: None,
            quic: false,
            siblings: Siblings::default(),
            rto_max: None,
            session: tributary_proto::Config::default(),
        }
    }

    /// The session's settings, with those that follow from the congestion control.
    pub(crate) fn machine(&self) -> tributary_proto::Config {
        let coupled = self.siblings.couple(self.congestion.as_deref());
        tributary_proto::Config { coupled, ..self.session.clone() }
    }

    /// The same settings for sessions that survive the time `wait` without any path and then end with an error.
    /// `wait` is at least three seconds; the default is 30 s. Data written in this time is sent when a path is back.
    /// The server's own limit applies, too.
    #[must_use]
    pub fn waiting(mut self, wait: Duration) -> Self {
        self.session.idle_timeout = wait.max(LEAST_WAIT);
        // An idle subflow is pinged three times within that time.
        self.session.keep_alive = self.session.keep_alive.min(self.session.idle_timeout / 3);
        self
    }
}

/// Least time of [`Common::waiting`].
const LEAST_WAIT: Duration = Duration::from_secs(3);

#[cfg_attr(not(feature = "quic"), expect(unused_imports, reason = "named by the transports"))]
pub(crate) use check::QUIC_CONTROLLERS;
pub use check::SettingsError;
pub use own_address::{OwnAddress, OwnAddressError};
pub use siblings::{MarkError, Siblings};

/// Limits of a server.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// Maximum number of open sessions. Servers of `tcp` and `mptcp`: of connections that are served, and the same limit
    /// again for connections that have sent nothing yet.
    pub sessions: usize,
    /// Bytes that all sessions and their connections to targets may hold together. Half is reserved:
    /// [`Self::SESSION`] for each session, which also limits the number of sessions. The other half is a pool for
    /// sessions that need more. A session may take from the pool as long as at least as much as it has taken stays
    /// free; a quarter of the pool is only for sessions with steady traffic. While half of the pool is free, a new
    /// session starts with [`Self::AMPLE`] in each direction. The kernel's socket buffers are not counted.
    pub memory: u64,
    /// Limit on concurrent handshakes of connections without a ticket, and the same limit again for connections with
    /// a fresh ticket. Beyond it, the address with the most connections loses its oldest one. Connections that join
    /// an existing session are counted separately.
    pub half_open: usize,
    /// Time limit of a handshake.
    pub handshake: Duration,
}

impl Limits {
    /// Bytes that are reserved for each session: the smallest window and send limit, two pinned receive blocks, two
    /// subflows, and the records of a few dozen streams.
    pub const SESSION: u64 = 4 << 20;
    /// Bytes that are counted for a proxied connection: a buffer for each direction, and records.
    pub const CONNECTION: u64 = 160 << 10;
    /// Window and send limit that a session begins with while memory is plentiful.
    pub const AMPLE: u64 = tributary_proto::AMPLE;
    /// Minimum of `memory`: enough for one session.
    pub const LEAST_MEMORY: u64 = 2 * Self::SESSION;
}

impl Default for Limits {
    fn default() -> Self {
        let sessions = 1024;
        let memory = 2 * sessions as u64 * Self::SESSION;
        Self { sessions, memory, half_open: 512, handshake: HANDSHAKE_TIME }
    }
}

/// Settings of a server.
#[derive(Clone, Debug)]
pub struct ListenConfig {
    /// Addresses to listen on; a client may reach the same session through any of them.
    pub addresses: Vec<SocketAddr>,
    /// Where clients reach this instance itself, if they get to `addresses` by a load balancer: they connect there for the
    /// subflows that they start after the server's answer.
    pub own: Option<OwnAddress>,
    /// Settings of its sessions.
    pub common: Common,
    /// Limits.
    pub limits: Limits,
    /// Sockets that are used instead of new ones for the addresses that they listen on.
    pub passed: PassedSockets,
}

impl ListenConfig {
    /// Listens on these addresses with the default limits.
    #[must_use]
    pub fn new(addresses: Vec<SocketAddr>, common: Common) -> Self {
        let (limits, passed) = (Limits::default(), PassedSockets::default());
        Self { addresses, own: None, common, limits, passed }
    }

    /// Where it listens: TCP, and UDP too for subflows over QUIC.
    #[must_use]
    pub fn ports(&self) -> Vec<Port> {
        let udp = self.addresses.iter().copied().filter(|_| self.common.quic).map(Port::Udp);
        self.addresses.iter().copied().map(Port::Tcp).chain(udp).collect()
    }
}

/// Settings of a client.
#[derive(Clone, Debug)]
pub struct ConnectConfig {
    /// One to eight paths.
    pub paths: Vec<PathConfig>,
    /// Settings of the session.
    pub common: Common,
    /// Time for the first path to come up.
    pub timeout: Duration,
}

/// Local end of a path.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Local {
    /// Bound to this address.
    Address(IpAddr),
    /// Bound to this network interface.
    Interface(String),
    /// Chosen by the routing table.
    Any,
    /// Every interface that has a route to the server and is not named by another path. Each of them is a path of
    /// its own, added and removed as the interface comes and goes.
    Auto,
}

/// One path: a local end and a server address.
///
/// A session follows the interfaces and addresses of its paths. When one goes away, its path is removed. When one
/// comes back or gets another address, a path is added.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PathConfig {
    /// The local end.
    pub local: Local,
    /// The server.
    pub server: ServerAddress,
    /// Traffic on this path costs money: it carries data only when the other paths together are too slow for the
    /// application's data. For sessions only.
    pub metered: bool,
    /// What this end sends over it at most, and the server too if it is of a version that can; `None`: no limit. For sessions only.
    pub cap: Option<Bitrate>,
}

/// Address of a server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ServerAddress {
    /// An address.
    Address(SocketAddr),
    /// A name and a port. The name is resolved for every attempt, and addresses of both families are tried.
    Name(String, u16),
}

impl From<SocketAddr> for ServerAddress {
    fn from(address: SocketAddr) -> Self {
        Self::Address(address)
    }
}

impl From<IpAddr> for Local {
    fn from(address: IpAddr) -> Self {
        Self::Address(address)
    }
}

impl FromStr for ServerAddress {
    type Err = PathError;

    fn from_str(text: &str) -> Result<Self, PathError> {
        if let Ok(address) = text.parse() {
            return Ok(Self::Address(address));
        }
        let malformed = || PathError::Server(text.to_owned());
        let (name, port) = text.rsplit_once(':').ok_or_else(malformed)?;
        // The resolver parses scoped addresses: [fe80::1%wlan0]:7000.
        let bracketed = name.strip_prefix('[').and_then(|rest| rest.strip_suffix(']'));
        let scoped = bracketed.filter(|inner| inner.contains('%'));
        let port = port.parse().map_err(|_| malformed())?;
        match (scoped, name) {
            (Some(scoped), _) => Ok(Self::Name(scoped.to_owned(), port)),
            (None, "") => Err(malformed()),
            (None, name) if name.contains([':', '[', ']', '/', ' ']) => Err(malformed()),
            (None, name) => Ok(Self::Name(name.to_owned(), port)),
        }
    }
}

impl std::fmt::Display for ServerAddress {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Address(address) => write!(f, "{address}"),
            Self::Name(name, port) if name.contains(':') => write!(f, "[{name}]:{port}"),
            Self::Name(name, port) => write!(f, "{name}:{port}"),
        }
    }
}

/// Why a path cannot be parsed.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum PathError {
    /// Not of the form `LOCAL=SERVER:PORT`.
    #[error(
        "path `{0}`: expected LOCAL=SERVER:PORT with LOCAL an address, a network interface, `any` or `auto`; \
         LOCAL,metered=SERVER:PORT for a path that costs money, LOCAL,cap=20=SERVER:PORT for at most 20 Mbit/s"
    )]
    Malformed(String),
    /// The path names no server, and there is no default one.
    #[error("path `{0}` names no server: write {0}=SERVER:PORT, or give all paths one server")]
    NoServer(String),
    /// The local part is neither an address nor an interface.
    #[error(
        "path `{path}`: this machine has no network interface `{name}`; `auto` takes interfaces that come later"
    )]
    NoInterface {
        /// The whole path.
        path: String,
        /// The local part.
        name: String,
    },
    /// The cap is no rate.
    #[error(
        "path `{path}`: cap `{cap}` is not a number from 0.1 to 1000000, in Mbit/s, for example 20 or 2.5"
    )]
    Cap {
        /// The whole path.
        path: String,
        /// What was given.
        cap: String,
    },
    /// The server is not `HOST:PORT`.
    #[error("server `{0}`: expected HOST:PORT, an IPv6 address in brackets, for example [2001:db8::1]:7000")]
    Server(String),
}

impl PathConfig {
    /// A path from a local end to a server.
    ///
    /// ```
    /// use std::net::{Ipv4Addr, SocketAddr};
    /// use tributary_net::{Local, PathConfig};
    ///
    /// let server = SocketAddr::from(([203, 0, 113, 5], 7000));
    /// let path = PathConfig::new(Local::Interface("wlan0".to_owned()), server);
    /// assert_eq!(path.to_string(), "wlan0=203.0.113.5:7000");
    /// let path = PathConfig::new(Local::Address(Ipv4Addr::LOCALHOST.into()), server);
    /// assert_eq!(path, "127.0.0.1=203.0.113.5:7000".parse()?);
    /// # Ok::<_, tributary_net::PathError>(())
    /// ```
    #[must_use]
    pub fn new(local: impl Into<Local>, server: impl Into<ServerAddress>) -> Self {
        Self { local: local.into(), server: server.into(), metered: false, cap: None }
    }

    /// The local end as it is written: an address, an interface or `any`. Names of transports use it:
    /// `tcp:wlan0`.
    #[must_use]
    pub fn local_name(&self) -> String {
        match &self.local {
            Local::Address(address) => address.to_string(),
            Local::Interface(name) => name.clone(),
            Local::Any => "any".to_owned(),
            Local::Auto => "auto".to_owned(),
        }
    }

    /// The path without its cap, which may change while it is used: its name in states and logs.
    #[must_use]
    pub fn name(&self) -> String {
        Self { cap: None, ..self.clone() }.to_string()
    }

    /// Whether both are the same but for their caps.
    pub(crate) fn is_like(&self, other: &Self) -> bool {
        Self { cap: other.cap, ..self.clone() } == *other
    }

    /// Reads a cap in Mbit/s of this path.
    ///
    /// # Errors
    /// [`PathError::Cap`].
    pub fn read_cap(cap: &str, path: &str) -> Result<Bitrate, PathError> {
        let mbps = cap.parse::<f64>().ok().filter(|mbps| CAPS.contains(mbps));
        let refused = || PathError::Cap { path: path.to_owned(), cap: cap.to_owned() };
        mbps.map(|mbps| Bitrate::from_bps((mbps * 1e6).round() as u64)).ok_or_else(refused)
    }

    /// Reads `LOCAL[,metered][,cap=MBIT][=SERVER:PORT]`; a path that names no server leads to `server`.
    ///
    /// # Errors
    /// [`PathError`].
    pub fn parse(text: &str, server: Option<&str>) -> Result<Self, PathError> {
        match (halves(text).1, server) {
            (None, Some(server)) => format!("{text}={server}").parse(),
            (None, None) if Self::local(text, text).is_ok() => Err(PathError::NoServer(text.to_owned())),
            _ => text.parse(),
        }
    }

    /// Parses the part in front of the server: the local end, whether it is metered, and its cap.
    fn local(half: &str, path: &str) -> Result<(Local, bool, Option<Bitrate>), PathError> {
        let mut parts = half.split(',');
        let (local, mut metered, mut cap) = (parts.next().unwrap_or_default(), false, None);
        for part in parts {
            match (part, part.split_once('=')) {
                ("metered", _) if !metered => metered = true,
                (_, Some(("cap", value))) if cap.is_none() => cap = Some(Self::read_cap(value, path)?),
                _ => return Err(PathError::Malformed(path.to_owned())),
            }
        }
        if local.is_empty() {
            return Err(PathError::Malformed(path.to_owned()));
        }
        // An IPv6 address may be in brackets, as for the server.
        let address = local.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')).unwrap_or(local);
        let local = match address.parse() {
            Ok(address) => Local::Address(address),
            Err(_) if local == "any" => Local::Any,
            Err(_) if local == "auto" => Local::Auto,
            Err(_) if sockopt::interface_exists(local) => Local::Interface(local.to_owned()),
            Err(_) => {
                return Err(PathError::NoInterface { path: path.to_owned(), name: local.to_owned() });
            }
        };
        Ok((local, metered, cap))
    }
}

/// Caps that may be set, Mbit/s.
const CAPS: std::ops::RangeInclusive<f64> = 0.1..=1e6;

/// The local end with its options, and the server if there is one. The `=` of a cap does not divide them.
fn halves(text: &str) -> (&str, Option<&str>) {
    let is_divider = |at: &usize| !text[..*at].ends_with(",cap");
    let divider = text.match_indices('=').map(|(at, _)| at).find(is_divider);
    divider.map_or((text, None), |at| (&text[..at], Some(&text[at + 1..])))
}

impl FromStr for PathConfig {
    type Err = PathError;

    fn from_str(text: &str) -> Result<Self, PathError> {
        let malformed = || PathError::Malformed(text.to_owned());
        let (local, server) = halves(text);
        let server = server.filter(|server| server.contains(':')).ok_or_else(malformed)?;
        let (local, metered, cap) = Self::local(local, text)?;
        Ok(Self { local, server: server.parse()?, metered, cap })
    }
}

impl PathConfig {
    /// Whether both use the same radio: the same local address or interface, or the routing table's choice
    /// for the same server.
    pub(crate) fn same_radio(&self, other: &Self) -> bool {
        self.local == other.local && (self.local != Local::Any || self.server == other.server)
    }
}

impl std::fmt::Display for PathConfig {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let metered = if self.metered { ",metered" } else { "" };
        let cap = self.cap.map(|cap| format!(",cap={}", cap.as_mbps_f64())).unwrap_or_default();
        write!(f, "{}{metered}{cap}={}", self.local_name(), self.server)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_parse_and_errors_name_what_is_wrong() {
        let path: PathConfig = "127.0.0.2=127.0.0.1:4000".parse().unwrap();
        assert_eq!(path.to_string(), "127.0.0.2=127.0.0.1:4000");
        assert_eq!("lo=[::1]:1".parse::<PathConfig>().unwrap().local, Local::Interface("lo".into()));
        for (text, shown) in [
            ("[::1]=[2001:db8::1]:7000", "::1=[2001:db8::1]:7000"),
            ("::1=[2001:db8::1]:7000", "::1=[2001:db8::1]:7000"),
            ("[127.0.0.1]=video.example:7000", "127.0.0.1=video.example:7000"),
            ("any=[fe80::1%lo]:7000", "any=[fe80::1%lo]:7000"),
            ("auto=video.example:7000", "auto=video.example:7000"),
            ("lo,metered=127.0.0.1:7000", "lo,metered=127.0.0.1:7000"),
            ("lo,cap=20=127.0.0.1:7000", "lo,cap=20=127.0.0.1:7000"),
            ("lo,cap=2.50,metered=127.0.0.1:7000", "lo,metered,cap=2.5=127.0.0.1:7000"),
        ] {
            assert_eq!(text.parse::<PathConfig>().unwrap().to_string(), shown);
        }
        let with_default = |text| PathConfig::parse(text, Some("127.0.0.1:7000"));
        assert!(with_default("auto,metered").unwrap().metered);
        let capped = with_default("auto,cap=0.1").unwrap();
        assert_eq!(
            (capped.cap, &capped.name()[..]),
            (Some(Bitrate::from_bps(100_000)), "auto=127.0.0.1:7000")
        );
        let faster: PathConfig = "auto,cap=9=127.0.0.1:7000".parse().unwrap();
        assert!(faster != capped && faster.is_like(&capped));
        assert_eq!(with_default("lo=127.0.0.1:7001").unwrap().to_string(), "lo=127.0.0.1:7001");
        let error = PathConfig::parse("auto", None).unwrap_err().to_string();
        assert!(error.contains("auto=SERVER:PORT"), "{error}");
        for server in ["::1:7000", ":7000", "a b:7000", "host:70000", "[::1:7000", "host:"] {
            let error = format!("any={server}").parse::<PathConfig>().unwrap_err().to_string();
            assert!(error.contains("HOST:PORT"), "{server}: {error}");
        }
        for (text, part) in [
            ("x", "LOCAL=SERVER"),
            ("lo,cheap=1.2.3.4:5", "LOCAL,metered"),
            (",metered=1.2.3.4:5", "expected"),
            ("lo,cap=0=1.2.3.4:5", "cap `0`"),
            ("lo,cap=20M=1.2.3.4:5", "cap `20M`"),
            ("lo,cap=NaN=1.2.3.4:5", "Mbit/s"),
            ("lo,cap=1e7=1.2.3.4:5", "from 0.1 to 1000000"),
            ("lo,cap==1.2.3.4:5", "cap ``"),
            ("lo,cap=1,cap=2=1.2.3.4:5", "LOCAL,cap=20="),
            ("lo,cap=1", "LOCAL,cap=20="),
            ("wlan77=1.2.3.4:5", "`wlan77`"),
            ("1.2.3.4=1.2.3.4", "expected"),
        ] {
            let error = text.parse::<PathConfig>().unwrap_err().to_string();
            assert!(error.contains(part) && error.contains(text), "{error}");
        }
    }
}
