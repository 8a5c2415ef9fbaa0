//! Packet captures as traces: what each receiving address got, in bins of 100 ms. A capture shows what was carried, which is
//! less than what the path could carry whenever the sender had nothing to send.
//!
//! Sources: the pcap and pcapng formats (draft-ietf-opsawg-pcap, draft-ietf-opsawg-pcapng), read by `pcap-parser`.

use core::time::Duration;
use pcap_parser::{Block, Linktype, PcapBlockOwned, PcapError, create_reader};
use std::collections::BTreeMap;
use std::io::Cursor;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use tributary_link::{Column, KnownTrace, Trace, TraceTable, TraceTime, TraceValue};

/// Length of a bin.
const BIN: Duration = Duration::from_millis(100);
/// Longest block that is read.
const BUFFER: usize = 1 << 20;
/// An address that receives less than this share of the bytes gets acknowledgements, and is no end of a path.
const SHARE: f64 = 0.05;
/// Longest capture in seconds, as for every trace.
const LONGEST: u64 = 7 * 24 * 3600;

/// Whether a file begins as a capture does.
pub fn is_capture(bytes: &[u8]) -> bool {
    let Some(magic) = bytes.first_chunk::<4>() else { return false };
    let known = [0xa1b2_c3d4_u32, 0xa1b2_3c4d, 0x0a0d_0d0a];
    known.contains(&u32::from_be_bytes(*magic)) || known.contains(&u32::from_le_bytes(*magic))
}

/// The trace of every address that receives data. A capture that ends in the middle of a packet is read up to there.
///
/// # Errors
/// Why there is none, and what to do.
pub fn read(bytes: &[u8]) -> Result<Vec<KnownTrace>, String> {
    let mut received: BTreeMap<IpAddr, BTreeMap<u64, u64>> = BTreeMap::new();
    let (mut packets, mut first) = (0_u64, None);
    each(bytes, &mut |at, length, to| {
        packets += 1;
        let Some(to) = to else { return };
        let begin = *first.get_or_insert(at);
        let bin = at.saturating_sub(begin).as_millis() / BIN.as_millis();
        *received.entry(to).or_default().entry(bin as u64).or_default() += length;
    })?;
    let last = received.values().filter_map(|bins| bins.keys().next_back()).max().copied();
    let Some(last) = last else {
        return Err(format!(
            "no IP packet among the {packets} packets; capture on an interface that carries IP"
        ));
    };
    if last / 10 > LONGEST {
        return Err("longer than a week; cut it with editcap -A and -B".to_owned());
    }
    let bytes = |bins: &BTreeMap<u64, u64>| bins.values().sum::<u64>() as f64;
    let all: f64 = received.values().map(bytes).sum();
    received.retain(|_, bins| bytes(bins) >= all * SHARE);
    let alone = received.len() == 1;
    let traces = received.into_iter().map(|(address, mut bins)| {
        // All paths begin and end with the capture.
        bins.entry(0).or_default();
        bins.entry(last).or_default();
        let name = if alone { String::new() } else { address.to_string() };
        Ok(KnownTrace { name, down: trace(&bins)?, up: None, rtt: Vec::new() })
    });
    traces.collect()
}

fn trace(bins: &BTreeMap<u64, u64>) -> Result<Trace, String> {
    let step = BIN.as_secs_f64();
    let lines: String = bins.iter().map(|(bin, bytes)| format!("{},{bytes}\n", *bin as f64 * step)).collect();
    let table = TraceTable {
        value: TraceValue::Bytes(Column::Numbered(2), BIN),
        time: TraceTime::At(Column::Numbered(1), tributary_link::TimeUnit::Seconds),
        ..TraceTable::new(Column::Numbered(1), Column::Numbered(2))
    };
    Trace::parse_table(&lines, &table).map_err(|error| error.problem)
}

