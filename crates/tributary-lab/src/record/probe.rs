//! One path of the near end: asks, sends trains, and keeps what arrives.

use super::auth::Credentials;
use super::carried::{Carried, Counters};
use super::estimate::Arrivals;
use super::options::Pace;
use super::server::{header, is_passing};
use super::stamped::{Stamped, now};
use super::wire::{LARGE, MOST, Message, Proof, Reply, Train};
use core::time::Duration;
use socket2::{Domain, Protocol, Socket, Type};
use std::io;
use std::net::{IpAddr, SocketAddr, UdpSocket};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::Instant;
use tributary_net::Key;

/// Pause between two questions to a server that does not answer.
const ASK: Duration = Duration::from_millis(250);
/// How long packets may arrive after the end of a recording.
pub(super) const LATE: Duration = Duration::from_secs(1);
/// No trains after this time without any answer: they would fill the queue of a path that stands still.
const SILENCE: Duration = Duration::from_millis(300);
/// How long the rate of a train is good for the length of the next ones.
const KNOWN: Duration = Duration::from_secs(2);
/// A step of this machine's clock, of which the times of a recording are made independent.
const STEP: Duration = Duration::from_millis(50);
/// Packets of a train to a path of unknown rate, and of the shortest.
const FIRST: u16 = 16;
const SHORTEST: u16 = 6;

/// What was seen of a reply.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Answered {
    /// When it arrived, since the beginning.
    pub at: Duration,
    /// When the request arrived, by the server's clock.
    pub received: Duration,
    /// Round-trip time without the server's share.
    pub rtt: Duration,
    /// One-way delays in seconds, by the clocks of both ends.
    pub up: f64,
    pub down: f64,
}

/// One slot of a path.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Slot {
    /// When its request was sent, since the beginning; and the beginning by the clock that stamps packets.
    pub asked: Option<Duration>,
    pub epoch: Duration,
    pub reply: Option<Answered>,
    pub down: Arrivals,
    pub up: Option<Train>,
    /// What the interface carried since the slot before.
    pub carried: Option<Carried>,
}

/// What is known of a path so far.
#[derive(Clone, Debug, Default)]
pub(super) struct PathLog {
    /// From slot 0 on.
    pub slots: Vec<Slot>,
    /// The server's clock; `None` before an answer.
    pub clock: Option<u64>,
}

impl PathLog {
    fn slot(&mut self, number: u32) -> &mut Slot {
        let number = number as usize;
        if self.slots.len() <= number {
            self.slots.resize(number + 1, Slot::default());
        }
        &mut self.slots[number]
    }
}

/// How much of a direction trains take.
#[derive(Debug)]
struct Load {
    /// Most packets that the queue has taken.
    room: u16,
    /// No train before this slot.
    next: u32,
}

impl Load {
    /// Packets of the next train; 0 if it is not due.
    fn packets(&mut self, slot: u32, (rate, cut): (Option<f64>, Option<u16>), pace: Pace) -> u16 {
        self.room = match cut {
            Some(room) => (room / 4 * 3).max(SHORTEST),
            None => self.room.saturating_add(self.room / 8 + 1).min(MOST),
        };
        if slot < self.next {
            return 0;
        }
        let time = |packets: f64, rate: f64| packets * LARGE as f64 * 8.0 / rate;
        let share = pace.share() * pace.slot().as_secs_f64();
        let wanted = rate.map_or(FIRST, |rate| (share / time(1.0, rate.max(1.0))) as u16);
        let packets = wanted.clamp(SHORTEST, self.room.max(SHORTEST));
        // A slow path rests until the share is kept.
        let rest = rate.map_or(1.0, |rate| (time(packets.into(), rate.max(1.0)) / share).clamp(1.0, 100.0));
        self.next = slot + rest.round() as u32;
        packets
    }
}

/// One path.
#[derive(Debug)]
pub(super) struct Probe {
    socket: Stamped<UdpSocket>,
    header: usize,
    credentials: Credentials,
    counters: Counters,
    proof: Option<Proof>,
    pace: Pace,
    down: Load,
    up: Load,
    /// The beginning, and the same time by the clock that stamps packets.
    began: Instant,
    epoch: Duration,
    heard: Option<Instant>,
    greeted: Option<Instant>,
}

impl Probe {
    /// Over a connected socket.
    ///
    /// # Errors
    /// The system's reason.
    pub fn new(socket: UdpSocket, key: &Key, pace: Pace) -> io::Result<Self> {
        let (peer, local) = (socket.peer_addr()?, socket.local_addr()?);
        let load = || Load { room: MOST, next: 0 };
        Ok(Self {
            header: header(peer),
            socket: Stamped::new(socket)?,
            credentials: Credentials::new(key),
            counters: Counters::of(local.ip()),
            proof: None,
            pace,
            down: load(),
            up: load(),
            began: Instant::now(),
            epoch: now(),
            heard: None,
            greeted: None,
        })
    }

    /// Bytes of the headers below a message.
    pub fn header(&self) -> usize {
        self.header
    }

