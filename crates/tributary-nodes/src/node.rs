//! A running node: its thread, its event loop, and the owner's queries.
//!
//! Each role is a `Work`: it reads ready sources, drives its machines, and returns when it must be called
//! again.

mod access_point;
mod admitted;
mod device;
mod gateway;
mod intake;
mod outer;
mod peer;
mod quiet;
mod routes;
mod tun;

use crate::asker::{Asker, Order};
use crate::config::Settings;
use crate::error::NodeError;
use crate::keys::{Neighbour, hop_keys};
use crate::status::Status;
use core::time::Duration;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::Path;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, channel};
use std::thread::JoinHandle;
use std::time::SystemTime;
use tributary_cotag::MODERATION;
use tributary_net::Key;
use tributary_net::privileges::{Needs, Privileges};
use tributary_tun::fd;
use tributary_types::Instant;

/// The descriptor that wakes the loop for an order.
const WAKE: u64 = 63;

/// Settings of a node. They start it.
pub trait Role: Settings + Clone + Send + 'static {
    /// File of its private key, if it has one.
    fn own_key(&self) -> Option<&Path>;

    /// Its neighbours.
    fn neighbours(&self) -> Vec<Neighbour<'_>>;

    /// Checks that there are the keys of all its hops, and that they are different.
    ///
    /// # Errors
    /// [`NodeError`] names the file, or the setting and the neighbour.
    fn check_keys(&self) -> Result<(), NodeError> {
        self.hop_keys().map(drop)
    }

    /// The key of the hop to each neighbour.
    #[doc(hidden)]
    fn hop_keys(&self) -> Result<Vec<Key>, NodeError> {
        hop_keys(self.own_key(), &self.neighbours())
    }

    /// Makes its sockets and devices.
    #[doc(hidden)]
    fn work(&self) -> Result<Box<dyn Work>, NodeError>;

    /// Starts the node in this network namespace.
    ///
    /// # Errors
    /// [`NodeError`] names what is missing.
    fn start(&self) -> Result<Running, NodeError> {
        self.start_with(None)
    }

    /// As [`start`](Self::start); then the node and the calling thread keep only what they still need of the
    /// program's privileges.
    ///
    /// # Errors
    /// [`NodeError`] names what is missing.
    fn start_with(&self, privileges: Option<&Privileges>) -> Result<Running, NodeError> {
        self.check()?;
        let config = self.clone();
        Running::start(privileges, move || config.work())
    }
}

/// The work of a role.
pub trait Work {
    /// The descriptors to wait for: descriptor 0, 1, …
    fn sources(&self) -> Vec<BorrowedFd<'_>>;

    /// Reads the sources whose bit is set in `ready`, and does everything that is due. Clears the bits of
    /// sources that have been read empty.
    fn turn(&mut self, now: Instant, ready: &mut u64);

    /// When to call [`turn`](Self::turn) even if nothing is ready.
    fn poll_timeout(&self, now: Instant) -> Instant;

    /// The capabilities that it needs while it runs.
    fn needs(&self) -> Needs {
        Needs::default()
    }

    /// Ends the hops to these neighbours. Handshakes with their keys are refused from then on.
    fn forget(&mut self, _names: &[String]) {}

    /// Its status.
    fn status(&self, now: Instant) -> Status;
}

/// Takes neighbours away from a running node, from any thread.
#[derive(Clone, Debug)]
pub struct Neighbourhood(Asker);

impl Neighbourhood {
    /// Ends the hops to the access points with these names, before the node sends or takes another packet. Their keys are
    /// refused until the node is started again. Others go on.
    ///
    /// # Errors
    /// [`NodeError::Stopped`].
    pub fn forget(&self, names: Vec<String>) -> Result<(), NodeError> {
        self.0.send(Order::Forget(names))
    }
}

/// A running node. Dropping it stops it and removes its TUN device.
#[derive(Debug)]
pub struct Running {
    asker: Asker,
    thread: Option<JoinHandle<()>>,
}

