//! The forwarding thread: reads TUN devices, drives the links in wall time, writes TUN devices.
//!
//! One thread for all paths. It sleeps until shortly before the next deadline of a link. For the remaining time it
//! polls the devices without sleeping, if the machine has another core for other threads.

use crate::audit::{Account, Counters};
use crate::capture::Tap;
use crate::clock::Clock;
use crate::effort::Effort;
use crate::log::{LinkLog, SAMPLE_EVERY};
use crate::sys::{self, Epoll};
use core::time::Duration;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::rc::Rc;
use std::sync::mpsc::{Receiver, Sender};
use tributary_link::{Change, Direction, Link, Packet, Scenario};
use tributary_tun::{BUFFER, Frame, Pool, Scratch, Tun, VIRTIO};
use tributary_types::{Bitrate, Instant};

/// Packets read from one device before the links are served again.
const BATCH: usize = 32;
const CONTROL: u64 = u64::MAX;

/// Commands of the owner.
pub(crate) enum Order {
    /// Restart the scenario: new links, time zero, counters at zero.
    Rewind(Sender<()>),
    /// Change these lanes from now on.
    Change(Vec<usize>, Change, Sender<()>),
    /// Note packets here from now on; `None`: nowhere.
    Tap(Option<Tap>, Sender<()>),
    /// Send what the links are now.
    Now(Sender<LinksNow>),
    /// Send a report.
    Report(Sender<ForwarderRecord>),
    /// Stop.
    Stop,
}

/// The links at a moment.
pub(crate) struct LinksNow {
    pub(crate) account: Account,
    pub(crate) rates: Vec<Bitrate>,
}

/// The thread's report.
pub(crate) struct ForwarderRecord {
    pub(crate) account: Account,
    pub(crate) log: LinkLog,
    pub(crate) probes: Vec<Probe>,
}

/// The model's view of one probe datagram.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Probe {
    pub(crate) number: u64,
    /// Delay according to the model: from reading the datagram to its due time.
    pub(crate) asked: Duration,
}

/// Options of the thread.
#[derive(Clone, Copy, Debug)]
pub struct ForwardOptions {
    /// How long before a deadline the thread wakes up and polls without sleeping. Zero on a machine without a spare
    /// core.
    pub spin: Duration,
    /// Whether to request real-time priority.
    pub real_time: bool,
    /// Whether devices deliver super-frames. Without them, packets are delivered one by one. This is the reference
    /// for super-frames; it works up to about 500 Mbit/s.
    pub super_frames: bool,
    /// Logs UDP datagrams to this port with the delay according to the model.
    pub probe_port: Option<u16>,
    /// Whether to keep the samples that [`Network::link_log`](crate::Network::link_log) and the audit's errors of rates need:
    /// about 10 MB an hour for each path. Off for networks that run as long as somebody looks at them.
    pub log: bool,
}

impl Default for ForwardOptions {
    fn default() -> Self {
        let cores = std::thread::available_parallelism().map_or(1, usize::from);
        let spin = Duration::from_micros(if cores > 1 { 20 } else { 0 });
        Self { spin, real_time: true, super_frames: true, probe_port: None, log: true }
    }
}

/// One direction of one path.
struct Lane {
    link: Link<Rc<Frame>>,
    /// Index of the device it reads, and of the one it writes.
    from: usize,
    to: usize,
}

/// The state of the thread.
pub(crate) struct Forwarder {
    scenario: Scenario,
    options: ForwardOptions,
    clock: Clock,
    /// Client and server device of path 0, of path 1, …
    tuns: Vec<Tun>,
    /// Down and up of path 0, of path 1, … Lane i reads device i ^ 1 and writes device i.
    lanes: Vec<Lane>,
    epoll: Epoll,
    orders: Receiver<Order>,
    wake: OwnedFd,
    pool: Rc<Pool>,
    buffer: Vec<u8>,
    counters: Counters,
    log: LinkLog,
    next_sample: Instant,
    probes: Vec<Probe>,
    tap: Option<Tap>,
    cpu_at_start: u64,
    ready: Vec<bool>,
}

