//! The few rtnetlink requests that emulator and tunnels make, each acknowledged by the kernel (RFC 3549 framing), and the
//! network configuration that path management reads and watches.

#[doc(hidden)]
pub mod fuzz;
mod message;
mod policy;
mod watch;

use crate::fd;
use std::ffi::CString;
use std::io;
use std::net::IpAddr;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};

use rustix::net::{AddressFamily, SendFlags, SocketFlags, SocketType};

pub use message::{Interface, Route, Rule};
pub use policy::{MAIN_TABLE, Selector, TableRule};
pub use watch::{Network, NetworkChanges};

// Values of linux/rtnetlink.h, linux/if_link.h, linux/if_addr.h and linux/fib_rules.h.
const IFLA_IFNAME: u16 = 3;
const IFLA_MTU: u16 = 4;
const IFLA_TXQLEN: u16 = 13;
const IFLA_LINKINFO: u16 = 18;
const IFLA_NET_NS_FD: u16 = 28;
const IFLA_INFO_KIND: u16 = 1;
const IFLA_INFO_DATA: u16 = 2;
const VETH_INFO_PEER: u16 = 1;
const IFA_ADDRESS: u16 = 1;
const IFA_LOCAL: u16 = 2;
const RTA_DST: u16 = 1;
const RTA_OIF: u16 = 4;
const RTA_GATEWAY: u16 = 5;
const RTA_PREFSRC: u16 = 7;
const FRA_SRC: u16 = 2;
const FRA_PRIORITY: u16 = 6;
const FR_ACT_TO_TABLE: u8 = 1;
const NO_DUPLICATE_ADDRESS_DETECTION: u8 = 0x02;

/// A request under construction.
struct Request(Vec<u8>);

impl Request {
    fn new(kind: u16, flags: i32, body: &[u8]) -> Self {
        let mut bytes = vec![0; 16];
        bytes[4..6].copy_from_slice(&kind.to_ne_bytes());
        let flags = (flags | libc::NLM_F_REQUEST | libc::NLM_F_ACK) as u16;
        bytes[6..8].copy_from_slice(&flags.to_ne_bytes());
        bytes.extend_from_slice(body);
        Self(bytes)
    }

    fn attribute(mut self, kind: u16, value: &[u8]) -> Self {
        push_attribute(&mut self.0, kind, value);
        self
    }
}

/// Appends an attribute to a message or to the value of another attribute.
fn push_attribute(bytes: &mut Vec<u8>, kind: u16, value: &[u8]) {
    let length = (4 + value.len()) as u16;
    bytes.extend_from_slice(&length.to_ne_bytes());
    bytes.extend_from_slice(&kind.to_ne_bytes());
    bytes.extend_from_slice(value);
    bytes.resize(bytes.len().next_multiple_of(4), 0);
}

fn family_and_bytes(address: IpAddr) -> (u8, Vec<u8>) {
    match address {
        IpAddr::V4(v4) => (libc::AF_INET as u8, v4.octets().to_vec()),
        IpAddr::V6(v6) => (libc::AF_INET6 as u8, v6.octets().to_vec()),
    }
}

/// The index of an interface of this thread's network namespace.
///
/// # Errors
/// The interface does not exist.
pub fn interface_index(name: &str) -> io::Result<u32> {
    let name = CString::new(name).map_err(io::Error::other)?;
    // SAFETY: the name ends in NUL and outlives the call.
    match unsafe { libc::if_nametoindex(name.as_ptr()) } {
        0 => Err(io::Error::last_os_error()),
        index => Ok(index),
    }
}

/// Creation flags: fail if the object exists.
const CREATE: i32 = libc::NLM_F_CREATE | libc::NLM_F_EXCL;

fn route_socket(flags: SocketFlags) -> io::Result<OwnedFd> {
    // The protocol zero is NETLINK_ROUTE.
    Ok(rustix::net::socket_with(AddressFamily::NETLINK, SocketType::RAW, flags, None)?)
}

