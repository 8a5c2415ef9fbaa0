//! Both ends of the proxy as programs with an emulated radio, an application that writes, a target that
//! reads, and the kernel's queues between them.
//!
//! Everything that waits checks a flag, and the programs are killed with their owner, so that a measurement
//! always ends.

use core::time::Duration;
use std::io::{self, ErrorKind, Read, Write};
use std::net::{Ipv4Addr, Shutdown, SocketAddr, TcpListener, TcpStream};
use std::os::fd::AsFd;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::Instant;

use tributary_emu::{Network, Side};
use tributary_lab::process::product_program;
use tributary_net::sockopt;

use crate::daemon::{Program, keygen};
use crate::{BenchError, failed};

/// Interval at which waiting parties check the flag.
const LOOK: Duration = Duration::from_millis(50);
/// Interval between samples of the kernel's queues.
const SAMPLE: Duration = Duration::from_millis(20);
/// Bytes of one write of the application.
const PIECE: usize = 16 << 10;
/// The application's congestion control: Linux's default, which influences how much its socket accepts when
/// little is read.
const CONGESTION: &str = "cubic";
/// 127.0.0.1 in `/proc/net/tcp`.
const LOOPBACK: &str = "0100007F:";

/// The proxy between a target and an address for applications.
pub(crate) struct Rig {
    pub server: Program,
    pub client: Program,
    pub target: TcpListener,
}

impl Rig {
    pub(crate) fn start(
        network: &Network,
        directory: &Path,
        (buffer_ms, drain_s): (u64, u64),
    ) -> Result<Self, BenchError> {
        let key = keygen(directory)?;
        let loopback = SocketAddr::from((Ipv4Addr::LOCALHOST, 0));
        let target = network.run(Side::Server, || TcpListener::bind(loopback))?;
        let target = target.and_then(|target| target.set_nonblocking(true).map(|()| target));
        let target = target.map_err(|error| failed("the target", error))?;
        let forward = target.local_addr().map_err(|error| failed("the target", error))?.to_string();
        let (buffer, drain) = (format!("{buffer_ms}ms"), drain_s.to_string());
        let common = ["--shared-key", &key, "--buffer", &buffer, "--drain", &drain, "--congestion", "cubic"];
        let program = product_program()?;
        let listen = format!("{}:0", Side::Server.address(0));
        let serve = ["serve", "--listen", &listen, "--forward", &forward];
        let server = Program::start(
            network.command(Side::Server, &program),
            &[&serve[..], &common[..]].concat(),
            directory,
        )?;
        let path = format!("{}={}", Side::Client.address(0), server.listening()[0]);
        let connect = ["connect", "--path", &path, "--listen", "127.0.0.1:0"];
        let client = Program::start(
            network.command(Side::Client, &program),
            &[&connect[..], &common[..]].concat(),
            directory,
        )?;
        Ok(Self { server, client, target })
    }

    /// The address for applications.
    pub(crate) fn entrance(&self) -> SocketAddr {
        self.client.listening()[0]
    }
}

/// Bytes passed over time: seconds and total bytes.
pub(super) type Log = Vec<(f64, u64)>;

/// How a connection ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Ending {
    /// The measurement was over before.
    Open,
    Orderly,
    Reset,
}

/// State shared by all parties of a measurement.
pub(super) struct Clock {
    pub began: Instant,
    pub over: AtomicBool,
}

/// Ends a measurement when dropped, also after an error.
pub(super) struct Curtain<'a>(pub &'a Clock);

impl Drop for Curtain<'_> {
    fn drop(&mut self) {
        self.0.over.store(true, Relaxed);
    }
}

impl Clock {
    pub(super) fn new() -> Self {
        Self { began: Instant::now(), over: AtomicBool::new(false) }
    }

    pub(super) fn seconds(&self) -> f64 {
        self.began.elapsed().as_secs_f64()
    }

    fn is_over(&self) -> bool {
        self.over.load(Relaxed)
    }
}

/// An application that writes as fast as the proxy accepts, up to `bytes`, then ends its direction and waits
/// for the other end. `written` is called when everything is written.
pub(super) fn application(
    (entrance, bytes): (SocketAddr, u64),
    clock: &Clock,
    written: impl FnOnce(),
) -> (Log, Ending) {
    let Ok(mut tcp) = connect(entrance) else { return (Log::new(), Ending::Reset) };
    if tcp.set_write_timeout(Some(LOOK)).and_then(|()| tcp.set_read_timeout(Some(LOOK))).is_err() {
        return (Log::new(), Ending::Reset);
    }
    let piece = vec![7; PIECE];
    let (log, ending) = tally(clock, |sum| match usize::try_from(bytes - sum).unwrap_or(PIECE) {
        0 => Ok(0),
        left => tcp.write(&piece[..PIECE.min(left)]),
    });
    if ending != Ending::Orderly {
        return (log, ending);
    }
    let ended = tcp.shutdown(Shutdown::Write).is_ok();
    written();
    let (_, ending) = read_to_end(&mut tcp, clock);
    (log, if ended { ending } else { Ending::Reset })
}