/// Extracts the link model's view of a frame.
fn into_packet(frame: Frame) -> Packet<Rc<Frame>> {
    let length = frame.length() as u32;
    let (header, segment) = frame.shape().unwrap_or((frame.length(), 0));
    let (header, segment) = (header as u32, segment as u32);
    Packet { header, payload: length - header, segment, handle: Rc::new(frame) }
}

fn lanes(scenario: &Scenario) -> Vec<Lane> {
    let both = |path| [(path, Direction::Down), (path, Direction::Up)];
    (0..scenario.paths.len())
        .flat_map(both)
        .enumerate()
        .map(|(i, (path, direction))| Lane { link: scenario.link(path, direction), from: i ^ 1, to: i })
        .collect()
}

impl Forwarder {
    /// Prepares the thread; call it on the thread that will run it. `tuns` are the client's and the server's
    /// device of each path, alternately.
    pub(crate) fn new(
        scenario: Scenario,
        options: ForwardOptions,
        tuns: Vec<Tun>,
        clock: Clock,
        (orders, wake): (Receiver<Order>, OwnedFd),
    ) -> io::Result<Self> {
        let epoll = Epoll::new()?;
        for (i, tun) in tuns.iter().enumerate() {
            epoll.watch(tun.as_fd(), i as u64)?;
        }
        epoll.watch(wake.as_fd(), CONTROL)?;
        let ready = vec![false; tuns.len()];
        Ok(Self {
            lanes: lanes(&scenario),
            scenario,
            options,
            clock,
            tuns,
            epoll,
            orders,
            wake,
            pool: Rc::default(),
            buffer: vec![0; BUFFER],
            counters: Counters::default(),
            log: LinkLog::default(),
            next_sample: Instant::ZERO,
            probes: Vec::new(),
            tap: None,
            cpu_at_start: 0,
            ready,
        })
    }

    /// Forwards packets until the owner stops the thread.
    pub(crate) fn run(mut self) {
        let mut effort = Effort::begin(self.options.spin, self.options.real_time);
        self.counters.real_time = effort.may_be_real_time();
        self.cpu_at_start = sys::thread_cpu_nanos();
        let mut scratch = Scratch::new();
        loop {
            let woke = self.clock.now();
            self.ingress();
            self.egress(&mut scratch);
            let now = self.clock.now();
            if now >= self.next_sample {
                self.sample(now);
                effort.adapt(now);
            }
            self.counters.turn(now.saturating_since(woke));
            if !self.wait(&mut effort) {
                return;
            }
        }
    }

    /// Reads packets from every ready device into its link.
    fn ingress(&mut self) {
        for lane in &mut self.lanes {
            if !core::mem::take(&mut self.ready[lane.from]) {
                continue;
            }
            let tun = &self.tuns[lane.from];
            let mut read = 0;
            while read < BATCH {
                let Ok(length) = tun.read(&mut self.buffer) else { break };
                read += 1;
                let now = self.clock.now();
                match Frame::take(&mut self.buffer, length, &self.pool) {
                    Ok(frame) => {
                        if let Some(tap) = &self.tap {
                            tap.note(lane.from, true, (frame.packet(), &[]));
                        }
                        let _ = lane.link.push(now, into_packet(frame));
                    }
                    Err(_) => self.counters.malformed += 1,
                }
            }
            self.counters.batch(read, read == BATCH);
        }
    }

    /// Writes all packets that are due.
    fn egress(&mut self, scratch: &mut Scratch) {
        for lane in &mut self.lanes {
            let tun = &self.tuns[lane.to];
            while let Some(chunk) = lane.link.poll(self.clock.now()) {
                let (head, tail) = chunk.handle.chunk(chunk.first, chunk.count, scratch);
                let written = tun.write(head, tail);
                let late = self.clock.now().saturating_since(chunk.due);
                self.counters.delivered(late, u64::from(chunk.count));
                if let Err(error) = written {
                    self.counters.write_failed(&error);
                }
                if let Some(tap) = &self.tap {
                    tap.note(lane.to, false, (&head[VIRTIO..], tail));
                }
                if let Some(port) = self.options.probe_port
                    && let Some((to, number)) = chunk.handle.udp_probe()
                    && to == port
                {
                    let asked = chunk.due.saturating_since(chunk.arrived);
                    self.probes.push(Probe { number, asked });
                }
            }
        }
    }

