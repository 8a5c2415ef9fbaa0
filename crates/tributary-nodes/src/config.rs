//! Settings of the nodes: tables whose keys are the program's flags, checked before anything starts.
//!
//! Unknown keys are refused. Paths of keys are relative to the working directory. Not here: settings files, which the program
//! turns into flags.

use crate::error::NodeError;
use crate::hop::OVERHEAD;
use crate::keys::NeighbourKey;
use core::time::Duration;
use serde::Deserialize;
use serde::de::DeserializeOwned;
use std::collections::BTreeSet;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::path::PathBuf;
use tributary_coding::CoefficientKey;
use tributary_cotag as cotag;

/// Most access points of a node.
const MOST_POINTS: usize = 32;
/// Key of the coefficients, the same at all nodes and no secret: each hop encrypts what is coded, and the coefficients of Cauchy
/// rows are public, too.
const COEFFICIENTS: &[u8; 32] = b"tributary cotag coefficients key";

/// How traffic is coded.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Mode {
    /// Originals at once, Cauchy rows when the interval has ended.
    #[default]
    Systematic,
    /// As in the paper: random combinations only, when the interval has ended.
    Paper,
    /// No coding: each flow over one access point.
    Off,
}

/// An address of a TUN device, such as `10.99.0.1/24`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(try_from = "String")]
pub struct Prefix {
    /// The address.
    pub address: IpAddr,
    /// Length of the network prefix in bits.
    pub bits: u8,
}

impl Prefix {
    /// The network's first address, with the same length.
    #[must_use]
    pub fn network(&self) -> Self {
        let address = match self.address {
            IpAddr::V4(v4) => (v4 & Ipv4Addr::from_bits(high_bits(32, self.bits) as u32)).into(),
            IpAddr::V6(v6) => (v6 & Ipv6Addr::from_bits(high_bits(128, self.bits))).into(),
        };
        Self { address, bits: self.bits }
    }

    /// Whether the address is in the network.
    #[must_use]
    pub fn contains(&self, address: IpAddr) -> bool {
        address.is_ipv4() == self.address.is_ipv4()
            && self.network() == Self { address, bits: self.bits }.network()
    }
}

/// A mask of `width` bits of which the first `ones` are set.
fn high_bits(width: u32, ones: u8) -> u128 {
    let zeros = width.saturating_sub(u32::from(ones));
    let all = u128::MAX >> (128 - width);
    all & u128::MAX.checked_shl(zeros).unwrap_or(0)
}

impl core::fmt::Display for Prefix {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        write!(f, "{}/{}", self.address, self.bits)
    }
}

impl TryFrom<String> for Prefix {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        let wrong = || format!("`{text}` is no address with a prefix length, as 10.99.0.1/24");
        let (address, bits) = text.split_once('/').ok_or_else(wrong)?;
        let (address, bits) = (address.parse::<IpAddr>(), bits.parse::<u8>());
        let (Ok(address), Ok(bits)) = (address, bits) else { return Err(wrong()) };
        if bits > if address.is_ipv4() { 32 } else { 128 } {
            Err(wrong())
        } else {
            Ok(Self { address, bits })
        }
    }
}

/// An access point in the gateway's settings: `NAME=PUBKEY` or `NAME=shared:FILE`.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(try_from = "String")]
pub struct KnownPoint {
    /// Its name in statistics.
    pub name: String,
    /// How it is known.
    pub key: NeighbourKey,
}

impl TryFrom<String> for KnownPoint {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        // A text that is something else is not repeated: it may be a secret.
        let (name, key) = text
            .split_once('=')
            .filter(|(name, key)| !name.is_empty() && !key.is_empty())
            .ok_or("expected NAME=PUBKEY or NAME=shared:FILE")?;
        Ok(Self { name: name.to_owned(), key: NeighbourKey::parse(key, &place(name))? })
    }
}

/// The place of a key in errors.
fn place(name: &str) -> String {
    format!("the key of `{name}`")
}

/// An access point in the device's settings: `NAME=ADDRESS:PORT,PUBKEY[,LOCAL]` or `NAME=ADDRESS:PORT,shared:FILE[,LOCAL]`.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(try_from = "String")]
pub struct ReachedPoint {
    /// Its name in statistics.
    pub name: String,
    /// The address it listens on.
    pub address: SocketAddr,
    /// How it is known.
    pub key: NeighbourKey,
    /// Local address to send from; selects the radio.
    pub local: Option<IpAddr>,
}

