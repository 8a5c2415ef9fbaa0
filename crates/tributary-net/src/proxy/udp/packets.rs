//! The client end for a TUN device: the datagrams in its packets become flows, one for each source and destination.
//!
//! Other protocols are answered with ICMP, except TCP, which the kernel gives to a listener before it reaches the device. Not here: the
//! bytes of packets ([`tributary_tun::datagram`]), and who makes the device and its routes.

use std::io::{self, IoSlice};
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use tokio::io::unix::AsyncFd;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use tributary_tun::datagram::{
    Ends, Packet, PacketReader, Unreachable, write_headers, write_refusal, write_unreachable,
};
use tributary_tun::{BUFFER, QUEUE, Tun, VIRTIO};

use super::super::priority::LivePriorities;
use super::super::relay;
use super::super::sessions::Sessions;
use super::super::target::Head;
use super::{Answers, BATCH, FlowTable, MOST_FLOWS, Opening, alike};
use crate::flow::Datagram;
use crate::rate_limited::RateLimited;
use crate::sockopt::readiness;

/// Protocol number.
const TCP: u8 = 6;
/// Bytes of datagrams that are read from the device at once, and the longest packet's.
const READ: usize = 256 << 10;
const LONGEST: usize = 65_535;
/// Datagrams in a super-frame that the kernel cuts (UDP_MAX_SEGMENTS).
const MOST_IN_FRAME: usize = 64;
/// Time before the device is read again after an error.
const AFTER_ERROR: Duration = Duration::from_millis(20);

/// A TUN device whose datagrams go where they are addressed to. When the last clone is dropped, the kernel removes the device's interface,
/// addresses and routes.
#[derive(Clone, Debug)]
pub(in super::super) struct Packets(Arc<AsyncFd<Tun>>);

impl Packets {
    /// Takes a device, whose reads must not block.
    ///
    /// # Errors
    /// The system's, when it is no device.
    pub(in super::super) fn new(tun: Tun) -> io::Result<Self> {
        Ok(Self(Arc::new(readiness::register(tun)?)))
    }

    /// Carries datagrams in both directions until `ended`, and then those that still wait in the device. Those that come while there is no
    /// session, or later, are dropped.
    pub(in super::super) async fn run(
        self,
        sessions: Arc<Sessions>,
        priorities: LivePriorities,
        ended: CancellationToken,
    ) {
        let flows = FlowTable::new(MOST_FLOWS, Sources { tun: self.0.clone(), cuts: true.into() });
        let (mut waiting, mut last) = (Waiting::new(), 0);
        loop {
            let is_last = ended.is_cancelled();
            last += usize::from(is_last);
            let outcome = waiting.take(self.0.get_ref());
            if let Some(session) = sessions.current() {
                for (ends, datagrams) in waiting.batch.runs() {
                    let opening = || Opening {
                        head: Head::Destination(ends.to.into()).encode(),
                        config: priorities.of_flow(ends.to.port(), None),
                    };
                    flows.send(&session, (ends, opening), datagrams);
                }
            }
            match outcome {
                // Programs that go on in the background could send for ever.
                Ok(has_more) if is_last && (!has_more || last > QUEUE as usize) => return,
                Ok(true) => tokio::task::yield_now().await,
                Ok(false) => tokio::select! {
                    readable = self.0.readable() => if let Ok(mut readable) = readable {
                        // Found again by the next read, if there is something.
                        readable.clear_ready();
                    },
                    () = ended.cancelled() => {}
                },
                Err(error) => {
                    tracing::debug!(%error, "reading a TUN device");
                    if is_last {
                        return;
                    }
                    tokio::time::sleep(AFTER_ERROR).await;
                }
            }
        }
    }
}

/// Datagrams that were read at once, each with its source and destination and its ECN codepoint.
struct Batch {
    bytes: Vec<u8>,
    datagrams: Vec<(Ends, Range<usize>, u8)>,
}

impl Batch {
    fn new() -> Self {
        Self { bytes: Vec::with_capacity(READ), datagrams: Vec::with_capacity(BATCH) }
    }

    fn clear(&mut self) {
        self.datagrams.clear();
        self.bytes.clear();
    }

    /// Whether another packet fits, whatever is in it.
    fn takes_another(&self) -> bool {
        self.datagrams.len() < BATCH && READ - self.bytes.len() >= LONGEST
    }

