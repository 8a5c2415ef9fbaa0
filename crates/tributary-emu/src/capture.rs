//! Packet captures of a running network: pcapng files that tcpdump and Wireshark read, as one side's kernel sees the packets.
//!
//! Each path is an interface of the file. A packet is captured when the side sends it, before the link, or when the link
//! delivers it; one that the link drops is in the sender's capture only. Super-frames are captured whole, as tcpdump does on a
//! host with offloads; of every packet the first [`SNAP`] bytes. A thread of its own writes, so that a slow disk delays no packet:
//! what it cannot take is left out and counted.
//! Format: draft-ietf-opsawg-pcapng; nanoseconds, link type 101 (raw IP).

use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, TrySendError, sync_channel};
use std::thread::JoinHandle;
use std::time::{SystemTime, UNIX_EPOCH};

/// Bytes of each packet that are kept: the headers, with options.
pub const SNAP: usize = 160;
/// Packets that wait for the writer.
const WAITING: usize = 1 << 16;
/// LINKTYPE_RAW.
const RAW_IP: u16 = 101;
/// Options of blocks.
const END: u16 = 0;
const APPLICATION: u16 = 4;
const NAME: u16 = 2;
const RESOLUTION: u16 = 9;
const FLAGS: u16 = 2;

/// One packet.
struct Packet {
    interface: u32,
    /// Since 1970, ns.
    at: u64,
    outbound: bool,
    length: u32,
    bytes: Vec<u8>,
}

/// Where the forwarding thread puts packets.
#[derive(Debug)]
pub(crate) struct Tap {
    /// 0: the client's devices, 1: the server's.
    side: usize,
    packets: SyncSender<Packet>,
    missed: Arc<AtomicU64>,
}

impl Tap {
    /// A packet in two parts was read from device `device` (`outbound`), or is written to it. Devices are the client's and the
    /// server's of path 0, of path 1, and so on.
    pub(crate) fn note(&self, device: usize, outbound: bool, (head, tail): (&[u8], &[u8])) {
        if device % 2 != self.side {
            return;
        }
        let mut bytes = Vec::with_capacity(SNAP.min(head.len() + tail.len()));
        bytes.extend_from_slice(&head[..head.len().min(SNAP)]);
        bytes.extend_from_slice(&tail[..tail.len().min(SNAP - bytes.len())]);
        let at = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let packet = Packet {
            interface: (device / 2) as u32,
            at: u64::try_from(at.as_nanos()).unwrap_or(u64::MAX),
            outbound,
            length: (head.len() + tail.len()) as u32,
            bytes,
        };
        if let Err(TrySendError::Full(_)) = self.packets.try_send(packet) {
            self.missed.fetch_add(1, Ordering::Relaxed);
        }
    }
}

/// A capture in progress; see [`Network::capture`](crate::Network::capture).
#[derive(Debug)]
pub struct Capture {
    writer: JoinHandle<io::Result<u64>>,
    missed: Arc<AtomicU64>,
}

/// What a capture has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Captured {
    /// Packets in the file.
    pub packets: u64,
    /// Packets that the writer was too slow for.
    pub missed: u64,
}

impl Capture {
    /// Begins a file with these interfaces; `side` is 0 for the client and 1 for the server.
    ///
    /// # Errors
    /// It cannot be created.
    pub(crate) fn begin(file: &Path, side: usize, interfaces: &[&str]) -> io::Result<(Self, Tap)> {
        let mut to = BufWriter::new(File::create(file)?);
        head(&mut to, interfaces)?;
        let (packets, inbox) = sync_channel(WAITING);
        let missed = Arc::new(AtomicU64::new(0));
        let writer =
            std::thread::Builder::new().name("capture".to_owned()).spawn(move || write(&mut to, &inbox))?;
        Ok((Self { writer, missed: missed.clone() }, Tap { side, packets, missed }))
    }

    /// Waits until everything is written; the tap must be gone.
    ///
    /// # Errors
    /// The first write that failed; the file has the packets before it.
    pub(crate) fn end(self) -> io::Result<Captured> {
        let packets = self.writer.join().map_err(|_| io::Error::other("the writer panicked"))??;
        Ok(Captured { packets, missed: self.missed.load(Ordering::Relaxed) })
    }
}

