//! The sockets and the device to which traffic is redirected: made where the privileges or the namespace are, and served by another
//! process, which gets them over a channel.

use std::io::{self, ErrorKind};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, TcpListener, UdpSocket};
use std::os::fd::AsFd;

use tributary_tun::Tun;

use crate::channel;

/// First word of the message with the descriptors: the number of listeners follows, and in the next line why there is no
/// device, or nothing.
const READY: &str = "ready";

/// Sockets and device of a namespace or a machine.
#[derive(Debug)]
pub struct Sockets {
    /// Connections to any destination are redirected to them.
    pub listeners: Vec<TcpListener>,
    /// Questions to DNS servers are redirected to them.
    pub names: Vec<UdpSocket>,
    /// The TUN device with all other packets; or why there is none, so that datagrams are refused.
    pub device: Result<Tun, String>,
}

impl Sockets {
    /// Listens on the loopback addresses of both families. A redirection keeps only the port, so both share it.
    ///
    /// # Errors
    /// The system's.
    pub fn listen(device: Result<Tun, String>, has_ipv6: bool) -> io::Result<Self> {
        let addresses =
            [Some(IpAddr::from(Ipv4Addr::LOCALHOST)), has_ipv6.then_some(Ipv6Addr::LOCALHOST.into())];
        let mut sockets = Self { listeners: Vec::new(), names: Vec::new(), device };
        let (mut tcp, mut udp) = (0, 0);
        for address in addresses.into_iter().flatten() {
            let (listener, socket) = (TcpListener::bind((address, tcp))?, UdpSocket::bind((address, udp))?);
            (tcp, udp) = (listener.local_addr()?.port(), socket.local_addr()?.port());
            sockets.listeners.push(listener);
            sockets.names.push(socket);
        }
        Ok(sockets)
    }

    /// Ports of the listeners and of the sockets for names.
    ///
    /// # Errors
    /// The system's.
    pub fn ports(&self) -> io::Result<(u16, u16)> {
        Ok((self.listeners[0].local_addr()?.port(), self.names[0].local_addr()?.port()))
    }

    /// Sends them to the process at the other end of the channel.
    ///
    /// # Errors
    /// The system's, when it has ended.
    pub fn send(&self, channel: impl AsFd) -> io::Result<()> {
        let sockets = self.listeners.iter().map(AsFd::as_fd).chain(self.names.iter().map(AsFd::as_fd));
        let descriptors: Vec<_> = sockets.chain(self.device.iter().map(AsFd::as_fd)).collect();
        let missing = self.device.as_ref().err().map_or("", String::as_str);
        channel::send(channel, &format!("{READY} {}\n{missing}", self.listeners.len()), &descriptors)
    }

    /// Waits for them. The inner error is another message of the process: why it could not make them, or nothing when it has
    /// ended.
    ///
    /// # Errors
    /// The system's.
    pub fn receive(channel: impl AsFd) -> io::Result<Result<Self, String>> {
        let (text, descriptors) = match channel::receive(channel) {
            // It has ended without having read a message.
            Err(error) if error.kind() == ErrorKind::ConnectionReset => Default::default(),
            received => received?,
        };
        let ready = text.strip_prefix(READY).and_then(|ready| ready.split_once('\n'));
        let ready = ready.and_then(|(count, missing)| Some((count.trim().parse::<usize>().ok()?, missing)));
        let Some((count, missing)) = ready else { return Ok(Err(text)) };
        let mut descriptors = descriptors.into_iter();
        let listeners = descriptors.by_ref().take(count).map(TcpListener::from).collect();
        let names = descriptors.by_ref().take(count).map(UdpSocket::from).collect();
        let device = descriptors.next().map(Tun::from).ok_or_else(|| missing.to_owned());
        Ok(Ok(Self { listeners, names, device }))
    }
}
