//! Reads the current interfaces, addresses, routes and rules, and reports changes (rtnetlink's multicast groups).
//!
//! A notification only reports that something changed; the receiver then reads everything again. So a burst of
//! changes costs one reading, and notifications dropped by the kernel lose no information. Not here: the meaning of a
//! change for a path.

use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd, RawFd};

use rustix::net::SocketFlags;
use rustix::net::netlink::SocketAddrNetlink;

use super::message::{self, Interface, NetlinkMessage, Route, Rule};
use super::{Netlink, Request, route_socket};
use crate::fd;

/// Bytes of one read; the kernel fills at most 32 KiB.
const BUFFER: usize = 64 << 10;
/// Number of interrupted readings after which the last one is used.
const TRIES: usize = 4;
/// Groups of links, addresses, routes and rules (RTMGRP_*; a rule's group is number 8 and 19).
const GROUPS: u32 = 1 | 1 << 4 | 1 << 6 | 1 << 7 | 1 << 8 | 1 << 10 | 1 << 18;

/// The network configuration of a namespace at one moment.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Network {
    /// Every interface with its addresses.
    pub interfaces: Vec<Interface>,
    /// Routes to other hosts, of every table.
    pub routes: Vec<Route>,
    /// Rules that choose a table.
    pub rules: Vec<Rule>,
}

impl Network {
    /// Reads the configuration of this thread's namespace.
    ///
    /// # Errors
    /// The kernel's.
    pub fn read() -> io::Result<Self> {
        let mut netlink = Netlink::open()?;
        for _ in 1..TRIES {
            if let (network, false) = Self::read_once(&mut netlink)? {
                return Ok(network);
            }
        }
        Ok(Self::read_once(&mut netlink)?.0)
    }

    /// Reads once. Also returns whether a change interrupted the reading.
    fn read_once(netlink: &mut Netlink) -> io::Result<(Self, bool)> {
        let mut network = Self::default();
        let mut interrupted = false;
        // The length of each request's fixed part: ifinfomsg, ifaddrmsg, rtmsg, fib_rule_hdr.
        let requests = [
            (libc::RTM_GETLINK, 16),
            (libc::RTM_GETADDR, 8),
            (libc::RTM_GETROUTE, 12),
            (libc::RTM_GETRULE, 12),
        ];
        for (kind, length) in requests {
            let asked = netlink.dump(kind, length, |message| network.take(message));
            match asked {
                Ok(changed) => interrupted |= changed,
                // A kernel without policy routing has no rules.
                Err(error) if kind == libc::RTM_GETRULE && error.raw_os_error() == Some(libc::EOPNOTSUPP) => {
                }
                Err(error) => return Err(error),
            }
        }
        Ok((network, interrupted))
    }

    fn take(&mut self, message: NetlinkMessage) {
        match message {
            NetlinkMessage::Interface(interface) => self.interfaces.push(interface),
            NetlinkMessage::Address(index, address) => {
                let of = self.interfaces.iter_mut().find(|interface| interface.index == index);
                of.into_iter().for_each(|interface| interface.addresses.push(address));
            }
            NetlinkMessage::Routes(routes) => self.routes.extend(routes),
            NetlinkMessage::Rule(rule) => self.rules.push(rule),
            NetlinkMessage::Done | NetlinkMessage::Error(_) | NetlinkMessage::Other => {}
        }
    }
}

impl Netlink {
    /// Requests everything of a kind; returns whether a change interrupted the answer.
    fn dump(&mut self, kind: u16, length: usize, mut each: impl FnMut(NetlinkMessage)) -> io::Result<bool> {
        self.send(Request::new(kind, libc::NLM_F_DUMP, &vec![0; length]))?;
        let mut buffer = vec![0; BUFFER];
        let mut interrupted = false;
        loop {
            let n = match fd::read(self.socket.as_fd(), &mut buffer) {
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                n => n?,
            };
            let (messages, changed) = message::messages(&buffer[..n]);
            interrupted |= changed;
            for message in messages {
                match message {
                    NetlinkMessage::Done | NetlinkMessage::Error(0) => return Ok(interrupted),
                    NetlinkMessage::Error(code) => return Err(io::Error::from_raw_os_error(-code)),
                    message => each(message),
                }
            }
        }
    }
}

/// Readable whenever interfaces, addresses, routes or rules of the namespace have changed.
#[derive(Debug)]
pub struct NetworkChanges {
    socket: OwnedFd,
}

impl NetworkChanges {
    /// Changes of this thread's namespace from now on.
    ///
    /// # Errors
    /// The kernel's.
    pub fn subscribe() -> io::Result<Self> {
        let socket = route_socket(SocketFlags::CLOEXEC | SocketFlags::NONBLOCK)?;
        rustix::net::bind(&socket, &SocketAddrNetlink::new(0, GROUPS))?;
        Ok(Self { socket })
    }

    /// Reads every waiting notification. Returns whether any of them is a change.
    ///
    /// # Errors
    /// The kernel's.
    pub fn drain(&self) -> io::Result<bool> {
        let mut buffer = vec![0; BUFFER];
        let mut changed = false;
        loop {
            match fd::read(self.socket.as_fd(), &mut buffer) {
                Ok(n) => changed |= message::is_change(&buffer[..n]),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(changed),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                // Notifications were dropped, so anything may have changed.
                Err(error) if error.raw_os_error() == Some(libc::ENOBUFS) => changed = true,
                Err(error) => return Err(error),
            }
        }
    }
}

impl AsFd for NetworkChanges {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

impl AsRawFd for NetworkChanges {
    fn as_raw_fd(&self) -> RawFd {
        self.socket.as_raw_fd()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_loopback_interface_of_this_host_is_read() {
        let network = Network::read().unwrap();
        let loopback = network.interfaces.iter().find(|interface| interface.loopback).unwrap();
        assert_eq!(loopback.name, "lo");
        assert_eq!(loopback.up, loopback.addresses.iter().any(|address| address.is_loopback()));
        assert!(network.rules.iter().all(|rule| rule.table != 0));
    }
}