/// A route socket in the network namespace of the thread that opened it.
#[derive(Debug)]
pub struct Netlink {
    socket: OwnedFd,
}

impl Netlink {
    /// Opens a route socket.
    ///
    /// # Errors
    /// The kernel's answer.
    pub fn open() -> io::Result<Self> {
        Ok(Self { socket: route_socket(SocketFlags::CLOEXEC)? })
    }

    fn send(&mut self, request: Request) -> io::Result<()> {
        let mut bytes = request.0;
        let length = bytes.len() as u32;
        bytes[..4].copy_from_slice(&length.to_ne_bytes());
        rustix::net::send(&self.socket, &bytes, SendFlags::empty())?;
        Ok(())
    }

    /// Sends one request and reads its acknowledgement.
    fn request(&mut self, request: Request) -> io::Result<()> {
        self.send(request)?;
        let mut answer = [0_u8; 4096];
        let n = fd::read(self.socket.as_fd(), &mut answer)?;
        // struct nlmsgerr follows the 16-byte header: a negative errno, or zero.
        match answer.get(16..20) {
            Some(code) if n >= 20 => match i32::from_ne_bytes(code.try_into().expect("four bytes")) {
                0 => Ok(()),
                code => Err(io::Error::from_raw_os_error(-code)),
            },
            _ => Err(io::Error::other("short answer from the kernel")),
        }
    }

    /// Brings an interface up or down; sets MTU and transmit queue length when given.
    ///
    /// # Errors
    /// The kernel's answer.
    pub fn set_link(&mut self, name: &str, up: bool, mtu_and_queue: Option<(u32, u32)>) -> io::Result<()> {
        let index = interface_index(name)?;
        let up_flag = libc::IFF_UP as u32;
        let mut body = vec![0_u8; 16]; // struct ifinfomsg
        body[4..8].copy_from_slice(&index.to_ne_bytes());
        body[8..12].copy_from_slice(&(if up { up_flag } else { 0 }).to_ne_bytes());
        body[12..16].copy_from_slice(&up_flag.to_ne_bytes());
        let mut request = Request::new(libc::RTM_NEWLINK, 0, &body);
        if let Some((mtu, queue)) = mtu_and_queue {
            request = request.attribute(IFLA_MTU, &mtu.to_ne_bytes());
            request = request.attribute(IFLA_TXQLEN, &queue.to_ne_bytes());
        }
        self.request(request)
    }

    /// Makes a pair of joined interfaces of the same name: one here, its peer in another namespace.
    ///
    /// # Errors
    /// The kernel's answer.
    pub fn add_veth(&mut self, name: &str, peer: BorrowedFd<'_>) -> io::Result<()> {
        let name = CString::new(name).map_err(io::Error::other)?;
        let mut far = vec![0_u8; 16]; // struct ifinfomsg
        push_attribute(&mut far, IFLA_IFNAME, name.as_bytes_with_nul());
        push_attribute(&mut far, IFLA_NET_NS_FD, &peer.as_raw_fd().to_ne_bytes());
        let (mut data, mut info) = (Vec::new(), Vec::new());
        push_attribute(&mut data, VETH_INFO_PEER, &far);
        push_attribute(&mut info, IFLA_INFO_KIND, b"veth");
        push_attribute(&mut info, IFLA_INFO_DATA, &data);
        let request = Request::new(libc::RTM_NEWLINK, CREATE, &[0; 16]);
        let request = request.attribute(IFLA_IFNAME, name.as_bytes_with_nul());
        self.request(request.attribute(IFLA_LINKINFO, &info))
    }

    /// Gives an interface an address, usable at once.
    ///
    /// # Errors
    /// The kernel's answer.
    pub fn add_address(&mut self, name: &str, address: IpAddr, prefix: u8) -> io::Result<()> {
        let (family, bytes) = family_and_bytes(address);
        let mut body = vec![family, prefix, NO_DUPLICATE_ADDRESS_DETECTION, 0]; // struct ifaddrmsg
        body.extend_from_slice(&interface_index(name)?.to_ne_bytes());
        let request = Request::new(libc::RTM_NEWADDR, CREATE, &body);
        self.request(request.attribute(IFA_LOCAL, &bytes).attribute(IFA_ADDRESS, &bytes))
    }

