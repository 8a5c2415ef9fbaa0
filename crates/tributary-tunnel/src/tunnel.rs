//! The tunnel's parts in their order: device, sockets, redirection; then rules, routes and the resolver. And the way back.

use std::io;
use std::net::Ipv4Addr;
use std::os::fd::AsFd;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{self as unix, UnixListener};

use thiserror::Error;
use tributary_exec::nft::{self, NftError};
use tributary_exec::{ADDRESS, ADDRESS_6, Sockets};
use tributary_tun::{Netlink, QUEUE, Tun, TunError};

use crate::selection::SelectionError;
use crate::settings::Settings;
use crate::{redirect, resolver, routes};

/// Address of the resolver behind the device, as [`ADDRESS`].
const RESOLVER: Ipv4Addr = Ipv4Addr::new(198, 18, 0, 2);

/// Why there is no tunnel.
#[derive(Debug, Error)]
pub enum TunnelError {
    /// Another one is there.
    #[error("another tunnel runs in this network; end that one first")]
    Running,
    /// No device.
    #[error(transparent)]
    Device(#[from] TunError),
    /// The kernel does not redirect.
    #[error(transparent)]
    Nft(#[from] NftError),
    /// A selection that cannot be.
    #[error(transparent)]
    Selection(#[from] SelectionError),
    /// Another step failed.
    #[error("{doing}: {error}")]
    System {
        /// The step.
        doing: &'static str,
        /// The system's reason.
        error: io::Error,
    },
}

fn system(doing: &'static str) -> impl FnOnce(io::Error) -> TunnelError {
    move |error| TunnelError::System { doing, error }
}

/// Held by the process of the only tunnel in a network namespace. Abstract addresses belong to the namespace, and the kernel frees them.
fn lock() -> Result<UnixListener, TunnelError> {
    let bound = unix::SocketAddr::from_abstract_name("tributary-tunnel")
        .and_then(|address| UnixListener::bind_addr(&address));
    bound.map_err(|error| match error.kind() {
        io::ErrorKind::AddrInUse => TunnelError::Running,
        _ => system("looking for another tunnel")(error),
    })
}

/// A tunnel. Dropping it takes everything back.
#[derive(Debug)]
pub struct Tunnel {
    settings: Settings,
    /// Until it is given away.
    sockets: Option<Sockets>,
    has_ipv6: bool,
    /// Whether rules and routes stay at the end.
    holds: bool,
    _lock: UnixListener,
}

impl Tunnel {
    /// Makes the device, the sockets and the redirection, after taking back what a killed predecessor left. Nothing leads to the device
    /// yet.
    ///
    /// # Errors
    /// [`TunnelError`] says what is missing, and how to get it.
    pub fn prepare(settings: Settings) -> Result<Self, TunnelError> {
        // First, because the rules of a tunnel that runs must stay.
        let lock = lock()?;
        let device = Tun::create(&settings.device, true)?;
        take_back()?;
        let has_ipv6 = set_up(&settings).map_err(system("setting up the device"))?;
        let listening = "listening for redirected connections";
        let sockets = Sockets::listen(Ok(device), has_ipv6).map_err(system(listening))?;
        let ports = sockets.ports().map_err(system(listening))?;
        // From here on dropping it takes the rules back.
        let tunnel = Self { settings, sockets: Some(sockets), has_ipv6, holds: false, _lock: lock };
        nft::load(&redirect::rules(&tunnel.settings, ports)?)?;
        Ok(tunnel)
    }

    /// Gives device and sockets to the process at the other end of the channel, which calls [`Sockets::receive`].
    ///
    /// # Errors
    /// The system's, when it has ended.
    pub fn give(&mut self, channel: impl AsFd) -> io::Result<()> {
        // Closed here: they end with the other process.
        self.sockets.take().ok_or(io::ErrorKind::NotFound)?.send(channel)
    }

    /// Leads what is selected to the device, as far as the settings want it.
    ///
    /// # Errors
    /// [`TunnelError`]; dropping the tunnel takes back what was done.
    pub fn lead(&mut self) -> Result<(), TunnelError> {
        if self.settings.routes {
            routes::add(&self.settings, self.has_ipv6).map_err(system("adding rules and routes"))?;
        }
        if self.settings.names {
            let set = resolver::set(&self.settings.device, RESOLVER.into());
            set.map_err(system("replacing /etc/resolv.conf (`--dns off` leaves it as it is)"))?;
        }
        Ok(())
    }

    /// Ends the tunnel because the process that carried it died. With the kill switch, what was selected stays unreachable until the
    /// next start or [`clean`]; returns whether it does.
    #[must_use]
    pub fn lose(mut self) -> bool {
        self.holds = self.settings.kill_switch && self.settings.routes;
        self.holds
    }
}

impl Drop for Tunnel {
    fn drop(&mut self) {
        if self.holds {
            return;
        }
        if let Err(error) = take_back() {
            tracing::error!("taking the tunnel back: {error}; `tributary tunnel clean` tries again");
        }
    }
}

/// Takes back what a tunnel did that was killed, or whose kill switch holds. Does nothing if there is nothing.
///
/// # Errors
/// [`TunnelError`]: a tunnel runs, or a step failed.
pub fn clean() -> Result<(), TunnelError> {
    let _lock = lock()?;
    take_back()
}

fn take_back() -> Result<(), TunnelError> {
    // Each, whatever becomes of the others.
    let outcomes = [
        routes::remove().map_err(system("removing rules and routes")),
        nft::load(&redirect::none()).map_err(TunnelError::from),
        resolver::restore().map_err(system("restoring /etc/resolv.conf")),
    ];
    outcomes.into_iter().collect()
}

/// Addresses and routes of the device. Returns whether there is IPv6.
fn set_up(settings: &Settings) -> io::Result<bool> {
    let (mut netlink, device) = (Netlink::open()?, settings.device.as_str());
    netlink.set_link(device, true, Some((settings.mtu, QUEUE)))?;
    netlink.add_address(device, ADDRESS.into(), 32)?;
    netlink.add_route(device, (RESOLVER.into(), 32), None)?;
    // Answers come in by the device, also for packets whose way out the kernel knows by their mark or user alone.
    let filter = format!("/proc/sys/net/ipv4/conf/{device}/rp_filter");
    if let Err(error) = std::fs::write(&filter, "2") {
        tracing::debug!("{filter}: {error}");
    }
    Ok(netlink.add_address(device, ADDRESS_6.into(), 128).is_ok())
}
