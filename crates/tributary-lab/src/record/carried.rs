//! What an interface carries, from the kernel's counters: a lower bound of its rate while other programs use it.

use core::time::Duration;
use nix::ifaddrs::getifaddrs;
use std::net::IpAddr;
use std::time::Instant;

/// The table of the calling thread's network namespace.
const TABLE: &str = "/proc/thread-self/net/dev";
/// Bytes before the IP header that an Ethernet or WiFi interface counts.
const ETHERNET: u64 = 14;
/// `ARPHRD_ETHER` of `linux/if_arp.h`; WiFi has it, too.
const ETHERNET_TYPE: &str = "1";

/// Bytes of IP packets that an interface carried.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Carried {
    /// Over this time.
    pub over: Duration,
    /// To this machine.
    pub down: u64,
    /// From it.
    pub up: u64,
}

/// Bytes and packets received, bytes and packets sent.
type Counts = [u64; 4];

/// The counters of one interface.
#[derive(Debug)]
pub struct Counters {
    interface: Option<String>,
    header: u64,
    last: Option<(Instant, Counts)>,
}

impl Counters {
    /// Those of the interface with this address. An address that no interface has is not counted.
    pub fn of(local: IpAddr) -> Self {
        let interface = interface_of(local);
        let file = interface.as_ref().map(|name| format!("/sys/class/net/{name}/type"));
        let kind = file.and_then(|file| std::fs::read_to_string(file).ok()).unwrap_or_default();
        let header = if kind.trim() == ETHERNET_TYPE { ETHERNET } else { 0 };
        Self { interface, header, last: None }
    }

    /// The interface.
    pub fn interface(&self) -> Option<&str> {
        self.interface.as_deref()
    }

    /// What it carried since the last call; `None` at the first one.
    pub fn since(&mut self) -> Option<Carried> {
        let table = std::fs::read_to_string(TABLE).ok()?;
        let (now, counts) = (Instant::now(), counts(&table, self.interface.as_deref()?)?);
        let (then, before) = self.last.replace((now, counts))?;
        let grown = |i: usize| counts[i].saturating_sub(before[i]);
        let bytes = |bytes, packets| grown(bytes).saturating_sub(self.header * grown(packets));
        Some(Carried { over: now - then, down: bytes(0, 1), up: bytes(2, 3) })
    }
}

fn interface_of(local: IpAddr) -> Option<String> {
    getifaddrs().ok()?.find_map(|entry| {
        let address = entry.address?;
        let v4 = address.as_sockaddr_in().map(|v4| IpAddr::V4(v4.ip()));
        let own = v4.or_else(|| address.as_sockaddr_in6().map(|v6| IpAddr::V6(v6.ip())));
        (own == Some(local)).then_some(entry.interface_name)
    })
}

fn counts(table: &str, interface: &str) -> Option<Counts> {
    let line = table.lines().find_map(|line| line.trim().strip_prefix(interface)?.strip_prefix(':'))?;
    let words: Vec<u64> = line.split_whitespace().map_while(|word| word.parse().ok()).collect();
    Some([*words.first()?, *words.get(1)?, *words.get(8)?, *words.get(9)?])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counters_are_found_by_address_and_read() {
        let table = "Inter-|   Receive                                                |  Transmit\n\
                     \x20face |bytes    packets errs drop fifo frame compressed multicast|bytes packets errs\n\
                     \x20 eth0:1000 10 0 0 0 0 0 0 2000 20 0 0 0 0 0 0\n eth01: 1 2 3 4 5 6 7 8 9 10 0 0 0 0 0 0\n";
        assert_eq!(counts(table, "eth0"), Some([1000, 10, 2000, 20]));
        assert_eq!(counts(table, "eth01"), Some([1, 2, 9, 10]));
        assert_eq!((counts(table, "eth"), counts("", "lo")), (None, None));
        let mut own = Counters::of([127, 0, 0, 1].into());
        assert_eq!(own.interface(), Some("lo"));
        assert_eq!(own.since(), None);
        assert!(own.since().is_some());
        assert_eq!(Counters::of([203, 0, 113, 77].into()).since(), None);
    }
}