impl TryFrom<String> for ReachedPoint {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        let wrong = || "expected NAME=ADDRESS:PORT,PUBKEY[,LOCAL ADDRESS], with shared:FILE for PUBKEY if both ends have one key";
        let (name, rest) = text.split_once('=').ok_or_else(wrong)?;
        let parts: Vec<&str> = rest.split(',').collect();
        let (address, key, local) = match parts[..] {
            [address, key] => (address, key, None),
            [address, key, local] => (address, key, Some(local.parse().map_err(|_| wrong())?)),
            _ => return Err(wrong().to_owned()),
        };
        let address = address.parse().map_err(|_| wrong())?;
        if name.is_empty() || key.is_empty() {
            return Err(wrong().to_owned());
        }
        Ok(Self { name: name.to_owned(), address, key: NeighbourKey::parse(key, &place(name))?, local })
    }
}

/// Settings that the gateway, the access points and the device must agree on.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(default)]
pub struct Coding {
    /// How traffic is coded.
    pub mode: Mode,
    /// The interval T in milliseconds.
    pub interval_ms: u64,
    /// How long the device waits for a cohort, in milliseconds; must exceed T and the difference of the
    /// links' delays.
    pub patience_ms: u64,
    /// Most redundant packets per packet.
    pub redundancy: f64,
    /// Largest IP packet on any link between the nodes.
    pub link_mtu: usize,
}

impl Default for Coding {
    /// The machines' defaults, and links with Ethernet's MTU.
    fn default() -> Self {
        Self {
            mode: Mode::default(),
            interval_ms: cotag::INTERVAL.as_millis() as u64,
            patience_ms: cotag::PATIENCE.as_millis() as u64,
            redundancy: f64::from(cotag::REDUNDANCY) / 1000.0,
            link_mtu: 1500,
        }
    }
}

impl Coding {
    /// Largest packet through the tunnel: `link_mtu` minus IPv6, UDP, the hop's envelope, the COTAG header, a
    /// mix's bitmap and the symbol's length.
    #[must_use]
    pub fn inner_mtu(&self) -> usize {
        self.link_mtu.saturating_sub(self.overhead())
    }

    fn overhead(&self) -> usize {
        let bitmap = if self.mode == Mode::Paper { 160 } else { 32 };
        40 + 8 + OVERHEAD + 24 + bitmap + 2
    }

    /// Checks the settings. `addresses` are those of the TUN device.
    fn check_with(&self, addresses: &[Prefix]) -> Result<(), NodeError> {
        let least_inner = if addresses.iter().any(|prefix| prefix.address.is_ipv6()) { 1280 } else { 576 };
        let least = least_inner + self.overhead();
        let out = |key, value: String, expected: String| Err(NodeError::Setting { key, value, expected });
        if !(least..=9200).contains(&self.link_mtu) {
            let expected =
                format!("{least} to 9200: inside the tunnel packets of {least_inner} bytes must fit");
            return out("link_mtu", self.link_mtu.to_string(), expected);
        }
        if !(1..=1000).contains(&self.interval_ms) {
            return out("interval_ms", self.interval_ms.to_string(), "1 to 1000".to_owned());
        }
        if self.patience_ms < self.interval_ms || self.patience_ms > 10_000 {
            let expected = format!("interval_ms ({}) to 10000", self.interval_ms);
            return out("patience_ms", self.patience_ms.to_string(), expected);
        }
        if !(0.0..=1.0).contains(&self.redundancy) {
            return out("redundancy", self.redundancy.to_string(), "0 to 1".to_owned());
        }
        Ok(())
    }

    /// Settings of the machines of `tributary-cotag`.
    pub(crate) fn machine(&self) -> cotag::Config {
        cotag::Config {
            mode: if self.mode == Mode::Paper { cotag::Mode::Paper } else { cotag::Mode::Systematic },
            interval: Duration::from_millis(self.interval_ms),
            patience: Duration::from_millis(self.patience_ms),
            redundancy: (self.redundancy * 1000.0).round() as u32,
            ..cotag::Config::new(CoefficientKey::new(*COEFFICIENTS))
        }
    }
}

/// A TUN device.
#[derive(Clone, Debug, PartialEq, Deserialize)]
pub struct Inner {
    /// Name of the interface.
    pub tun: String,
    /// Its addresses.
    pub address: Vec<Prefix>,
    /// Networks reached through it.
    #[serde(default)]
    pub route: Vec<Prefix>,
}