    /// Sleeps or polls until there is something to do; returns false when the thread must stop.
    fn wait(&mut self, effort: &mut Effort) -> bool {
        let deadline = self.lanes.iter().filter_map(|lane| lane.link.poll_timeout()).min();
        let deadline = deadline.map_or(self.next_sample, |at| at.min(self.next_sample));
        let spin = effort.spin();
        let deadline = deadline + effort.slack();
        loop {
            let now = self.clock.now();
            let left = deadline.saturating_since(now);
            let sleep = left.saturating_sub(spin);
            let mut control = false;
            let mut any = false;
            for token in self.epoll.wait(Some(sleep)) {
                any = true;
                match token {
                    CONTROL => control = true,
                    i => self.ready[i as usize] = true,
                }
            }
            if control && !self.obey(effort) {
                return false;
            }
            let woke = self.clock.now();
            if !any && !sleep.is_zero() {
                self.counters.timer(woke.saturating_since(now + sleep));
            }
            if any || woke >= deadline {
                return true;
            }
        }
    }

    /// Carries out the owner's commands; returns false when the thread must stop.
    fn obey(&mut self, effort: &mut Effort) -> bool {
        let mut count = [0; 8];
        let _ = sys::read(self.wake.as_fd(), &mut count);
        while let Ok(order) = self.orders.try_recv() {
            match order {
                Order::Rewind(done) => {
                    self.rewind();
                    effort.rewind();
                    let _ = done.send(());
                }
                Order::Change(lanes, change, done) => {
                    let now = self.clock.now();
                    lanes.into_iter().for_each(|lane| self.lanes[lane].link.change(now, change));
                    let _ = done.send(());
                }
                Order::Tap(tap, done) => {
                    self.tap = tap;
                    let _ = done.send(());
                }
                Order::Now(to) => _ = to.send(self.links_now()),
                Order::Report(to) => _ = to.send(self.report()),
                Order::Stop => return false,
            }
        }
        true
    }

    fn rewind(&mut self) {
        // Packets still in a device were sent before the restart and must not enter the new links.
        for tun in &self.tuns {
            while tun.read(&mut self.buffer).is_ok_and(|length| length > VIRTIO) {}
        }
        self.clock.restart();
        self.lanes = lanes(&self.scenario);
        let real_time = self.counters.real_time;
        self.counters = Counters::default();
        self.counters.real_time = real_time;
        self.log = LinkLog::default();
        self.next_sample = Instant::ZERO;
        self.probes.clear();
        self.cpu_at_start = sys::thread_cpu_nanos();
    }

    fn sample(&mut self, now: Instant) {
        if self.options.log {
            self.log.push(now, self.lanes.iter().map(|lane| *lane.link.stats()));
        }
        while self.next_sample <= now {
            self.next_sample += SAMPLE_EVERY;
        }
    }

    fn links_now(&self) -> LinksNow {
        let rates = self.lanes.iter().map(|lane| lane.link.rate_span().rate).collect();
        LinksNow { account: self.account(), rates }
    }

    fn report(&self) -> ForwarderRecord {
        ForwarderRecord { account: self.account(), log: self.log.clone(), probes: self.probes.clone() }
    }

    fn account(&self) -> Account {
        Account {
            counters: self.counters.clone(),
            elapsed: self.clock.now(),
            cpu: Duration::from_nanos(sys::thread_cpu_nanos() - self.cpu_at_start),
            links: self.lanes.iter().map(|lane| *lane.link.stats()).collect(),
            configs: self.lanes.iter().map(|lane| lane.link.config().clone()).collect(),
        }
    }
}