/// Calls `seen` with the time, the length and the destination of every packet.
fn each(bytes: &[u8], seen: &mut dyn FnMut(Duration, u64, Option<IpAddr>)) -> Result<(), String> {
    let broken = |error: PcapError<&[u8]>| {
        format!("not a readable capture ({error:?}); write it again with tcpdump -w")
    };
    let mut reader = create_reader(BUFFER, Cursor::new(bytes)).map_err(|_| {
        "not a readable capture: its header is incomplete; write it again with tcpdump -w".to_owned()
    })?;
    let (mut link, mut nanos) = (Linktype::ETHERNET, false);
    let mut interfaces: Vec<(Linktype, u64, u64)> = Vec::new();
    loop {
        let used = match reader.next() {
            Ok((used, block)) => {
                match block {
                    PcapBlockOwned::LegacyHeader(header) => {
                        (link, nanos) = (header.network, header.is_nanosecond_precision());
                    }
                    PcapBlockOwned::Legacy(packet) => {
                        let fraction =
                            if nanos { packet.ts_usec } else { packet.ts_usec.saturating_mul(1000) };
                        let at =
                            Duration::from_secs(packet.ts_sec.into()) + Duration::from_nanos(fraction.into());
                        told(link, packet.data, packet.origlen, at, seen);
                    }
                    PcapBlockOwned::NG(Block::SectionHeader(_)) => interfaces.clear(),
                    PcapBlockOwned::NG(Block::InterfaceDescription(about)) => {
                        let offset = u64::try_from(about.ts_offset()).unwrap_or(0);
                        let resolution =
                            about.ts_resolution().filter(|units| *units > 0).unwrap_or(1_000_000);
                        interfaces.push((about.linktype, offset, resolution));
                    }
                    PcapBlockOwned::NG(Block::EnhancedPacket(packet)) => {
                        let interface = interfaces.get(packet.if_id as usize).copied();
                        let (link, offset, resolution) =
                            interface.unwrap_or((Linktype::ETHERNET, 0, 1_000_000));
                        let units = u64::from(packet.ts_high) << 32 | u64::from(packet.ts_low);
                        let rest = u128::from(units % resolution) * 1_000_000_000 / u128::from(resolution);
                        let at = Duration::from_secs((units / resolution).saturating_add(offset))
                            + Duration::from_nanos(rest as u64);
                        told(link, packet.data, packet.origlen, at, seen);
                    }
                    PcapBlockOwned::NG(_) => {}
                }
                Some(used)
            }
            Err(PcapError::Eof | PcapError::UnexpectedEof) => return Ok(()),
            Err(PcapError::Incomplete(_)) => None,
            Err(error) => return Err(broken(error)),
        };
        match used {
            Some(used) => reader.consume(used),
            None if reader.reader_exhausted() => return Ok(()),
            None => reader.refill().map_err(broken)?,
        }
    }
}

fn told(
    link: Linktype,
    data: &[u8],
    length: u32,
    at: Duration,
    seen: &mut dyn FnMut(Duration, u64, Option<IpAddr>),
) {
    let head = head(link, data);
    seen(at, u64::from(length).saturating_sub(head as u64), data.get(head..).and_then(destination));
}

/// Bytes before the IP header.
fn head(link: Linktype, data: &[u8]) -> usize {
    match link {
        // Each VLAN tag (IEEE 802.1Q) is four bytes.
        Linktype::ETHERNET => {
            14 + data[12.min(data.len())..].chunks(4).take_while(|tag| tag.starts_with(&[0x81, 0])).count()
                * 4
        }
        Linktype(113) => 16, // LINUX_SLL
        Linktype(276) => 20, // LINUX_SLL2
        Linktype(0) => 4,    // NULL
        _ => 0,              // RAW, IPV4, IPV6
    }
}

fn destination(packet: &[u8]) -> Option<IpAddr> {
    match packet.first()? >> 4 {
        4 => Some(Ipv4Addr::from(*packet.get(16..20)?.first_chunk::<4>()?).into()),
        6 => Some(Ipv6Addr::from(*packet.get(24..40)?.first_chunk::<16>()?).into()),
        _ => None,
    }
}