macro_rules! settings {
    ($(#[$doc:meta])* $name:ident { $($(#[$field_doc:meta])* $field:ident: $kind:ty,)* }) => {
        $(#[$doc])*
        #[derive(Clone, Debug, PartialEq, Deserialize)]
        pub struct $name {
            $($(#[$field_doc])* pub $field: $kind,)*
            /// File of this node's private key. Without it every neighbour must have a shared key.
            pub key: Option<PathBuf>,
            /// Settings that all nodes must agree on.
            #[serde(flatten)]
            pub coding: Coding,
        }
    };
}

settings! {
    /// Settings of a gateway.
    GatewayConfig {
        /// Address and port for the access points.
        listen: SocketAddr,
        /// The access points.
        access_point: Vec<KnownPoint>,
        /// The TUN device into which traffic for the device is routed.
        #[serde(flatten)]
        inner: Inner,
        /// Networks that packets from the device may come from; empty: those that are routed to it.
        #[serde(default)]
        allowed: Vec<Prefix>,
    }
}

settings! {
    /// Settings of an access point.
    AccessPointConfig {
        /// Address and port of the gateway.
        gateway: SocketAddr,
        /// How the gateway is known.
        gateway_key: NeighbourKey,
        /// Address and port for the device.
        listen: SocketAddr,
        /// How the device is known.
        device_key: NeighbourKey,
        /// Number of this access point; every access point needs a different one.
        number: u8,
        /// Networks that packets from the device may come from; empty: the gateway alone decides.
        #[serde(default)]
        allowed: Vec<Prefix>,
    }
}

settings! {
    /// Settings of a device.
    DeviceConfig {
        /// The access points.
        access_point: Vec<ReachedPoint>,
        /// The TUN device that applications use.
        #[serde(flatten)]
        inner: Inner,
    }
}

/// Settings that can be read from a table.
pub trait Settings: DeserializeOwned {
    /// All keys.
    const KEYS: &'static [&'static str];

    /// Checks the values and their combinations.
    ///
    /// # Errors
    /// [`NodeError::Setting`] names the key and its valid values.
    fn check(&self) -> Result<(), NodeError>;
}

const COMMON: [&str; 6] = ["key", "mode", "interval_ms", "patience_ms", "redundancy", "link_mtu"];

const fn keys<const N: usize, const M: usize>(own: [&'static str; N]) -> [&'static str; M] {
    let mut all = [""; M];
    let mut at = 0;
    while at < M {
        all[at] = if at < N { own[at] } else { COMMON[at - N] };
        at += 1;
    }
    all
}

fn check_points<'a>(names: impl ExactSizeIterator<Item = &'a String>) -> Result<(), NodeError> {
    let wrong = |value, expected| Err(NodeError::Setting { key: "access_point", value, expected });
    if !(1..=MOST_POINTS).contains(&names.len()) {
        return wrong(format!("{} entries", names.len()), format!("1 to {MOST_POINTS} access points"));
    }
    let mut known = BTreeSet::new();
    for name in names {
        if !known.insert(name) {
            return wrong(format!("`{name}` twice"), "access points with different names".to_owned());
        }
    }
    Ok(())
}

impl Settings for GatewayConfig {
    const KEYS: &'static [&'static str] =
        &keys::<6, 12>(["listen", "access_point", "tun", "address", "route", "allowed"]);

    fn check(&self) -> Result<(), NodeError> {
        check_points(self.access_point.iter().map(|point| &point.name))?;
        // Access points are known only when they have sent something: their own packets cannot be kept out.
        if let Some(route) = self.inner.route.iter().find(|route| route.bits < 2) {
            let expected = "the networks behind the device: a default route would send the tunnel's own packets \
                            into the tunnel";
            return Err(NodeError::Setting {
                key: "route",
                value: route.to_string(),
                expected: expected.to_owned(),
            });
        }
        self.coding.check_with(&self.inner.address)
    }
}

impl Settings for AccessPointConfig {
    const KEYS: &'static [&'static str] =
        &keys::<6, 12>(["gateway", "gateway_key", "listen", "device_key", "number", "allowed"]);

    fn check(&self) -> Result<(), NodeError> {
        self.coding.check_with(&[])
    }
}

impl Settings for Coding {
    const KEYS: &'static [&'static str] = &["mode", "interval_ms", "patience_ms", "redundancy", "link_mtu"];

    fn check(&self) -> Result<(), NodeError> {
        self.check_with(&[])
    }
}

impl Settings for DeviceConfig {
    const KEYS: &'static [&'static str] = &keys::<4, 10>(["access_point", "tun", "address", "route"]);

    fn check(&self) -> Result<(), NodeError> {
        check_points(self.access_point.iter().map(|point| &point.name))?;
        self.coding.check_with(&self.inner.address)
    }
}