fn connect(entrance: SocketAddr) -> io::Result<TcpStream> {
    let socket = socket2::Socket::new(socket2::Domain::for_address(entrance), socket2::Type::STREAM, None)?;
    sockopt::set_congestion(socket.as_fd(), CONGESTION).map_err(io::Error::other)?;
    socket.connect(&entrance.into())?;
    Ok(socket.into())
}

/// A target that reads everything of one connection.
pub(super) fn target(listener: &TcpListener, clock: &Clock) -> (Log, Ending) {
    loop {
        match listener.accept() {
            Ok((mut tcp, _)) => {
                let ready = tcp.set_nonblocking(false).and_then(|()| tcp.set_read_timeout(Some(LOOK)));
                return if ready.is_ok() {
                    read_to_end(&mut tcp, clock)
                } else {
                    (Log::new(), Ending::Reset)
                };
            }
            Err(_) if clock.is_over() => return (Log::new(), Ending::Open),
            Err(_) => std::thread::sleep(Duration::from_millis(2)),
        }
    }
}

fn read_to_end(tcp: &mut TcpStream, clock: &Clock) -> (Log, Ending) {
    let mut buffer = vec![0; 256 << 10];
    tally(clock, |_| tcp.read(&mut buffer))
}

/// Repeats `step` with the sum so far, until it returns zero.
fn tally(clock: &Clock, mut step: impl FnMut(u64) -> std::io::Result<usize>) -> (Log, Ending) {
    let (mut log, mut sum) = (Log::new(), 0);
    loop {
        match step(sum) {
            Ok(0) => return (log, Ending::Orderly),
            Ok(count) => {
                sum += count as u64;
                log.push((clock.seconds(), sum));
            }
            Err(error) if !is_time_out(&error) => return (log, Ending::Reset),
            Err(_) => {}
        }
        if clock.is_over() {
            return (log, Ending::Open);
        }
    }
}

fn is_time_out(error: &io::Error) -> bool {
    matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut | ErrorKind::Interrupted)
}

/// Queues of a namespace's sockets at one time: written and not acknowledged, received and not read.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Queues {
    pub at_s: f64,
    /// Bytes in all sockets.
    pub all: u64,
    /// Bytes written to sockets towards other machines and not acknowledged.
    pub on_the_way: u64,
}

/// Samples the queues of this thread's namespace.
pub(super) fn queues(clock: &Clock) -> Vec<Queues> {
    let mut log = Vec::new();
    while !clock.is_over() {
        let table = std::fs::read_to_string("/proc/thread-self/net/tcp").unwrap_or_default();
        log.push(queued(&table, clock.seconds()));
        std::thread::sleep(SAMPLE);
    }
    log
}

/// The queues in `/proc/net/tcp`; those of listening sockets count connections and are left out.
fn queued(table: &str, at_s: f64) -> Queues {
    let hex = |text: &str| u64::from_str_radix(text, 16).ok();
    let of = |line: &str| {
        let mut fields = line.split_whitespace().skip(2);
        let (remote, state, queues) = (fields.next()?, fields.next()?, fields.next()?);
        let (sent, received) = queues.split_once(':')?;
        let (sent, received) = (hex(sent)?, hex(received)?);
        let away = if remote.starts_with(LOOPBACK) { 0 } else { sent };
        (state != "0A").then_some((sent + received, away))
    };
    let sockets = table.lines().skip(1).filter_map(of);
    sockets.fold(Queues { at_s, ..Queues::default() }, |sum, (all, away)| Queues {
        all: sum.all + all,
        on_the_way: sum.on_the_way + away,
        ..sum
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_kernels_queues_are_read_without_listening_sockets() {
        let table = "  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid\n   \
             0: 0100007F:8F29 00000000:0000 0A 00000000:00000003 00:00000000 00000000     0\n   \
             1: 0100007F:8F29 0100007F:B0C2 01 00000100:00000010 00:00000000 00000000     0\n   \
             2: 0100007F:B0C2 0100007F:8F29 08 00001000:00000000 00:00000000 00000000     0\n   \
             3: 0100000A:B0C2 0200000A:1B58 01 00020000:00000001 00:00000000 00000000     0\n";
        assert_eq!(queued(table, 1.0), Queues { at_s: 1.0, all: 0x21111, on_the_way: 0x20000 });
        assert_eq!(queued("", 0.0), Queues::default());
    }
}
