//! The far end of a recording: answers requests at once and sends the trains that they ask for, to those who have the key.

use super::auth::{Guard, Standing};
use super::estimate::Arrivals;
use super::stamped::{Stamped, now};
use super::wire::{LARGE, Message, Reply, TRAINS, Train};
use core::time::Duration;
use std::collections::{BTreeMap, VecDeque};
use std::io;
use std::net::{SocketAddr, UdpSocket};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;
use tributary_net::Key;

/// Paths that are recorded at the same time, at most.
const PATHS: usize = 64;
/// A path without requests for this time gives its place to another.
const GONE: Duration = Duration::from_secs(5);
/// Requests of a path that come faster get no answer: those that waited in a queue, for example.
const LEAST: Duration = Duration::from_millis(5);
/// Interval of looks at `stop`.
const LOOK: Duration = Duration::from_millis(200);

/// What is known of one path.
struct Path {
    /// The last request that was answered, and its slot: an older one was overtaken.
    answered: Instant,
    slot: Option<u32>,
    /// The train that arrives, and its slot.
    train: u32,
    arrivals: Arrivals,
    /// Those before.
    trains: VecDeque<Train>,
}

/// Serves recordings of those who have the key, until `stop` is set.
///
/// # Errors
/// The socket cannot be used, or the system gives no random bytes.
pub fn serve(socket: &UdpSocket, key: &Key, stop: &AtomicBool) -> io::Result<()> {
    socket.set_read_timeout(Some(LOOK))?;
    let (stamped, guard) = (Stamped::new(socket)?, Guard::new(key).map_err(io::Error::other)?);
    let clock = guard.clock();
    let mut paths: BTreeMap<SocketAddr, Path> = BTreeMap::new();
    let mut buffer = [0; LARGE + 1];
    while !stop.load(Ordering::Relaxed) {
        let received = match stamped.receive(&mut buffer) {
            Ok(received) => received,
            // An ICMP error about an earlier answer is not this socket's failure.
            Err(error) if is_passing(&error) => continue,
            Err(error) => return Err(error),
        };
        let Some(from) = received.from else { continue };
        match Message::decode(&buffer[..received.length]) {
            Some(Message::Hello) => send(socket, &Message::Cookie(guard.cookie(from)), from),
            Some(Message::Request { proof, slot, packets }) => match guard.standing(&proof, from) {
                Standing::Unknown => send(socket, &Message::Cookie(guard.cookie(from)), from),
                Standing::WrongKey => send(socket, &Message::Refused, from),
                Standing::Proved => {
                    let Some(path) = place(&mut paths, from) else { continue };
                    let Some(trains) = path.asked(slot, from) else { continue };
                    let (received, sent) = (received.at, now());
                    send(socket, &Message::Reply(Reply { slot, received, sent, clock, trains }), from);
                    for index in 0..packets {
                        let proof = Default::default();
                        send(socket, &Message::Packet { proof, slot, index, packets }, from);
                    }
                }
            },
            Some(Message::Packet { proof, slot, index, packets }) => {
                let Some(path) = paths.get_mut(&from) else { continue };
                if guard.standing(&proof, from) == Standing::Proved {
                    path.arrived(received.at, (slot, index, packets), from);
                }
            }
            _ => {}
        }
    }
    Ok(())
}

impl Path {
    /// The last trains, if a request of this slot is to be answered.
    fn asked(&mut self, slot: u32, from: SocketAddr) -> Option<Vec<Train>> {
        if self.slot.is_some_and(|last| slot <= last) || self.answered.elapsed() < LEAST {
            return None;
        }
        (self.slot, self.answered) = (Some(slot), Instant::now());
        let present = self.arrivals.train(self.train, header(from));
        Some(self.trains.iter().copied().chain(present).collect())
    }

    fn arrived(&mut self, at: Duration, (slot, index, packets): (u32, u16, u16), from: SocketAddr) {
        if slot > self.train {
            if self.trains.len() + 1 >= TRAINS {
                self.trains.pop_front();
            }
            self.trains.extend(self.arrivals.train(self.train, header(from)));
            (self.train, self.arrivals) = (slot, Arrivals::default());
        }
        if slot == self.train {
            self.arrivals.push(at, index, packets);
        }
    }
}

/// Bytes of the headers below a message.
pub(super) fn header(peer: SocketAddr) -> usize {
    if peer.is_ipv4() { 28 } else { 48 }
}

/// Whether a failed receive says nothing about the socket.
pub(super) fn is_passing(error: &io::Error) -> bool {
    use io::ErrorKind::{
        ConnectionRefused, HostUnreachable, Interrupted, NetworkDown, NetworkUnreachable, TimedOut,
        WouldBlock,
    };
    matches!(
        error.kind(),
        WouldBlock
            | TimedOut
            | Interrupted
            | ConnectionRefused
            | HostUnreachable
            | NetworkUnreachable
            | NetworkDown
    )
}

fn send(socket: &UdpSocket, message: &Message, to: SocketAddr) {
    let _ = socket.send_to(&message.encode(), to); // what is not sent is lost, like any packet
}

/// The place of a path; `None` if all are taken.
fn place(paths: &mut BTreeMap<SocketAddr, Path>, from: SocketAddr) -> Option<&mut Path> {
    let now = Instant::now();
    if !paths.contains_key(&from) {
        paths.retain(|_, path| now.saturating_duration_since(path.answered) < GONE);
        if paths.len() >= PATHS {
            return None;
        }
    }
    Some(paths.entry(from).or_insert_with(|| Path {
        answered: now.checked_sub(LEAST).unwrap_or(now),
        slot: None,
        train: 0,
        arrivals: Arrivals::default(),
        trains: VecDeque::new(),
    }))
}