/// Reads settings from a table whose keys are the flags' names.
///
/// # Errors
/// [`NodeError`] names the key.
pub fn load<T: Settings>(table: toml::Table) -> Result<T, NodeError> {
    let failed = |reason: String| NodeError::Settings { reason };
    if let Some(unknown) = table.keys().find(|key| !T::KEYS.contains(&key.as_str())) {
        return Err(failed(format!("unknown key `{unknown}`; there are {}", T::KEYS.join(", "))));
    }
    let settings: T = table
        .try_into()
        .map_err(|error: toml::de::Error| failed(error.to_string().trim_end().replace('\n', ", ")))?;
    settings.check()?;
    Ok(settings)
}

#[cfg(test)]
mod tests {
    use super::*;

    const GATEWAY: &str = "listen = '192.0.2.1:7100'\ntun = 'cotag0'\naddress = ['10.99.0.1/24', 'fd99::1/64']\n\
        access_point = ['ap1=2Wr1zUnTwW0Zp3sh4cFXlqJmhbBvyvVtzTQ0pFC7rV0=', 'ap2=shared:ap2.key']\nkey = 'k'\n";

    fn read<T: Settings>(text: &str) -> Result<T, String> {
        load(text.parse().expect("TOML")).map_err(|error| error.to_string())
    }

    #[test]
    fn a_file_is_read_and_has_defaults() {
        let config: GatewayConfig = read(GATEWAY).expect("it is right");
        assert_eq!((config.coding.clone(), config.access_point.len()), (Coding::default(), 2));
        assert_eq!(config.coding.inner_mtu(), 1362);
        let device = "tun = 'cotag0'\naddress = ['10.99.0.2/24']\nmode = 'off'\n\
            access_point = ['wifi=192.0.2.1:7200,shared:wifi.key,192.0.2.9']\nroute = ['10.98.0.0/24']\n";
        let device: DeviceConfig = read(device).expect("it is right");
        assert_eq!((device.coding.mode, device.inner.route.len()), (Mode::Off, 1));
        let point = "gateway = '192.0.2.1:7100'\ngateway_key = 'shared:g'\nlisten = '[::]:7200'\ndevice_key = 'shared:d'\n\
            number = 1\n";
        assert_eq!(read::<AccessPointConfig>(point).expect("it is right").number, 1);
        assert_eq!(config.access_point[1].key, NeighbourKey::Shared("ap2.key".into()));
        assert!(matches!(config.access_point[0].key, NeighbourKey::Public(_)));
        let wrong = read::<AccessPointConfig>(&point.replace("shared:d", "d")).unwrap_err();
        assert!(wrong.contains("device_key") && wrong.contains("tributary pubkey"), "{wrong}");
    }

    #[test]
    fn every_fault_names_its_key_and_the_way_out() {
        let refused = |more: &str| read::<GatewayConfig>(&format!("{GATEWAY}{more}")).unwrap_err();
        assert!(refused("nmae = 1").contains("unknown key `nmae`; there are listen, access_point"));
        assert!(refused("link_mtu = 1400").contains("link_mtu"), "{}", refused("link_mtu = 1400"));
        assert!(refused("link_mtu = 1400").contains("1418 to 9200"), "{}", refused("link_mtu = 1400"));
        assert!(refused("redundancy = 1.5").contains("0 to 1"));
        assert!(refused("interval_ms = 0").contains("1 to 1000"));
        assert!(refused("patience_ms = 1").contains("interval_ms (2) to 10000"));
        assert!(refused("mode = 'fast'").contains("systematic"));
        let (start, end) = GATEWAY.split_once("'ap1").expect("it is there");
        let without = format!("{start}{}", end.split_once("ap2.key'").expect("it is there").1);
        assert!(read::<GatewayConfig>(&without).unwrap_err().contains("1 to 32 access points"));
        let wrong = |key| read::<GatewayConfig>(&GATEWAY.replace("ap2=shared:ap2.key", key)).unwrap_err();
        assert!(
            wrong("ap2").contains("access_point") && wrong("ap2").contains("NAME=PUBKEY"),
            "{}",
            wrong("ap2")
        );
        assert!(wrong("ap2=ap2.key").contains("the key of `ap2`"), "{}", wrong("ap2=ap2.key"));
        assert!(wrong("ap1=shared:k").contains("`ap1` twice"), "{}", wrong("ap1=shared:k"));
        // A key in the wrong place is not repeated.
        assert!(
            !wrong("tributary-private-1:AAAA=").contains("AAAA"),
            "{}",
            wrong("tributary-private-1:AAAA=")
        );
        let wrong = GATEWAY.replace("10.99.0.1/24", "10.99.0.1/33");
        assert!(read::<GatewayConfig>(&wrong).unwrap_err().contains("10.99.0.1/33"));
        assert!(read::<GatewayConfig>("").unwrap_err().contains("missing field"));
    }
}