impl Running {
    /// The node's status.
    ///
    /// # Errors
    /// [`NodeError::Stopped`].
    pub fn status(&self) -> Result<Status, NodeError> {
        self.asker.status()
    }

    /// A handle that takes neighbours away.
    #[must_use]
    pub fn neighbourhood(&self) -> Neighbourhood {
        Neighbourhood(self.asker.clone())
    }

    /// Starts a node's thread in the caller's network namespace. `make` runs on the thread; this function
    /// returns its error. When everything is made, the node's thread and the calling one give up their privileges.
    fn start(
        privileges: Option<&Privileges>,
        make: impl FnOnce() -> Result<Box<dyn Work>, NodeError> + Send + 'static,
    ) -> Result<Self, NodeError> {
        let system = |doing| move |source| NodeError::System { doing, source };
        let wake = Arc::new(fd::event_fd().map_err(system("creating an event descriptor"))?);
        let (orders, inbox) = channel();
        let (ready, started) = channel();
        let woken = wake.clone();
        let limits = privileges.cloned();
        let body = move || {
            let made = make().and_then(|work| {
                if let Some(limits) = limits {
                    limits.limit(work.needs())?;
                }
                let epoll = watch(&*work, &woken).map_err(system("watching descriptors"))?;
                Ok((work, epoll))
            });
            match made {
                Ok((work, epoll)) => {
                    let _ = ready.send(Ok(()));
                    run(work, epoll, &inbox, &woken);
                }
                Err(error) => _ = ready.send(Err(error)),
            }
        };
        let thread = std::thread::Builder::new().name("node".to_owned()).spawn(body);
        let thread = thread.map_err(system("starting the node's thread"))?;
        started.recv().map_err(|_| NodeError::Stopped)??;
        let running = Self { asker: Asker::new(orders, wake), thread: Some(thread) };
        if let Some(privileges) = privileges {
            privileges.finish()?;
        }
        Ok(running)
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.asker.send(Order::Stop);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

fn watch(work: &dyn Work, wake: &OwnedFd) -> io::Result<fd::Epoll> {
    let epoll = fd::Epoll::new()?;
    for (token, source) in work.sources().into_iter().enumerate() {
        epoll.watch_edges(source, token as u64)?;
    }
    epoll.watch(wake.as_fd(), WAKE)?;
    Ok(epoll)
}

/// The monotonic clock.
fn clock() -> Instant {
    Instant::from_nanos(fd::monotonic_nanos())
}

/// What added to [`clock`] gives the wall clock, as nanoseconds since 1970.
fn stamp_base() -> u64 {
    let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_nanos()).unwrap_or(u64::MAX).saturating_sub(clock().as_nanos())
}

fn run(mut work: Box<dyn Work>, mut epoll: fd::Epoll, orders: &Receiver<Order>, wake: &OwnedFd) {
    // Initially everything counts as ready, because data that arrived before the watch began raises no edge.
    let mut ready = !(1 << WAKE);
    ready &= (1 << work.sources().len()) - 1;
    let mut begun = Instant::ZERO;
    loop {
        let now = clock();
        let rest = (begun + MODERATION).saturating_since(now);
        // What one turn left unread must not wait.
        if ready == 0 && !rest.is_zero() {
            std::thread::sleep(rest);
        }
        let now = clock();
        let limit = work.poll_timeout(now).saturating_since(now);
        let limit = if ready == 0 { limit } else { Duration::ZERO };
        for token in epoll.wait(Some(limit)) {
            ready |= 1 << token;
        }
        if ready & 1 << WAKE != 0 {
            ready &= !(1 << WAKE);
            let _ = fd::read(wake.as_fd(), &mut [0; 8]);
            while let Ok(order) = orders.try_recv() {
                match order {
                    Order::Report(to) => _ = to.send(work.status(clock())),
                    Order::Forget(names) => work.forget(&names),
                    Order::Stop => return,
                }
            }
        }
        begun = clock();
        work.turn(begun, &mut ready);
    }
}