    /// The interface of its address.
    pub fn interface(&self) -> Option<&str> {
        self.counters.interface()
    }

    /// Asks until the server has accepted the key: `Some(true)`, or refused it. `None`: no answer until then.
    pub fn greet(&mut self, until: Instant) -> Option<bool> {
        while Instant::now() < until {
            self.send(&Message::Hello);
            let again = (Instant::now() + ASK).min(until);
            while let Some((_, message)) = self.receive(again) {
                match message {
                    Message::Cookie(cookie) => {
                        let proof = self.credentials.prove(cookie);
                        self.proof = Some(proof);
                        self.send(&Message::Request { proof, slot: 0, packets: 0 });
                    }
                    Message::Refused => return Some(false),
                    Message::Reply(_) => return Some(true),
                    _ => {}
                }
            }
        }
        None
    }

    /// Records from `began` on, for `length` or until `stop` is set, and then for [`LATE`] what still arrives.
    pub fn run(
        mut self,
        began: Instant,
        log: &Mutex<PathLog>,
        (stop, length): (&AtomicBool, Option<Duration>),
    ) {
        (self.began, self.epoch) =
            (began, epoch(began).unwrap_or_else(|| now().saturating_sub(began.elapsed())));
        self.heard = Some(began);
        let (length, slot) = (length.unwrap_or(Duration::MAX), self.pace.slot());
        let (mut number, mut half) = (1, false);
        while !stop.load(Ordering::Relaxed) {
            let at = slot * (number - 1) + if half { slot / 2 } else { Duration::ZERO };
            let elapsed = began.elapsed();
            if at >= length {
                self.receive_until(began + length, log);
                break;
            } else if elapsed < at {
                self.receive_until(began + at, log);
            } else if elapsed >= at + slot {
                // The machine was suspended or overloaded: nothing is known of the slots between.
                (number, half) = (1 + (elapsed.as_nanos() / slot.as_nanos()) as u32, false);
            } else if half {
                self.send_train(number, log);
                (number, half) = (number + 1, false);
            } else {
                self.ask(number, log);
                half = true;
            }
        }
        self.receive_until(Instant::now() + LATE, log);
    }

    fn is_silent(&self) -> bool {
        let most = SILENCE.max(self.pace.slot() * 3);
        self.heard.is_some_and(|heard| heard.elapsed() > most)
    }

    /// Sends a slot's request.
    fn ask(&mut self, number: u32, log: &Mutex<PathLog>) {
        if let Some(epoch) = epoch(self.began).filter(|epoch| epoch.abs_diff(self.epoch) > STEP) {
            self.epoch = epoch;
        }
        let carried = self.counters.since();
        let mut log = log.lock().unwrap_or_else(PoisonError::into_inner);
        let known = latest(&log.slots, number, self.pace, |slot| {
            (slot.down.rate(self.header), slot.down.arrived() > 0, slot.down.room())
        });
        let asked = self.began.elapsed();
        *log.slot(number) = Slot { asked: Some(asked), epoch: self.epoch, carried, ..Slot::default() };
        drop(log);
        match self.proof {
            Some(proof) => {
                let packets = if self.is_silent() { 0 } else { self.down.packets(number, known, self.pace) };
                self.send(&Message::Request { proof, slot: number, packets });
            }
            None if self.greeted.is_none_or(|asked| asked.elapsed() >= ASK) => {
                self.greeted = Some(Instant::now());
                self.send(&Message::Hello);
            }
            None => {}
        }
    }

    /// Sends a slot's train, half a slot after the request, so that the trains of both directions do not meet.
    fn send_train(&mut self, number: u32, log: &Mutex<PathLog>) {
        let Some(proof) = self.proof.filter(|_| !self.is_silent()) else { return };
        let known = {
            let log = log.lock().unwrap_or_else(PoisonError::into_inner);
            latest(&log.slots, number, self.pace, |slot| match slot.up {
                Some(up) => ((up.rate > 0).then_some(up.rate as f64), true, (up.room > 0).then_some(up.room)),
                None => (None, false, None),
            })
        };
        let packets = self.up.packets(number, known, self.pace);
        for index in 0..packets {
            self.send(&Message::Packet { proof, slot: number, index, packets });
        }
    }

    fn send(&self, message: &Message) {
        let _ = self.socket.socket().send(&message.encode()); // what is not sent is lost, like any packet
    }

    /// Keeps what arrives before `until`.
    fn receive_until(&mut self, until: Instant, log: &Mutex<PathLog>) {
        while let Some((stamp, message)) = self.receive(until) {
            self.heard = Some(Instant::now());
            let at = stamp.saturating_sub(self.epoch);
            let mut log = log.lock().unwrap_or_else(PoisonError::into_inner);
            match message {
                // The server was started again.
                Message::Cookie(cookie) => self.proof = Some(self.credentials.prove(cookie)),
                Message::Reply(reply) => self.replied(&mut log, (stamp, at), &reply),
                Message::Packet { slot, index, packets, .. } if (slot as usize) < log.slots.len() => {
                    log.slot(slot).down.push(at, index, packets);
                }
                _ => {}
            }
        }
    }

