//! Two namespaces connected by veth pairs, with the same sides, addresses and rules as an emulated network
//! but without a link model, to measure the transports alone.

use crate::namespace::Namespace;
use crate::network::{NetworkError, Side, system};
use std::ffi::OsStr;
use std::io;
use std::net::IpAddr;
use std::os::fd::AsFd;
use std::process::Command;
use tributary_tun::Netlink;

/// A network without shaping. Dropping it removes it.
#[derive(Debug)]
pub struct VethNetwork {
    client: Namespace,
    server: Namespace,
    paths: usize,
}

impl VethNetwork {
    /// Connects two new namespaces by this many paths. Call [`crate::isolate`] first.
    ///
    /// # Errors
    /// [`NetworkError`] when the system refuses a namespace or an interface.
    pub fn create(paths: usize) -> Result<Self, NetworkError> {
        let namespace = || Namespace::create().map_err(system("creating a network namespace"));
        let network = Self { client: namespace()?, server: namespace()?, paths };
        for path in 0..paths {
            network
                .join(path)
                .map_err(system(format!("creating the veth pair {}", Self::interface(path))))?;
        }
        Ok(network)
    }

    /// Sets the congestion control of sockets whose program chooses none, in both namespaces.
    ///
    /// # Errors
    /// [`NetworkError`] when the kernel does not have it, or does not allow it in a namespace.
    pub fn set_congestion(&self, name: &str) -> Result<(), NetworkError> {
        let write = || std::fs::write("/proc/sys/net/ipv4/tcp_congestion_control", name);
        for namespace in [&self.client, &self.server] {
            namespace.run(write).flatten().map_err(|error| match error.raw_os_error() {
                Some(libc::EPERM) => NetworkError::RestrictedCongestion(name.to_owned()),
                _ => system(format!("choosing the congestion control {name}"))(error),
            })?;
        }
        Ok(())
    }

    fn join(&self, path: usize) -> io::Result<()> {
        let name = Self::interface(path);
        self.client.run(|| Netlink::open()?.add_veth(&name, self.server.as_fd()))??;
        for (side, namespace) in [(Side::Client, &self.client), (Side::Server, &self.server)] {
            namespace.run(|| {
                let mut netlink = Netlink::open()?;
                let address = IpAddr::V4(side.address(path));
                netlink.set_link(&name, true, None)?;
                netlink.add_address(&name, address, 24)?;
                // As in an emulated network, only the client chooses a path by its source address.
                match side {
                    Side::Client => netlink.route_by_source(&name, address, 101 + path as u8),
                    Side::Server => Ok(()),
                }
            })??;
        }
        Ok(())
    }

    /// Name of the interfaces of a path (index from zero), on both sides.
    #[must_use]
    pub fn interface(path: usize) -> String {
        format!("path{}", path + 1)
    }

    /// Number of paths.
    #[must_use]
    pub fn paths(&self) -> usize {
        self.paths
    }

    /// A command that will run on one side.
    #[must_use]
    pub fn command(&self, side: Side, program: impl AsRef<OsStr>) -> Command {
        match side {
            Side::Client => self.client.command(program),
            Side::Server => self.server.command(program),
        }
    }

    /// Runs `work` on a new thread on one side and waits for it. Sockets created there stay on that side.
    ///
    /// # Errors
    /// [`NetworkError`] when the thread cannot enter the namespace.
    pub fn run<T: Send>(&self, side: Side, work: impl FnOnce() -> T + Send) -> Result<T, NetworkError> {
        let namespace = match side {
            Side::Client => &self.client,
            Side::Server => &self.server,
        };
        namespace.run(work).map_err(system("entering a network namespace"))
    }
}