    fn push(&mut self, ends: Ends, datagram: &[u8], ecn: u8) {
        let begin = self.bytes.len();
        self.bytes.extend_from_slice(datagram);
        self.datagrams.push((ends, begin..self.bytes.len(), ecn));
    }

    /// Runs of datagrams of one flow.
    fn runs(&self) -> impl Iterator<Item = (&Ends, impl Iterator<Item = (&[u8], u8)> + Clone)> {
        self.datagrams.chunk_by(|a, b| a.0 == b.0).map(|run| {
            let datagrams = run.iter().map(|(_, range, ecn)| (&self.bytes[range.clone()], *ecn));
            (&run[0].0, datagrams)
        })
    }
}

/// Takes what waits in a device.
struct Waiting {
    frame: Vec<u8>,
    reader: PacketReader,
    batch: Batch,
    began: Instant,
    not_redirected: RateLimited,
}

impl Waiting {
    fn new() -> Self {
        Self {
            frame: vec![0; BUFFER],
            reader: PacketReader::default(),
            batch: Batch::new(),
            began: Instant::now(),
            not_redirected: RateLimited::default(),
        }
    }

    /// Reads packets until the batch is full. Returns whether there may be more.
    fn take(&mut self, tun: &Tun) -> io::Result<bool> {
        self.batch.clear();
        let now = self.began.elapsed();
        while self.batch.takes_another() {
            let frame = match tun.read(&mut self.frame) {
                Ok(length) => &self.frame[..length],
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(false),
                Err(error) => return Err(error),
            };
            match self.reader.read(frame, now) {
                Packet::Datagrams { ends, bytes: [], ecn, .. } => self.batch.push(ends, &[], ecn),
                Packet::Datagrams { ends, bytes, each, ecn } => {
                    bytes.chunks(each).for_each(|datagram| self.batch.push(ends, datagram, ecn));
                }
                Packet::Other { protocol, to } => {
                    if protocol == TCP {
                        self.not_redirected.tell(|more| {
                            tracing::warn!(
                                "a TCP packet to {to} came out of the device, where connections of this machine are redirected: a \
                                 route leads the session's own packets into the tunnel, or it is another machine's. Routes that you \
                                 add yourself must not match packets with the session's mark (ip rule … not fwmark){more}"
                            );
                        });
                    }
                    let mut answer = Vec::new();
                    if write_unreachable(&mut answer, &frame[VIRTIO..], Unreachable::Prohibited) {
                        let _ = tun.write(&answer, &[]);
                    }
                }
                Packet::Nothing => {}
            }
        }
        Ok(true)
    }
}

/// The programs that send through the device.
struct Sources {
    tun: Arc<AsyncFd<Tun>>,
    /// Whether the kernel cuts super-frames of datagrams (Linux 6.2).
    cuts: AtomicBool,
}

impl Answers<Ends> for Sources {
    fn datagrams(&self, &Ends { from, to }: &Ends, datagrams: &[Datagram]) {
        let ends = Ends { from: to, to: from };
        let (mut headers, mut rest) = (Vec::new(), datagrams);
        while let Some(first) = rest.first() {
            let most = if self.cuts.load(Ordering::Relaxed) { MOST_IN_FRAME } else { 1 };
            let (run, after) = rest.split_at(alike(rest, most));
            let length = run.iter().map(|datagram| datagram.bytes.len()).sum();
            headers.clear();
            if write_headers(&mut headers, ends, (length, first.bytes.len()), first.ecn as u8) {
                let datagrams = run.iter().map(|datagram| IoSlice::new(&datagram.bytes));
                let parts: Vec<_> = [IoSlice::new(&headers)].into_iter().chain(datagrams).collect();
                // The kernel drops what its queues cannot hold.
                let written = self.tun.get_ref().write_parts(&parts);
                if run.len() > 1 && written.is_err_and(|error| error.kind() == io::ErrorKind::InvalidInput) {
                    self.cuts.store(false, Ordering::Relaxed);
                    continue;
                }
            }
            rest = after;
        }
    }

    fn refused(&self, ends: &Ends, code: u32) {
        let why = match code {
            relay::CODE_REFUSED => Unreachable::Port,
            relay::CODE_UNREACHABLE => Unreachable::Host,
            relay::CODE_NOT_ALLOWED | relay::CODE_UNKNOWN_TARGET => Unreachable::Prohibited,
            // A lack at the server, which may pass.
            _ => return,
        };
        let mut answer = Vec::new();
        if write_refusal(&mut answer, *ends, why) {
            let _ = self.tun.get_ref().write(&answer, &[]);
        }
    }
}