    /// Routes packets for `to`/`prefix` out of the interface; through the gateway `via` if it is given.
    ///
    /// # Errors
    /// The kernel's answer.
    pub fn add_route(
        &mut self,
        name: &str,
        (to, prefix): (IpAddr, u8),
        via: Option<IpAddr>,
    ) -> io::Result<()> {
        let (family, bytes) = family_and_bytes(to);
        let direct = to.is_ipv4() && via.is_none();
        let scope = if direct { libc::RT_SCOPE_LINK } else { libc::RT_SCOPE_UNIVERSE };
        let (table, kind) = (libc::RT_TABLE_MAIN, libc::RTN_UNICAST);
        let mut body = vec![family, prefix, 0, 0, table, libc::RTPROT_STATIC, scope, kind];
        body.extend_from_slice(&[0; 4]); // struct rtmsg ends with its flags
        let mut request = Request::new(libc::RTM_NEWROUTE, CREATE, &body);
        if prefix > 0 {
            request = request.attribute(RTA_DST, &bytes);
        }
        if let Some(via) = via {
            request = request.attribute(RTA_GATEWAY, &family_and_bytes(via).1);
        }
        self.request(request.attribute(RTA_OIF, &interface_index(name)?.to_ne_bytes()))
    }

    /// Makes every address of `source`'s family local to this namespace, on the loopback interface `name`. Packets to them
    /// have this source unless their socket has another.
    ///
    /// # Errors
    /// The kernel's answer.
    pub fn add_local_default(&mut self, name: &str, source: IpAddr) -> io::Result<()> {
        let (family, bytes) = family_and_bytes(source);
        let scope = if source.is_ipv4() { libc::RT_SCOPE_HOST } else { libc::RT_SCOPE_UNIVERSE };
        let (table, kind) = (libc::RT_TABLE_MAIN, libc::RTN_LOCAL);
        let mut body = vec![family, 0, 0, 0, table, libc::RTPROT_STATIC, scope, kind];
        body.extend_from_slice(&[0; 4]); // struct rtmsg ends with its flags
        let request = Request::new(libc::RTM_NEWROUTE, CREATE, &body).attribute(RTA_PREFSRC, &bytes);
        self.request(request.attribute(RTA_OIF, &interface_index(name)?.to_ne_bytes()))
    }

    /// Routes all packets *from* `source` out of the interface, through a separate routing table.
    ///
    /// # Errors
    /// The kernel's answer.
    pub fn route_by_source(&mut self, name: &str, source: IpAddr, table: u8) -> io::Result<()> {
        let (family, bytes) = family_and_bytes(source);
        let index = interface_index(name)?;
        let scope = if source.is_ipv4() { libc::RT_SCOPE_LINK } else { libc::RT_SCOPE_UNIVERSE };
        let mut body = vec![family, 0, 0, 0, table, libc::RTPROT_STATIC, scope, libc::RTN_UNICAST];
        body.extend_from_slice(&[0; 4]); // struct rtmsg ends with its flags
        let route = Request::new(libc::RTM_NEWROUTE, CREATE, &body);
        self.request(route.attribute(RTA_OIF, &index.to_ne_bytes()))?;
        let bits = (bytes.len() * 8) as u8;
        let mut body = vec![family, 0, bits, 0, table, 0, 0, FR_ACT_TO_TABLE]; // struct fib_rule_hdr
        body.extend_from_slice(&[0; 4]);
        let rule = Request::new(libc::RTM_NEWRULE, CREATE, &body);
        let priority = 1000 + u32::from(table);
        self.request(rule.attribute(FRA_SRC, &bytes).attribute(FRA_PRIORITY, &priority.to_ne_bytes()))
    }
}
