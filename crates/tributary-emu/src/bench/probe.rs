//! One-way delay of single datagrams, measured with clocks independent of the emulator: the sender's just
//! before `send`, and the kernel's timestamp of arrival (SO_TIMESTAMPNS).

use crate::network::{Network, Side};
use crate::sys;
use core::time::Duration;
use socket2::{MaybeUninitSlice, MsgHdrMut, Socket};
use std::collections::BTreeMap;
use std::io;
use std::net::UdpSocket;
use std::sync::atomic::{AtomicBool, Ordering};

use super::BenchError;

/// Destination port of the probes.
pub(super) const PORT: u16 = 7777;
/// Time between probes; not a divisor of the emulator's own intervals.
const EVERY: Duration = Duration::from_micros(1_730);
/// Bytes of a probe.
const LENGTH: usize = 200;

/// Sends probes down the first path until `stop`; returns the one-way delay of each that arrived.
pub(super) fn one_way_delays(
    network: &Network,
    stop: &AtomicBool,
) -> Result<BTreeMap<u64, Duration>, BenchError> {
    let bind = |side: Side, port| network.run(side, move || UdpSocket::bind((side.address(0), port)));
    let receiver = bind(Side::Client, PORT)??;
    let sender = bind(Side::Server, 0)??;
    sender.connect((Side::Client.address(0), PORT))?;
    receiver.set_read_timeout(Some(Duration::from_millis(500)))?;
    let receiver = Socket::from(receiver);
    timestamps_on(&receiver)?;
    std::thread::scope(|scope| {
        let sending = scope.spawn(|| send_probes(&sender, stop));
        let arrivals = receive_probes(&receiver, stop);
        let departures = sending.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic));
        let delay = |(number, arrived): (u64, u64)| {
            let departed = *departures.get(usize::try_from(number).ok()?)?;
            Some((number, Duration::from_nanos(arrived.saturating_sub(departed))))
        };
        Ok(arrivals.into_iter().filter_map(delay).collect())
    })
}

/// Sends probes; returns when each was given to the kernel, in nanoseconds of the wall clock.
fn send_probes(sender: &UdpSocket, stop: &AtomicBool) -> Vec<u64> {
    let mut departures = Vec::new();
    let mut probe = [0; LENGTH];
    while !stop.load(Ordering::Relaxed) {
        std::thread::sleep(EVERY);
        probe[..8].copy_from_slice(&(departures.len() as u64).to_be_bytes());
        departures.push(sys::realtime_nanos());
        // A full socket buffer drops the probe, as a link may.
        let _ = sender.send(&probe);
    }
    departures
}

/// Number and time of arrival of each probe, until no probe arrives for a while after `stop`.
fn receive_probes(receiver: &Socket, stop: &AtomicBool) -> Vec<(u64, u64)> {
    let mut arrivals = Vec::new();
    loop {
        match receive(receiver) {
            Some(arrival) => arrivals.push(arrival),
            None if stop.load(Ordering::Relaxed) => return arrivals,
            None => {}
        }
    }
}

fn timestamps_on(socket: &Socket) -> io::Result<()> {
    let on: libc::c_int = 1;
    let fd = std::os::fd::AsRawFd::as_raw_fd(socket);
    // SAFETY: the option takes one int, valid for the call.
    let result =
        unsafe { libc::setsockopt(fd, libc::SOL_SOCKET, libc::SO_TIMESTAMPNS, (&raw const on).cast(), 4) };
    sys::check(result).map(drop)
}

/// One probe and the kernel's timestamp of it.
fn receive(socket: &Socket) -> Option<(u64, u64)> {
    let mut bytes = Vec::with_capacity(LENGTH);
    let mut control = Vec::with_capacity(64);
    let (length, control_length) = {
        let mut parts = [MaybeUninitSlice::new(bytes.spare_capacity_mut())];
        let mut message =
            MsgHdrMut::new().with_buffers(&mut parts).with_control(control.spare_capacity_mut());
        let length = socket.recvmsg(&mut message, 0).ok()?;
        (length, message.control_len())
    };
    // SAFETY: recvmsg has filled this many bytes of both buffers.
    unsafe {
        bytes.set_len(length);
        control.set_len(control_length);
    }
    // struct cmsghdr (16 bytes), then struct timespec: seconds and nanoseconds.
    let word = |at: usize| Some(u64::from_ne_bytes(control.get(at..at + 8)?.try_into().ok()?));
    let number: &Vec<u8> = &bytes;
    let number = u64::from_be_bytes(number.get(..8)?.try_into().ok()?);
    Some((number, word(16)? * 1_000_000_000 + word(24)?))
}