    fn replied(&self, log: &mut PathLog, (stamp, at): (Duration, Duration), reply: &Reply) {
        for train in &reply.trains {
            if (train.slot as usize) < log.slots.len() {
                log.slot(train.slot).up = Some(*train);
            }
        }
        log.clock = Some(reply.clock);
        let Some(slot) = log.slots.get_mut(reply.slot as usize) else { return };
        let Some(asked) = slot.asked else { return };
        let server = reply.sent.saturating_sub(reply.received);
        slot.reply = Some(Answered {
            at,
            received: reply.received,
            rtt: at.saturating_sub(asked).saturating_sub(server),
            up: seconds_between(asked + slot.epoch, reply.received),
            down: seconds_between(reply.sent, stamp),
        });
    }

    /// The next message before `until`, with its stamp.
    fn receive(&self, until: Instant) -> Option<(Duration, Message)> {
        let mut buffer = [0; LARGE + 1];
        loop {
            let left = until.checked_duration_since(Instant::now()).filter(|left| !left.is_zero())?;
            self.socket.socket().set_read_timeout(Some(left)).ok()?;
            match self.socket.receive(&mut buffer) {
                Ok(received) => {
                    if let Some(message) = Message::decode(&buffer[..received.length]) {
                        return Some((received.at, message));
                    }
                }
                Err(error) if matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut) => {
                    return None;
                }
                // A radio that is away answers at once; the slot's end comes anyway.
                Err(error) if is_passing(&error) => std::thread::sleep(Duration::from_millis(1).min(left)),
                Err(_) => {
                    std::thread::sleep(left);
                    return None;
                }
            }
        }
    }
}

/// The latest rate before slot `number`, and whether the queue cut the latest train that is complete.
fn latest(
    slots: &[Slot],
    number: u32,
    pace: Pace,
    of: impl Fn(&Slot) -> (Option<f64>, bool, Option<u16>),
) -> (Option<f64>, Option<u16>) {
    let count = (KNOWN.as_nanos() / pace.slot().as_nanos()) as usize;
    let recent = || slots[..slots.len().min(number as usize)].iter().rev().take(count);
    let rate = recent().find_map(|slot| of(slot).0);
    // What was sent before a reply has arrived before it.
    let complete = recent().skip_while(|slot| slot.reply.is_none()).skip(1);
    let cut = complete.map(of).find(|(_, arrived, _)| *arrived).and_then(|(_, _, room)| room);
    (rate, cut)
}

/// `began` by the clock that stamps packets; `None` if this thread had to wait between the looks at both clocks.
fn epoch(began: Instant) -> Option<Duration> {
    let (before, now, after) = (began.elapsed(), now(), began.elapsed());
    (after - before < Duration::from_millis(1)).then(|| now.saturating_sub(before))
}

fn seconds_between(from: Duration, to: Duration) -> f64 {
    to.as_secs_f64() - from.as_secs_f64()
}

/// A socket of a radio, by its interface or its local address, connected to a server.
///
/// # Errors
/// The system's reason.
pub fn path_socket(local: &str, server: SocketAddr) -> io::Result<UdpSocket> {
    let domain = if server.is_ipv4() { Domain::IPV4 } else { Domain::IPV6 };
    let socket = Socket::new(domain, Type::DGRAM, Some(Protocol::UDP))?;
    match local.parse::<IpAddr>() {
        Ok(address) => socket.bind(&SocketAddr::new(address, 0).into())?,
        Err(_) => socket.bind_device(Some(local.as_bytes()))?,
    }
    socket.connect(&server.into())?;
    Ok(socket.into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn trains_take_their_share_and_a_slow_path_rests() {
        let mut load = Load { room: MOST, next: 0 };
        let light = Pace::Light;
        assert_eq!(load.packets(1, (None, None), light), FIRST);
        assert_eq!(load.packets(2, (Some(112e6), None), light), 102); // 10 ms of 112 Mbit/s
        assert_eq!(load.packets(3, (Some(10e9), None), light), MOST);
        // 6 packets of 1372 B are 66 ms of 1 Mbit/s: one train in seven slots takes a tenth.
        assert_eq!(load.packets(4, (Some(1e6), None), light), SHORTEST);
        let rest: Vec<u16> = (5..12).map(|slot| load.packets(slot, (Some(1e6), None), light)).collect();
        assert_eq!(rest, [0, 0, 0, 0, 0, 0, SHORTEST]);
    }

    #[test]
    fn trains_stay_below_the_queue() {
        let mut load = Load { room: MOST, next: 0 };
        let fast = |cut| (Some(1e9), cut);
        assert_eq!(load.packets(1, fast(Some(80)), Pace::Light), 60);
        let later: Vec<u16> = (2..5).map(|slot| load.packets(slot, fast(None), Pace::Light)).collect();
        assert_eq!(later, [68, 77, 87]);
    }
}
