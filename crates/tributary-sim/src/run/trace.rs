//! Samples during a run: bytes delivered by links, and on request windows, round-trip times and losses every
//! 10 ms.

use tributary_link::{LinkEvent, LinkStats};
use tributary_types::Instant;

use super::topology::Topology;
use super::{LINK_SAMPLE, Pair, SimRun};
use crate::id::LinkId;
use crate::transport::{Endpoint, PathSample};
use crate::world::World;

/// One subflow of the sending end at a sampling time.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct TraceSample {
    /// Time of the sample.
    pub at: Instant,
    /// Number of the connection.
    pub connection: u32,
    /// The subflow's path and windows.
    pub path: PathSample,
}

/// Packets that a link dropped since the previous sample.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LinkLosses {
    /// Time of the sample.
    pub at: Instant,
    /// Index in [`super::Outcome::links`].
    pub link: usize,
    /// Dropped by a full queue or by queue management.
    pub overflowed: u64,
    /// Lost at random.
    pub lost: u64,
    /// Lost because the radio was dead or absent.
    pub dead: u64,
}

/// All samples of a run.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Trace {
    /// Subflows of the sending ends.
    pub samples: Vec<TraceSample>,
    /// Losses; links without any are left out.
    pub losses: Vec<LinkLosses>,
    /// Radios that went down or came back.
    pub events: Vec<LinkEvent>,
}

/// Takes the samples.
#[derive(Debug)]
pub(super) struct Recorder {
    links: Vec<LinkId>,
    before: Vec<LinkStats>,
    /// Bytes delivered by each link in every [`LINK_SAMPLE`].
    pub delivered: Vec<Vec<u64>>,
    next_links: Instant,
    last_bytes: Vec<u64>,
    pub trace: Option<Trace>,
    scratch: Vec<PathSample>,
    /// The path of transports with only one; they do not know its index.
    only: Option<u8>,
}

impl Recorder {
    pub fn new(run: &SimRun, topology: &Topology) -> Self {
        let (scenario, trace) = (&run.scenario, run.options.trace);
        let only = match run.transport.paths(&scenario.path_names())[..] {
            [path] => Some(path as u8),
            _ => None,
        };
        let links: Vec<LinkId> = topology.links.iter().map(|link| link.id).collect();
        let count = links.len();
        Self {
            links,
            before: vec![LinkStats::default(); count],
            delivered: vec![Vec::new(); count],
            next_links: Instant::ZERO + LINK_SAMPLE,
            last_bytes: vec![0; count],
            trace: trace.then(|| Trace { events: scenario.link_events(), ..Trace::default() }),
            scratch: Vec::new(),
            only,
        }
    }

    pub fn look(&mut self, world: &World, pairs: &[Pair], now: Instant) {
        if now >= self.next_links {
            self.next_links += LINK_SAMPLE;
            for (index, link) in self.links.iter().enumerate() {
                let bytes = world.link_stats(*link).delivered.bytes;
                self.delivered[index].push(bytes - self.last_bytes[index]);
                self.last_bytes[index] = bytes;
            }
        }
        if let Some(trace) = &mut self.trace {
            losses(trace, &mut self.before, &self.links, (world, now));
            for (connection, pair) in pairs.iter().enumerate() {
                let Some(endpoint) = world.host::<Endpoint>(pair.server) else { continue };
                self.scratch.clear();
                endpoint.transport().sample(&mut self.scratch);
                let connection = connection as u32;
                let samples = self.scratch.iter().map(|path| {
                    let path = PathSample { path: self.only.unwrap_or(path.path), ..*path };
                    TraceSample { at: now, connection, path }
                });
                trace.samples.extend(samples);
            }
        }
    }
}

fn losses(trace: &mut Trace, before: &mut [LinkStats], links: &[LinkId], (world, at): (&World, Instant)) {
    for (link, (id, old)) in links.iter().zip(before).enumerate() {
        let now = *world.link_stats(*id);
        let losses = LinkLosses {
            at,
            link,
            overflowed: now.overflowed.packets - old.overflowed.packets,
            lost: now.lost.packets - old.lost.packets,
            dead: now.dead.packets - old.dead.packets,
        };
        if losses.overflowed + losses.lost + losses.dead > 0 {
            trace.losses.push(losses);
        }
        *old = now;
    }
}