/// Writes packets until nobody sends any more.
fn write(to: &mut impl Write, inbox: &Receiver<Packet>) -> io::Result<u64> {
    let mut number = 0;
    for packet in inbox {
        let mut body = Vec::with_capacity(SNAP + 64);
        for word in [
            packet.interface,
            (packet.at >> 32) as u32,
            packet.at as u32,
            packet.bytes.len() as u32,
            packet.length,
        ] {
            body.extend(word.to_le_bytes());
        }
        body.extend(&packet.bytes);
        pad(&mut body);
        let direction: u32 = if packet.outbound { 2 } else { 1 };
        option(&mut body, FLAGS, &direction.to_le_bytes());
        option(&mut body, END, &[]);
        block(to, 6, &body)?;
        number += 1;
    }
    to.flush().map(|()| number)
}

/// The section header and a description of every interface.
fn head(to: &mut impl Write, interfaces: &[&str]) -> io::Result<()> {
    let mut body = Vec::new();
    body.extend(0x1a2b_3c4d_u32.to_le_bytes());
    body.extend([1, 0, 0, 0]); // version 1.0
    body.extend((-1_i64).to_le_bytes()); // length of the section: unknown
    option(&mut body, APPLICATION, concat!("tributary ", env!("CARGO_PKG_VERSION")).as_bytes());
    option(&mut body, END, &[]);
    block(to, 0x0a0d_0d0a, &body)?;
    for name in interfaces {
        body.clear();
        body.extend(RAW_IP.to_le_bytes());
        body.extend([0, 0]);
        body.extend((SNAP as u32).to_le_bytes());
        option(&mut body, NAME, name.as_bytes());
        option(&mut body, RESOLUTION, &[9]); // 10⁻⁹ s
        option(&mut body, END, &[]);
        block(to, 1, &body)?;
    }
    Ok(())
}

fn block(to: &mut impl Write, kind: u32, body: &[u8]) -> io::Result<()> {
    let length = (body.len() as u32 + 12).to_le_bytes();
    to.write_all(&kind.to_le_bytes())?;
    to.write_all(&length)?;
    to.write_all(body)?;
    to.write_all(&length)
}

fn option(body: &mut Vec<u8>, code: u16, value: &[u8]) {
    body.extend(code.to_le_bytes());
    body.extend((value.len() as u16).to_le_bytes());
    body.extend(value);
    pad(body);
}

fn pad(body: &mut Vec<u8>) {
    body.resize(body.len().next_multiple_of(4), 0);
}

#[cfg(test)]
mod tests {
    use super::*;
    use pcap_parser::traits::PcapReaderIterator;
    use pcap_parser::{Block, PcapBlockOwned, PcapNGReader};

    #[test]
    fn a_capture_is_read_back_with_its_interfaces_lengths_and_directions() {
        let directory = tempfile::tempdir().unwrap();
        let file = directory.path().join("run.pcapng");
        let (capture, tap) = Capture::begin(&file, 0, &["wifi", "wigig"]).unwrap();
        tap.note(0, true, (&[0x45; 20], &[7; 1000]));
        tap.note(1, true, (&[0x45; 20], &[]));
        tap.note(2, false, (&[], &[0x60; 61]));
        drop(tap);
        assert_eq!(capture.end().unwrap(), Captured { packets: 2, missed: 0 });
        let mut reader = PcapNGReader::new(1 << 16, File::open(&file).unwrap()).unwrap();
        let (mut names, mut packets) = (Vec::new(), Vec::new());
        while let Ok((used, block)) = reader.next() {
            match block {
                PcapBlockOwned::NG(Block::InterfaceDescription(about)) => {
                    assert_eq!((about.linktype.0, about.ts_resolution()), (101, Some(1_000_000_000)));
                    let name = about.options.iter().find(|option| option.code.0 == NAME).unwrap();
                    names.push(String::from_utf8(name.value[..usize::from(name.len)].to_vec()).unwrap());
                }
                PcapBlockOwned::NG(Block::EnhancedPacket(packet)) => {
                    let flags = packet.options.iter().find(|option| option.code.0 == FLAGS).unwrap().value[0];
                    packets.push((packet.if_id, packet.origlen, packet.caplen, flags));
                }
                _ => {}
            }
            reader.consume(used);
        }
        assert_eq!(names, ["wifi", "wigig"]);
        assert_eq!(packets, [(0, 1020, 160, 2), (1, 61, 61, 1)]);
    }

    #[test]
    fn a_file_that_cannot_be_written_is_an_error_and_not_a_panic() {
        assert!(Capture::begin(Path::new("/nowhere/run.pcapng"), 0, &[]).is_err());
        // Enough packets that the buffer is written before the end.
        let (capture, tap) = Capture::begin(Path::new("/dev/full"), 1, &["a"]).unwrap();
        (0..1000).for_each(|_| tap.note(1, true, (&[0x45; 100], &[])));
        drop(tap);
        assert_eq!(capture.end().unwrap_err().raw_os_error(), Some(libc::ENOSPC));
    }
}
